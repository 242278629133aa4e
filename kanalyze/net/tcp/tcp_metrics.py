"""What is measured of one connection, segment by segment: handshake, round trips, unusual packets.

In: segments of a connection in the order of the capture. Out: figures in a
:class:`~kanalyze.model.tcp.TcpMeasures`, which explains them.

Relative sequence numbers count from the first number seen and do not wrap. A sequence number is
turned into the relative number that is nearest to the last one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved
from kanalyze.model.packets import known_time

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME
    from kanalyze.net.segment_columns import ACK, FIN, RST, SYN
    from kanalyze.net.tcp.half_stream import distance
    from kanalyze.net.tcp.segment_iterator import CONTROL, IS_COPY, IS_ZERO_WINDOW

    # Segments of a direction that wait for their acknowledgment: 6 MB of data at 1,460 bytes each.
    # Beyond, the oldest gives no sample.
    MAX_TIMED_SEGMENTS = 4096
    MIN_CELLS = 16

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.tcp import RoundTrips, TcpMeasures
    from kanalyze.net.tcp.segment_iterator import Segment

__all__ = ["MAX_TIMED_SEGMENTS", "Meter", "RoundTripTimer", "TimedSegments"]

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
        if not count == len(ends) == len(times) <= MAX_TIMED_SEGMENTS:
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
        if self.last - self.first == MAX_TIMED_SEGMENTS:
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
    new_cells = memoryview(array("q", [0]) * room)
    for index in range(first, last):
        new_cells[index - first] = cells[index]
    return new_cells


class Meter:
    """Measures one connection. Ends are those of the pair: 0 the lower, 1 the higher."""

    _NOT_SAVED = ("indices", "measures")
    _SAVED = Saved(
        "awaited:end? _expected:count? _is_simultaneous:bool lower_timer:here higher_timer:here"
    )

    def __init__(
        self, measures: TcpMeasures, indices: tuple[int, int], all_timed: TimedSegments
    ) -> None:
        """``indices`` are the lower and the higher end's indices in ``endpoints``."""
        self.measures = measures
        self.indices = indices
        lower, higher = indices
        self.lower_timer = RoundTripTimer(measures.round_trips[lower], all_timed)
        """Of the data that the lower end sent."""
        self.higher_timer = RoundTripTimer(measures.round_trips[higher], all_timed)
        self.awaited: int | None = None
        """The end whose next segment ends the handshake; None if it is over, or was not seen."""
        self._expected: int | None = None
        """Acknowledgment number that ends the handshake; None before the SYN-ACK was seen."""
        self._is_simultaneous = False

    def drop_timed(self) -> None:
        """Forget the segments that wait for their acknowledgment; they give no sample."""
        self.lower_timer.drop_all()
        self.higher_timer.drop_all()

    def take(self, segment: Segment, is_out_of_window: bool, is_last: bool) -> None:
        """Take a segment.

        Args:
            segment: one of the connection.
            is_out_of_window: if true, only its flags and window count.
            is_last: the stream ends with its FIN, which takes a sequence number.
        """
        from_higher = segment.from_higher
        index = self.indices[from_higher]
        flags = segment.flags
        if segment.marks & IS_COPY:
            self.measures.duplicate_packets[index] += 1
            return
        if segment.marks & IS_ZERO_WINDOW:
            self.measures.zero_window_packets[index] += 1
        if flags & CONTROL:
            self._take_control(segment, index)
        if from_higher == self.awaited and not flags & SYN:
            self._end_handshake(segment)
        if flags & RST or is_out_of_window:
            return
        first = segment.sequence + (1 if flags & SYN else 0)
        length = segment.length + (1 if is_last and segment.length else 0)
        self.time(from_higher, flags, first, length, segment.acknowledgment, segment.time_ns)

    def time(
        self,
        from_higher: int,
        flags: int,
        first: int,
        length: int,
        acknowledgment: int,
        time_ns: int,
    ) -> None:
        """Measure round trips.

        Args:
            from_higher: 1 if the higher end sent the segment, else 0.
            flags: the flags of TCP.
            first: sequence number of the first byte of payload.
            length: payload bytes, and the FIN if it follows them; 0 without payload.
            acknowledgment: acknowledgment number.
            time_ns: Unix time in ns.
        """
        if flags & ACK:
            other = self.lower_timer if from_higher else self.higher_timer
            other.acknowledge(acknowledgment, time_ns)
        if length:
            mine = self.higher_timer if from_higher else self.lower_timer
            mine.send(first & SEQUENCE_MASK, length, time_ns)

    def _take_control(self, segment: Segment, index: int) -> None:
        flags = segment.flags
        if flags & (FIN | RST) and self.measures.closed_time_ns is None:
            self.measures.closed_time_ns = known_time(segment.time_ns)
        if flags & RST:
            self.measures.reset_packets[index] += 1
        if flags & FIN:
            self.measures.fin_packets[index] += 1
        if flags & SYN:
            if flags & ACK:
                self._take_answer(segment, index)
            else:
                self._take_syn(segment, index)

    def _take_syn(self, segment: Segment, index: int) -> None:
        measures = self.measures
        if measures.opened_by is None:
            measures.opened_by = index
            self.awaited = segment.from_higher
        if measures.opened_by != index:
            # Simultaneous open: neither SYN answers the other.
            self._end_without_figures()
        elif measures.syn_time_ns is None:
            measures.syn_time_ns = None if self._is_simultaneous else known_time(segment.time_ns)
        else:
            measures.syn_retransmissions[index] += 1

    def _take_answer(self, segment: Segment, index: int) -> None:
        measures = self.measures
        if self._is_simultaneous:
            return
        if measures.opened_by is None:
            measures.opened_by = 1 - index
            self.awaited = 1 - segment.from_higher
        if measures.opened_by == index:
            self._end_without_figures()
        elif measures.syn_ack_time_ns is None:
            measures.syn_ack_time_ns = known_time(segment.time_ns)
            self._expected = (segment.sequence + 1) & SEQUENCE_MASK
        else:
            measures.syn_retransmissions[index] += 1

    def _end_handshake(self, segment: Segment) -> None:
        """Read the opener's first segment after its SYN."""
        self.awaited = None
        flags = segment.flags
        if flags & ACK and not flags & RST and segment.acknowledgment == self._expected:
            self.measures.handshake_ack_time_ns = known_time(segment.time_ns)

    def _end_without_figures(self) -> None:
        self._is_simultaneous = True
        self.awaited = None
        self.measures.syn_time_ns = self.measures.syn_ack_time_ns = None
