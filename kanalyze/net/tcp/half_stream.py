"""One direction of a TCP connection: delivers its bytes in order, and reports missing ones.

In: segments in the order of the capture. Out: chunks and gaps, as few as possible
(:class:`StreamWriter`); counts in the connection, anomalies of the layer
(:class:`StreamAnomalies`); round trips (:class:`PathTimer`).

If a byte comes more than once, the first copy counts. Sequence numbers (RFC 9293, section 3.4) have
32 bits and wrap. Stream offsets have 64 bits and do not; 0 is the first byte, the one after the
SYN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.streams import Chunk, Gap, Segments, chunk_of

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME
    from kanalyze.model.tcp import (
        DUPLICATE_BYTES,
        KEEP_ALIVE_BYTES,
        LOST_BYTES,
        OUT_OF_ORDER_PACKETS,
        RETRANSMITTED_BYTES,
        SNAPPED_BYTES,
    )
    from kanalyze.net.tcp.segment_iterator import CONTROL, IS_COPY

    # How far back a retransmission may reach: the largest window in use. TCP allows larger ones.
    PAST_WINDOW_BYTES = 64 << 20

LONG_RANGE = 8  # segments; copying the entries of shorter ranges costs less than a chunk each
FUTURE_BYTES = 1 << 30  # the largest window that TCP can announce (RFC 7323, section 2.3)
MIN_HOLE_NS = 3_000_000  # as Wireshark has it
MIN_DELAY_NS = 35_000_000  # 40 ms, less the inaccuracy of clocks and timers
UNDELAYED_BYTES = 17_920  # two segments of 8,960 bytes
MIN_SYN_TIMEOUT_NS = 200_000_000  # a SYN that is repeated sooner was captured twice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.model.streams import StreamItem
    from kanalyze.model.tcp import RoundTripHistory, TcpConnection
    from kanalyze.net.layer_stats import LayerStats
    from kanalyze.net.tcp.limits import ReassemblyLimits
    from kanalyze.net.tcp.segment_iterator import Segment

LONGEST_SEGMENT_BYTES: Final = 1 << 32
"""An IP header cannot give a larger length."""
SEQUENCE_MASK = 0xFFFF_FFFF
HALF = 1 << 31


def distance(later: int, earlier: int) -> int:
    """Return the bytes from ``earlier`` to ``later``; negative if ``later`` comes first."""
    return ((later - earlier + HALF) & SEQUENCE_MASK) - HALF


class SequenceSpace:
    """How far one end's stream has been delivered; ``index`` is that end in ``endpoints``."""

    _NOT_SAVED: tuple[str, ...] = ("connection", "index")
    _SAVED = Saved(
        "started:bool has_syn:bool first_sequence:u32 next_sequence:u32 stream_offset:count "
        "fin_offset:count?"
    )

    def __init__(self, connection: TcpConnection, index: int) -> None:
        self._begin(connection, index)

    def _begin(self, connection: TcpConnection, index: int) -> None:
        self.connection = connection
        self.index = index
        self.started = False
        self.has_syn = False
        self.first_sequence = 0
        """Sequence number of stream offset 0."""
        self.next_sequence = 0
        """Sequence number of the byte at :attr:`stream_offset`."""
        self.stream_offset = 0
        """Stream offset of the next byte to be delivered."""
        self.fin_offset: int | None = None
        """Stream offset after the last byte, once a FIN was seen."""

    def start(self, sequence: int, has_syn: bool) -> None:
        """Set the sequence number of the first byte of the stream."""
        self.started = True
        self.has_syn = has_syn
        self.first_sequence = self.next_sequence = sequence & SEQUENCE_MASK
        self.connection.start_stream(self.index, self.first_sequence, has_syn)

    def note_syn(self, first_sequence: int) -> None:
        """Note that the SYN was seen; it may come after the first bytes."""
        self.has_syn = True
        if distance(first_sequence, self.first_sequence) == 0:
            self.connection.see_start(self.index, True)

    def offset_of(self, sequence: int) -> int:
        """Turn a sequence number into the stream offset that is nearest to the next byte."""
        return self.stream_offset + distance(sequence, self.next_sequence)

    def is_out_of_window(self, begin: int, end: int) -> bool:
        """True if bytes cannot belong to this stream: beyond any window, or after its FIN."""
        ahead = begin - self.stream_offset
        if ahead > FUTURE_BYTES or ahead < -PAST_WINDOW_BYTES:
            return True
        if self.has_syn and begin < -1:  # -1: a keep-alive probe sends the byte before the first.
            return True
        return self.fin_offset is not None and end > self.fin_offset

    def span(self) -> tuple[int, int] | None:
        """Return the sequence numbers of the first byte and after the last; None if unknown."""
        if not self.started:
            return None
        return self.first_sequence, self.next_sequence

    def advance(self, length: int) -> None:
        """Count bytes as delivered."""
        self.stream_offset += length
        self.next_sequence = (self.next_sequence + length) & SEQUENCE_MASK


