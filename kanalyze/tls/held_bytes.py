"""What connections hold, all together, and which of them give it back where that is too much.

In: how many bytes a connection holds, each time it was heard. Out: the connections that have to
give up theirs. Must not know: what they hold.

Those that were not heard for longest give up first: who opens connections without end, or leaves
records without end, pushes out his own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HeldBytes"]


class HeldBytes:
    """Counts the bytes of connections, by serial.

    Attributes:
        total: of all together.
    """

    _LEFT_OUT = ("_by_serial", "_most", "total")

    def __init__(self, most: int) -> None:
        """Begin with nothing, and so many bytes at most."""
        self._most = most
        self._by_serial: dict[int, int] = {}
        """The one that was not heard for longest first."""
        self.total = 0

    def note(self, serial: int, size: int) -> None:
        """Note what a connection holds now that it was heard."""
        self.total += size - self._by_serial.pop(serial, 0)
        if size:
            self._by_serial[serial] = size

    def excess(self) -> Iterator[int]:
        """Yield the connections that give up what they hold, until a quarter is free.

        Nothing if no more is held than may be. A quarter at once keeps the time in proportion.
        """
        if self.total <= self._most:
            return
        for serial in list(self._by_serial):
            if self.total <= self._most - self._most // 4:
                return
            self.note(serial, 0)
            yield serial
