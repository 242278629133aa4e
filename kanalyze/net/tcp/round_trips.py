"""Times from data to its acknowledgment in one direction of a connection, segment by segment.

In: segments with payload of one end, acknowledgments of the other, in the order of the capture.
Out: samples in a :class:`kanalyze.model.RoundTrips`. Must not know: streams, batches.

What a sample is stands there. Sequence numbers are turned into positions, which do not wrap, as
near as can be to the last that was seen.

Compiled by Cython, with the types in ``round_trips.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.tcp.half_stream import distance

    MOST_TIMED = 4096

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.tcp import RoundTrips

__all__ = ["MAX_TIMED_SEGMENTS", "RoundTripTimer", "TimedSegments"]

MAX_TIMED_SEGMENTS: Final = 4096
"""Segments of a direction that wait for their acknowledgment: 6 MB at 1,460 bytes each. Beyond,
the oldest gives no sample."""
SEQUENCE_MASK = 0xFFFF_FFFF
MOST_PLACE: Final = 1 << 60
"""Of what is taken up again: no sum of two takes more than 63 bits."""


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
        "has_acknowledged",
        "has_sent",
        "has_sequence",
        "reference",
        "sent",
        "sequence",
        "starts",
        "sums",
        "times",
    )
    _LEFT_OUT = ("all_timed", "sums")

    def __init__(self, sums: RoundTrips, all_timed: TimedSegments) -> None:
        self.sums = sums
        self.all_timed = all_timed
        self.has_sequence = False
        self.sequence = 0
        """The last sequence number that was news, where there was one."""
        self.reference = 0
        """Its position."""
        self.has_sent = False
        self.sent = 0
        """Position after the last byte seen, where one was."""
        self.has_acknowledged = False
        self.acknowledged = 0
        """Position up to which all is acknowledged, where anything is."""
        self.starts = array("q")
        """Of segments that wait for their acknowledgment, rising."""
        self.ends = array("q")
        self.times = array("q")
        """In ns."""

    def state(self) -> State:
        """Return what :meth:`load_state` takes."""
        return (
            *(self.has_sequence, self.sequence, self.reference, self.has_sent, self.sent),
            *(self.has_acknowledged, self.acknowledged),
            *(tuple(self.starts), tuple(self.ends), tuple(self.times)),
        )

    def load_state(self, state: object) -> None:
        """Go on from a state, before anything was taken; raises ValueError where that is none."""
        values = fields(state, "bnibibittt")
        self.has_sequence, self.sequence, self.reference, self.has_sent, self.sent = values[:5]
        self.has_acknowledged, self.acknowledged = values[5:7]
        self.starts, self.ends, self.times = (array("q", items(each, "i")) for each in values[7:])
        count = len(self.starts)
        if not count == len(self.ends) == len(self.times) <= MOST_TIMED:
            raise ValueError("columns of times that are not of one length")
        if self.sequence > SEQUENCE_MASK or any(
            abs(place) > MOST_PLACE
            for place in (self.reference, self.sent, self.acknowledged, *self.starts, *self.ends)
        ):
            raise ValueError("a place beyond all streams")
        self.all_timed.count += count

    def place(self, sequence: int) -> int:
        """Turn a sequence number into a position, the one nearest to the last that was news."""
        if not self.has_sequence:
            self.has_sequence = True
            self.sequence = sequence
        return self.reference + distance(sequence, self.sequence)

    def send(self, sequence: int, length: int, time_ns: int) -> None:
        """Take a segment of ``length`` above 0, with its FIN if it has one."""
        start = self.place(sequence)
        end = start + length
        if self.has_sent and start < self.sent:
            self._forget(start, end)
            if end > self.sent:
                self._note_sent(sequence + length, end)
            return
        self._note_sent(sequence + length, end)
        if not self.has_acknowledged or end > self.acknowledged:
            self._await(start, end, time_ns)

    def acknowledge(self, sequence: int, time_ns: int) -> None:
        """Take an acknowledgment of everything before ``sequence``."""
        position = self.place(sequence)
        if self.has_acknowledged and position <= self.acknowledged:
            return
        self.has_acknowledged = True
        self.acknowledged = position
        if not self.has_sent or position > self.sent:
            self.sequence = sequence
            self.reference = position
        count = bisect_right(self.ends, position)
        if not count:
            return
        if self.ends[count - 1] == position and time_ns >= self.times[count - 1]:
            self._add(time_ns - self.times[count - 1])
        self._drop(count)

    def drop_all(self) -> None:
        """Wait for nothing any longer."""
        self._drop(len(self.ends))

    def _add(self, elapsed_ns: int) -> None:
        """Add a sample to the sums."""
        sums = self.sums
        sums.samples += 1
        sums.total_ns += elapsed_ns
        if sums.least_ns is None or elapsed_ns < sums.least_ns:
            sums.least_ns = elapsed_ns
        if sums.most_ns is None or elapsed_ns > sums.most_ns:
            sums.most_ns = elapsed_ns

    def _await(self, start: int, end: int, time_ns: int) -> None:
        """Wait for the acknowledgment of one more segment, and of no more than the limit."""
        self.starts.append(start)
        self.ends.append(end)
        self.times.append(time_ns)
        self.all_timed.count += 1
        if len(self.ends) > MOST_TIMED:
            self._drop(len(self.ends) - MOST_TIMED)

    def _drop(self, count: int) -> None:
        """Wait no longer for the first ``count`` segments."""
        if count:
            del self.starts[:count], self.ends[:count], self.times[:count]
            self.all_timed.count -= count

    def _note_sent(self, sequence: int, end: int) -> None:
        self.has_sent = True
        self.sent = end
        if not self.has_acknowledged or end > self.acknowledged:
            self.sequence = sequence & SEQUENCE_MASK
            self.reference = end

    def _forget(self, start: int, end: int) -> None:
        """Give no sample of segments of which a byte was sent again."""
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end)
        if first < last:
            del self.starts[first:last], self.ends[first:last], self.times[first:last]
            self.all_timed.count -= last - first
