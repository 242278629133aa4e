"""Finds where the first records of a message begin, in a message that may be incomplete.

In: a definition, a version, the first bytes of a body. Out: a position and a length. It is slow,
because it extends the slow interpreter. It is meant for the few incomplete frames that may or may
not be requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.kafka.codec.interpreter import Interpreter
from kanalyze.kafka.wire import Truncated, WireError

if TYPE_CHECKING:
    from kanalyze.kafka.schema.schema_ast import Field, MessageSpec

__all__ = ["first_records"]


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
