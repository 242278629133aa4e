"""One direction of a TCP connection: what comes next, and what is held back until then.

In: segments in the order of the capture. Out: calls of a :class:`StreamWriter`. Must not know:
the other direction, other connections, the clock (times are the packets').

Sequence numbers (RFC 9293, section 3.4) are of 32 bits and wrap; positions in the stream are of
64 bits and do not. The first copy of a byte is the one that counts.

Compiled by Cython, with the types in ``direction.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items
from kanalyze.net.tcp.delivery import Held
from kanalyze.net.tcp.stream_anomalies import Findings

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    CONTROL = 1 | 2 | 4  # FIN, SYN, RST
    FUTURE_BYTES = 1 << 30  # the largest window that TCP can announce (RFC 7323, section 2.3)
    PAST_BYTES = 64 << 20

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.layer_stats import Notes
    from kanalyze.net.tcp.delivery import Segment, StreamWriter
    from kanalyze.net.tcp.limits import ReassemblyLimits

__all__ = ["PAST_WINDOW_BYTES", "Direction", "distance"]

PAST_WINDOW_BYTES: Final = 64 << 20
"""How far back a retransmission may reach: no further than the window, which is this in the
largest settings in use, not in the largest possible."""
SEQUENCE_MASK = 0xFFFF_FFFF
HALF = 1 << 31


def distance(later: int, earlier: int) -> int:
    """Bytes from one sequence number to another; negative when ``later`` is the earlier one."""
    return ((later - earlier + HALF) & SEQUENCE_MASK) - HALF


class Direction:
    """What one end of a connection sent. ``index`` is its place in ``connection.endpoints``."""

    __slots__ = (
        "_acknowledged_hole_ns",
        "_acknowledged_hole_segments",
        "_hole_ns",
        "_most_held_bytes",
        "_most_held_segments",
        "acknowledged",
        "acknowledged_segments",
        "acknowledged_since_ns",
        "connection",
        "fin_acknowledged",
        "fin_position",
        "findings",
        "first_sequence",
        "has_syn",
        "has_told",
        "held",
        "held_bytes",
        "hole_since_ns",
        "index",
        "next_sequence",
        "position",
        "started",
        "strays",
        "told_acknowledgment",
        "told_packet",
        "told_time_ns",
    )
    _LEFT_OUT = (
        *("_acknowledged_hole_ns", "_acknowledged_hole_segments", "_hole_ns", "_most_held_bytes"),
        *("_most_held_segments", "connection", "held_bytes", "index"),
    )

    def __init__(
        self, connection: TcpConnection, index: int, limits: ReassemblyLimits, notes: Notes
    ) -> None:
        self.connection = connection
        self.index = index
        # As in the limits, where numbers are not at hand in C.
        self._hole_ns = limits.hole_ns
        self._acknowledged_hole_ns = limits.acknowledged_hole_ns
        self._acknowledged_hole_segments = limits.acknowledged_hole_segments
        self._most_held_bytes = limits.held_bytes_per_direction
        self._most_held_segments = limits.held_segments_per_direction
        self.findings = Findings(connection, index, notes)
        self.started = False
        self.has_syn = False
        self.first_sequence = 0
        """Sequence number of position 0."""
        self.next_sequence = 0
        """Sequence number of the byte at ``position``."""
        self.position = 0
        """Of the next byte to be delivered."""
        self.fin_position: int | None = None
        """Position after the last byte of the stream, once a FIN was seen."""
        self.fin_acknowledged = False
        self.held: list[Held] = []
        """What came early: rising, without overlaps, all of it after ``position``."""
        self.held_bytes = 0
        self.hole_since_ns = 0
        """When the first segment after the present hole came."""
        self.acknowledged = 0
        """Position up to which the receiver has acknowledged, since there is a hole."""
        self.acknowledged_since_ns = 0
        self.acknowledged_segments = 0
        """Segments of the connection from the acknowledgment on; 0 when there was none."""
        self.strays = 0
        """Segments out of the window, in a row."""
        self.has_told = False
        """Whether the receiver has acknowledged anything; what it said last, when, and in which
        packet:"""
        self.told_acknowledgment = self.told_time_ns = self.told_packet = 0

    def state(self) -> State:
        """Return what :meth:`load_state` takes."""
        return (
            *(self.started, self.has_syn, self.first_sequence, self.next_sequence, self.position),
            *(self.fin_position, self.fin_acknowledged, self.hole_since_ns, self.acknowledged),
            *(self.acknowledged_since_ns, self.acknowledged_segments, self.strays),
            *(self.has_told, self.told_acknowledgment, self.told_time_ns, self.told_packet),
            self.findings.state(),
            tuple([piece.state() for piece in self.held]),
        )

    def load_state(self, state: object) -> None:
        """Go on from a state; raises ValueError where that is none."""
        values = fields(state, "bbnnnNbininnbnintt")
        self.started, self.has_syn, self.first_sequence, self.next_sequence = values[:4]
        self.position, self.fin_position, self.fin_acknowledged, self.hole_since_ns = values[4:8]
        self.acknowledged, self.acknowledged_since_ns, self.acknowledged_segments = values[8:11]
        self.strays, self.has_told, self.told_acknowledgment, self.told_time_ns = values[11:15]
        self.told_packet = values[15]
        if max(values[2], values[3], values[13]) > SEQUENCE_MASK:
            raise ValueError("a sequence number of more than 32 bits")
        self.findings.load_state(values[16])
        self.held = [Held.from_state(piece) for piece in items(values[17], "t")]
        end = self.position
        for piece in self.held:
            if piece.position < end:
                raise ValueError("bytes held back that overlap")
            end = piece.position + piece.length
        self.held_bytes = sum([len(piece.data) for piece in self.held])

    @property
    def is_plain(self) -> bool:
        """Nothing is held back, nothing is about to end: segments in order may pass at once."""
        return self.can_pass()

    def can_pass(self) -> bool:
        """Tell the same, fast."""
        return not self.held and self.fin_position is None and not self.strays

    def tell(self, acknowledgment: int, time_ns: int, packet: int) -> None:
        """Note the receiver's last acknowledgment."""
        self.has_told = True
        self.told_acknowledgment = acknowledgment
        self.told_time_ns = time_ns
        self.told_packet = packet

    def start(self, sequence: int, *, has_syn: bool) -> None:
        """Set the sequence number of the first byte of the stream."""
        self.started = True
        self.has_syn = has_syn
        self.connection.start_seen[self.index] = has_syn
        self.first_sequence = self.next_sequence = sequence & SEQUENCE_MASK
        self.connection.first_sequence[self.index] = self.first_sequence

    def note_syn(self, first_sequence: int) -> None:
        """Note that the SYN was seen, before the bytes or after some of them."""
        self.has_syn = True
        if distance(first_sequence, self.first_sequence) == 0:
            self.connection.start_seen[self.index] = True

    def place(self, sequence: int) -> int:
        """Turn a sequence number into a position, the one nearest to what comes next."""
        return self.position + distance(sequence, self.next_sequence)

    def is_stray(self, position: int, end: int) -> bool:
        """Tell whether bytes cannot be of this stream: beyond any window, or after its end."""
        ahead = position - self.position
        if ahead > FUTURE_BYTES or ahead < -PAST_BYTES:
            return True
        if self.has_syn and position < -1:  # -1: a probe sends the byte before the first.
            return True
        return self.fin_position is not None and end > self.fin_position

    def add(self, segment: Segment, position: int, out: StreamWriter) -> None:
        """Take a segment's payload, which begins at ``position`` of the stream."""
        end = position + segment.length
        if position == self.position and not self.held:
            out.whole(position, segment.rank)
            self._pass(segment.length)
            self.findings.snapped(
                position, segment.length, segment.captured, segment.time_ns, segment.packet
            )
            return
        is_probe = self.is_probe(segment, position)
        is_behind = bool(self.held) and position < self._last().position
        repeated = self._add_odd(segment, position, end, out, is_probe)
        if repeated:
            self.findings.repeated(segment, repeated, is_probe=is_probe)
        elif is_behind and end > 0:
            self.findings.out_of_order()
        while self.held_bytes > self._most_held_bytes or len(self.held) > self._most_held_segments:
            self.note_limit()
            self.give_up(segment.time_ns, out)

    def is_probe(self, segment: Segment, position: int) -> bool:
        """Tell a keep-alive probe: one byte or none, just before what comes next.

        A repetition of a message of one byte looks the same.
        """
        return (
            segment.length <= 1
            and position == self.furthest() - 1
            and not segment.flags & CONTROL
            and self.started
        )

    def _add_odd(
        self,
        segment: Segment,
        position: int,
        end: int,
        out: StreamWriter,
        is_probe: bool,
    ) -> int:
        """Take payload that does not come next; return how much of it had been seen before."""
        repeated = 0
        if position < self.position:
            repeated = self._count_old(position, min(end, self.position), is_probe)
            if end <= self.position:
                return repeated
            if not self.held:
                skip = self.position - position
                out.part(self.position, segment, skip)
                left = segment.length - skip
                captured = max(segment.captured - skip, 0)
                self.findings.snapped(
                    self.position, left, captured, segment.time_ns, segment.packet
                )
                self._pass(left)
                return repeated
        repeated += self._hold(segment, position, out)
        self._drain(segment.time_ns, out)
        return repeated

    def finish_at(self, position: int) -> None:
        """Note a FIN that stands at ``position``; one before what was delivered is nonsense."""
        if self.fin_position is None and position >= self.furthest():
            self.fin_position = position

    def acknowledge(self, sequence: int, time_ns: int) -> None:
        """Note that the receiver has everything before ``sequence``."""
        if not self.started:
            return
        position = self.place(sequence)
        if self.fin_position is not None and position > self.fin_position:
            self.fin_acknowledged = True
        if not self.held:
            return
        position = min(position, self.furthest())
        if position > self.position:
            self.acknowledged = max(self.acknowledged, position)
            if not self.acknowledged_segments:
                self.acknowledged_segments = 1
                self.acknowledged_since_ns = time_ns

    def is_overdue(self, now_ns: int) -> bool:
        """Tell whether a hole was there for too long."""
        if not self.held:
            return False
        if now_ns - self.hole_since_ns > self._hole_ns:
            return True
        waited_ns = now_ns - self.acknowledged_since_ns
        return self.acknowledged_segments > 0 and waited_ns > self._acknowledged_hole_ns

    def age(self, now_ns: int, out: StreamWriter) -> None:
        """Give up holes that were there for too long at ``now_ns``, before it is acted on."""
        while self.is_overdue(now_ns):
            if now_ns - self.hole_since_ns > self._hole_ns:
                self.give_up(self.held[0].time_ns, out)
            else:
                self._give_up_acknowledged(now_ns, out)

    def count_segment(self, now_ns: int, out: StreamWriter) -> None:
        """Count a segment of the connection while an acknowledged hole is waited for."""
        if self.acknowledged_segments:
            self.acknowledged_segments += 1
            if self.acknowledged_segments > self._acknowledged_hole_segments:
                self._give_up_acknowledged(now_ns, out)

    def give_up(self, now_ns: int, out: StreamWriter) -> None:
        """Turn the first hole into a gap and deliver what was held back behind it."""
        after = self.held[0]
        length = after.position - self.position
        self.findings.lost(self.position, length, after)
        out.gap(self.position, length, after)
        self._pass(length)
        self._drain(now_ns, out)

    def give_up_all(self, out: StreamWriter) -> None:
        """Deliver everything held back: nothing more will come."""
        while self.held:
            self.give_up(self.held[0].time_ns, out)

    def lose_tail(self, out: StreamWriter) -> None:
        """Say what is missing at the end, when nothing more will come and nothing is held back.

        The sender's FIN says where the stream ends. Without it, the receiver's last
        acknowledgment says how far it went; one more than was seen may be a FIN.
        """
        if not self.started or not self.has_told:
            return
        end = self.place(self.told_acknowledgment)
        if self.fin_position is not None:
            end = self.fin_position
        elif end == self.position + 1:
            return
        length = end - self.position
        if 0 < length <= PAST_BYTES:
            after = Held(end, 0, b"", self.told_time_ns, self.told_packet)
            self.findings.lost(self.position, length, after)
            out.gap(self.position, length, after)
            self._pass(length)

    def _give_up_acknowledged(self, now_ns: int, out: StreamWriter) -> None:
        acknowledged = self.acknowledged
        while self.held and self.position < acknowledged:
            self.give_up(now_ns, out)

    def furthest(self) -> int:
        """Return the position after the last byte that was seen."""
        if not self.held:
            return self.position
        last = self._last()
        return last.position + last.length

    def _last(self) -> Held:
        """Return the piece that is furthest on, of at least one."""
        return self.held[len(self.held) - 1]

    def _pass(self, length: int) -> None:
        self.position += length
        self.next_sequence = (self.next_sequence + length) & SEQUENCE_MASK

    def _drain(self, now_ns: int, out: StreamWriter) -> None:
        """Deliver what is held back and comes next; what is behind it waits at a new hole."""
        position = self.position
        count = 0
        for piece in self.held:
            if piece.position != position:
                break
            position += piece.length
            count += 1
        if not count:
            return
        pieces = self.held[:count]
        del self.held[:count]
        for piece in pieces:
            self.held_bytes -= len(piece.data)
        out.held(pieces)
        for piece in pieces:
            self.findings.snapped(
                piece.position, piece.length, len(piece.data), piece.time_ns, piece.packet
            )
        self._pass(position - self.position)
        self.hole_since_ns = now_ns
        self.acknowledged_segments = 0

    def _hold(self, segment: Segment, position: int, out: StreamWriter) -> int:
        """Copy what no held piece covers of a segment; return how much some piece covers."""
        end = position + segment.length
        at = max(position, self.position)
        repeated = 0
        if not self.held:
            self.hole_since_ns = segment.time_ns
            self.acknowledged = self.acknowledged_segments = 0
        index = self._count_up_to(at)
        if index:
            before = self.held[index - 1]
            if before.position + before.length > at:
                index -= 1
        while at < end:
            earlier = self.held[index] if index < len(self.held) else None
            if earlier is not None and earlier.position <= at:
                stop = min(end, earlier.position + earlier.length)
                self._compare(earlier, segment, position, at, stop, out)
                repeated += stop - at
                at = earlier.position + earlier.length
            else:
                stop = end if earlier is None else min(end, earlier.position)
                first = segment.start + min(at - position, segment.captured)
                last = segment.start + min(stop - position, segment.captured)
                data = bytes(out.buffer[first:last])
                piece = Held(at, stop - at, data, segment.time_ns, segment.packet)
                self.held.insert(index, piece)
                self.held_bytes += len(data)
                at = stop
            index += 1
        return repeated

    def _count_up_to(self, position: int) -> int:
        """Return how many of the held pieces begin at a position or before."""
        low, high = 0, len(self.held)
        if high and self._last().position <= position:
            return high
        while low < high:
            middle = (low + high) // 2
            piece = self.held[middle]
            if piece.position <= position:
                low = middle + 1
            else:
                high = middle
        return low

    def _compare(
        self,
        earlier: Held,
        segment: Segment,
        position: int,
        at: int,
        stop: int,
        out: StreamWriter,
    ) -> None:
        """Say so when bytes that came before are not the same."""
        known = earlier.data[at - earlier.position : stop - earlier.position]
        start = segment.start + at - position
        again = bytes(out.buffer[start : start + min(stop, position + segment.captured) - at])
        size = min(len(known), len(again))
        if known[:size] != again[:size]:
            self.findings.inconsistent(at, stop - at, segment)

    def _count_old(
        self,
        position: int,
        end: int,
        is_probe: bool,
    ) -> int:
        """Return how many bytes, all before what comes next, had been seen; count the others."""
        if self.has_syn:
            return end - position
        before_start = max(min(end, 0) - position, 0)
        # The byte of a probe means nothing.
        if before_start and not is_probe:
            self.findings.notes.counters.before_start_bytes += before_start
        return end - position - before_start

    def note_limit(self) -> None:
        """Say that too much is held back."""
        self.findings.limit(self.position, self.held_bytes, self.held[0])
