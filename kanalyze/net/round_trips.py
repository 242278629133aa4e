"""Times from data to its acknowledgment in one direction of a connection, segment by segment.

In: segments with payload of one end, acknowledgments of the other, in the order of the capture.
Out: samples in a :class:`kanalyze.model.RoundTrips`. Must not know: streams, batches.

What a sample is stands there. Sequence numbers are turned into positions, which do not wrap, as
near as can be to the last that was seen.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kanalyze.net.direction import distance

if TYPE_CHECKING:
    from kanalyze.model import RoundTrips

__all__ = ["MAX_TIMED_SEGMENTS", "RoundTripTimer", "TimedSegments"]

MAX_TIMED_SEGMENTS: Final = 4096
"""Segments of a direction that wait for their acknowledgment: 6 MB at 1,460 bytes each. Beyond,
the oldest gives no sample."""


class TimedSegments:
    """How many segments wait for their acknowledgment, in all connections together."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class RoundTripTimer:
    """Times the data of one end. Positions are relative: 0 is the first sequence number seen."""

    __slots__ = (
        "acknowledged",
        "all_timed",
        "ends",
        "reference",
        "sent",
        "sequence",
        "starts",
        "sums",
        "times",
    )

    def __init__(self, sums: RoundTrips, all_timed: TimedSegments) -> None:
        self.sums = sums
        self.all_timed = all_timed
        self.sequence: int | None = None
        """The last sequence number that was news; None before the first."""
        self.reference = 0
        """Its position."""
        self.sent: int | None = None
        """Position after the last byte seen."""
        self.acknowledged: int | None = None
        """Position up to which all is acknowledged."""
        self.starts = array("q")
        """Of segments that wait for their acknowledgment, rising."""
        self.ends = array("q")
        self.times = array("q")
        """In ns."""

    def place(self, sequence: int) -> int:
        """Turn a sequence number into a position, the one nearest to the last that was news."""
        if self.sequence is None:
            self.sequence = sequence
        return self.reference + distance(sequence, self.sequence)

    def send(self, sequence: int, length: int, time_ns: int) -> None:
        """Take a segment of ``length`` above 0, with its FIN if it has one."""
        start = self.place(sequence)
        end = start + length
        if self.sent is not None and start < self.sent:
            self._forget(start, end)
            if end > self.sent:
                self._note_sent(sequence + length, end)
            return
        self._note_sent(sequence + length, end)
        if self.acknowledged is None or end > self.acknowledged:
            self.await_ends([start], [end], [time_ns])

    def acknowledge(self, sequence: int, time_ns: int) -> None:
        """Take an acknowledgment of everything before ``sequence``."""
        position = self.place(sequence)
        if self.acknowledged is not None and position <= self.acknowledged:
            return
        self.acknowledged = position
        if self.sent is None or position > self.sent:
            self.sequence, self.reference = sequence, position
        count = bisect_right(self.ends, position)
        if not count:
            return
        if self.ends[count - 1] == position and time_ns >= self.times[count - 1]:
            elapsed_ns = time_ns - self.times[count - 1]
            self.add(1, elapsed_ns, elapsed_ns, elapsed_ns)
        self.drop(count)

    def add(self, samples: int, total_ns: int, least_ns: int, most_ns: int) -> None:
        """Add samples, one or more, to the sums."""
        sums = self.sums
        sums.samples += samples
        sums.total_ns += total_ns
        sums.least_ns = least_ns if sums.least_ns is None else min(sums.least_ns, least_ns)
        sums.most_ns = most_ns if sums.most_ns is None else max(sums.most_ns, most_ns)

    def await_ends(self, starts: list[int], ends: list[int], times: list[int]) -> None:
        """Wait for the acknowledgments of some more segments, and of no more than the limit."""
        self.starts.extend(starts)
        self.ends.extend(ends)
        self.times.extend(times)
        self.all_timed.count += len(ends)
        if len(self.ends) > MAX_TIMED_SEGMENTS:
            self.drop(len(self.ends) - MAX_TIMED_SEGMENTS)

    def drop(self, count: int) -> None:
        """Wait no longer for the first ``count`` segments."""
        del self.starts[:count], self.ends[:count], self.times[:count]
        self.all_timed.count -= count

    def drop_all(self) -> None:
        """Wait for nothing any longer."""
        self.drop(len(self.ends))

    def move(self) -> None:
        """Take as reference the furthest that is known, after positions were set from outside."""
        known = [end for end in (self.sent, self.acknowledged) if end is not None]
        if known and self.sequence is not None:
            furthest = max(known)
            self.sequence = (self.sequence + furthest - self.reference) & 0xFFFF_FFFF
            self.reference = furthest

    def _note_sent(self, sequence: int, end: int) -> None:
        self.sent = end
        if self.acknowledged is None or end > self.acknowledged:
            self.sequence, self.reference = sequence & 0xFFFF_FFFF, end

    def _forget(self, start: int, end: int) -> None:
        """Give no sample of segments of which a byte was sent again."""
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end)
        if first < last:
            del self.starts[first:last], self.ends[first:last], self.times[first:last]
            self.all_timed.count -= last - first