class BufferedSegment:
    """A copy of payload that is buffered while bytes before it are missing.

    Attributes:
        stream_offset: of its first byte.
        data: a copy of the captured bytes; may be shorter than ``length``.
    """

    _SAVED = Saved("stream_offset:count length:count data:bytes time_ns:int packet:count")

    def __init__(
        self, stream_offset: int, length: int, data: bytes, time_ns: int, packet: int
    ) -> None:
        self.stream_offset = stream_offset
        self.length = length
        self.data = data
        self.time_ns = time_ns
        self.packet = packet

    def _after_load(self) -> None:
        if not 0 < self.length <= LONGEST_SEGMENT_BYTES or len(self.data) > self.length:
            raise ValueError("a buffered segment with other bytes than its length")


class StreamWriter:
    """Collects the items of one direction in one batch.

    Whole segments that follow one another become one chunk. If they are neighbours in the
    ``shared`` segments of the batch, the chunk is a range of those; if they seldom are (every
    second one is a duplicate), it has copies of their columns.
    """

    def __init__(self, items: list[StreamItem], shared: Segments) -> None:
        self.items = items
        self._shared = shared
        # Whole segments that are not in the items yet: the stream offset of the first one, earlier
        # ranges of neighbours in shared, and the last range.
        self._offset = 0
        self._ranges: list[tuple[int, int]] = []
        self._first = self._last = -1

    @property
    def buffer(self) -> memoryview:
        """The buffer that segments point into."""
        return self._shared.buffer

    def whole(self, offset: int, rank: int) -> None:
        """Deliver a whole segment, ``shared[rank]``."""
        if rank == self._last:
            self._last += 1
            return
        if self._last < 0:
            self._offset = offset
        else:
            self._ranges.append((self._first, self._last))
        self._first = rank
        self._last = rank + 1

    def trimmed(self, offset: int, segment: Segment, skip: int) -> None:
        """Deliver a segment without its first ``skip`` bytes."""
        self.flush()
        segments = Segments(
            self._shared.buffer,
            [segment.start + skip],
            [segment.length - skip],
            [max(segment.captured - skip, 0)],
            [segment.time_ns],
            [segment.packet],
        )
        self.items.append(Chunk(offset, segments, 0, 1))

    def buffered(self, pieces: Sequence[BufferedSegment]) -> None:
        """Deliver buffered segments, which are contiguous."""
        self.flush()
        captured = [len(piece.data) for piece in pieces]
        start, total = [], 0
        for size in captured:
            start.append(total)
            total += size
        segments = Segments(
            memoryview(b"".join([piece.data for piece in pieces])),
            start,
            [piece.length for piece in pieces],
            captured,
            [piece.time_ns for piece in pieces],
            [piece.packet for piece in pieces],
        )
        self.items.append(Chunk(pieces[0].stream_offset, segments, 0, len(pieces)))

    def gap(self, offset: int, length: int, after: BufferedSegment) -> None:
        """Report bytes as missing, up to ``after``."""
        self.flush()
        self.items.append(Gap(offset, length, after.time_ns, after.packet))

    def flush(self) -> None:
        """Put the whole segments into the items; called last."""
        if self._last < 0:
            return
        if not self._ranges:
            self.items.append(chunk_of(self._offset, self._shared, self._first, self._last))
            self._first = self._last = -1
            return
        ranges = [*self._ranges, (self._first, self._last)]
        self._ranges = []
        self._first = self._last = -1
        count = sum([last - first for first, last in ranges])
        if count < LONG_RANGE * len(ranges):
            ranks = [rank for first, last in ranges for rank in range(first, last)]
            self.items.append(Chunk(self._offset, self._pick(ranks), 0, count))
            return
        offset = self._offset
        for first, last in ranges:
            self.items.append(Chunk(offset, self._shared, first, last))
            offset += sum(self._shared.length[first:last])

    def _pick(self, ranks: list[int]) -> Segments:
        shared = self._shared
        return Segments(
            shared.buffer,
            [shared.start[rank] for rank in ranks],
            [shared.length[rank] for rank in ranks],
            [shared.captured[rank] for rank in ranks],
            [shared.time_ns[rank] for rank in ranks],
            [shared.packet[rank] for rank in ranks],
        )


