"""Decodes what a schema describes: Avro, Protobuf and JSON, each by a library of its own.

In: the text of a schema, and bytes without Confluent's prefix. Out: JSON text.

The extra ``schemas`` has the libraries; each is imported with the first schema that needs it.
Avro: fastavro. Protobuf: protoc of grpcio-tools reads the text, protobuf the bytes. JSON: what
follows the prefix is the text itself.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from binascii import a2b_base64, b2a_base64
from datetime import date, datetime, time
from decimal import Decimal
from importlib import import_module
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FORMATS = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json"}
"""The types of a registry, and what the column ``value_encoding`` calls them."""
_LIBRARIES = {"AVRO": ("fastavro",), "PROTOBUF": ("google.protobuf", "grpc_tools"), "JSON": ()}
_MAX_INDEXES = 64
"""Limit of the depth at which a Protobuf message is defined within others."""
_PROTOC_SECONDS = 60
_KNOWN_TYPES = "google/protobuf/"
_Decoder: TypeAlias = "Callable[[bytes], str]"


class SchemaError(Exception):
    """A schema cannot be used, or bytes are not what it describes; the text says why, in a line."""


class SchemaText(NamedTuple):
    """A schema, and those that it refers to.

    Attributes:
        kind: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        text: the schema.
        references: texts of the schemas that it needs, by the name that it gives them; each stands
            after those that it needs itself.
    """

    kind: str
    text: str
    references: Mapping[str, str]


def require_libraries(kinds: Iterable[str]) -> None:
    """Raise ModuleNotFoundError if a library for schemas of these types is not installed."""
    for kind in sorted(set(kinds)):
        for library in _LIBRARIES[kind]:
            import_module(library)


def decoder_of(schema: SchemaText) -> _Decoder:
    """Return the function that writes bytes as JSON by a schema.

    The function raises SchemaError for bytes that the schema does not describe, all of them.

    Raises:
        SchemaError: the schema is invalid, or would let a few bytes fill the memory.
    """
    if schema.kind == "JSON":
        return _json_text
    return _avro(schema) if schema.kind == "AVRO" else _protobuf(schema)


# -- JSON -----------------------------------------------------------------------------------------


def _json_text(data: bytes) -> str:
    try:
        return _written(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise SchemaError("not JSON") from error


def _written(value: Any) -> str:
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    # What a terminal could take for a command, and halves of characters, are escaped.
    return text if text.isprintable() else json.dumps(_plain(value), separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return a value as JSON can have it, as the JSON of Protobuf has it; decimals are texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode("ascii")
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    return value


# -- Avro -----------------------------------------------------------------------------------------


def _avro(schema: SchemaText) -> _Decoder:
    from fastavro import schemaless_reader
    from fastavro._read_py import schemaless_reader as python_reader
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    named: dict[str, Any] = {}
    try:
        for text in schema.references.values():
            parse_schema(json.loads(text), named_schemas=named)
        parsed = parse_schema(json.loads(schema.text), named_schemas=named)
        shape = _AvroShape(named)
        shape.check(parsed)
    except (SchemaParseException, UnknownType, ValueError, TypeError, LookupError) as error:
        raise SchemaError(f"not a schema of Avro: {error}") from error
    except RecursionError as error:
        raise SchemaError("nested too deeply") from error
    # The compiled reader does not count how deep it is: 10 kB of a list in a list end the process.
    read = python_reader if shape.is_recursive else schemaless_reader

    def decoded(data: bytes) -> str:
        stream = BytesIO(data)
        try:
            text = _written(read(stream, parsed, None))
        # Whatever the library's reader meets in bytes that are something else.
        except (EOFError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise SchemaError(str(error) or "ends early") from error
        except RecursionError as error:
            raise SchemaError("nested too deeply") from error
        if stream.tell() != len(data):
            raise SchemaError(f"{len(data) - stream.tell()} bytes follow the value")
        return text

    return decoded


class _AvroShape:
    """What a parsed schema of Avro asks of a reader."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        """Begin; ``named`` has the types that are known by a name."""
        self._named = named
        self._open: list[str] = []
        self.is_recursive = False

    def check(self, schema: Any) -> bool:
        """Return whether each value takes bytes.

        Raises SchemaError for arrays of items that take none: their number is not bounded by the
        size of the data.
        """
        if isinstance(schema, list):
            for branch in schema:
                self.check(branch)
            return True  # the number of the branch
        if isinstance(schema, str):
            return self._check_named(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._check_record(schema)
        if kind == "array":
            if not self.check(schema["items"]):
                raise SchemaError("has an array whose items take no bytes")
            return True
        if kind == "map":
            self.check(schema["values"])
            return True
        if kind == "fixed":
            return bool(schema["size"])
        return True if kind == "enum" else self.check(kind)

    def _check_named(self, name: str) -> bool:
        if name in self._open:
            self.is_recursive = True
            return True
        definition = self._named.get(name)
        return name != "null" if definition is None else self.check(definition)

    def _check_record(self, schema: Any) -> bool:
        if schema["name"] in self._open:
            self.is_recursive = True
            return True
        self._open.append(schema["name"])
        takes_bytes = [self.check(field["type"]) for field in schema["fields"]]
        self._open.pop()
        return any(takes_bytes)


# -- Protobuf -------------------------------------------------------------------------------------


def _protobuf(schema: SchemaText) -> _Decoder:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.json_format import Error, MessageToDict
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    files = _compiled(schema)
    pool = DescriptorPool()
    try:
        for file in files:
            pool.Add(file)
        descriptor = pool.FindFileByName(files[-1].name)
    except (TypeError, KeyError) as error:  # how the library says that something is missing
        raise SchemaError(f"not a schema of Protobuf: {error}") from error
    top = [descriptor.message_types_by_name[message.name] for message in files[-1].message_type]

    def decoded(data: bytes) -> str:
        indexes, at = _message_indexes(data)
        try:
            kind = top[indexes[0]]
            for index in indexes[1:]:
                kind = kind.nested_types[index]
            message = GetMessageClass(kind).FromString(data[at:])
            return _written(MessageToDict(message, preserving_proto_field_name=True))
        except IndexError as error:
            raise SchemaError("the schema has no message of that number") from error
        except (DecodeError, Error, ValueError, TypeError, RecursionError) as error:
            raise SchemaError(str(error)) from error

    return decoded


def _compiled(schema: SchemaText) -> list[Any]:
    """Return the descriptors of a schema and what it imports, itself last."""
    import grpc_tools
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    serialized = [_descriptor(text) for text in (*schema.references.values(), schema.text)]
    if all(serialized):
        return _with_known_types(serialized)
    with tempfile.TemporaryDirectory() as folder:
        # The name is one that no other schema imports.
        for name, text in {**schema.references, "kanalyze_schema.proto": schema.text}.items():
            if ".." in PurePosixPath(name).parts or name.startswith("/"):
                raise SchemaError(f"refers to {name!r}")
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        descriptors = Path(folder, "descriptors")
        known = Path(grpc_tools.__file__).parent / "_proto"
        paths = [f"-I{folder}", f"-I{known}", f"--descriptor_set_out={descriptors}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *paths, "--include_imports"]
        done = subprocess.run(  # noqa: S603 - this Python, with files that were just written
            [*command, "kanalyze_schema.proto"],
            capture_output=True,
            text=True,
            timeout=_PROTOC_SECONDS,
            check=False,
        )
        if done.returncode:
            raise SchemaError(f"not a schema of Protobuf: {done.stderr.strip().splitlines()[-1]}")
        return list(FileDescriptorSet.FromString(descriptors.read_bytes()).file)


def _descriptor(text: str) -> Any:
    """Return a schema that is a descriptor in base64, as Confluent's Python client does it.

    None for anything else. A text of Protobuf is no base64: it has a semicolon or a brace.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(a2b_base64(text, strict_mode=True))
    except (ValueError, DecodeError):
        return None


def _with_known_types(files: list[Any]) -> list[Any]:
    """Return descriptors with those of Protobuf's own types that they import, before them."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    known: dict[str, Any] = {}
    for file in files:
        for name in file.dependency:
            if name.startswith(_KNOWN_TYPES):
                module = import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
                known[name] = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    return [*known.values(), *files]


def _message_indexes(data: bytes) -> tuple[list[int], int]:
    """Return which message of a schema follows, and where: its number, then those inside it.

    Confluent's ``MessageIndexes``: how many numbers, and the numbers, as zigzag varints; the first
    message of a schema is written as 0 alone. Raises SchemaError.
    """
    count, at = _varint(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= _MAX_INDEXES:
        raise SchemaError("no number of a message")
    indexes = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise SchemaError("no number of a message")
        indexes.append(index)
    return indexes, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise SchemaError("no number of a message")
