"""One TCP connection being put together: both directions, its opening and its end.

In: segments of one pair of endpoints in the order of the capture. Out: a
:class:`kanalyze.model.StreamUpdate`. Must not know: other connections.

What belongs to the connection and what begins another (RFC 9293, section 3.5):

- A SYN that repeats the one seen is the same SYN again; any other begins a new connection, as
  long as this one has got anywhere. A SYN that was captured late, or crosses another (a
  simultaneous open), joins.
- A RST ends the connection at once. A FIN ends one direction; when both are acknowledged, the
  connection is over and what is missing will not come.
- Payload far outside of any window is dropped. When nothing else comes, it is a new connection
  on the same ports, of which the SYN was not captured.

Compiled by Cython, with the types in ``connection_state.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields
from kanalyze.model.streams import StreamUpdate
from kanalyze.model.tcp import TcpConnection, TcpMeasures
from kanalyze.net.tcp.delivery import Segment, StreamWriter
from kanalyze.net.tcp.endpoint_pairs import key_endpoint, pair_from_state, pair_state
from kanalyze.net.tcp.half_stream import Direction
from kanalyze.net.tcp.limits import HELD_PIECE_BYTES
from kanalyze.net.tcp.tcp_metrics import Meter

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.tcp.half_stream import distance

    FIN, SYN, RST, ACK = 1, 2, 4, 16
    CONTROL = FIN | SYN | RST
    IS_COPY = 1

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.segments import Segments
    from kanalyze.model.streams import StreamItem
    from kanalyze.model.tcp import ConnectionEnd
    from kanalyze.net.layer_stats import Notes
    from kanalyze.net.tcp.endpoint_pairs import Pair
    from kanalyze.net.tcp.limits import ReassemblyLimits
    from kanalyze.net.tcp.round_trips import TimedSegments
    from kanalyze.net.tcp.segment_iterator import Walk

__all__ = ["IS_ANOTHER", "IS_OVER", "ConnectionState"]

AT_END, IS_ANOTHER, IS_OVER = range(3)
"""What :meth:`ConnectionState.take` met."""
SEQUENCE_MASK = 0xFFFF_FFFF


class ConnectionState:
    """Both directions of a connection that ``first`` belongs to (which is yet to be received)."""

    __slots__ = (
        "_limits",
        "_notes",
        "_writers",
        "higher",
        "lower",
        "meter",
        "pair",
        "seen",
        "tcp",
        "update",
    )
    _LEFT_OUT = ("_limits", "_notes", "_writers", "update")

    def __init__(
        self,
        pair: Pair,
        first: Segment,
        number: int,
        limits: ReassemblyLimits,
        notes: Notes,
        all_timed: TimedSegments | None = None,
    ) -> None:
        """``all_timed`` is None where nothing is measured."""
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
        self.lower = Direction(self.tcp, int(from_higher), limits, notes)
        """What the lower end of the pair sent."""
        self.higher = Direction(self.tcp, int(not from_higher), limits, notes)
        self.meter: Meter | None = None
        if all_timed is not None:
            self.tcp.measures = TcpMeasures()
            indices = (int(from_higher), int(not from_higher))
            self.meter = Meter(self.tcp.measures, indices, all_timed)
        self.seen = 0
        """The step (:class:`~kanalyze.net.tcp.idle_timer.Ages`) in which it was last not silent."""
        self.update: StreamUpdate | None = None
        """What the present batch has added so far."""
        self._writers: tuple[StreamWriter, StreamWriter] | None = None
        self._limits = limits
        self._notes = notes

    def state(self) -> State:
        """Return what :meth:`from_state` takes; the connection goes with it."""
        meter = None if self.meter is None else self.meter.state()
        states = self.tcp.state(), self.lower.state(), self.higher.state(), meter
        return (*pair_state(self.pair), self.lower.index, self.seen, *states)

    @classmethod
    def from_state(
        cls,
        state: object,
        limits: ReassemblyLimits,
        notes: Notes,
        all_timed: TimedSegments | None = None,
    ) -> ConnectionState:
        """Make one from a state; raises ValueError where that is none."""
        lower_end, higher_end, index, seen, tcp, lower, higher, meter = fields(state, "**nntttT")
        if index > 1 or (meter is None) != (all_timed is None):
            raise ValueError("no end of a connection, or measured by one run alone")
        pair = pair_from_state(lower_end, higher_end)
        first = Segment(0, 0, 0, 0, 0, 0, 0, 0, 0, index)
        made = cls(pair, first, 0, limits, notes, None)
        made._take_up(TcpConnection.from_state(tcp), index, all_timed)
        made.seen = seen
        made.lower.load_state(lower)
        made.higher.load_state(higher)
        if made.meter is not None:
            made.meter.load_state(meter)
        return made

    def _take_up(self, tcp: TcpConnection, index: int, all_timed: TimedSegments | None) -> None:
        """Be about a connection that was followed before; ``index`` is that of its lower end."""
        if tcp.endpoints != self.tcp.endpoints or (tcp.measures is None) != (all_timed is None):
            raise ValueError("a connection of other ends, or measured by one run alone")
        self.tcp = tcp
        self.lower = Direction(tcp, index, self._limits, self._notes)
        self.higher = Direction(tcp, 1 - index, self._limits, self._notes)
        if all_timed is not None and tcp.measures is not None:
            self.meter = Meter(tcp.measures, (index, 1 - index), all_timed)

    @property
    def serial(self) -> int:
        """That of the connection."""
        return self.tcp.serial

    @serial.setter
    def serial(self, serial: int) -> None:
        self.tcp.serial = serial

    @property
    def last_time_ns(self) -> int:
        """When it was last not silent."""
        return self.tcp.last_time_ns

    @property
    def directions(self) -> tuple[Direction, Direction]:
        """What the lower end of the pair sent, and what the higher one did."""
        return self.lower, self.higher

    @property
    def is_plain(self) -> bool:
        """Payload in order may pass at once."""
        return self.lower.can_pass() and self.higher.can_pass()

    @property
    def is_over(self) -> bool:
        """No more payload can come."""
        return self._has_ended()

    def _has_ended(self) -> bool:
        if self.lower.fin_acknowledged and self.higher.fin_acknowledged:
            return True
        return bool(self.tcp.reset)

    @property
    def held_bytes(self) -> int:
        """Bytes held back in both directions."""
        return self.lower.held_bytes + self.higher.held_bytes

    @property
    def held_memory_bytes(self) -> int:
        """Bytes of memory that these take, about."""
        pieces = len(self.lower.held) + len(self.higher.held)
        return self.held_bytes + pieces * HELD_PIECE_BYTES

    def begin_update(self) -> StreamUpdate:
        """Return the update of the present batch, a new one the first time."""
        if self.update is None:
            empty: tuple[list[StreamItem], list[StreamItem]] = ([], [])
            self.update = StreamUpdate(self.tcp, empty, closed=False)
        return self.update

    def writers(self, shared: Segments) -> tuple[StreamWriter, StreamWriter]:
        """Return the writers of the present update, by direction as in ``directions``."""
        if self._writers is None:
            items = self.begin_update().items
            for_lower = StreamWriter(items[self.lower.index], shared)
            self._writers = for_lower, StreamWriter(items[self.higher.index], shared)
        return self._writers

    def end_writing(self) -> None:
        """Complete the present update's items."""
        if self._writers is not None:
            for_lower, for_higher = self._writers
            for_lower.flush()
            for_higher.flush()
            self._writers = None

    def close(self, shared: Segments, end: ConnectionEnd) -> StreamUpdate:
        """Deliver what is held back, with gaps, and end the connection.

        ``end`` is why, unless both ends had sent a FIN.
        """
        both_sent_fin = all(direction.fin_position is not None for direction in self.directions)
        self.tcp.end = "fin" if both_sent_fin and not self.tcp.reset else end
        for direction, writer in zip(self.directions, self.writers(shared), strict=True):
            direction.give_up_all(writer)
            direction.lose_tail(writer)
            direction.findings.end()
        self.end_writing()
        if self.meter is not None:
            self.meter.drop_timed()
        update = self.begin_update()
        update.closed = True
        return update

    def take(self, walk: Walk) -> int:
        """Take the segments of a walk, up to one that begins another connection or ends this.

        Returns :data:`AT_END`, :data:`IS_ANOTHER` or :data:`IS_OVER`. The walk is left at that
        segment, of which the first kind is not taken.
        """
        while True:
            self._pass_in_order(walk)
            if walk.at_end:
                return AT_END
            if self._may_repeat(walk):
                walk.mark_duplicate()
            if not self.receive(walk.segment(), walk.shared):
                return IS_ANOTHER
            if self._has_ended():
                return IS_OVER
            walk.advance()

    def _pass_in_order(self, walk: Walk) -> None:
        """Take what comes next in a walk, up to a segment that needs a closer look.

        That is one with a SYN, FIN or RST, or with payload that does not come next. The walk is
        left there, or at its end.
        """
        lower, higher = self.lower, self.higher
        if not (lower.can_pass() and higher.can_pass()):
            return
        for_lower, for_higher = self.writers(walk.shared)
        if self.meter is not None:
            self._pass_metered(walk)
            return
        last_time_ns = self.tcp.last_time_ns
        lower_packets = higher_packets = lower_bytes = higher_bytes = 0
        while not walk.at_end:
            row = walk.row
            flags, length = walk.flags[row], walk.lengths[row]
            from_higher = walk.from_higher
            mine = higher if from_higher else lower
            if flags & CONTROL:
                break
            if length:
                if walk.sequences[row] != mine.next_sequence or not mine.started:
                    break
                writer = for_higher if from_higher else for_lower
                writer.run(mine.position, walk.rank, walk.rank + 1)
                if walk.captured[row] < length:
                    mine.findings.snapped(
                        mine.position,
                        length,
                        walk.captured[row],
                        walk.times[row],
                        walk.numbers[row],
                    )
                mine.position += length
                mine.next_sequence = (mine.next_sequence + length) & SEQUENCE_MASK
            if flags & ACK:
                other = lower if from_higher else higher
                other.has_told = True
                other.told_acknowledgment = walk.acknowledgments[row]
                other.told_time_ns = walk.times[row]
                other.told_packet = walk.numbers[row]
            if from_higher:
                higher_packets += 1
                higher_bytes += length
            else:
                lower_packets += 1
                lower_bytes += length
            last_time_ns = max(last_time_ns, walk.times[row])
            walk.advance()
        if lower_packets or higher_packets:
            self._count_passed(lower, lower_packets, lower_bytes)
            self._count_passed(higher, higher_packets, higher_bytes)
            self.tcp.last_time_ns = last_time_ns

    def _count_passed(self, direction: Direction, packets: int, payload_bytes: int) -> None:
        """Count packets of one end that came next."""
        if packets:
            self.tcp.packets[direction.index] += packets
            self.tcp.payload_bytes[direction.index] += payload_bytes

    def _pass_metered(self, walk: Walk) -> None:
        """Take what comes next, segment by segment, for each is measured."""
        while not walk.at_end:
            row = walk.row
            mine = self.higher if walk.from_higher else self.lower
            if walk.flags[row] & CONTROL:
                break
            if walk.lengths[row] and not (
                mine.started and walk.sequences[row] == mine.next_sequence
            ):
                break
            self.receive(walk.segment(), walk.shared)
            walk.advance()

    def _may_repeat(self, walk: Walk) -> bool:
        """Tell whether the segment that a walk is at may hold bytes that were seen before."""
        row = walk.row
        mine = self.higher if walk.from_higher else self.lower
        if not walk.lengths[row] or not mine.started:
            return False
        return mine.place(walk.sequences[row]) < mine.furthest()

    def receive(self, segment: Segment, shared: Segments) -> bool:
        """Take a segment; false, and not taken, when it begins another connection."""
        flags = segment.flags
        mine = self.higher if segment.from_higher else self.lower
        other = self.lower if segment.from_higher else self.higher
        for_lower, for_higher = self.writers(shared)
        writer = for_higher if segment.from_higher else for_lower
        if flags & ACK and not flags & RST:
            other.tell(segment.acknowledgment, segment.time_ns, segment.packet)
        if not flags & CONTROL and mine.can_pass() and other.can_pass():
            if not segment.length:
                self._count(segment, mine, False)
                return True
            if segment.sequence == mine.next_sequence and mine.started:
                mine.add(segment, mine.position, writer)
                self._count(segment, mine, False)
                return True
        return self._receive_odd(segment, mine, other, for_lower, for_higher)

    def _receive_odd(
        self,
        segment: Segment,
        mine: Direction,
        other: Direction,
        for_lower: StreamWriter,
        for_higher: StreamWriter,
    ) -> bool:
        """Take a segment that opens or closes, or is not what comes next, or while one waits."""
        flags = segment.flags
        if mine.held or other.held:
            self.lower.age(segment.time_ns, for_lower)
            self.higher.age(segment.time_ns, for_higher)
        if flags & SYN:
            if self._is_another(segment, mine, other):
                return False
            self._open(segment, mine, other)
        is_stray = False
        if (segment.length or flags & FIN) and not flags & RST:
            writer = for_higher if segment.from_higher else for_lower
            is_stray = not self._take_bytes(segment, mine, writer)
            if mine.strays > self._limits.stray_segments:
                return False
        if mine.held or other.held:
            self.lower.count_segment(segment.time_ns, for_lower)
            self.higher.count_segment(segment.time_ns, for_higher)
        if flags & ACK:
            other.acknowledge(segment.acknowledgment, segment.time_ns)
        self._count(segment, mine, is_stray)
        return True

    def _take_bytes(self, segment: Segment, mine: Direction, out: StreamWriter) -> bool:
        """Take payload or a FIN; false, and not taken, when they cannot be of this connection."""
        first = segment.sequence + (1 if segment.flags & SYN else 0)
        if not mine.started:
            mine.start(first, has_syn=False)
        position = mine.place(first)
        end = position + segment.length
        if mine.is_stray(position, end):
            self._notes.counters.out_of_window_packets += 1
            self._notes.counters.out_of_window_bytes += segment.length
            mine.strays += 1
            return False
        mine.strays = 0
        if segment.length:
            mine.add(segment, position, out)
        if segment.flags & FIN:
            mine.finish_at(end)
        return True

    def _count(self, segment: Segment, mine: Direction, is_stray: bool) -> None:
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
                segment, mine.place(segment.sequence)
            )
            if is_empty_probe and not segment.marks & IS_COPY:
                tcp.measures.keep_alive_packets[index] += 1
            is_last = bool(segment.flags & FIN) and mine.fin_position is not None
            self.meter.take(segment, is_stray, is_last)

    def _is_another(self, segment: Segment, mine: Direction, other: Direction) -> bool:
        """Tell whether a SYN is that of a later connection."""
        is_answer = bool(segment.flags & ACK)
        if mine.started:
            if distance(segment.sequence + 1, mine.first_sequence) == 0:
                return False
            # A server that keeps no state until the handshake is done may answer anew.
            return not (is_answer and mine.position == 0 and not mine.held)
        if is_answer and other.started:
            return not 0 <= other.place(segment.acknowledgment) <= other.position
        is_crossing = other.has_syn and other.position == 0 and not other.held
        return other.started and not is_crossing

    def _open(self, segment: Segment, mine: Direction, other: Direction) -> None:
        """Note a SYN that is of this connection."""
        is_answer = bool(segment.flags & ACK)
        if mine.position == 0 and not mine.held:
            mine.start(segment.sequence + 1, has_syn=True)
        mine.note_syn(segment.sequence + 1)
        if self.tcp.opened_by is None:
            self.tcp.opened_by = other.index if is_answer else mine.index
        if is_answer and not other.started:
            other.start(segment.acknowledgment, has_syn=True)
