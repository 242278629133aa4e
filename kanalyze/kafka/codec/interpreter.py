"""Reads messages by walking their definitions: slow, simple, and exact about failures.

In: a definition, a version, the bytes of a body. Out: every field as nested dicts, the same that a
compiled decoder gives with ``Projection.ALL``, or the path of the field that cannot be read. This
module must not share code with the compiler, which is tested against it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.wire import Malformed, Truncated, WireError

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

__all__ = ["Failure", "Interpreter", "failure_of", "read_message"]

_NUMBERS = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}


class Failure(NamedTuple):
    """Where and why a message cannot be read."""

    path: str
    """Path of the field, with the indices of array elements:
    ``TopicData[0].PartitionData[2].Index``; it ends with ``_taggedFields`` if the failure is in a
    tag section."""
    pos: int
    """Index in the body of the first byte that was not read."""
    reason: str
    """A short text; never bytes from the wire."""


def read_message(
    message: MessageSpec, version: int, body: bytes | memoryview, pos: int = 0
) -> tuple[dict[str, Any], int]:
    """Read the message that begins at ``body[pos]``; return its fields and the position after it.

    The dict is as :data:`kanalyze.kafka.codec.compiler.Decoder` says for ``Projection.ALL``. Raises
    Truncated or Malformed, with field path and position in the text.
    """
    reader = Interpreter(message, version, bytes(body), pos)
    try:
        return reader.struct(message.struct), reader.pos
    except WireError as error:
        where = f"{reader.path() or message.name} at byte {reader.pos}"
        raise type(error)(f"{where}: {error}") from None


def failure_of(
    message: MessageSpec, version: int, body: bytes | memoryview, pos: int = 0
) -> Failure | None:
    """Return where reading the message at ``body[pos]`` fails; None if it does not fail.

    Bytes after the message are no failure.
    """
    reader = Interpreter(message, version, bytes(body), pos)
    try:
        reader.struct(message.struct)
    except WireError as error:
        return Failure(reader.path() or message.name, reader.pos, str(error))
    return None


class Interpreter:
    """A position in a body, and the path of the field that is read there.

    After a failure, both still say where it happened.
    """

    def __init__(self, message: MessageSpec, version: int, body: bytes, pos: int) -> None:
        self._flexible = message.flexible_versions
        self._version = version
        self._body = body
        self._names: list[str] = []
        self.pos = pos

    def path(self) -> str:
        """Return the path of the field being read, empty between fields."""
        return ".".join(self._names).replace(".[", "[")

    def enter(self, name: str) -> None:
        """Enter a field; a failure while reading it leaves its name in the path."""
        self._names.append(name)

    def leave(self) -> None:
        """Leave the field that was entered last, once it was read."""
        self._names.pop()

    def struct(self, struct: Struct) -> dict[str, Any]:
        """Read a struct with its tag section."""
        version = self._version
        values: dict[str, Any] = {}
        for field in struct.fields:
            if field.is_present(version) and not field.is_tagged(version):
                self.enter(field.name)
                values[field.json_name] = self.field(field)
                self.leave()
        if self._flexible.contains(version):
            self._tags(struct, values)
        return values

    def _tags(self, struct: Struct, values: dict[str, Any]) -> None:
        field_of_tag = {
            field.tag: field
            for field in struct.fields
            if field.is_present(self._version) and field.is_tagged(self._version)
        }
        unknown: list[tuple[int, bytes]] = []
        self.enter("_taggedFields")
        last = -1
        for _ in range(self._unsigned_varint()):
            tag = self._unsigned_varint()
            if tag <= last:
                raise Malformed("tags do not rise")
            last = tag
            end = self._end(self._unsigned_varint())
            if tag not in field_of_tag:
                unknown.append((tag, self.unknown_tag(tag, end - self.pos)))
                continue
            field = field_of_tag[tag]
            self.enter(field.name)
            values[field.json_name] = self.field(field)
            if self.pos != end:
                raise Malformed("the field does not fill its declared size")
            self.leave()
        self.leave()
        if unknown:
            values["_taggedFields"] = unknown

    def field(self, field: Field) -> Any:
        """Read one field, tagged or not."""
        nullable = field.is_nullable(self._version)
        flexible = field.is_flexible(self._version, self._flexible)
        if field.is_array:
            return self._array(field, flexible=flexible, nullable=nullable)
        if field.struct is None:
            return self._primitive(field.type, flexible=flexible, nullable=nullable)
        if nullable:
            marker = self._number(">b")
            if marker not in (-1, 1):
                raise Malformed("neither null nor present")
            if marker == -1:
                return None
        return self.struct(field.struct)

    def _array(self, field: Field, *, flexible: bool, nullable: bool) -> list[Any] | None:
        count = self._length(">i", flexible=flexible, nullable=nullable)
        if count is None:
            return None
        if count > len(self._body) - self.pos:
            # Every element takes a byte at least.
            raise Truncated("an array of more elements than there are bytes")
        values = []
        for index in range(count):
            self.enter(f"[{index}]")
            values.append(self.element(field, flexible=flexible))
            self.leave()
        return values

    def element(self, field: Field, *, flexible: bool) -> Any:
        """Read one element of an array."""
        if field.struct is not None:
            return self.struct(field.struct)
        return self._primitive(field.element_type, flexible=flexible, nullable=False)

    def unknown_tag(self, tag: int, size: int) -> bytes:  # noqa: ARG002 - for subclasses
        """Read the bytes of a tagged field that the definition doesn't know."""
        return self._take(size)

    def _primitive(self, kind: str, *, flexible: bool, nullable: bool) -> Any:
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind == "bool":
            return self._take(1) != b"\0"
        if kind == "uuid":
            return self._take(16)
        length_format = ">h" if kind == "string" else ">i"
        length = self._length(length_format, flexible=flexible, nullable=nullable)
        if length is None:
            return None
        data = self._take(length)
        return data.decode("utf-8", errors="backslashreplace") if kind == "string" else data

    def _length(self, layout: str, *, flexible: bool, nullable: bool) -> int | None:
        length: int = self._unsigned_varint() - 1 if flexible else self._number(layout)
        if length >= 0:
            return length
        if length == -1 and nullable:
            return None
        raise Malformed("negative length")

    def _number(self, layout: str) -> Any:
        size = struct.calcsize(layout)
        return struct.unpack(layout, self._take(size))[0]

    def _unsigned_varint(self) -> int:
        value = 0
        for index in range(5):
            byte = self._take(1)[0]
            value += (byte % 128) << (7 * index)
            if byte < 128:
                if value >= 2**31:
                    raise Malformed("unsigned varint beyond 2^31 - 1")
                return value
        raise Malformed("unsigned varint of more than 5 bytes")

    def _end(self, length: int) -> int:
        if length > len(self._body) - self.pos:
            raise Truncated("the bytes end too early")
        return self.pos + length

    def _take(self, length: int) -> bytes:
        end = self._end(length)
        data = self._body[self.pos : end]
        self.pos = end
        return data
