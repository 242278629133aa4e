"""The fields of bodies that ``groups`` and ``metadata`` need in addition to those of rows.

In: the paths of fields. Out: projections for :class:`~kanalyze.tables.requests.extract.Extractors`;
and the values of a body that was decoded with them, by the names in Kafka's definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.kafka.codec.compiler import Projection, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.kafka.codec.compiler import Selection
    from kanalyze.kafka.codec.values import EncodedFields, Shape
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.schema.schema_ast import Struct
    from kanalyze.kafka.session.exchange import Message
    from kanalyze.tables.requests.extract import Extractors

FieldPaths: TypeAlias = "Mapping[int, tuple[tuple[str, ...], tuple[str, ...]]]"
"""By API key: the paths of fields in requests, and in responses."""

_MAX_CELLS = 1 << 22
"""A body with more values on its tape is skipped: as Python objects they would take 200 MB."""
_Level: TypeAlias = "dict[str, _Level | None]"
"""The fields of a struct by name; a field that is a struct has its own fields."""


def more_fields(paths_of_tables: Iterable[FieldPaths]) -> dict[tuple[int, str], Projection]:
    """Return the additional fields to decode, by API key and kind of message.

    Definitions from a user must have all these fields too.
    """
    paths: dict[tuple[int, str], set[str]] = {}
    for table_paths in paths_of_tables:
        for api_key, (request_paths, response_paths) in table_paths.items():
            paths.setdefault((api_key, "request"), set()).update(request_paths)
            paths.setdefault((api_key, "response"), set()).update(response_paths)
    return {message: Projection.of(*field_paths) for message, field_paths in paths.items()}


class BodyFields:
    """Returns the values of bodies by field name."""

    def __init__(self, catalog: Catalog, extractors: Extractors) -> None:
        """Make one; ``extractors`` say which fields were decoded."""
        self._catalog = catalog
        self._extractors = extractors
        self._levels: dict[tuple[int, str], _Level] = {}

    def values(self, message: Message | None, api_key: int, kind: Any) -> dict[str, Any] | None:
        """Return the values of a body by field name; None if the body was not decoded.

        Structs, and structs in lists, are dicts too. A field that the version does not have has its
        default. A field is left out if it has another name in the release that sent the body.
        """
        encoded: EncodedFields | None = None if message is None else message.encoded_fields
        if message is None or encoded is None or encoded.cells > _MAX_CELLS:
            return None
        level = self._level(api_key, kind)
        fields = _named(encoded.values(), level)
        version = message.version
        if version is not None and self._catalog.superseded(api_key, kind, version) is not None:
            _leave_out_unread(fields, level, encoded.shape)
        return fields

    def _level(self, api_key: int, kind: Any) -> _Level:
        level = self._levels.get((api_key, kind))
        if level is None:
            message = self._catalog.message(api_key, kind)
            selection = select(message, self._extractors.needed_fields(api_key, kind))
            level = self._levels[api_key, kind] = _level_of(message.struct, selection)
        return level


def _level_of(struct: Struct, selection: Selection) -> _Level:
    """Return the selected fields in the order of the definition, which is that of the values."""
    return {
        field.name: None if field.struct is None else _level_of(field.struct, selection[field.name])
        for field in struct.fields
        if field.name in selection
    }


def _named(values: tuple[Any, ...], level: _Level) -> dict[str, Any]:
    """Return the values of a struct by field name."""
    fields: dict[str, Any] = dict(zip(level, values, strict=True))
    for name, inner_level in level.items():
        value = fields[name]
        if inner_level is None or value is None:
            continue
        if not isinstance(value, list):
            fields[name] = _named(value, inner_level)
        elif any(inner_level.values()):
            fields[name] = [_named(item, inner_level) for item in value]
        else:  # most structs have no structs inside
            fields[name] = [dict(zip(inner_level, item)) for item in value]  # noqa: B905 - faster
    return fields


def _leave_out_unread(values: dict[str, Any], level: _Level, shape: Shape) -> None:
    """Remove fields that were not decoded, from the body and its structs (not those in lists)."""
    tagged = {index for index, _ in (shape.tags or {}).values()}
    for index, (name, inner_level) in enumerate(level.items()):
        if index in shape.keys:
            field_shape = shape.shapes[shape.keys.index(index)]
            if inner_level is not None and isinstance(values[name], dict):
                _leave_out_unread(values[name], inner_level, field_shape.inner or field_shape)
        elif index not in tagged:
            del values[name]