class ReorderBuffer:
    """Payload of one end beyond a hole; if it is empty, there is no hole."""

    _NOT_SAVED = (
        *("_acknowledged_hole_ns", "_acknowledged_hole_segments", "_hole_ns", "_most_bytes"),
        *("_most_segments", "payload_bytes"),
    )
    _SAVED = Saved(
        "hole_since_ns:int acknowledged:count acknowledged_since_ns:int "
        "acknowledged_segments:count segments:list[BufferedSegment]",
        BufferedSegment,
    )

    def __init__(self, limits: ReassemblyLimits) -> None:
        # Copies of the limits: as C integers they are read without making objects.
        self._hole_ns = limits.hole_ns
        self._acknowledged_hole_ns = limits.acknowledged_hole_ns
        self._acknowledged_hole_segments = limits.acknowledged_hole_segments
        self._most_bytes = limits.buffered_bytes_per_direction
        self._most_segments = limits.buffered_segments_per_direction
        self.segments: list[BufferedSegment] = []
        """In stream order, without overlaps."""
        self.payload_bytes = 0
        """Captured bytes of these segments."""
        self.hole_since_ns = 0
        """Time of the first segment after the current hole."""
        self.acknowledged = 0
        """Stream offset up to which the receiver has acknowledged, since there is a hole."""
        self.acknowledged_since_ns = 0
        self.acknowledged_segments = 0
        """Segments of the connection since that acknowledgment; 0 without one."""

    def _after_load(self) -> None:
        reached = 0
        for piece in self.segments:
            if piece.stream_offset < reached:
                raise ValueError("buffered segments that overlap")
            reached = piece.stream_offset + piece.length
        self.payload_bytes = sum([len(piece.data) for piece in self.segments])

    def exceeds_limits(self) -> bool:
        """Return true if more is buffered than one direction may hold."""
        return self.payload_bytes > self._most_bytes or len(self.segments) > self._most_segments

    def report_limit(self, stream: StreamAnomalies) -> None:
        """Report that too much is buffered behind the hole of a stream."""
        stream.limit(self.payload_bytes, self.segments[0])

    def last(self) -> BufferedSegment:
        """Return the last segment in stream order; the buffer must not be empty."""
        return self.segments[len(self.segments) - 1]

    def insert(
        self,
        segment: Segment,
        stream_offset: int,
        next_offset: int,
        source: memoryview,
        stream: StreamAnomalies,
    ) -> int:
        """Copy the new bytes of a segment; return how many of its bytes were seen before.

        Args:
            segment: a segment with payload.
            stream_offset: where it begins.
            next_offset: offset of the next byte to be delivered; bytes before it are left out.
            source: the buffer that the segment points into.
            stream: counts bytes that differ from the buffered ones.
        """
        end = stream_offset + segment.length
        at = max(stream_offset, next_offset)
        repeated = 0
        if not self.segments:
            self.hole_since_ns = segment.time_ns
            self.acknowledged = self.acknowledged_segments = 0
        index = self._count_up_to(at)
        if index:
            before = self.segments[index - 1]
            if before.stream_offset + before.length > at:
                index -= 1
        while at < end:
            earlier = self.segments[index] if index < len(self.segments) else None
            if earlier is not None and earlier.stream_offset <= at:
                stop = min(end, earlier.stream_offset + earlier.length)
                if differs(earlier, segment, stream_offset, at, stop, source):
                    stream.inconsistent(at, stop - at, segment)
                repeated += stop - at
                at = earlier.stream_offset + earlier.length
            else:
                stop = end if earlier is None else min(end, earlier.stream_offset)
                first = segment.start + min(at - stream_offset, segment.captured)
                last = segment.start + min(stop - stream_offset, segment.captured)
                data = bytes(source[first:last])
                piece = BufferedSegment(at, stop - at, data, segment.time_ns, segment.packet)
                self.segments.insert(index, piece)
                self.payload_bytes += len(data)
                at = stop
            index += 1
        return repeated

    def pop_contiguous(self, stream_offset: int, now_ns: int) -> list[BufferedSegment]:
        """Remove and return the segments from an offset up to the next hole.

        The waiting time of that hole begins at ``now_ns``.
        """
        count = 0
        for piece in self.segments:
            if piece.stream_offset != stream_offset:
                break
            stream_offset += piece.length
            self.payload_bytes -= len(piece.data)
            count += 1
        contiguous = self.segments[:count]
        if count:
            del self.segments[:count]
            self.hole_since_ns = now_ns
            self.acknowledged_segments = 0
        return contiguous

    def _count_up_to(self, stream_offset: int) -> int:
        """Return how many segments begin at an offset or before."""
        low, high = 0, len(self.segments)
        if high and self.last().stream_offset <= stream_offset:
            return high
        while low < high:
            middle = (low + high) // 2
            piece = self.segments[middle]
            if piece.stream_offset <= stream_offset:
                low = middle + 1
            else:
                high = middle
        return low

    # -- how long to wait -------------------------------------------------------------------------

    def acknowledge(self, stream_offset: int, now_ns: int) -> None:
        """Note that the receiver has acknowledged bytes of the hole, up to an offset."""
        self.acknowledged = max(self.acknowledged, stream_offset)
        if not self.acknowledged_segments:
            self.acknowledged_segments = 1
            self.acknowledged_since_ns = now_ns

    def count_segment(self) -> bool:
        """Count a segment; return true if too many came since the hole was acknowledged."""
        if not self.acknowledged_segments:
            return False
        self.acknowledged_segments += 1
        return self.acknowledged_segments > self._acknowledged_hole_segments

    def is_expired(self, now_ns: int) -> bool:
        """Return true if the hole is too old, acknowledged or not."""
        if self.hole_since_ns == NO_TIME:  # and any present time: only counts tell
            return False
        return now_ns - self.hole_since_ns > self._hole_ns

    def is_overdue(self, now_ns: int) -> bool:
        """Return true if there is a hole, and its waiting time is over at ``now_ns``."""
        if not self.segments:
            return False
        if self.is_expired(now_ns):
            return True
        if self.acknowledged_since_ns == NO_TIME:
            return False
        waited_ns = now_ns - self.acknowledged_since_ns
        return self.acknowledged_segments > 0 and waited_ns > self._acknowledged_hole_ns


