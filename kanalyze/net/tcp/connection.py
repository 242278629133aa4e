"""One TCP connection: both directions, its opening and its close.

In: segments of one pair of endpoints in the order of the capture. Out: a
:class:`~kanalyze.model.streams.StreamUpdate`.

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
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields, from_wide, wide
from kanalyze.common.saved import Saved, load, make, save
from kanalyze.model.streams import StreamUpdate
from kanalyze.model.tcp import TcpConnection, TcpMeasures
from kanalyze.net.tcp.half_stream import HalfStream, StreamWriter
from kanalyze.net.tcp.limits import BUFFERED_SEGMENT_BYTES
from kanalyze.net.tcp.segment_iterator import Segment, check_pair, key_endpoint
from kanalyze.net.tcp.tcp_metrics import Meter, TimedSegments

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.segment_columns import ACK, FIN, RST, SYN
    from kanalyze.net.tcp.half_stream import distance
    from kanalyze.net.tcp.segment_iterator import CONTROL, IS_COPY, IS_ZERO_WINDOW

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import Segments, StreamItem
    from kanalyze.model.tcp import ConnectionEnd
    from kanalyze.net.layer_stats import LayerStats
    from kanalyze.net.tcp.limits import ReassemblyLimits
    from kanalyze.net.tcp.segment_iterator import Pair, SegmentIterator

__all__ = ["IS_ANOTHER", "IS_OVER", "HalfOpenConnection", "OpenConnection"]

AT_END, IS_ANOTHER, IS_OVER = range(3)
"""Where :meth:`OpenConnection.feed` stopped."""
SEQUENCE_MASK = 0xFFFF_FFFF


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
        first = Segment(0, 0, 0, 0, 0, 0, 0, 0, 0, index)
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
                    mine.anomalies.snapped(
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
            count_in_order(self.tcp, lower.index, lower_packets, lower_bytes)
            count_in_order(self.tcp, higher.index, higher_packets, higher_bytes)
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
        tcp.packets[index] += 1
        if segment.length:
            tcp.payload_bytes[index] += segment.length
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


def count_in_order(tcp: TcpConnection, index: int, packets: int, payload_bytes: int) -> None:
    """Count packets of one end that came in order."""
    if packets:
        tcp.packets[index] += packets
        tcp.payload_bytes[index] += payload_bytes


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
        return Segment(
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
            start_seen=[True, False],
            measures=self._measures() if measure else None,
        )
        tcp.packets[0] = 1
        tcp.end = end
        return StreamUpdate(tcp, ([], []), closed=True)

    def _measures(self) -> TcpMeasures:
        measures = TcpMeasures()
        indices = (int(self.from_higher), 1 - self.from_higher)
        Meter(measures, indices, TimedSegments()).take(self.syn, False, False)
        return measures
