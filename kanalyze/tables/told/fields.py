"""The fields that tables of what messages tell need beside those of rows, and where they stand.

In: the catalog of messages, names of tables. Out: projections for
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

__all__ = ["BodyFields", "Wanted", "more_fields"]

Wanted: TypeAlias = "Mapping[int, tuple[tuple[str, ...], tuple[str, ...]]]"
"""By API key the paths of fields, of its requests and of its responses."""

_MOST_CELLS = 1 << 22
"""A body of more values than that tells nothing here: as objects they would take 200 MB."""
_Level: TypeAlias = "dict[str, tuple[int, _Level | None]]"
"""The fields of a struct by name: the place of each among the values, and the level below."""


def more_fields(catalog: Catalog, wanted: Iterable[Wanted]) -> dict[tuple[int, str], Projection]:
    """Return the fields that are to be read more, by API key and kind of message.

    Those that a user's definitions do not have are left out.
    """
    paths: dict[tuple[int, str], set[str]] = {}
    for of_table in wanted:
        for api_key, (of_request, of_response) in of_table.items():
            paths.setdefault((api_key, "request"), set()).update(of_request)
            paths.setdefault((api_key, "response"), set()).update(of_response)
    return {
        (api_key, kind): Projection.of(*_known(catalog, api_key, kind, found))
        for (api_key, kind), found in paths.items()
        if catalog.api(api_key) is not None
    }


def _known(catalog: Catalog, api_key: int, kind: Any, paths: Iterable[str]) -> list[str]:
    struct = catalog.message(api_key, kind).struct
    return [path for path in paths if _has(struct, path.split("."))]


def _has(struct: Struct | None, names: list[str]) -> bool:
    for name in names:
        field = None if struct is None else struct.field(name)
        if field is None:
            return False
        struct = field.struct
    return True


class BodyFields:
    """Gives the values of bodies by name."""

    def __init__(self, catalog: Catalog, extractors: Extractors) -> None:
        """Begin; ``extractors`` say which fields were read."""
        self._catalog = catalog
        self._extractors = extractors
        self._levels: dict[tuple[int, str], _Level] = {}

    def values(self, message: Message | None, api_key: int, kind: Any) -> dict[str, Any] | None:
        """Return the values of a body: of structs and lists of them, likewise.

        None where it was not read. A field that the version does not have is its default.
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
    """Return where the selected fields stand: in the order of the definition."""
    fields = [field for field in struct.fields if field.name in selection]
    return {
        field.name: (
            place,
            None if field.struct is None else _level_of(field.struct, selection[field.name]),
        )
        for place, field in enumerate(fields)
    }


def _named(values: tuple[Any, ...], level: _Level) -> dict[str, Any]:
    made = {}
    for name, (place, below) in level.items():
        value = values[place]
        if below is not None and value is not None:
            if isinstance(value, list):
                value = [_named(each, below) for each in value]
            else:
                value = _named(value, below)
        made[name] = value
    return made
