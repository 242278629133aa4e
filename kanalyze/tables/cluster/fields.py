"""The fields of bodies that ``groups`` and ``metadata`` need beside those of rows.

In: the paths of fields. Out: projections for
:class:`~kanalyze.tables.requests.extract.Extractors`; and, of a body that was read with them, its
values by the names of Kafka's definitions. This module must not know what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.kafka.codec.projection import Projection, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.kafka.codec.projection import Selection
    from kanalyze.kafka.codec.values import Taped
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Struct
    from kanalyze.kafka.session.exchange import Message
    from kanalyze.tables.requests.extract import Extractors

__all__ = ["BodyFields", "FieldPaths", "more_fields"]

FieldPaths: TypeAlias = "Mapping[int, tuple[tuple[str, ...], tuple[str, ...]]]"
"""By API key the paths of fields, of its requests and of its responses."""

_MOST_CELLS = 1 << 22
"""A body of more values is not read here: as objects they would take 200 MB."""
_Level: TypeAlias = "dict[str, _Level | None]"
"""The fields of a struct by name, each with those of the struct that it is."""


def more_fields(paths_of_tables: Iterable[FieldPaths]) -> dict[tuple[int, str], Projection]:
    """Return the fields that are to be read more, by API key and kind of message.

    A user's definitions have all of them too.
    """
    paths: dict[tuple[int, str], set[str]] = {}
    for of_table in paths_of_tables:
        for api_key, (of_request, of_response) in of_table.items():
            paths.setdefault((api_key, "request"), set()).update(of_request)
            paths.setdefault((api_key, "response"), set()).update(of_response)
    return {place: Projection.of(*found) for place, found in paths.items()}


class BodyFields:
    """Gives the values of bodies by name."""

    def __init__(self, catalog: Catalog, extractors: Extractors) -> None:
        """Begin; ``extractors`` say which fields were read."""
        self._catalog = catalog
        self._extractors = extractors
        self._levels: dict[tuple[int, str], _Level] = {}

    def values(self, message: Message | None, api_key: int, kind: Any) -> dict[str, Any] | None:
        """Return the values of a body: of structs and lists of them, likewise.

        None if the body was not read. A field that the version does not have is its default.
        """
        taped: Taped | None = None if message is None else message.taped
        if taped is None or taped.cells > _MOST_CELLS:
            return None
        return _named(taped.values(), self._level(api_key, kind))

    def _level(self, api_key: int, kind: Any) -> _Level:
        found = self._levels.get((api_key, kind))
        if found is None:
            message = self._catalog.message(api_key, kind)
            selection = select(message, self._extractors.wanted_fields(api_key, kind))
            found = self._levels[api_key, kind] = _level_of(message.struct, selection)
        return found


def _level_of(struct: Struct, selection: Selection) -> _Level:
    """Return the selected fields in the order of the definition, as their values come."""
    return {
        field.name: None if field.struct is None else _level_of(field.struct, selection[field.name])
        for field in struct.fields
        if field.name in selection
    }


def _named(values: tuple[Any, ...], level: _Level) -> dict[str, Any]:
    made: dict[str, Any] = dict(zip(level, values, strict=True))
    for name, below in level.items():
        value = made[name]
        if below is None or value is None:
            continue
        if not isinstance(value, list):
            made[name] = _named(value, below)
        elif any(below.values()):
            made[name] = [_named(each, below) for each in value]
        else:  # most of all structs are within no other
            made[name] = [dict(zip(below, each)) for each in value]  # noqa: B905 - faster
    return made
