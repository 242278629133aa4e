"""One TCP connection: both directions, its opening and its close, and what is measured of it.

In: segments of one pair of endpoints in the order of the capture. Out: a
:class:`~kanalyze.model.streams.StreamUpdate`; handshake, round trips and unusual packets in a
:class:`~kanalyze.model.tcp.TcpMeasures`, which explains them.

Which segments belong to an open connection, and which begin another one (RFC 9293, section 3.5):

- A SYN with the sequence number of the first one repeats it. Any other SYN begins a new connection,
  unless it was captured late or crosses the other end's SYN (a simultaneous open).
- A RST closes the connection at once. A FIN closes one direction; when both FINs are acknowledged,
  the connection is closed and missing bytes will not come any more.
- Payload far outside of any window is dropped. If several such segments come in a row, they are a
  new connection on the same ports whose SYN was not captured.

A connection with nothing but a SYN is half open: of a port scan, a SYN flood, or to a broker that
is down. A flood begins a hundred thousand of them in a second. Each is a record of a few numbers
until its next segment; most never have one.

What is measured counts in relative sequence numbers, which begin with the first number seen and do
not wrap. A sequence number is turned into the relative number that is nearest to the last one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, from_wide, items, wide
from kanalyze.common.saved import Saved, load, make, save
from kanalyze.model.packets import known_time
from kanalyze.model.streams import StreamUpdate
from kanalyze.model.tcp import TcpConnection, TcpMeasures
from kanalyze.net.tcp.half_stream import HalfStream, StreamWriter
from kanalyze.net.tcp.limits import BUFFERED_SEGMENT_BYTES
from kanalyze.net.tcp.segment_iterator import Segment, check_pair, key_endpoint, new_segment

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME
    from kanalyze.model.tcp import PACKETS, PAYLOAD_BYTES
    from kanalyze.net.segment_columns import ACK, FIN, RST, SYN
    from kanalyze.net.tcp.half_stream import distance
    from kanalyze.net.tcp.segment_iterator import CONTROL, IS_COPY, IS_ZERO_WINDOW

    # Segments of a direction that wait for their acknowledgment: 6 MB of data at 1,460 bytes each.
    # Beyond, the oldest gives no sample.
    MAX_TIMED_SEGMENTS = 4096

MIN_CELLS = 16
NOTHING_SEEN = -1  # in place of a sequence number
_NO_SPAN = NOTHING_SEEN, NOTHING_SEEN

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import Segments, StreamItem
    from kanalyze.model.tcp import ConnectionEnd, RoundTrips
    from kanalyze.net.layer_stats import LayerStats
    from kanalyze.net.tcp.limits import ReassemblyLimits
    from kanalyze.net.tcp.segment_iterator import Pair, SegmentIterator

AT_END, IS_ANOTHER, IS_OVER = range(3)
"""Where :meth:`OpenConnection.feed` stopped."""
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


class OpenConnection:
    """Both directions of a connection. Its first segment is passed to :meth:`feed` afterwards."""

    _NOT_SAVED = ("_limits", "_stats", "_writers", "update")

    def __init__(
        self,
        pair: Pair,
        first: Segment,
        number: int,
        limits: ReassemblyLimits,
        stats: LayerStats,
        all_timed: TimedSegments | None = None,
    ) -> None:
        """``first`` sets the ends and times; ``all_timed`` is None where nothing is measured."""
        lower, higher = key_endpoint(pair[0]), key_endpoint(pair[1])
        from_higher = bool(first.from_higher)
        self.pair = pair
        self.tcp = TcpConnection(
            serial=0,
            endpoints=(higher, lower) if from_higher else (lower, higher),
            connection_number=number,
            opened_by=None,
            first_time_ns=first.time_ns,
            last_time_ns=first.time_ns,
            first_packet=first.packet,
        )
        self.lower = HalfStream(self.tcp, int(from_higher), limits, stats)
        """The direction from the lower end of the pair."""
        self.higher = HalfStream(self.tcp, int(not from_higher), limits, stats)
        self.meter: Meter | None = None
        if all_timed is not None:
            self.tcp.measures = TcpMeasures()
            indices = (int(from_higher), int(not from_higher))
            self.meter = Meter(self.tcp.measures, indices, all_timed)
        self.active_tick = 0
        """The tick of :class:`~kanalyze.net.tcp.connection_table.IdleTimer` at its last segment."""
        self.update: StreamUpdate | None = None
        """What the current batch has added so far."""
        self._writers: tuple[StreamWriter, StreamWriter] | None = None
        self._limits = limits
        self._stats = stats

    def state(self, _context: object) -> State:
        """Return what :meth:`from_state` takes, with the state of :attr:`tcp`."""
        meter = None if self.meter is None else save(self.meter)
        parts = save(self.tcp), save(self.lower), save(self.higher), meter
        return (*map(wide, self.pair), self.lower.index, self.active_tick, *parts)

    @classmethod
    def from_state(
        cls,
        state: object,
        limits: ReassemblyLimits,
        stats: LayerStats,
        all_timed: TimedSegments | None = None,
    ) -> OpenConnection:
        """Make one from a state; raises ValueError for any other value."""
        lower_end, higher_end, index, tick, tcp, lower, higher, meter = fields(state, "**nntttT")
        if index > 1 or (meter is None) != (all_timed is None):
            raise ValueError("no end of a connection, or measured by one run alone")
        pair = from_wide(lower_end), from_wide(higher_end)
        check_pair(pair)
        first = new_segment(0, 0, 0, 0, 0, 0, 0, 0, 0, index)
        connection = cls(pair, first, 0, limits, stats)
        connection._replace_tcp(make(TcpConnection, tcp), index, all_timed)
        connection.active_tick = tick
        load(connection.lower, lower)
        load(connection.higher, higher)
        if connection.meter is not None:
            load(connection.meter, meter)
        return connection

    def _replace_tcp(self, tcp: TcpConnection, index: int, all_timed: TimedSegments | None) -> None:
        """Continue a connection of an earlier run; ``index`` is that of its lower end."""
        if tcp.endpoints != self.tcp.endpoints or (tcp.measures is None) != (all_timed is None):
            raise ValueError("a connection of other ends, or measured by one run alone")
        self.tcp = tcp
        self.lower = HalfStream(tcp, index, self._limits, self._stats)
        self.higher = HalfStream(tcp, 1 - index, self._limits, self._stats)
        if all_timed is not None and tcp.measures is not None:
            self.meter = Meter(tcp.measures, (index, 1 - index), all_timed)

    @property
    def last_time_ns(self) -> int:
        """Time of its last segment."""
        return self.tcp.last_time_ns

    @property
    def half_streams(self) -> tuple[HalfStream, HalfStream]:
        """The half stream of the lower end of the pair, then that of the higher end."""
        return self.lower, self.higher

    def is_in_order(self) -> bool:
        """Return true if no direction has a hole, a FIN or a segment out of the window."""
        return self.lower.is_in_order() and self.higher.is_in_order()

    def is_over(self) -> bool:
        """Return true if no more payload can come: a RST, or both FINs acknowledged."""
        if self.lower.fin_acknowledged and self.higher.fin_acknowledged:
            return True
        return bool(self.tcp.reset)

    @property
    def buffered_bytes(self) -> int:
        """Payload buffered behind holes, in both directions."""
        return self.lower.buffer.payload_bytes + self.higher.buffer.payload_bytes

    @property
    def buffered_memory_bytes(self) -> int:
        """Approximate memory of this payload."""
        count = len(self.lower.buffer.segments) + len(self.higher.buffer.segments)
        return self.buffered_bytes + count * BUFFERED_SEGMENT_BYTES

    def writers(self, shared: Segments) -> tuple[StreamWriter, StreamWriter]:
        """Return the writers of the current batch's update, ordered as :attr:`half_streams`."""
        if self._writers is None:
            if self.update is None:
                empty: tuple[list[StreamItem], list[StreamItem]] = ([], [])
                self.update = StreamUpdate(self.tcp, empty, closed=False)
            items = self.update.items
            for_lower = StreamWriter(items[self.lower.index], shared)
            self._writers = for_lower, StreamWriter(items[self.higher.index], shared)
        return self._writers

    def end_writing(self) -> None:
        """Complete the items of the current update."""
        if self._writers is not None:
            for_lower, for_higher = self._writers
            for_lower.flush()
            for_higher.flush()
            self._writers = None

    def close(self, shared: Segments, end: ConnectionEnd) -> StreamUpdate:
        """Deliver the buffered bytes, with gaps; return the connection's last update.

        ``end`` is the reason, unless both ends had sent a FIN.
        """
        lower, higher = self.lower, self.higher
        both_sent_fin = lower.fin_offset is not None and higher.fin_offset is not None
        self.tcp.end = "fin" if both_sent_fin and not self.tcp.reset else end
        for_lower, for_higher = self.writers(shared)
        lower.end(for_lower)
        higher.end(for_higher)
        self.end_writing()
        if self.meter is not None:
            self.meter.drop_timed()
        update = self.update
        assert update is not None  # the writers made it
        update.closed = True
        return update

    def feed(self, iterator: SegmentIterator) -> int:
        """Take segments, up to one that begins another connection or closes this one.

        Returns :data:`AT_END`, :data:`IS_ANOTHER` or :data:`IS_OVER`. The iterator stays at that
        segment. A segment of another connection is not taken.
        """
        while True:
            self._pass_in_order(iterator)
            if iterator.at_end:
                return AT_END
            if may_repeat(iterator, self.higher if iterator.from_higher else self.lower):
                iterator.mark_duplicate()
            if not self.receive(iterator.segment(), iterator.shared):
                return IS_ANOTHER
            if self.is_over():
                return IS_OVER
            iterator.advance()

    def _pass_in_order(self, iterator: SegmentIterator) -> None:
        """Read the segments that are in order, up to one that needs the slow path.

        That is one with a SYN, FIN or RST, a window of 0, or payload out of order; or one that is
        unusual to what is measured. The iterator stays there, or at its end.
        """
        lower, higher, meter = self.lower, self.higher, self.meter
        if not self.is_in_order():
            return
        for_lower, for_higher = self.writers(iterator.shared)
        last_time_ns = self.tcp.last_time_ns
        lower_packets = higher_packets = lower_bytes = higher_bytes = 0
        while not iterator.at_end:
            row = iterator.row
            flags, length = iterator.flags[row], iterator.lengths[row]
            from_higher = iterator.from_higher
            mine = higher if from_higher else lower
            if not is_next(iterator, mine):
                break
            if meter is not None and not is_usual(iterator, mine, meter):
                break
            if length:
                writer = for_higher if from_higher else for_lower
                writer.whole(mine.stream_offset, iterator.rank)
                if iterator.captured[row] < length:
                    mine.snapped(
                        mine.stream_offset,
                        length,
                        iterator.captured[row],
                        iterator.times[row],
                        iterator.numbers[row],
                    )
                mine.stream_offset += length
                mine.next_sequence = (mine.next_sequence + length) & SEQUENCE_MASK
                if not mine.timer.is_timed:
                    mine.timer.begin(mine.next_sequence, iterator.times[row])
            if flags & ACK:
                other = lower if from_higher else higher
                other.note_ack(
                    iterator.acknowledgments[row],
                    length > 0,
                    iterator.times[row],
                    iterator.numbers[row],
                )
            if meter is not None:
                meter.time(
                    from_higher,
                    flags,
                    iterator.sequences[row],
                    length,
                    iterator.acknowledgments[row],
                    iterator.times[row],
                )
            if from_higher:
                higher_packets += 1
                higher_bytes += length
            else:
                lower_packets += 1
                lower_bytes += length
            last_time_ns = max(last_time_ns, iterator.times[row])
            iterator.advance()
        if lower_packets or higher_packets:
            self.tcp.add(PACKETS, lower.index, lower_packets)
            self.tcp.add(PAYLOAD_BYTES, lower.index, lower_bytes)
            self.tcp.add(PACKETS, higher.index, higher_packets)
            self.tcp.add(PAYLOAD_BYTES, higher.index, higher_bytes)
            self.tcp.last_time_ns = last_time_ns

    def receive(self, segment: Segment, shared: Segments) -> bool:
        """Add a segment; return false, without adding it, if it begins another connection."""
        flags = segment.flags
        mine = self.higher if segment.from_higher else self.lower
        other = self.lower if segment.from_higher else self.higher
        for_lower, for_higher = self.writers(shared)
        writer = for_higher if segment.from_higher else for_lower
        if flags & ACK and not flags & RST:
            other.note_ack(
                segment.acknowledgment, segment.length > 0, segment.time_ns, segment.packet
            )
        if segment.marks & IS_ZERO_WINDOW:
            self.tcp.path.add_zero_window(mine.index, segment.time_ns, segment.packet)
        if not flags & CONTROL and mine.is_in_order() and other.is_in_order():
            if not segment.length:
                self._count(segment, mine, False)
                return True
            if segment.sequence == mine.next_sequence and mine.started:
                mine.add(segment, mine.stream_offset, writer)
                self._count(segment, mine, False)
                return True
        return self._receive_out_of_order(segment, mine, other, for_lower, for_higher)

    def _receive_out_of_order(
        self,
        segment: Segment,
        mine: HalfStream,
        other: HalfStream,
        for_lower: StreamWriter,
        for_higher: StreamWriter,
    ) -> bool:
        """Add a segment with a SYN, FIN or RST, one out of order, or one while others are buffered.

        Returns false, without adding it, if it begins another connection.
        """
        flags = segment.flags
        if mine.has_hole() or other.has_hole():
            self.lower.age(segment.time_ns, for_lower)
            self.higher.age(segment.time_ns, for_higher)
        if flags & SYN:
            if is_later_syn(segment, mine, other):
                return False
            note_syn(self.tcp, segment, mine, other)
            mine.timer.begin_syn(segment.sequence + 1, segment.time_ns)
        is_out_of_window = False
        if (segment.length or flags & FIN) and not flags & RST:
            writer = for_higher if segment.from_higher else for_lower
            is_out_of_window = not self._take_bytes(segment, mine, writer)
            if mine.out_of_window > self._limits.out_of_window_segments:
                return False
        if mine.has_hole() or other.has_hole():
            self.lower.count_segment(segment.time_ns, for_lower)
            self.higher.count_segment(segment.time_ns, for_higher)
        if flags & ACK:
            other.acknowledge(segment.acknowledgment, segment.time_ns)
        self._count(segment, mine, is_out_of_window)
        return True

    def _take_bytes(self, segment: Segment, mine: HalfStream, out: StreamWriter) -> bool:
        """Add payload or a FIN; return false, without adding it, if it is out of the window."""
        first = segment.sequence + (1 if segment.flags & SYN else 0)
        if not mine.started:
            mine.start(first, False)
        stream_offset = mine.offset_of(first)
        end = stream_offset + segment.length
        if mine.is_out_of_window(stream_offset, end):
            self._stats.counters.out_of_window_packets += 1
            self._stats.counters.out_of_window_bytes += segment.length
            mine.out_of_window += 1
            return False
        mine.out_of_window = 0
        if segment.length:
            mine.add(segment, stream_offset, out)
        if segment.flags & FIN:
            mine.finish_at(end)
        return True

    def _count(self, segment: Segment, mine: HalfStream, is_out_of_window: bool) -> None:
        tcp, index = self.tcp, mine.index
        tcp.add(PACKETS, index, 1)
        tcp.add(PAYLOAD_BYTES, index, segment.length)
        if segment.time_ns > tcp.last_time_ns:
            tcp.last_time_ns = segment.time_ns
        if segment.flags & RST:
            tcp.reset = True
        if segment.flags & (FIN | RST) and tcp.closed_by is None:
            tcp.closed_by = index
        if self.meter is not None and tcp.measures is not None:
            is_empty_probe = not segment.length and mine.is_probe(
                segment, mine.offset_of(segment.sequence)
            )
            if is_empty_probe and not segment.marks & IS_COPY:
                tcp.measures.keep_alive_packets[index] += 1
            is_last = bool(segment.flags & FIN) and mine.fin_offset is not None
            self.meter.take(segment, is_out_of_window, is_last)


