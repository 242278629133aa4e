"""TCP payloads as parallel columns over one buffer; chunks of streams point into them.

In: a buffer, and five numbers for each payload. Out: :class:`Segments`.

Compiled by Cython, with the types in ``segments.pxd``: other compiled modules read the columns as C
arrays. Uncompiled it does the same, slowly.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Segments"]


class Segments:
    """TCP payloads, in the order in which they were passed.

    Each column is there twice: as an array of 64-bit integers for all, and as a view of it
    (``starts``, ``lengths``, ``captureds``, ``times``, ``packets``; ``data`` of the buffer) for
    compiled modules, which read its numbers without making an object.

    Attributes:
        buffer: bytes; valid as long as the batch the segments came from (see
            :class:`~kanalyze.model.PacketBatch`).
        start: index in ``buffer`` of the first payload byte.
        length: payload bytes on the wire, by the IP header; above 0.
        captured: payload bytes in the buffer, from the first on; less than ``length`` where a snap
            length cut the packet.
        time_ns: Unix time of the packet.
        packet: its number.
    """

    def __init__(
        self,
        buffer: memoryview,
        start: Sequence[int],
        length: Sequence[int],
        captured: Sequence[int],
        time_ns: Sequence[int],
        packet: Sequence[int],
    ) -> None:
        """Take columns of equal length; an ``array("q")`` is not copied."""
        self.buffer = buffer
        self.data = buffer
        self.start = self.starts = _column(start)
        self.length = self.lengths = _column(length)
        self.captured = self.captureds = _column(captured)
        self.time_ns = self.times = _column(time_ns)
        self.packet = self.packets = _column(packet)

    def __len__(self) -> int:
        return len(self.start)

    def view(self, begin: int, end: int) -> memoryview:
        """Return bytes of the buffer."""
        return self.buffer[begin:end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segments):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def _values(self) -> tuple[object, ...]:
        return (self.buffer, self.start, self.length, self.captured, self.time_ns, self.packet)


def _column(values: Sequence[int]) -> array[int]:
    return values if isinstance(values, array) else array("q", values)
