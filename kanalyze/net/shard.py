"""Shards: parts of all connections, one for each of several workers that read the same packets.

In: segments. Out: the shard of each segment's connection.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kanalyze.net.segment_columns import SegmentColumns

__all__ = ["ALL_CONNECTIONS", "Shard", "shard_of", "shards_of"]

# Odd multipliers with irregular bits; which ones does not matter.
MIX_ADDRESS, MIX_PORT, MIX_BOTH = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93
LOW_64_BITS = 0xFFFF_FFFF_FFFF_FFFF


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