def is_next(iterator: SegmentIterator, mine: HalfStream) -> bool:
    """Return true if a segment has no SYN, FIN, RST or window of 0, and its payload comes next."""
    row = iterator.row
    if iterator.flags[row] & CONTROL or not iterator.windows[row]:
        return False
    if not iterator.lengths[row]:
        return True
    return bool(mine.started) and iterator.sequences[row] == mine.next_sequence


def is_usual(iterator: SegmentIterator, mine: HalfStream, meter: Meter) -> bool:
    """Return true if only round trips and counts are measured of a segment.

    It is no duplicate, does not end the handshake, and cannot be a keep-alive probe.
    """
    row = iterator.row
    if iterator.marks is not None and iterator.marks[row]:
        return False
    if not iterator.lengths[row] and iterator.sequences[row] != mine.next_sequence:
        return False
    return meter.awaited is None or meter.awaited != iterator.from_higher


def may_repeat(iterator: SegmentIterator, mine: HalfStream) -> bool:
    """True if a duplicate check is needed: a copy of this segment would be counted wrongly."""
    row = iterator.row
    if not iterator.windows[row]:
        return True
    if not iterator.lengths[row] or not mine.started:
        return False
    return mine.offset_of(iterator.sequences[row]) < mine.furthest()


def is_later_syn(segment: Segment, mine: HalfStream, other: HalfStream) -> bool:
    """Return true if a SYN begins a later connection than that of the half stream ``mine``."""
    is_answer = bool(segment.flags & ACK)
    if mine.started:
        if distance(segment.sequence + 1, mine.first_sequence) == 0:
            return False
        # A server that keeps no state until the handshake is done (SYN cookies) may send another
        # SYN-ACK, with another sequence number.
        return not (is_answer and is_untouched(mine))
    if is_answer and other.started:
        return not 0 <= other.offset_of(segment.acknowledgment) <= other.stream_offset
    is_crossing = other.has_syn and is_untouched(other)
    return other.started and not is_crossing


