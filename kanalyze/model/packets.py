"""Packets: what ``capture`` returns and ``net`` reads.

In: columns and a buffer. Out: :class:`PacketBatch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.int_columns import picked, picked_types

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

NO_TIME: Final = -1
"""In place of the time of a packet that has none, such as in pcapng's Simple Packet Block. It is
below all times, which are of 1970 or later; what is computed from two times has to ask for it."""


def known_time(time_ns: int) -> int | None:
    """Return the time of a packet; None if it has none."""
    return None if time_ns == NO_TIME else time_ns


class PacketBatch:
    """A run of captured packets, as columns over one buffer.

    All columns have the same length, one entry a packet, in the order of the capture. They are
    arrays of 64-bit integers, ``link_type`` of 32-bit ones;
    :class:`kanalyze.model.packet_arrays.PacketArrays` shows them as NumPy arrays.

    ``buffer`` holds the packets' bytes (and whatever lies between them in the file). **It is valid
    until the next batch is read**: readers use it again, because reading into a warm buffer is ten
    times as fast as touching new pages. Code that needs the bytes for longer must copy them.
    """

    __slots__ = (
        "buffer",
        "captured_bytes",
        "link_type",
        "number",
        "offset",
        "time_ns",
        "wire_bytes",
    )

    def __init__(
        self,
        buffer: memoryview,
        number: array[int],
        time_ns: array[int],
        offset: array[int],
        captured_bytes: array[int],
        wire_bytes: array[int],
        link_type: array[int],
    ) -> None:
        self.buffer = buffer
        """The bytes, format ``B``."""
        self.number = number
        """Packet number over the whole input, from 1; rising, by 1 unless packets were left out."""
        self.time_ns = time_ns
        """Unix time of capture in ns, or ``NO_TIME``."""
        self.offset = offset
        """Index in ``buffer`` of the first byte of the link-layer header."""
        self.captured_bytes = captured_bytes
        """Bytes of the packet that the capture holds."""
        self.wire_bytes = wire_bytes
        """Bytes the packet had on the wire; at least ``captured_bytes``."""
        self.link_type = link_type
        """LINKTYPE_ value of the packet's interface (1 Ethernet, 113 Linux cooked, 101 raw IP,
        ...)."""

    def __len__(self) -> int:
        return len(self.number)

    def part(self, rows: slice) -> PacketBatch:
        """Return the packets of a range of indices, over the same buffer."""
        return PacketBatch(
            self.buffer,
            self.number[rows],
            self.time_ns[rows],
            self.offset[rows],
            self.captured_bytes[rows],
            self.wire_bytes[rows],
            self.link_type[rows],
        )

    def select(self, rows: Sequence[int]) -> PacketBatch:
        """Return the packets at some indices, over the same buffer.

        ``rows`` is an array of 64-bit integers.
        """
        return PacketBatch(
            self.buffer,
            picked(self.number, rows),
            picked(self.time_ns, rows),
            picked(self.offset, rows),
            picked(self.captured_bytes, rows),
            picked(self.wire_bytes, rows),
            picked_types(self.link_type, rows),
        )
