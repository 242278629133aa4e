"""TCP segments as columns: what header readers return and reassembly takes; and shards.

In: columns over one buffer. Out: :class:`SegmentColumns`. A :class:`Shard` is a part of all
connections, one for each of several workers. :func:`columns_in`
has them in memory that processes share.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
ACK: Final = 0x10

Column: TypeAlias = Any
"""Anything with a buffer of 64-bit integers: ``array("q")``, ``array("Q")`` for addresses, or NumPy
arrays of the same types."""


class SegmentColumns:
    """TCP segments as columns over one buffer, in the order of the capture.

    The buffer is that of the batch, or a copy of it followed by datagrams that came in fragments.

    Attributes:
        number: packet number.
        time_ns: Unix time of the packet.
        is_ipv6: 1 or 0.
        source_high, source_low, destination_high, destination_low: addresses. Those of IPv4 stand
            in ``low``, with ``high`` 0.
        sequence: 0 to 2^32 - 1.
        acknowledgment: 0 to 2^32 - 1; means something where :data:`ACK` is set.
        window: as written in the header, not scaled.
        checksum: as written in the header; not verified, because network cards fill it in after the
            packet is captured.
        identification: of the IPv4 header, 0 to 65,535; -1 for IPv6.
        payload_start: index in the buffer; past the packet's end if the header itself was cut.
        payload_bytes: on the wire, by the IP header; 0 or more.
        captured_bytes: payload in the buffer; at most ``payload_bytes``.
    """

    buffer: memoryview
    number: Column
    time_ns: Column
    is_ipv6: Column
    source_high: Column
    source_low: Column
    destination_high: Column
    destination_low: Column
    source_port: Column
    destination_port: Column
    sequence: Column
    acknowledgment: Column
    flags: Column
    window: Column
    checksum: Column
    identification: Column
    payload_start: Column
    payload_bytes: Column
    captured_bytes: Column

    def __init__(self, buffer: memoryview, **columns: Column) -> None:
        """Take the buffer, and every column by its name."""
        self.buffer = buffer
        vars(self).update(columns)

    def __len__(self) -> int:
        return len(self.number)


COLUMN_NAMES: Final = tuple(name for name in SegmentColumns.__annotations__ if name != "buffer")
_CELL_BYTES: Final = 8
_ADDRESSES: Final = ("source_high", "source_low", "destination_high", "destination_low")
"""Columns of unsigned numbers."""


def column_bytes(room: int) -> int:
    """Return the number of bytes that the columns of ``room`` segments take."""
    return len(COLUMN_NAMES) * _CELL_BYTES * room


def columns_in(data: memoryview, room: int, count: int) -> dict[str, memoryview]:
    """Return the columns of ``count`` segments, which begin where those of ``room`` would."""
    columns = {}
    for at, name in enumerate(COLUMN_NAMES):
        first = at * _CELL_BYTES * room
        cells = data[first : first + _CELL_BYTES * count]
        columns[name] = cells.cast("Q" if name in _ADDRESSES else "q")
    return columns


class Shard:
    """One of ``count`` parts of all TCP connections, each with both its directions."""

    __slots__ = ("count", "index")

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        """From 0."""
        self.count = count

    @property
    def is_first(self) -> bool:
        """Whether this shard counts the packets that belong to no connection."""
        return self.index == 0


ALL_CONNECTIONS = Shard(0, 1)
"""All connections."""
