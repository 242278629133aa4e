"""Bounds the bytes that all connections together buffer.

In: how many bytes a connection buffers, each time it has sent something. Out: the connections whose
bytes have to be dropped.

The connections that are silent for longest come first. A peer that opens very many connections, or
sends very many records, loses its own bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class BufferBudget:
    """Counts the bytes of connections, by serial.

    Attributes:
        total: bytes of all connections.
    """

    _NOT_SAVED = ("_by_serial", "_most", "total")

    def __init__(self, most: int) -> None:
        """``most`` is the limit in bytes."""
        self._most = most
        self._by_serial: dict[int, int] = {}
        """Bytes by serial; the connections that are silent for longest come first."""
        self.total = 0

    def note(self, serial: int, size: int) -> None:
        """Note how many bytes a connection buffers after its latest packets."""
        self.total += size - self._by_serial.pop(serial, 0)
        if size:
            self._by_serial[serial] = size

    def excess(self) -> Iterator[int]:
        """Yield the connections whose bytes have to be dropped, until a quarter is free.

        It yields nothing while the total is within the limit. A quarter is freed at once, so that
        this is not called for each packet.
        """
        if self.total <= self._most:
            return
        for serial in list(self._by_serial):
            if self.total <= self._most - self._most // 4:
                return
            self.note(serial, 0)
            yield serial