def differs(
    earlier: BufferedSegment,
    segment: Segment,
    stream_offset: int,
    at: int,
    stop: int,
    source: memoryview,
) -> bool:
    """Return true if a segment differs from a buffered one between ``at`` and ``stop``."""
    earlier_bytes = earlier.data[at - earlier.stream_offset : stop - earlier.stream_offset]
    start = segment.start + at - stream_offset
    repeated_bytes = bytes(source[start : start + min(stop, stream_offset + segment.captured) - at])
    size = min(len(earlier_bytes), len(repeated_bytes))
    return earlier_bytes[:size] != repeated_bytes[:size]


class _SnappedRange:
    """Sum of the bytes that a snap length cut off, from one packet on.

    Attributes:
        stream_offset: of the first of these bytes.
        missing: number of these bytes.
        time_ns, packet: of the first packet that was cut.
        packets: number of packets that were cut.
    """

    _SAVED = Saved("stream_offset:count missing:count time_ns:int packet:count packets:count")

    def __init__(self, stream_offset: int, missing: int, time_ns: int, packet: int) -> None:
        self.stream_offset = stream_offset
        self.missing = missing
        self.time_ns = time_ns
        self.packet = packet
        self.packets = 1


class StreamAnomalies(SequenceSpace):
    """Reports the anomalies of one end.

    Lost bytes are counted only here, in the connection: the quality of a capture, the rows of
    connections and all totals use this count. Each counted gap is an anomaly of the same length.
    ``Frame.missing_bytes`` of a message is another count: a message may begin or end in a gap, and
    it also counts bytes that were captured and then dropped because of a memory limit.

    A snap length cuts nearly every packet. So the first cut is reported at once, and all others
    together as one anomaly at the end.
    """

    _NOT_SAVED: tuple[str, ...] = ("stats",)
    _SAVED = Saved("_is_cut:bool _more_cut:_SnappedRange?", _SnappedRange)

    def _report_to(self, stats: LayerStats) -> None:
        self.stats = stats
        # Whether a cut was reported.
        self._is_cut = False
        self._more_cut: _SnappedRange | None = None

    def lost(self, stream_offset: int, length: int, after: BufferedSegment) -> None:
        """Count and report bytes that are missing, up to ``after``."""
        self.connection.add(LOST_BYTES, self.index, length)
        self._report(AnomalyKind.LOST_BYTES, stream_offset, length, after.time_ns, after.packet)

    def snapped(
        self, stream_offset: int, length: int, captured: int, time_ns: int, packet: int
    ) -> None:
        """Count the bytes of a delivered segment that the capture cut off, if any."""
        missing = length - captured
        if not missing:
            return
        self.connection.add(SNAPPED_BYTES, self.index, missing)
        if not self._is_cut:
            self._is_cut = True
            self._report(
                AnomalyKind.SNAPPED_BYTES, stream_offset + captured, missing, time_ns, packet
            )
        elif self._more_cut is None:
            self._more_cut = _SnappedRange(stream_offset + captured, missing, time_ns, packet)
        else:
            self._more_cut.missing += missing
            self._more_cut.packets += 1

    def report_cuts(self) -> None:
        """Report the cuts after the first one, as one anomaly."""
        cut = self._more_cut
        if cut is not None:
            detail = f"in {cut.packets} more packets" if cut.packets > 1 else "in one more packet"
            where = cut.stream_offset, cut.missing, cut.time_ns, cut.packet
            self._report(AnomalyKind.SNAPPED_BYTES, *where, detail)

    def inconsistent(self, stream_offset: int, length: int, segment: Segment) -> None:
        """Report that a segment has other bytes than an earlier one."""
        kind = AnomalyKind.INCONSISTENT_RETRANSMISSION
        self._report(kind, stream_offset, length, segment.time_ns, segment.packet)

    def limit(self, buffered_bytes: int, after: BufferedSegment) -> None:
        """Report that too much is buffered behind the first hole, from ``after`` on."""
        where = self.stream_offset, buffered_bytes, after.time_ns, after.packet
        self._report(AnomalyKind.REORDER_LIMIT, *where)

    def before_start(self, begin: int, end: int, is_probe: bool) -> int:
        """Count the bytes before the first byte that was seen; return how many there are."""
        count = max(min(end, 0) - begin, 0)
        # The byte of a keep-alive probe is no data.
        if count and not is_probe:
            self.stats.counters.before_start_bytes += count
        return count

    def out_of_order(self) -> None:
        """Count a packet that came after a later part of the stream."""
        self.connection.add(OUT_OF_ORDER_PACKETS, self.index, 1)

    def repeated(self, segment: Segment, length: int, *, is_probe: bool) -> None:
        """Count bytes of a segment that had been seen before: as copy, probe or retransmission."""
        tcp, index = self.connection, self.index
        if segment.marks & IS_COPY:
            tcp.add(DUPLICATE_BYTES, index, length)
        elif is_probe:
            tcp.add(KEEP_ALIVE_BYTES, index, length)
            if tcp.measures is not None:
                tcp.measures.keep_alive_packets[index] += 1
        else:
            tcp.add(RETRANSMITTED_BYTES, index, length)
            if tcp.measures is not None:
                tcp.measures.retransmitted_packets[index] += 1

    def _report(
        self,
        kind: AnomalyKind,
        stream_offset: int,
        length: int,
        time_ns: int,
        packet: int,
        detail: str = "",
    ) -> None:
        self.stats.add(
            Anomaly(
                kind,
                time_ns=time_ns,
                packet=packet,
                connection=self.connection,
                direction=self.index,
                stream_offset=stream_offset,
                length=length,
                detail=detail,
            )
        )


