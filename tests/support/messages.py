"""Makes messages of any definition: random values, and their bytes.

The values are dicts as a decoder gives them with ``Projection.ALL``. Writing them shares nothing
with the readers under test.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from kanalyze.kafka.codec.compiler import Projection
    from kanalyze.kafka.schema.catalog import Catalog, Kind
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

NUMBERS = {
    "int8": ("b", -(2**7), 2**7 - 1),
    "int16": ("h", -(2**15), 2**15 - 1),
    "uint16": ("H", 0, 2**16 - 1),
    "int32": ("i", -(2**31), 2**31 - 1),
    "uint32": ("I", 0, 2**32 - 1),
    "int64": ("q", -(2**63), 2**63 - 1),
}
FIRST_UNKNOWN_TAG = 50


def every_message(catalog: Catalog) -> Iterator[tuple[MessageSpec, int]]:
    """Yield each request, response, header and data message in each of its versions."""
    kinds: tuple[Kind, ...] = ("request", "response")
    messages = [catalog.message(api.key, kind) for api in catalog.apis for kind in kinds]
    messages += [catalog.header(kind) for kind in kinds]
    messages += [catalog.data(name) for name in DATA_MESSAGES]
    for message in messages:
        for version in message.valid_versions.each():
            yield message, version


DATA_MESSAGES = (
    "AbortedTxn",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "ControlRecordTypeSchema",
    "DefaultPrincipalData",
    "EndTxnMarker",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
)


def unsigned_varint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


class Writer:
    """Writes messages of one version of one definition."""

    def __init__(self, message: MessageSpec, version: int) -> None:
        self._message = message
        self._version = version

    def write(self, values: dict[str, Any]) -> bytes:
        return self._struct(self._message.struct, values)

    def _struct(self, struct_: Struct, values: dict[str, Any]) -> bytes:
        made = b""
        tags: dict[int, bytes] = dict(values.get("_taggedFields", []))
        for field in struct_.fields:
            if not field.is_present(self._version):
                continue
            if not field.is_tagged(self._version):
                made += self._field(field, values[field.json_name])
            elif field.json_name in values:
                assert field.tag is not None
                tags[field.tag] = self._field(field, values[field.json_name])
        if self._message.is_flexible(self._version):
            made += unsigned_varint(len(tags))
            for tag, content in sorted(tags.items()):
                made += unsigned_varint(tag) + unsigned_varint(len(content)) + content
        return made

    def _field(self, field: Field, value: Any) -> bytes:
        flexible = field.is_flexible(self._version, self._message.flexible_versions)
        if field.is_array:
            length = self._length("i", flexible, value)
            return length + b"".join(self._element(field, item, flexible) for item in value or ())
        if field.struct is not None and field.is_nullable(self._version):
            return b"\xff" if value is None else b"\x01" + self._struct(field.struct, value)
        return self._element(field, value, flexible)

    def _element(self, field: Field, value: Any, flexible: bool) -> bytes:
        if field.struct is not None:
            return self._struct(field.struct, value)
        kind = field.element_type
        if kind in NUMBERS:
            return struct.pack(">" + NUMBERS[kind][0], value)
        if kind == "bool":
            return b"\1" if value else b"\0"
        if kind == "float64":
            return struct.pack(">d", value)
        if kind == "uuid":
            return bytes(value)
        content = value.encode() if isinstance(value, str) else value
        return self._length("h" if kind == "string" else "i", flexible, content) + (content or b"")

    def _length(self, code: str, flexible: bool, value: Any) -> bytes:
        if flexible:
            return unsigned_varint(0 if value is None else len(value) + 1)
        return struct.pack(">" + code, -1 if value is None else len(value))


class Generator:
    """Makes random values of one version of one definition.

    They include nulls, empty values, limits, long and non-ASCII texts, known and unknown tags.
    """

    def __init__(self, message: MessageSpec, version: int, random: Random) -> None:
        self._message = message
        self._version = version
        self._random = random

    def values(self) -> dict[str, Any]:
        return self._struct(self._message.struct, 3)

    def _struct(self, struct_: Struct, most: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in struct_.fields:
            if not field.is_present(self._version):
                continue
            if field.is_tagged(self._version) and self._random.random() < 0.5:
                continue
            values[field.json_name] = self._field(field, most)
        if self._message.is_flexible(self._version) and self._random.random() < 0.2:
            values["_taggedFields"] = self._unknown_tags()
        return values

    def _unknown_tags(self) -> list[tuple[int, bytes]]:
        count = self._random.choice((1, 1, 1, 2, 130))
        tags = sorted(self._random.sample(range(FIRST_UNKNOWN_TAG, 1000), count))
        return [(tag, self._bytes()[:9]) for tag in tags]

    def _field(self, field: Field, most: int) -> Any:
        if field.is_nullable(self._version) and self._random.random() < 0.25:
            return None
        if not field.is_array:
            return self._element(field, most)
        count = self._random.randint(0, most)
        if field.struct is None and self._random.random() < 0.05:
            count = 130
        return [self._element(field, max(1, most - 1)) for _ in range(count)]

    def _element(self, field: Field, most: int) -> Any:
        if field.struct is not None:
            return self._struct(field.struct, most)
        kind = field.element_type
        if kind in NUMBERS:
            return self.number(field, kind)
        if kind == "bool":
            return self._random.random() < 0.5
        if kind == "float64":
            return self._random.choice((0.0, -1.5, 1e300, float("inf")))
        if kind == "uuid":
            return self._random.choice((bytes(16), self._random.randbytes(16)))
        return self._text() if kind == "string" else self._bytes()

    def number(self, field: Field, kind: str) -> int:
        _, low, high = NUMBERS[kind]
        choices = (low, high, 0, 1, self._random.randint(low, high), self._random.randint(0, 100))
        return self._random.choice(choices)

    def _text(self) -> str:
        size = self._random.choice((0, 1, 5, 12, 12, 20, 126, 127, 128, 300))
        return "".join(self._random.choice("abcdef.-_0é名😀") for _ in range(size))[:size]

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._random.choice((0, 1, 7, 20, 126, 127, 128)))


def projected(message: MessageSpec, version: int, values: dict[str, Any], selection: Any) -> Any:
    """Return the expected result of a decoder for ``values`` and the fields in ``selection``."""
    return _projected_struct(message.struct, version, values, selection)


def _projected_struct(struct_: Struct, version: int, values: Any, selection: Any) -> Any:
    return tuple(
        _projected_field(field, version, values, selection[field.name])
        for field in struct_.fields
        if field.name in selection
    )


def _projected_field(field: Field, version: int, values: Any, selection: Any) -> Any:
    if field.json_name not in values:
        return _default(field, selection)
    value = values[field.json_name]
    if value is None or field.struct is None:
        return value
    if field.is_array:
        return [_projected_struct(field.struct, version, item, selection) for item in value]
    return _projected_struct(field.struct, version, value, selection)


def _default(field: Field, selection: Any) -> Any:
    if field.has_null_default:
        return None
    if field.is_array:
        return []
    if field.struct is not None:
        fields = (inner for inner in field.struct.fields if inner.name in selection)
        return tuple(_default(inner, selection[inner.name]) for inner in fields)
    return field.default


def random_projection(message: MessageSpec, random: Random) -> Projection:
    from kanalyze.kafka.codec.compiler import Projection

    paths = [path for path in leaf_paths(message.struct) if random.random() < 0.3]
    return Projection.of(*paths, raw_records=True)


def leaf_paths(struct_: Struct, before: str = "") -> Iterator[str]:
    for field in struct_.fields:
        if field.struct is not None:
            yield from leaf_paths(field.struct, f"{before}{field.name}.")
        else:
            yield before + field.name
