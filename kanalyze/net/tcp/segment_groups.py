"""The segments of a batch by connection, sender and arrival.

In: segment columns. Out: :class:`SegmentGroups`.

A hash table finds the group of each segment in one look-up. Its seed differs in each process, so a
sender of forged addresses cannot produce collisions.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.net.tcp.endpoint_pairs import ipv6_key

if TYPE_CHECKING:
    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.net.tcp.endpoint_pairs import Pair

__all__ = ["SegmentGroups"]

# Odd multipliers with irregular bits; which ones does not matter.
MIX_ONE, MIX_OTHER = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
LOW_64_BITS = 0xFFFF_FFFF_FFFF_FFFF
SEED = hash("a number that differs from process to process") & LOW_64_BITS
MIN_TABLE = 16


class SegmentGroups:
    """The segments of a batch, sorted by pair of endpoints, then sender, then arrival.

    Groups come in the order of their first segments. Of the two ends of a pair, the *lower* is the
    one with the smaller address and port.

    Attributes:
        count: number of groups.
        order: indices of segments. Group ``g`` is ``order[start[g]:start[g + 1]]``: what the lower
            end sent, and from ``middle[g]`` on what the higher end sent.
    """

    def __init__(self, segments: SegmentColumns) -> None:
        rows = len(segments)
        self.ipv6s = memoryview(segments.is_ipv6)
        self.source_highs = memoryview(segments.source_high)
        self.source_lows = memoryview(segments.source_low)
        self.source_ports = memoryview(segments.source_port)
        self.destination_highs = memoryview(segments.destination_high)
        self.destination_lows = memoryview(segments.destination_low)
        self.destination_ports = memoryview(segments.destination_port)
        size = MIN_TABLE
        while size < 2 * rows:
            size *= 2
        self.table = memoryview(array("i", bytes(4 * size)))
        self.table_mask = size - 1
        # Twice the number of its group, and 1 where the higher end sent it.
        self.lanes = memoryview(array("i", bytes(4 * rows)))
        self.firsts = memoryview(array("i", bytes(4 * rows)))
        self.count = 0
        self._find_groups(rows)
        self.order = array("q", bytes(8 * rows))
        self.start = array("q", bytes(8 * (self.count + 1)))
        self.middle = array("q", bytes(8 * self.count))
        self.orders = memoryview(self.order)
        self.starts = memoryview(self.start)
        self.middles = memoryview(self.middle)
        self._sort(rows)

    def first(self, group: int) -> int:
        """Return the index of the segment of a group that arrived first."""
        return self.firsts[group]

    def pair(self, group: int) -> Pair:
        """Return the pair of endpoints of a group, which is its key in every batch."""
        row = self.firsts[group]
        if self.ipv6s[row]:
            source = ipv6_key(self.source_highs[row], self.source_lows[row], self.source_ports[row])
            destination = ipv6_key(
                self.destination_highs[row], self.destination_lows[row], self.destination_ports[row]
            )
        else:
            source = self.source_lows[row] << 16 | self.source_ports[row]
            destination = self.destination_lows[row] << 16 | self.destination_ports[row]
        return (destination, source) if self.lanes[row] & 1 else (source, destination)

    def _find_groups(self, rows: int) -> None:
        """Find the group of each segment, and which end sent it."""
        for row in range(rows):
            from_higher = self._is_from_higher(row)
            slot = self._hash(row, from_higher) & self.table_mask
            group = self.table[slot] - 1
            while group >= 0 and not self._is_of(row, from_higher, group):
                slot = (slot + 1) & self.table_mask
                group = self.table[slot] - 1
            if group < 0:
                group = self.count
                self.count += 1
                self.table[slot] = group + 1
                self.firsts[group] = row
            self.lanes[row] = 2 * group + from_higher

    def _is_from_higher(self, row: int) -> bool:
        """Return true if the source of a segment is above its destination."""
        if self.source_highs[row] != self.destination_highs[row]:
            return self.source_highs[row] > self.destination_highs[row]
        if self.source_lows[row] != self.destination_lows[row]:
            return self.source_lows[row] > self.destination_lows[row]
        return self.source_ports[row] > self.destination_ports[row]

    def _hash(self, row: int, from_higher: bool) -> int:
        source = end_hash(self.source_highs[row], self.source_lows[row], self.source_ports[row])
        destination = end_hash(
            self.destination_highs[row], self.destination_lows[row], self.destination_ports[row]
        )
        both = destination * MIX_OTHER ^ source if from_higher else source * MIX_OTHER ^ destination
        both = (both & LOW_64_BITS) * MIX_ONE & LOW_64_BITS
        return both >> 32

    def _is_of(self, row: int, from_higher: bool, group: int) -> bool:
        """Return true if a segment has the two ends of a group."""
        first = self.firsts[group]
        if self.ipv6s[row] != self.ipv6s[first]:
            return False
        if from_higher == self.lanes[first] & 1:
            return (
                self.source_ports[row] == self.source_ports[first]
                and self.source_lows[row] == self.source_lows[first]
                and self.destination_ports[row] == self.destination_ports[first]
                and self.destination_lows[row] == self.destination_lows[first]
                and self.source_highs[row] == self.source_highs[first]
                and self.destination_highs[row] == self.destination_highs[first]
            )
        return (
            self.source_ports[row] == self.destination_ports[first]
            and self.source_lows[row] == self.destination_lows[first]
            and self.destination_ports[row] == self.source_ports[first]
            and self.destination_lows[row] == self.source_lows[first]
            and self.source_highs[row] == self.destination_highs[first]
            and self.destination_highs[row] == self.source_highs[first]
        )

    def _sort(self, rows: int) -> None:
        """Sort the segments by group and sender, stably (a counting sort)."""
        ends = memoryview(array("q", bytes(8 * 2 * self.count)))
        for row in range(rows):
            ends[self.lanes[row]] += 1
        total = 0
        for group in range(self.count):
            self.starts[group] = total
            sent = ends[2 * group]
            ends[2 * group] = total
            total += sent
            self.middles[group] = total
            sent = ends[2 * group + 1]
            ends[2 * group + 1] = total
            total += sent
        self.starts[self.count] = total
        for row in range(rows):
            lane = self.lanes[row]
            self.orders[ends[lane]] = row
            ends[lane] += 1


def end_hash(high: int, low: int, port: int) -> int:
    """Return the 64-bit hash of one end."""
    both = (SEED ^ high) * MIX_ONE & LOW_64_BITS
    both = (both ^ both >> 29 ^ low) * MIX_OTHER & LOW_64_BITS
    both = (both ^ both >> 32 ^ port) * MIX_ONE & LOW_64_BITS
    return both ^ both >> 29
