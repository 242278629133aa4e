"""Reads messages by walking their definitions: slow, simple, and exact about failures.

In: a definition, a version, the bytes of a body. Out: every field as nested dicts, the same that a
compiled decoder gives with ``Projection.ALL``, or the path of the field that cannot be read; a tree
of positions (:class:`TraceNode`), up to where reading fails; where the first records begin, in a
message that may be incomplete. This module must not share code with the compiler, which is tested
against it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.wire import Malformed, Truncated, WireError

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec, Struct

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

    The dict is as ``BodyDecoder`` says for ``Projection.ALL``. Raises
    Truncated or Malformed, with field path and position in the text.
    """
    reader = Interpreter(message, version, bytes(body), pos)
    try:
        return reader.struct(message.struct), reader.pos
    except WireError as error:
        where = f"{reader.path() or message.name} at byte {reader.pos}"
        raise type(error)(f"{where}: {error}") from None


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


class TraceNode:
    """One field, one element of an array, or a tag section."""

    __slots__ = ("children", "end", "field", "is_null", "name", "note", "start", "type", "value")

    def __init__(
        self,
        name: str,
        start: int,
        end: int | None = None,
        type: str = "",  # noqa: A002 - what the definition calls it
        value: Any = None,
        *,
        children: list[TraceNode] | None = None,
    ) -> None:
        self.name = name
        """The field's name in the definition; ``[0]`` for an element; ``_taggedFields`` for a tag
        section; ``tag 7`` for a tagged field that the definition doesn't know."""
        self.start = start
        """Index in the bytes of its first byte, length included."""
        self.end = end
        """Index after its last byte; None where reading failed inside."""
        self.type = type
        """The type in the definition; of an element, the element type; of a tag section, empty."""
        self.value = value
        """Of a primitive, what ``BodyDecoder`` returns for it. Of an
        array, the number of its elements. Of records, the number of their bytes. None for null and
        for a struct."""
        self.note = ""
        """What a number means, if no definition says it."""
        self.is_null = False
        self.field: Field | None = None
        """None for tag sections and unknown tags."""
        self.children = [] if children is None else children
        """Fields of a struct, elements of an array, fields of a tag section; in wire order."""


class Trace(NamedTuple):
    """A message with its positions."""

    root: TraceNode
    failure: Failure | None
    """None when the message was read to its end."""
    pos: int
    """Index of the first byte that was not read."""


def trace_message(
    message: MessageSpec,
    version: int,
    body: bytes | memoryview,
    pos: int = 0,
    *,
    most_elements: int | None = None,
) -> Trace:
    """Read the message that begins at ``body[pos]``, and note the position of each field.

    The result has the first ``most_elements`` elements of each array, or all of them if that is
    None; the others are read too. Bytes after the message are no failure. Raises nothing, whatever
    the bytes.
    """
    tracer = _Tracer(message, version, bytes(body), pos, most_elements)
    failure = None
    try:
        tracer.struct(message.struct)
        tracer.root.end = tracer.pos
    except WireError as error:
        failure = Failure(tracer.path() or message.name, tracer.pos, str(error))
    return Trace(tracer.root, failure, tracer.pos)


class _Tracer(Interpreter):
    def __init__(
        self,
        message: MessageSpec,
        version: int,
        body: bytes,
        pos: int,
        most_elements: int | None,
    ) -> None:
        super().__init__(message, version, body, pos)
        self.root = TraceNode(message.name, pos, type=message.name)
        self._open = [self.root]
        self._most = most_elements

    def enter(self, name: str) -> None:
        """Open a node."""
        super().enter(name)
        node = TraceNode(name, self.pos)
        parent = self._open[-1]
        if self._is_included(name, parent):
            parent.children.append(node)
        self._open.append(node)

    def leave(self) -> None:
        """Close the node that was opened last."""
        super().leave()
        node = self._open.pop()
        node.end = self.pos
        if node.name == "_taggedFields" and not node.children:
            self._open[-1].children.pop()  # an empty section is one zero byte: not worth a node

    def _is_included(self, name: str, parent: TraceNode) -> bool:
        return self._most is None or name[0] != "[" or len(parent.children) < self._most

    def field(self, field: Field) -> Any:
        """Read a field and note its value."""
        node = self._open[-1]
        node.field, node.type = field, field.type
        value = super().field(field)
        node.is_null = value is None
        if isinstance(value, list) or (field.type == "records" and value is not None):
            node.value = len(value)
        elif not isinstance(value, dict):
            node.value = value
        return value

    def element(self, field: Field, *, flexible: bool) -> Any:
        """Read an element and note its value."""
        node = self._open[-1]
        node.field, node.type = field, field.element_type
        value = super().element(field, flexible=flexible)
        if not isinstance(value, dict):
            node.value = value
        return value

    def unknown_tag(self, tag: int, size: int) -> bytes:
        """Read an unknown tagged field as a node of its own."""
        self.enter(f"tag {tag}")
        value = super().unknown_tag(tag, size)
        node = self._open[-1]
        node.type, node.value = "bytes", value
        self.leave()
        return value


def first_records(
    message: MessageSpec, version: int, body: bytes | memoryview, pos: int = 0
) -> tuple[int, int] | None:
    """Return where the first records field begins that is not null, and its length.

    The message begins at ``body[pos]``; the position is that of the first byte after the field's
    length, and may be the end of ``body``. None if the bytes end, or are malformed, before it.
    """
    finder = _Finder(message, version, bytes(body), pos)
    try:
        finder.struct(message.struct)
    except WireError:
        return finder.position_and_length
    return None


class _Finder(Interpreter):
    """Reads up to the first records."""

    position_and_length: tuple[int, int] | None = None

    def field(self, field: Field) -> Any:
        """Read a field; go no further than the first records."""
        if field.type != "records":
            return super().field(field)
        flexible = field.is_flexible(self._version, self._flexible)
        nullable = field.is_nullable(self._version)
        length = self._length(">i", flexible=flexible, nullable=nullable)
        if length is None:
            return None
        self.position_and_length = (self.pos, length)
        raise Truncated("the records come next")
