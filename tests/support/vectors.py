"""The vectors in tests/kafka/vectors/: messages that Kafka's own serializer wrote.

tools/vectors/make.py makes them. Each line holds a message's name, version, bytes and Kafka's own
JSON of it, and the parts that the JSON leaves out: contents of records, unknown tags.
"""

from __future__ import annotations

import base64
import json
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.schema.catalog import Catalog, Kind
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

FOLDER = Path(__file__).resolve().parent.parent / "kafka" / "vectors"


class Vector(NamedTuple):
    release: str
    """The release of Kafka whose serializer wrote it."""
    name: str
    """The name of the message in that release."""
    api_key: int | None
    version: int
    content: bytes
    json: Any
    """Kafka's JSON of the message; records as their size."""
    records: tuple[bytes, ...]
    """Contents of the records fields, in wire order."""
    unknown_tags: tuple[tuple[int, bytes], ...]
    """Unknown tags of all structs, sorted."""

    @property
    def kind(self) -> str:
        """``request`` or ``response`` of an API, ``other`` for headers and data."""
        if self.api_key is None:
            return "other"
        return "request" if self.name.endswith("Request") else "response"


def read_vectors() -> list[Vector]:
    """Return all vectors, by message as in the files."""
    return [
        _vector(path.name.removeprefix("kafka-clients-").removesuffix(".jsonl.xz"), line)
        for path in sorted(FOLDER.glob("*.jsonl.xz"))
        for line in lzma.decompress(path.read_bytes()).decode("utf-8").splitlines()
    ]


def _vector(release: str, line: str) -> Vector:
    found = json.loads(line)
    tags = ((tag, bytes.fromhex(content)) for tag, content in found.get("unknown_tags", ()))
    return Vector(
        release=release,
        name=found["name"],
        api_key=found.get("api_key"),
        version=found["version"],
        content=bytes.fromhex(found["bytes"]),
        json=found["json"],
        records=tuple(bytes.fromhex(content) for content in found.get("records", ())),
        unknown_tags=tuple(sorted(tags)),
    )


def definition_of(vector: Vector, catalog: Catalog) -> MessageSpec:
    """Return our definition of the vector's message; APIs go by key, since names change."""
    if vector.api_key is not None:
        kind: Kind = "request" if vector.kind == "request" else "response"
        return catalog.message(vector.api_key, kind)
    if vector.name in ("RequestHeader", "ResponseHeader"):
        return catalog.header("request" if vector.name == "RequestHeader" else "response")
    return catalog.data(vector.name)


# Decoded values (Projection.ALL), as Kafka's JSON converters write them.


def kafka_json(struct: Struct, values: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded struct as Kafka's JSON has it; unknown tags are left out, as there."""
    made: dict[str, Any] = {}
    for field in struct.fields:
        if field.json_name not in values:
            continue
        value = values[field.json_name]
        if field.type == "records" and value is not None:
            made[f"{field.json_name}SizeInBytes"] = len(value)
        else:
            made[field.json_name] = _kafka_value(field, value)
    return made


def _kafka_value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_kafka_element(field, item) for item in value]
    return _kafka_element(field, value)


def _kafka_element(field: Field, value: Any) -> Any:
    if field.struct is not None:
        return kafka_json(field.struct, value)
    if field.element_type == "uuid":
        return base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")
    if field.element_type == "bytes":
        return base64.b64encode(value).decode("ascii")
    return value


def records_in(struct: Struct, values: dict[str, Any]) -> Iterator[bytes]:
    """Yield the contents of records fields of a decoded struct, in wire order."""
    for field, value in _fields_in(struct, values):
        if field.struct is not None:
            for item in _structs_in(field, value):
                yield from records_in(field.struct, item)
        elif field.type == "records" and value is not None:
            yield value


def unknown_tags_in(struct: Struct, values: dict[str, Any]) -> Iterator[tuple[int, bytes]]:
    """Yield the unknown tags of a decoded struct and of the structs inside it."""
    yield from values.get("_taggedFields", ())
    for field, value in _fields_in(struct, values):
        if field.struct is not None:
            for item in _structs_in(field, value):
                yield from unknown_tags_in(field.struct, item)


def _fields_in(struct: Struct, values: dict[str, Any]) -> Iterator[tuple[Field, Any]]:
    for field in struct.fields:
        if field.json_name in values:
            yield field, values[field.json_name]


def _structs_in(field: Field, value: Any) -> list[dict[str, Any]]:
    if value is None:
        return []
    return list(value) if field.is_array else [value]


# What vectors cover.


def seen_in(struct: Struct, values: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each field on the wire, with ``null``, ``empty`` or ``value``."""
    for field, value in _fields_in(struct, values):
        at = f"{path}.{field.name}" if path else field.name
        yield at, _sort_of(value)
        if field.struct is not None:
            for item in _structs_in(field, value):
                yield from seen_in(field.struct, item, at)


def _sort_of(value: Any) -> str:
    if value is None:
        return "null"
    return "empty" if value in ("", b"", []) else "value"


def paths_of(struct: Struct, version: int, path: str = "") -> Iterator[tuple[str, Field]]:
    """Yield the path of each field that a version of a struct has."""
    for field in struct.fields:
        if field.is_present(version):
            at = f"{path}.{field.name}" if path else field.name
            yield at, field
            if field.struct is not None:
                yield from paths_of(field.struct, version, at)
