"""Messages read by kio, another reader of Kafka's protocol, to compare with ours.

Its entities are dataclasses with a field for each of the definition's, in the same order, and
richer types; they are turned back into the dicts that our decoders give. It is imported only when
it is used, because that takes a second, and every worker collects all tests.
"""

from __future__ import annotations

import datetime
import enum
import io
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tests.support.messages import Generator

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

KNOWN_ERRORS = (0, 1, 3, 5, 6, 7, 16, 29, 35, 72)


class TameGenerator(Generator):
    """Makes values that kio's richer types can hold: known error codes, times of this century."""

    def number(self, field: Field, kind: str) -> int:
        if field.name.endswith("ErrorCode"):
            return self._random.choice(KNOWN_ERRORS)
        if kind == "int64" and field.name.endswith(("Timestamp", "TimestampMs", "TimeMs")):
            return self._random.randint(0, 2_000_000_000_000)
        if field.name.endswith(("Ms", "Timestamp")):
            return self._random.randint(0, 2**31 - 1)
        return super().number(field, kind)

    def _struct(self, struct_: Struct, most: int) -> dict[str, Any]:
        """Leave out values that kio refuses: unknown tags, and null in a tag section."""
        values = super()._struct(struct_, most)
        values.pop("_taggedFields", None)
        for field in struct_.fields:
            if field.is_tagged(self._version) and values.get(field.json_name, 0) is None:
                del values[field.json_name]
        return values


def kio_schema(message: MessageSpec, version: int) -> Any:
    """Return kio's class for the message, or None if kio has none."""
    from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema, load_response_schema

    load = load_request_schema if message.kind == "request" else load_response_schema
    assert message.api_key is not None
    try:
        return load(message.api_key, version)
    except (UnknownAPIKey, UnknownEntity):
        return None


def kio_reads(schema: Any, body: bytes) -> Any:
    """Read the whole body; returns kio's entity."""
    from kio.serial import entity_reader

    entity, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    return entity


def kio_writes(schema: Any, entity: Any) -> bytes:
    from kio.serial import entity_writer

    buffer = io.BytesIO()
    entity_writer(schema)(buffer, entity)
    return buffer.getvalue()


def as_values(struct: Struct, version: int, entity: Any) -> dict[str, Any]:
    """Turn an entity into a dict with every field of the version, tagged ones too."""
    present = [field for field in struct.fields if field.is_present(version)]
    theirs = fields(entity)
    assert len(present) == len(theirs), (struct.name, version)
    return {
        field.json_name: _value(field, version, getattr(entity, their.name))
        for field, their in zip(present, theirs, strict=True)
    }


def _value(field: Field, version: int, value: Any) -> Any:
    if field.is_array:
        if value is None:
            return None
        return [_element(field, version, item) for item in value]
    return _element(field, version, value)


def _element(field: Field, version: int, value: Any) -> Any:
    if field.element_type == "uuid" and value is None:
        return bytes(16)
    if value is None:
        return -1 if field.type == "int64" else None
    if field.struct is not None:
        return as_values(field.struct, version, value)
    return _plain(field, value)


def _plain(field: Field, value: Any) -> Any:
    if field.element_type == "uuid":
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, enum.Enum):
        return value.value
    return value


def with_defaults(struct: Struct, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """Add the tagged fields that are not on the wire; remove unknown tags."""
    made: dict[str, Any] = {}
    for field in struct.fields:
        if not field.is_present(version):
            continue
        is_sent = field.json_name in values
        value = values[field.json_name] if is_sent else _default(field, version)
        made[field.json_name] = _filled(field, version, value)
    return made


def _filled(field: Field, version: int, value: Any) -> Any:
    if field.struct is None or value is None:
        return value
    if field.is_array:
        return [with_defaults(field.struct, version, item) for item in value]
    return with_defaults(field.struct, version, value)


def _default(field: Field, version: int) -> Any:
    if field.has_null_default:
        return None
    if field.is_array:
        return []
    if field.struct is None:
        return field.default
    return {
        inner.json_name: _default(inner, version)
        for inner in field.struct.fields
        if inner.is_present(version)
    }
