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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.model import StreamUpdate, TcpConnection, TcpMeasures
from kanalyze.net.direction import Direction, distance
from kanalyze.net.grouping import key_endpoint
from kanalyze.net.headers import ACK, FIN, RST, SYN
from kanalyze.net.limits import HELD_PIECE_BYTES
from kanalyze.net.meter import Meter
from kanalyze.net.output import DUPLICATE, StreamWriter

if TYPE_CHECKING:
    from kanalyze.model import ConnectionEnd, StreamItem
    from kanalyze.net.grouping import Pair
    from kanalyze.net.limits import ReassemblyLimits
    from kanalyze.net.notes import Notes
    from kanalyze.net.output import Segment
    from kanalyze.net.round_trips import TimedSegments
    from kanalyze.segments import Segments

__all__ = ["ConnectionState"]


_CONTROL: Final = SYN | FIN | RST


class ConnectionState:
    """Both directions of a connection that ``first`` belongs to (which is yet to be received)."""

    __slots__ = (
        "_limits",
        "_notes",
        "_writers",
        "directions",
        "meter",
        "pair",
        "seen",
        "tcp",
        "update",
    )

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
        self.directions = (
            Direction(self.tcp, int(from_higher), limits, notes),
            Direction(self.tcp, int(not from_higher), limits, notes),
        )
        """What the lower end of the pair sent, and what the higher one did."""
        self.meter: Meter | None = None
        if all_timed is not None:
            self.tcp.measures = TcpMeasures()
            indices = (int(from_higher), int(not from_higher))
            self.meter = Meter(self.tcp.measures, indices, all_timed)
        self.seen = 0
        """The step (:class:`~kanalyze.net.idle.Ages`) in which it was last not silent."""
        self.update: StreamUpdate | None = None
        """What the present batch has added so far."""
        self._writers: tuple[StreamWriter, StreamWriter] | None = None
        self._limits = limits
        self._notes = notes

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
    def is_plain(self) -> bool:
        """Payload in order may pass at once."""
        lower, higher = self.directions
        return lower.is_plain and higher.is_plain

    @property
    def is_over(self) -> bool:
        """No more payload can come."""
        lower, higher = self.directions
        return self.tcp.reset or (lower.fin_acknowledged and higher.fin_acknowledged)

    @property
    def held_bytes(self) -> int:
        """Bytes held back in both directions."""
        return self.directions[0].held_bytes + self.directions[1].held_bytes

    @property
    def held_memory_bytes(self) -> int:
        """Bytes of memory that these take, about."""
        pieces = len(self.directions[0].held) + len(self.directions[1].held)
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
            lower, higher = self.directions
            self._writers = (
                StreamWriter(items[lower.index], shared),
                StreamWriter(items[higher.index], shared),
            )
        return self._writers

    def end_writing(self) -> None:
        """Complete the present update's items."""
        if self._writers is not None:
            for writer in self._writers:
                writer.flush()
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

    def receive(self, segment: Segment, shared: Segments) -> bool:
        """Take a segment; false, and not taken, when it begins another connection."""
        flags = segment.flags
        mine = self.directions[segment.from_higher]
        other = self.directions[1 - segment.from_higher]
        writers = self.writers(shared)
        if flags & ACK and not flags & RST:
            other.told = (segment.acknowledgment, segment.time_ns, segment.packet)
        if not flags & _CONTROL and mine.is_plain and other.is_plain:
            if not segment.length:
                self._count(segment, mine)
                return True
            if segment.sequence == mine.next_sequence and mine.started:
                mine.add(segment, mine.position, writers[segment.from_higher])
                self._count(segment, mine)
                return True
        return self._receive_odd(segment, mine, other, writers)

    def _receive_odd(
        self,
        segment: Segment,
        mine: Direction,
        other: Direction,
        writers: tuple[StreamWriter, StreamWriter],
    ) -> bool:
        """Take a segment that opens or closes, or is not what comes next, or while one waits."""
        flags = segment.flags
        if mine.held or other.held:
            for direction, writer in zip(self.directions, writers, strict=True):
                direction.age(segment.time_ns, writer)
        if flags & SYN:
            if self._is_another(segment, mine, other):
                return False
            self._open(segment, mine, other)
        is_stray = False
        if (segment.length or flags & FIN) and not flags & RST:
            is_stray = not self._take_bytes(segment, mine, writers[segment.from_higher])
            if mine.strays > self._limits.stray_segments:
                return False
        if mine.held or other.held:
            for direction, writer in zip(self.directions, writers, strict=True):
                direction.count_segment(segment.time_ns, writer)
        if flags & ACK:
            other.acknowledge(segment.acknowledgment, segment.time_ns)
        self._count(segment, mine, is_stray=is_stray)
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
            mine.strays += 1
            return False
        mine.strays = 0
        if segment.length:
            mine.add(segment, position, out)
        if segment.flags & FIN:
            mine.finish_at(end)
        return True

    def _count(self, segment: Segment, mine: Direction, *, is_stray: bool = False) -> None:
        tcp, index = self.tcp, mine.index
        tcp.packets[index] += 1
        tcp.payload_bytes[index] += segment.length
        tcp.last_time_ns = max(tcp.last_time_ns, segment.time_ns)
        if segment.flags & RST:
            tcp.reset = True
        if segment.flags & (FIN | RST) and tcp.closed_by is None:
            tcp.closed_by = index
        if self.meter is not None and tcp.measures is not None:
            is_empty_probe = not segment.length and mine.is_probe(
                segment, mine.place(segment.sequence)
            )
            if is_empty_probe and not segment.marks & DUPLICATE:
                tcp.measures.keep_alive_packets[index] += 1
            is_last = bool(segment.flags & FIN) and mine.fin_position is not None
            self.meter.take(segment, is_stray=is_stray, is_last=is_last)

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
