"""Times from data to its acknowledgment in one direction of a connection, segment by segment.

In: segments with payload of one end, acknowledgments of the other, in the order of the capture.
Out: samples, as :class:`kanalyze.model.TcpMeasures` defines them, in a
:class:`kanalyze.model.RoundTrips`.

Relative sequence numbers count from the first number seen and do not wrap. A sequence number is
turned into the relative number that is nearest to the last one.
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
    from kanalyze.model.packets import NO_TIME
    from kanalyze.net.tcp.sequence_space import distance

    MAX_TIMED = 4096
    MIN_CELLS = 16

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.tcp import RoundTrips

__all__ = ["MAX_TIMED_SEGMENTS", "RoundTripTimer", "TimedSegments"]

MAX_TIMED_SEGMENTS: Final = 4096
"""Segments of a direction that wait for their acknowledgment: 6 MB of data at 1,460 bytes each.
Beyond, the oldest gives no sample."""
SEQUENCE_MASK = 0xFFFF_FFFF
NO_CELLS: Final = memoryview(array("q"))
MAX_RELATIVE: Final = 1 << 60
"""Largest relative number in a state: the sum of two fits into 63 bits."""


class TimedSegments:
    """How many segments wait for their acknowledgment, in all connections together."""

    def __init__(self) -> None:
        self.count = 0


class RoundTripTimer:
    """Times the data of one end, in relative sequence numbers."""

    _NOT_SAVED = ("all_timed", "sums")

    def __init__(self, sums: RoundTrips, all_timed: TimedSegments) -> None:
        self.sums = sums
        self.all_timed = all_timed
        self.has_sequence = False
        self.sequence = 0
        """The last new sequence number."""
        self.reference = 0
        """The relative number of :attr:`sequence`."""
        self.has_sent = False
        self.sent = 0
        """The relative number after the last byte seen."""
        self.has_acknowledged = False
        self.acknowledged = 0
        """The relative number up to which everything is acknowledged."""
        # The segments that wait: the first byte, the end and the time of each. ``[first, last)`` of
        # the cells are in use, and rise.
        self.starts = self.ends = self.times = NO_CELLS
        self.first = self.last = 0

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes."""
        return (
            *(self.has_sequence, self.sequence, self.reference, self.has_sent, self.sent),
            *(self.has_acknowledged, self.acknowledged),
            tuple(self.starts[self.first : self.last]),
            tuple(self.ends[self.first : self.last]),
            tuple(self.times[self.first : self.last]),
        )

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state before the first segment; raises ValueError for any other value."""
        values = fields(state, "bnibibittt")
        self.has_sequence, self.sequence, self.reference, self.has_sent, self.sent = values[:5]
        self.has_acknowledged, self.acknowledged = values[5:7]
        starts, ends, times = (items(part, "i") for part in values[7:])
        count = len(starts)
        if not count == len(ends) == len(times) <= MAX_TIMED:
            raise ValueError("columns of times that are not of one length")
        if self.sequence > SEQUENCE_MASK or any(
            abs(number) > MAX_RELATIVE
            for number in (self.reference, self.sent, self.acknowledged, *starts, *ends)
        ):
            raise ValueError("a relative sequence number beyond all streams")
        for start, end, time_ns in zip(starts, ends, times, strict=True):
            self._await(start, end, time_ns)

    def relative(self, sequence: int) -> int:
        """Turn a sequence number into the relative number nearest to the last new one."""
        if not self.has_sequence:
            self.has_sequence = True
            self.sequence = sequence
        return self.reference + distance(sequence, self.sequence)

    def send(self, sequence: int, length: int, time_ns: int) -> None:
        """Take a segment; ``length`` is above 0 and counts the FIN if it has one."""
        start = self.relative(sequence)
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
        relative = self.relative(sequence)
        if self.has_acknowledged and relative <= self.acknowledged:
            return
        self.has_acknowledged = True
        self.acknowledged = relative
        if not self.has_sent or relative > self.sent:
            self.sequence = sequence
            self.reference = relative
        until = self.first
        while until < self.last and self.ends[until] <= relative:
            until += 1
        if until == self.first:
            return
        sent_ns = self.times[until - 1]
        if self.ends[until - 1] == relative and time_ns >= sent_ns != NO_TIME:
            self.sums.add(time_ns - sent_ns)
        self._drop(until - self.first)

    def drop_all(self) -> None:
        """Stop waiting for acknowledgments."""
        self._drop(self.last - self.first)

    def _await(self, start: int, end: int, time_ns: int) -> None:
        """Wait for the acknowledgment of one more segment; above the limit, drop the oldest."""
        if self.last - self.first == MAX_TIMED:
            self._drop(1)
        if self.last == len(self.ends):
            self._make_room()
        self.starts[self.last] = start
        self.ends[self.last] = end
        self.times[self.last] = time_ns
        self.last += 1
        self.all_timed.count += 1

    def _make_room(self) -> None:
        """Move the cells in use to the beginning, of twice as many cells if half are in use."""
        count = self.last - self.first
        room = max(MIN_CELLS, 2 * count)
        self.starts = moved(self.starts, self.first, self.last, room)
        self.ends = moved(self.ends, self.first, self.last, room)
        self.times = moved(self.times, self.first, self.last, room)
        self.first, self.last = 0, count

    def _drop(self, count: int) -> None:
        """Stop waiting for the first ``count`` segments."""
        self.first += count
        self.all_timed.count -= count
        if self.first == self.last:
            self.first = self.last = 0

    def _note_sent(self, sequence: int, end: int) -> None:
        self.has_sent = True
        self.sent = end
        if not self.has_acknowledged or end > self.acknowledged:
            self.sequence = sequence & SEQUENCE_MASK
            self.reference = end

    def _forget(self, start: int, end: int) -> None:
        """Drop the segments that overlap with resent bytes: they give no sample."""
        first = bisect_right(self.ends, start, self.first, self.last)
        last = bisect_left(self.starts, end, self.first, self.last)
        dropped = last - first
        if dropped <= 0:
            return
        for index in range(last, self.last):
            self.starts[index - dropped] = self.starts[index]
            self.ends[index - dropped] = self.ends[index]
            self.times[index - dropped] = self.times[index]
        self.last -= dropped
        self.all_timed.count -= dropped


def moved(cells: memoryview, first: int, last: int, room: int) -> memoryview:
    """Return ``room`` new cells that begin with some of the old ones."""
    new_cells = memoryview(array("q", bytes(8 * room)))
    for index in range(first, last):
        new_cells[index - first] = cells[index]
    return new_cells