def note_syn(tcp: TcpConnection, segment: Segment, mine: HalfStream, other: HalfStream) -> None:
    """Take the SYN of a connection, or the answer to it."""
    is_answer = bool(segment.flags & ACK)
    if is_untouched(mine):
        mine.start(segment.sequence + 1, True)
    mine.note_syn(segment.sequence + 1)
    if tcp.opened_by is None:
        tcp.opened_by = other.index if is_answer else mine.index
    if is_answer and not other.started:
        other.start(segment.acknowledgment, True)


def is_untouched(half: HalfStream) -> bool:
    """Return true if a half stream has no payload yet."""
    return half.stream_offset == 0 and not half.has_hole()


class ClosedConnection:
    """The last connection that closed on a pair of endpoints, as far as later packets need it.

    Attributes:
        late: number of segments with payload since the close.
        lower_first, lower_end, higher_first, higher_end: of the streams of the lower and the higher
            end, the sequence numbers of the first byte and after the last byte; ``NOTHING_SEEN``
            where nothing was seen.
    """

    def __init__(
        self,
        number: int,
        closed_ns: int,
        lower: tuple[int, int] | None = None,
        higher: tuple[int, int] | None = None,
    ) -> None:
        self.number = number
        self.closed_ns = closed_ns
        self.late = 0
        self.lower_first, self.lower_end = _NO_SPAN if lower is None else lower
        self.higher_first, self.higher_end = _NO_SPAN if higher is None else higher

    def state(self, _context: object) -> State:
        """Return what :meth:`from_state` takes."""
        return self.number, self.closed_ns, self.late, self.span(False), self.span(True)

    @classmethod
    def from_state(cls, state: object, _context: object) -> ClosedConnection:
        """Make one from a state; raises ValueError for any other value."""
        number, closed_ns, late, *spans = fields(state, "ninTT")
        for span in spans:
            if span is not None and max(fields(span, "nn")) > SEQUENCE_MASK:
                raise ValueError("no sequence numbers")
        closed = cls(number, closed_ns, *spans)
        closed.late = late
        return closed

    def span(self, of_higher: bool) -> tuple[int, int] | None:
        """Return the sequence numbers of one end, of the first byte and after the last."""
        first = self.higher_first if of_higher else self.lower_first
        if first == NOTHING_SEEN:
            return None
        return first, self.higher_end if of_higher else self.lower_end