class PathTimer:
    """Measures network round trips to one end: times one segment at a time.

    A SYN is acknowledged at once, and a SYN-ACK too. Any other acknowledgment may be delayed by the
    receiver (RFC 9293, section 3.8.6.3): a delayed one comes after 40 ms at least (Linux; Windows
    and macOS wait longer), or with a response, which takes as long as the work does. So only a
    *prompt* acknowledgment measures the network: one without data that came sooner, or that covers
    so many bytes that the receiver could not delay it (two segments of the largest size in use, in
    jumbo frames). Any other one is an upper bound of the network's time.

    Segments that were sent again give no round trip (Karn's rule; RFC 6298, section 3).

    Attributes:
        is_timed: whether a segment waits for its acknowledgment.
        end: sequence number after the last byte of that segment.
        sent_ns: time of that segment.
        has_syn: whether a SYN was timed.
        is_syn: whether the segment that waits is the SYN.
    """

    _NOT_SAVED = ("history",)
    _SAVED = Saved("is_timed:bool has_syn:bool is_syn:bool end:u32 sent_ns:int")

    def __init__(self, history: RoundTripHistory) -> None:
        self.history = history
        self.is_timed = self.has_syn = self.is_syn = False
        self.end = 0
        self.sent_ns = 0

    def begin(self, end: int, time_ns: int) -> None:
        """Time a segment, by the sequence number after its last byte."""
        self.is_timed = time_ns != NO_TIME
        self.is_syn = False
        self.end = end & SEQUENCE_MASK
        self.sent_ns = time_ns

    def begin_syn(self, end: int, time_ns: int) -> None:
        """Time the first SYN; a repeated one stops the timing."""
        if not self.has_syn:
            self.begin(end, time_ns)
            self.has_syn = self.is_syn = True
        elif self.is_syn and time_ns - self.sent_ns > MIN_SYN_TIMEOUT_NS:
            self.is_timed = False

    def cancel(self) -> None:
        """Stop timing: bytes were sent again, so an acknowledgment may be of either copy."""
        self.is_timed = False

    def acknowledge(
        self, sequence: int, newly: int, has_payload: bool, time_ns: int, packet: int
    ) -> None:
        """Take an acknowledgment of everything before ``sequence``; ``newly`` bytes are new."""
        if distance(sequence, self.end) < 0:
            return
        self.is_timed = False
        elapsed_ns = time_ns - self.sent_ns
        if elapsed_ns < 0:
            return
        may_be_delayed = not self.is_syn and elapsed_ns >= MIN_DELAY_NS
        is_prompt = not has_payload and (not may_be_delayed or newly >= UNDELAYED_BYTES)
        self.history.add(elapsed_ns, is_prompt, packet)


