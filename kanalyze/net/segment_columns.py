"""TCP segments as columns: what header readers return and reassembly takes; and their shards.

In: columns over one buffer. Out: :class:`SegmentColumns`; the shard of each segment's connection
(:func:`shards_of`). Shards are parts of all connections, one for each of several workers that read
the same packets.
"""

from __future__ import annotations

from array import array
from typing import Any, Final, TypeAlias

__all__ = [
    "ACK",
    "ALL_CONNECTIONS",
    "FIN",
    "RST",
    "SYN",
    "SegmentColumns",
    "Shard",
    "shard_of",
    "shards_of",
]

FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
ACK: Final = 0x10

# Odd multipliers with irregular bits; which ones does not matter.
MIX_ADDRESS, MIX_PORT, MIX_BOTH = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93
LOW_64_BITS = 0xFFFF_FFFF_FFFF_FFFF
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

    __slots__ = (
        "acknowledgment",
        "buffer",
        "captured_bytes",
        "checksum",
        "destination_high",
        "destination_low",
        "destination_port",
        "flags",
        "identification",
        "is_ipv6",
        "number",
        "payload_bytes",
        "payload_start",
        "sequence",
        "source_high",
        "source_low",
        "source_port",
        "time_ns",
        "window",
    )

    def __init__(
        self,
        buffer: memoryview,
        number: Column,
        time_ns: Column,
        is_ipv6: Column,
        source_high: Column,
        source_low: Column,
        destination_high: Column,
        destination_low: Column,
        source_port: Column,
        destination_port: Column,
        sequence: Column,
        acknowledgment: Column,
        flags: Column,
        window: Column,
        checksum: Column,
        identification: Column,
        payload_start: Column,
        payload_bytes: Column,
        captured_bytes: Column,
    ) -> None:
        self.buffer = buffer
        self.number = number
        self.time_ns = time_ns
        self.is_ipv6 = is_ipv6
        self.source_high = source_high
        self.source_low = source_low
        self.destination_high = destination_high
        self.destination_low = destination_low
        self.source_port = source_port
        self.destination_port = destination_port
        self.sequence = sequence
        self.acknowledgment = acknowledgment
        self.flags = flags
        self.window = window
        self.checksum = checksum
        self.identification = identification
        self.payload_start = payload_start
        self.payload_bytes = payload_bytes
        self.captured_bytes = captured_bytes

    def __len__(self) -> int:
        return len(self.number)


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


def shards_of(segments: SegmentColumns, count: int) -> array[int]:
    """Return for each segment the index, below ``count``, of its connection's shard."""
    shards = array("q", bytes(8 * len(segments)))
    fill_shards(shards, segments, count)
    return shards


def fill_shards(shards: array[int], segments: SegmentColumns, count: int) -> None:
    """Write the shard of each segment into an array of the same length."""
    target = memoryview(shards)
    source_high, source_low = memoryview(segments.source_high), memoryview(segments.source_low)
    source_port = memoryview(segments.source_port)
    destination_high = memoryview(segments.destination_high)
    destination_low = memoryview(segments.destination_low)
    destination_port = memoryview(segments.destination_port)
    for row in range(len(target)):
        target[row] = shard_of(
            source_high[row],
            source_low[row],
            source_port[row],
            destination_high[row],
            destination_low[row],
            destination_port[row],
            count,
        )


def shard_of(
    source_high: int,
    source_low: int,
    source_port: int,
    destination_high: int,
    destination_low: int,
    destination_port: int,
    count: int,
) -> int:
    """Return the index, below ``count``, of the shard of a connection.

    It depends on the two ends and ``count`` alone, so all workers agree.
    """
    # A sum, so that both directions get the same shard.
    ends = mixed(source_high, source_low, source_port)
    ends = ends + mixed(destination_high, destination_low, destination_port) & LOW_64_BITS
    ends ^= ends >> 32
    ends = ends * MIX_BOTH & LOW_64_BITS
    return (ends >> 32) % count


def mixed(high: int, low: int, port: int) -> int:
    """Return the 64-bit hash of one end."""
    both = (high * MIX_ADDRESS ^ low) & LOW_64_BITS
    both = (both * MIX_PORT ^ port) & LOW_64_BITS
    both = both * MIX_ADDRESS & LOW_64_BITS
    return both ^ both >> 32