class HalfOpenConnection:
    """A connection with a SYN and nothing else, on a pair of endpoints."""

    _SAVED = Saved(
        "pair:*(wide,wide) number:count active_tick:count serial:count sequence:u32 "
        "acknowledgment:u32 flags:u16 time_ns:int packet:count from_higher:end marks:u16"
    )

    def __init__(self, pair: Pair, number: int, syn: Segment, active_tick: int) -> None:
        """``number`` and ``active_tick`` are as in an open connection."""
        self.pair = pair
        self.number = number
        self.active_tick = active_tick
        self.serial = 0
        self.sequence = syn.sequence
        self.acknowledgment = syn.acknowledgment
        self.flags = syn.flags
        self.time_ns = syn.time_ns
        self.packet = syn.packet
        self.from_higher = syn.from_higher
        self.marks = syn.marks

    def _after_load(self) -> None:
        check_pair(self.pair)

    @property
    def last_time_ns(self) -> int:
        """Time of its only segment."""
        return self.time_ns

    @property
    def syn(self) -> Segment:
        """The SYN, as :meth:`OpenConnection.receive` takes it."""
        return new_segment(
            self.sequence,
            self.acknowledgment,
            self.flags,
            0,
            0,
            0,
            self.time_ns,
            self.packet,
            0,
            self.from_higher,
            self.marks,
        )

    def close(self, end: ConnectionEnd, *, measure: bool) -> StreamUpdate:
        """Return the last update, as of an open connection that received only the SYN."""
        lower, higher = key_endpoint(self.pair[0]), key_endpoint(self.pair[1])
        tcp = TcpConnection(
            self.serial,
            endpoints=(higher, lower) if self.from_higher else (lower, higher),
            connection_number=self.number,
            opened_by=0,
            first_time_ns=self.time_ns,
            last_time_ns=self.time_ns,
            first_packet=self.packet,
            start_seen=(True, False),
            measures=self._measures() if measure else None,
        )
        tcp.add(PACKETS, 0, 1)
        tcp.end = end
        return StreamUpdate(tcp, ([], []), closed=True)

    def _measures(self) -> TcpMeasures:
        measures = TcpMeasures()
        indices = (int(self.from_higher), 1 - self.from_higher)
        Meter(measures, indices, TimedSegments()).take(self.syn, False, False)
        return measures
