"""One direction of a TCP connection: delivers its bytes in order, and reports missing ones.

In: segments in the order of the capture. Out: calls of a
:class:`~kanalyze.net.tcp.delivery.StreamWriter`.

If a byte comes more than once, the first copy counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.net.tcp.delivery import BufferedSegment
from kanalyze.net.tcp.path_timer import PathTimer
from kanalyze.net.tcp.reorder_buffer import ReorderBuffer
from kanalyze.net.tcp.sequence_space import SequenceSpace
from kanalyze.net.tcp.stream_anomalies import StreamAnomalies

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME
    from kanalyze.net.tcp.sequence_space import distance

    CONTROL = 1 | 2 | 4  # FIN, SYN, RST
    PAST_BYTES = 64 << 20
    IS_COPY = 1
    MIN_HOLE_NS = 3_000_000  # as Wireshark has it

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.layer_stats import LayerStats
    from kanalyze.net.tcp.delivery import Segment, StreamWriter
    from kanalyze.net.tcp.limits import ReassemblyLimits

__all__ = ["HalfStream"]

SEQUENCE_MASK = 0xFFFF_FFFF


class HalfStream(SequenceSpace):
    """The bytes that one end of a connection sent."""

    _NOT_SAVED = ()
    _SAVED = Saved(
        "self:SequenceSpace fin_acknowledged:bool out_of_window:count has_last_ack:bool "
        "last_ack:u32 last_ack_time_ns:int last_ack_packet:count anomalies:here buffer:here "
        "timer:here",
        SequenceSpace,
    )

    def __init__(
        self, connection: TcpConnection, index: int, limits: ReassemblyLimits, stats: LayerStats
    ) -> None:
        SequenceSpace.__init__(self, connection, index)
        self.anomalies = StreamAnomalies(connection, index, stats)
        self.buffer = ReorderBuffer(limits)
        """Segments behind a hole: all beyond :attr:`stream_offset`."""
        self.timer = PathTimer(connection.path.round_trips[index])
        """Measures round trips of what this end sends."""
        self.fin_acknowledged = False
        self.out_of_window = 0
        """Number of the latest segments in a row that are out of the window."""
        self.has_last_ack = False
        """Whether the receiver has acknowledged anything."""
        self.last_ack = self.last_ack_time_ns = self.last_ack_packet = 0
        """Sequence number, time and packet of the last acknowledgment."""

    def _after_load(self) -> None:
        segments = self.buffer.segments
        if segments and segments[0].stream_offset < self.stream_offset:
            raise ValueError("a buffered segment that was delivered")

    def is_in_order(self) -> bool:
        """True if the next bytes can be delivered at once: no hole, no FIN, in the window."""
        return not self.buffer.segments and self.fin_offset is None and not self.out_of_window

    def furthest(self) -> int:
        """Return the stream offset after the last byte that was seen."""
        if not self.buffer.segments:
            return self.stream_offset
        last = self.buffer.last()
        return last.stream_offset + last.length

    # -- segments ---------------------------------------------------------------------------------

    def add(self, segment: Segment, stream_offset: int, out: StreamWriter) -> None:
        """Add a segment's payload, which begins at a stream offset."""
        end = stream_offset + segment.length
        buffer = self.buffer
        if stream_offset == self.stream_offset and not buffer.segments:
            out.whole(stream_offset, segment.rank)
            self.advance(segment.length)
            if not self.timer.is_timed:
                self.timer.begin(self.next_sequence, segment.time_ns)
            self.anomalies.snapped(
                stream_offset, segment.length, segment.captured, segment.time_ns, segment.packet
            )
            return
        is_probe = self.is_probe(segment, stream_offset)
        is_behind = bool(buffer.segments) and stream_offset < buffer.last().stream_offset
        hole_since_ns = buffer.hole_since_ns
        repeated = self._add_out_of_order(segment, stream_offset, end, out, is_probe)
        if repeated:
            self.anomalies.repeated(segment, repeated, is_probe=is_probe)
        elif is_behind and end > 0:
            self.anomalies.out_of_order()
        if (repeated or is_behind) and not is_probe:
            self._note_again(segment, stream_offset, repeated > 0, hole_since_ns)
        while buffer.exceeds_limits():
            buffer.report_limit(self.stream_offset, self.anomalies)
            self.give_up(segment.time_ns, out)

    def _note_again(
        self, segment: Segment, stream_offset: int, is_repeated: bool, hole_since_ns: int
    ) -> None:
        """Note a retransmission: a packet with bytes seen before, or one that fills an old hole.

        A packet that fills a hole sooner was only captured in another order: a retransmission takes
        a round trip, for the receiver's duplicate acknowledgments.
        """
        if segment.marks & IS_COPY:
            return
        self.timer.cancel()
        is_late = hole_since_ns != NO_TIME and segment.time_ns - hole_since_ns > MIN_HOLE_NS
        if is_repeated or is_late:
            end = stream_offset + segment.length
            is_tail = is_repeated and end >= self.furthest()
            self.connection.path.add_retransmission(
                self.index, stream_offset, end, is_tail, segment.time_ns, segment.packet
            )

    def is_probe(self, segment: Segment, stream_offset: int) -> bool:
        """Return true if a segment is a keep-alive probe: at most one byte, before the next offset.

        A retransmission of a segment of one byte looks the same.
        """
        return (
            segment.length <= 1
            and stream_offset == self.furthest() - 1
            and not segment.flags & CONTROL
            and self.started
        )

    def _add_out_of_order(
        self,
        segment: Segment,
        stream_offset: int,
        end: int,
        out: StreamWriter,
        is_probe: bool,
    ) -> int:
        """Add payload out of order; return how many bytes of it had been seen before."""
        repeated = 0
        if stream_offset < self.stream_offset:
            last = min(end, self.stream_offset)
            repeated = last - stream_offset
            if not self.has_syn:
                repeated -= self.anomalies.before_start(stream_offset, last, is_probe)
            if end <= self.stream_offset:
                return repeated
            if not self.buffer.segments:
                skip = self.stream_offset - stream_offset
                out.trimmed(self.stream_offset, segment, skip)
                length = segment.length - skip
                captured = max(segment.captured - skip, 0)
                self.anomalies.snapped(
                    self.stream_offset, length, captured, segment.time_ns, segment.packet
                )
                self.advance(length)
                return repeated
        repeated += self.buffer.insert(
            segment, stream_offset, self.stream_offset, out.buffer, self.anomalies
        )
        self._drain(segment.time_ns, out)
        return repeated

    def finish_at(self, stream_offset: int) -> None:
        """Note a FIN at an offset; it is ignored if bytes after it were seen."""
        if self.fin_offset is None and stream_offset >= self.furthest():
            self.fin_offset = stream_offset

    # -- acknowledgments --------------------------------------------------------------------------

    def note_ack(self, acknowledgment: int, has_payload: bool, time_ns: int, packet: int) -> None:
        """Remember the receiver's last acknowledgment; it may end a timed round trip."""
        if self.timer.is_timed:
            newly = distance(acknowledgment, self.last_ack) if self.has_last_ack else 0
            self.timer.acknowledge(acknowledgment, newly, has_payload, time_ns, packet)
        self.has_last_ack = True
        self.last_ack = acknowledgment
        self.last_ack_time_ns = time_ns
        self.last_ack_packet = packet

    def acknowledge(self, sequence: int, time_ns: int) -> None:
        """Note that the receiver has everything before ``sequence``."""
        if not self.started:
            return
        stream_offset = self.offset_of(sequence)
        if self.fin_offset is not None and stream_offset > self.fin_offset:
            self.fin_acknowledged = True
        if not self.buffer.segments:
            return
        stream_offset = min(stream_offset, self.furthest())
        if stream_offset > self.stream_offset:
            self.buffer.acknowledge(stream_offset, time_ns)

    # -- holes ------------------------------------------------------------------------------------

    def age(self, now_ns: int, out: StreamWriter) -> None:
        """Give up the holes whose waiting time is over at ``now_ns``."""
        while self.buffer.is_overdue(now_ns):
            if self.buffer.is_expired(now_ns):
                self.give_up(self.buffer.segments[0].time_ns, out)
            else:
                self._give_up_acknowledged(now_ns, out)

    def count_segment(self, now_ns: int, out: StreamWriter) -> None:
        """Count a segment of the connection; after too many, give up an acknowledged hole."""
        if self.buffer.count_segment():
            self._give_up_acknowledged(now_ns, out)

    def _give_up_acknowledged(self, now_ns: int, out: StreamWriter) -> None:
        acknowledged = self.buffer.acknowledged
        while self.buffer.segments and self.stream_offset < acknowledged:
            self.give_up(now_ns, out)

    def give_up(self, now_ns: int, out: StreamWriter) -> None:
        """Turn the first hole into a gap and deliver the contiguous bytes behind it."""
        after = self.buffer.segments[0]
        self._lose(after.stream_offset - self.stream_offset, after, out)
        self._drain(now_ns, out)

    def give_up_all(self, out: StreamWriter) -> None:
        """Deliver all buffered bytes, with gaps: nothing more will come."""
        while self.buffer.segments:
            self.give_up(self.buffer.segments[0].time_ns, out)

    def lose_tail(self, out: StreamWriter) -> None:
        """Report the bytes missing at the end; called when nothing is buffered or will come.

        The sender's FIN says where the stream ends. Without it, the receiver's last acknowledgment
        says how far it went; if that is one more than was seen, it may be a FIN.
        """
        if not self.started or not self.has_last_ack:
            return
        end = self.offset_of(self.last_ack)
        if self.fin_offset is not None:
            end = self.fin_offset
        elif end == self.stream_offset + 1:
            return
        length = end - self.stream_offset
        if 0 < length <= PAST_BYTES:
            after = BufferedSegment(end, 0, b"", self.last_ack_time_ns, self.last_ack_packet)
            self._lose(length, after, out)

    def _lose(self, length: int, after: BufferedSegment, out: StreamWriter) -> None:
        """Report bytes as lost, up to ``after``."""
        self.anomalies.lost(self.stream_offset, length, after)
        out.gap(self.stream_offset, length, after)
        self.advance(length)

    def _drain(self, now_ns: int, out: StreamWriter) -> None:
        """Deliver the buffered bytes that come next, up to a new hole."""
        pieces = self.buffer.pop_contiguous(self.stream_offset, now_ns)
        if not pieces:
            return
        out.buffered(pieces)
        for piece in pieces:
            self.anomalies.snapped(
                piece.stream_offset, piece.length, len(piece.data), piece.time_ns, piece.packet
            )
            self.advance(piece.length)
