"""The position of every field of a message: its first byte and the one after its last.

In: a definition, a version, bytes. Out: a tree of :class:`TraceNode`, up to where reading fails,
and why it fails. It is slow, because it extends the slow reader,
:mod:`kanalyze.kafka.codec.interpreter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.codec.interpreter import Failure, Interpreter
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec

__all__ = ["Trace", "TraceNode", "trace_message"]


class TraceNode:
    """One field, one element of an array, or a tag section."""

    __slots__ = ("children", "end", "field", "is_null", "name", "start", "type", "value")

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
        """Of a primitive, what :data:`kanalyze.kafka.codec.compiler.Decoder` returns for it. Of an
        array, the number of its elements. Of records, the number of their bytes. None for null and
        for a struct."""
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
    None; the others are read too. Raises nothing, whatever the bytes.
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