class HalfStream(StreamAnomalies):
    """The bytes that one end of a connection sent."""

    _NOT_SAVED = ("_buffer", "_limits")
    _SAVED = Saved(
        "self:SequenceSpace fin_acknowledged:bool out_of_window:count has_last_ack:bool "
        "last_ack:u32 last_ack_time_ns:int last_ack_packet:count self:StreamAnomalies buffer:here "
        "timer:here",
        SequenceSpace,
        StreamAnomalies,
    )

    def __init__(
        self, connection: TcpConnection, index: int, limits: ReassemblyLimits, stats: LayerStats
    ) -> None:
        self._begin(connection, index)
        self._report_to(stats)
        self._limits = limits
        self._buffer: ReorderBuffer | None = None
        self.timer = PathTimer(connection.path.round_trips[index])
        """Measures round trips of what this end sends."""
        self.fin_acknowledged = False
        self.out_of_window = 0
        """Number of the latest segments in a row that are out of the window."""
        self.has_last_ack = False
        """Whether the receiver has acknowledged anything."""
        self.last_ack = self.last_ack_time_ns = self.last_ack_packet = 0
        """Sequence number, time and packet of the last acknowledgment."""

    @property
    def buffer(self) -> ReorderBuffer:
        """Segments behind a hole: all beyond :attr:`stream_offset`. Most streams never have any."""
        if self._buffer is None:
            self._buffer = ReorderBuffer(self._limits)
        return self._buffer

    def has_hole(self) -> bool:
        """Return true if segments are buffered."""
        return self._buffer is not None and len(self._buffer.segments) > 0

    def _after_load(self) -> None:
        segments = self.buffer.segments
        if segments and segments[0].stream_offset < self.stream_offset:
            raise ValueError("a buffered segment that was delivered")

    def is_in_order(self) -> bool:
        """True if the next bytes can be delivered at once: no hole, no FIN, in the window."""
        return self.fin_offset is None and not self.out_of_window and not self.has_hole()

    def furthest(self) -> int:
        """Return the stream offset after the last byte that was seen."""
        if not self.has_hole():
            return self.stream_offset
        last = self.buffer.last()
        return last.stream_offset + last.length

    # -- segments ---------------------------------------------------------------------------------

    def add(self, segment: Segment, stream_offset: int, out: StreamWriter) -> None:
        """Add a segment's payload, which begins at a stream offset."""
        end = stream_offset + segment.length
        has_hole = self.has_hole()
        if stream_offset == self.stream_offset and not has_hole:
            out.whole(stream_offset, segment.rank)
            self.advance(segment.length)
            if not self.timer.is_timed:
                self.timer.begin(self.next_sequence, segment.time_ns)
            self.snapped(
                stream_offset, segment.length, segment.captured, segment.time_ns, segment.packet
            )
            return
        is_probe = self.is_probe(segment, stream_offset)
        buffer = self.buffer
        is_behind = has_hole and stream_offset < buffer.last().stream_offset
        hole_since_ns = buffer.hole_since_ns
        repeated = self._add_out_of_order(segment, stream_offset, end, out, is_probe)
        if repeated:
            self.repeated(segment, repeated, is_probe=is_probe)
        elif is_behind and end > 0:
            self.out_of_order()
        if (repeated or is_behind) and not is_probe:
            self._note_again(segment, stream_offset, repeated > 0, hole_since_ns)
        while buffer.exceeds_limits():
            buffer.report_limit(self)
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
                repeated -= self.before_start(stream_offset, last, is_probe)
            if end <= self.stream_offset:
                return repeated
            if not self.has_hole():
                skip = self.stream_offset - stream_offset
                out.trimmed(self.stream_offset, segment, skip)
                length = segment.length - skip
                captured = max(segment.captured - skip, 0)
                self.snapped(self.stream_offset, length, captured, segment.time_ns, segment.packet)
                self.advance(length)
                return repeated
        repeated += self.buffer.insert(segment, stream_offset, self.stream_offset, out.buffer, self)
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
        if not self.has_hole():
            return
        stream_offset = min(stream_offset, self.furthest())
        if stream_offset > self.stream_offset:
            self.buffer.acknowledge(stream_offset, time_ns)

    # -- holes ------------------------------------------------------------------------------------

    def age(self, now_ns: int, out: StreamWriter) -> None:
        """Give up the holes whose waiting time is over at ``now_ns``."""
        while self.has_hole() and self.buffer.is_overdue(now_ns):
            if self.buffer.is_expired(now_ns):
                self.give_up(self.buffer.segments[0].time_ns, out)
            else:
                self._give_up_acknowledged(now_ns, out)

    def count_segment(self, now_ns: int, out: StreamWriter) -> None:
        """Count a segment of the connection; after too many, give up an acknowledged hole."""
        if self._buffer is not None and self._buffer.count_segment():
            self._give_up_acknowledged(now_ns, out)

    def _give_up_acknowledged(self, now_ns: int, out: StreamWriter) -> None:
        acknowledged = self.buffer.acknowledged
        while self.has_hole() and self.stream_offset < acknowledged:
            self.give_up(now_ns, out)

    def give_up(self, now_ns: int, out: StreamWriter) -> None:
        """Turn the first hole into a gap and deliver the contiguous bytes behind it."""
        after = self.buffer.segments[0]
        self._lose(after.stream_offset - self.stream_offset, after, out)
        self._drain(now_ns, out)

    def end(self, out: StreamWriter) -> None:
        """Deliver the buffered bytes, with gaps, and report what is missing at the end."""
        self.give_up_all(out)
        length = missing_tail(self)
        if length:
            end = self.stream_offset + length
            after = BufferedSegment(end, 0, b"", self.last_ack_time_ns, self.last_ack_packet)
            self._lose(length, after, out)
        self.report_cuts()

    def give_up_all(self, out: StreamWriter) -> None:
        """Deliver all buffered bytes, with gaps: nothing more will come."""
        while self.has_hole():
            self.give_up(self.buffer.segments[0].time_ns, out)

    def _lose(self, length: int, after: BufferedSegment, out: StreamWriter) -> None:
        """Report bytes as lost, up to ``after``."""
        self.lost(self.stream_offset, length, after)
        out.gap(self.stream_offset, length, after)
        self.advance(length)

    def _drain(self, now_ns: int, out: StreamWriter) -> None:
        """Deliver the buffered bytes that come next, up to a new hole."""
        pieces = self.buffer.pop_contiguous(self.stream_offset, now_ns)
        if not pieces:
            return
        out.buffered(pieces)
        for piece in pieces:
            self.snapped(
                piece.stream_offset, piece.length, len(piece.data), piece.time_ns, piece.packet
            )
            self.advance(piece.length)


def missing_tail(half: HalfStream) -> int:
    """Return how many bytes are missing at the end of a stream of which nothing is buffered.

    The sender's FIN says where the stream ends. Without it, the receiver's last acknowledgment says
    how far it went; if that is one more than was seen, it may be a FIN.
    """
    if not half.started or not half.has_last_ack:
        return 0
    length = half.offset_of(half.last_ack) - half.stream_offset
    if half.fin_offset is not None:
        length = half.fin_offset - half.stream_offset
    elif length == 1:
        return 0
    return length if 0 < length <= PAST_WINDOW_BYTES else 0
