"""What every reader of Kafka bytes shares: where bytes come from and how reading them fails.

In: nothing. Out: the exceptions of the protocol layer and the :class:`Source` that a decoder asks
for bytes.

The exceptions never leave the package: the stage that called a decoder turns them into anomalies.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Malformed", "MissingBytes", "Source", "Truncated", "WireError"]


class WireError(ValueError):
    """Bytes that cannot be read as what they should be."""


class Truncated(WireError):
    """The bytes end before the field does."""


class MissingBytes(WireError):
    """The field exists, but the capture does not hold (all of) its bytes."""


class Malformed(WireError):
    """The bytes contradict the grammar: a negative length, a varint without an end."""


class Source(Protocol):
    """The bytes of one frame, which need not lie together and need not all be there.

    Positions count from the first byte of the frame's size prefix.
    """

    @property
    def length(self) -> int:
        """Bytes of the frame with its size prefix, there or not."""
        ...

    def window(self, at: int) -> memoryview:
        """Return bytes from position ``at`` on, as many as lie together.

        Empty only when ``at`` is the end of the frame. Raises MissingBytes where the byte at
        ``at`` is not there, Truncated where ``at`` is beyond the end of the frame.
        """
        ...

    def read(self, at: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes from position ``at``; raises as :meth:`window` does."""
        ...
