"""TCP reassembly: batches of packets to streams of bytes, one pair of streams a connection.

In: :class:`kanalyze.model.PacketBatch`, in the order of the capture. Out:
:class:`kanalyze.model.StreamUpdate`. Must not know: where packets come from, nor what the streams
say.

Segments in order, the usual case, pass as one chunk a direction and batch; their headers are
compared in NumPy columns and no Python runs for any one of them. A connection that has anything
else in a batch (a SYN, a FIN, a hole, a retransmission) is taken segment by segment in that batch,
and as long as bytes are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kanalyze.model import Anomaly, Chunk, Segments, StreamUpdate
from kanalyze.net.connection_state import ConnectionState
from kanalyze.net.direction import PAST_WINDOW_BYTES, distance
from kanalyze.net.headers import SYN, read_headers
from kanalyze.net.limits import ReassemblyLimits
from kanalyze.net.notes import Notes
from kanalyze.net.sorted_batch import SortedBatch

if TYPE_CHECKING:
    from kanalyze.model import PacketBatch
    from kanalyze.net.direction import Direction
    from kanalyze.net.grouping import Pair
    from kanalyze.net.notes import NetCounters
    from kanalyze.net.output import Segment
    from kanalyze.net.sorted_batch import Group, Side

__all__ = ["Reassembler", "ReassemblyLimits"]

_SEQUENCE_MASK: Final = 0xFFFF_FFFF


@dataclass(slots=True)
class _Closed:
    """What is remembered of the last connection on a pair of endpoints."""

    number: int
    closed_ns: int
    sequences: tuple[tuple[int, int] | None, tuple[int, int] | None]
    """For the lower and the higher end: sequence number of the stream's first byte, and of the
    byte after its last; None where nothing was seen."""
    late: int = 0
    """Segments with payload since."""


class Reassembler:
    """Follows every TCP connection of a capture.

    Updates come in the order of the connections' serials. The chunks of an update point into the
    batch that was fed, and are valid as long as it is.
    """

    def __init__(self, limits: ReassemblyLimits | None = None) -> None:
        self._limits = limits or ReassemblyLimits()
        self._notes = Notes()
        self._open: dict[Pair, ConnectionState] = {}
        self._holding: dict[Pair, ConnectionState] = {}
        """Those with a hole, or nearly: looked at after each batch."""
        self._closed: dict[Pair, _Closed] = {}
        """The oldest first."""
        self._opened: list[tuple[int, ConnectionState]] = []
        """Connections without a serial yet, with the number of their first packet."""
        self._updates: list[StreamUpdate] = []
        self._touched: list[ConnectionState] = []
        self._serial = 0

    @property
    def counters(self) -> NetCounters:
        """Counts over everything fed so far."""
        return self._notes.counters

    def take_anomalies(self) -> list[Anomaly]:
        """Hand over the anomalies since the last time: the first few of each kind.

        All of them are counted in ``counters``.
        """
        return self._notes.take()

    def feed(self, batch: PacketBatch) -> list[StreamUpdate]:
        """Take the next packets of the capture; return what they add to each connection."""
        segments = read_headers(batch, self._notes)
        if not len(segments):
            return []
        sorted_batch = SortedBatch(segments)
        for group in sorted_batch.groups():
            state = self._open.get(group.pair)
            if state is None or not self._pass(group, state, sorted_batch.shared):
                self._replay(group, state, sorted_batch)
        self._give_up_old_holes(int(segments.time_ns.max()), sorted_batch.shared)
        self._bound_held_bytes(sorted_batch.shared)
        self._bound_connections(sorted_batch.shared)
        return self._end_batch()

    def finish(self) -> list[StreamUpdate]:
        """End the capture: deliver everything held back, with gaps, and close every connection."""
        shared = _no_segments()
        for state in list(self._open.values()):
            self._close(state, shared)
        self._closed.clear()
        return self._end_batch()

    def _pass(self, group: Group, state: ConnectionState, shared: Segments) -> bool:
        """Take all of a group at once; false, and nothing done, where that would not be right."""
        lower, higher = state.directions
        if (
            group.has_control
            or not state.is_plain
            or not _is_next(group.lower, lower)
            or not _is_next(group.higher, higher)
        ):
            return False
        update = state.begin_update()
        self._touched.append(state)
        self._pass_side(group.lower, lower, update, shared)
        self._pass_side(group.higher, higher, update, shared)
        tcp = state.tcp
        tcp.last_time_ns = max(tcp.last_time_ns, group.last_time_ns)
        return True

    def _pass_side(
        self, side: Side, direction: Direction, update: StreamUpdate, shared: Segments
    ) -> None:
        index = direction.index
        tcp = direction.connection
        tcp.packets[index] += side.packets
        if side.first == side.last:
            return
        tcp.payload_bytes[index] += side.length
        chunk = Chunk(direction.position, shared, side.first, side.last)
        update.items[index].append(chunk)
        if side.captured < side.length:
            self._note_snapped(chunk, direction)
        direction.position += side.length
        direction.next_sequence = (direction.next_sequence + side.length) & _SEQUENCE_MASK

    def _note_snapped(self, chunk: Chunk, direction: Direction) -> None:
        position = chunk.stream_offset
        for rank in range(chunk.first, chunk.last):
            direction.note_snapped(
                position,
                chunk.segments.length[rank],
                chunk.segments.captured[rank],
                chunk.segments.time_ns[rank],
                chunk.segments.packet[rank],
            )
            position += chunk.segments.length[rank]

    def _replay(self, group: Group, state: ConnectionState | None, batch: SortedBatch) -> None:
        """Take a group segment by segment."""
        pair, shared = group.pair, batch.shared
        for segment in batch.segments_of(group):
            if state is None:
                if self._is_late(pair, segment):
                    self.counters.late_packets += 1
                    continue
                state = self._begin(pair, segment)
            if not state.receive(segment, shared):
                self._close(state, shared)
                state = self._begin(pair, segment)
                state.receive(segment, shared)
            if state.is_over:
                self._close(state, shared)
                state = None
        if state is not None:
            state.end_writing()
            self._touched.append(state)
            if not state.is_plain:
                self._holding[pair] = state

    def _begin(self, pair: Pair, segment: Segment) -> ConnectionState:
        earlier = self._closed.pop(pair, None)
        number = earlier.number + 1 if earlier is not None else 1
        state = ConnectionState(pair, segment, number, self._limits, self._notes)
        self._open[pair] = state
        self._opened.append((segment.packet, state))
        self.counters.connections += 1
        return state

    def _close(self, state: ConnectionState, shared: Segments) -> None:
        update = state.close(shared)
        self._updates.append(update)
        del self._open[state.pair]
        self._holding.pop(state.pair, None)
        lower, higher = state.directions
        self._closed[state.pair] = _Closed(
            number=state.tcp.connection_number,
            closed_ns=state.tcp.last_time_ns,
            sequences=(_span(lower), _span(higher)),
        )
        if len(self._closed) > self._limits.closed_pairs:
            del self._closed[next(iter(self._closed))]

    def _is_late(self, pair: Pair, segment: Segment) -> bool:
        """Tell whether a segment on a pair without an open connection is of the closed one.

        A SYN is late when it repeats the old one. Without SYN, nothing opens a connection but
        payload: at once when its sequence number is far from the old stream's end, else when
        there is too much of it, or too long after.
        """
        closed = self._closed.get(pair)
        if closed is None:
            return False
        span = closed.sequences[segment.from_higher]
        if segment.flags & SYN:
            return span is not None and distance(segment.sequence + 1, span[0]) == 0
        if not segment.length:
            return True
        if span is None or abs(distance(segment.sequence, span[1])) > PAST_WINDOW_BYTES:
            return False
        closed.late += 1
        return (
            closed.late <= self._limits.late_segments
            and segment.time_ns - closed.closed_ns <= self._limits.late_ns
        )

    def _give_up_old_holes(self, now_ns: int, shared: Segments) -> None:
        """Let time pass for connections that sent nothing in the batch."""
        for pair, state in list(self._holding.items()):
            if state.is_plain:
                del self._holding[pair]
            elif any(direction.is_overdue(now_ns) for direction in state.directions):
                for direction, writer in zip(state.directions, state.writers(shared), strict=True):
                    direction.age(now_ns, writer)
                state.end_writing()
                self._touched.append(state)

    def _bound_held_bytes(self, shared: Segments) -> None:
        """Give up holes of those who hold back the most while all together hold too much."""
        total = sum(state.held_bytes for state in self._holding.values())
        if total <= self._limits.held_bytes:
            return
        largest = sorted(self._holding.values(), key=lambda state: -state.held_bytes)
        for state in largest:
            if total <= self._limits.held_bytes:
                return
            total -= state.held_bytes
            for direction, writer in zip(state.directions, state.writers(shared), strict=True):
                if direction.held:
                    direction.note_limit()
                    direction.give_up_all(writer)
            state.end_writing()
            self._touched.append(state)

    def _bound_connections(self, shared: Segments) -> None:
        if len(self._open) <= self._limits.connections:
            return
        silent = sorted(self._open.values(), key=lambda state: state.tcp.last_time_ns)
        for state in silent[: len(silent) - self._limits.connections * 3 // 4]:
            self._close(state, shared)

    def _end_batch(self) -> list[StreamUpdate]:
        """Give new connections their serials and hand over the updates, each once."""
        self._opened.sort(key=lambda opened: opened[0])
        for _, opened in self._opened:
            self._serial += 1
            opened.tcp.serial = self._serial
        self._opened.clear()
        updates, self._updates = self._updates, []
        for state in self._touched:
            if state.update is not None:
                if not state.update.closed:
                    updates.append(state.update)
                state.update = None
        self._touched.clear()
        updates.sort(key=lambda update: update.connection.serial)
        return updates


def _is_next(side: Side, direction: Direction) -> bool:
    """Tell whether all payload of one side is what comes next."""
    return side.first == side.last or (
        side.breaks == 0 and side.sequence == direction.next_sequence and direction.started
    )


def _span(direction: Direction) -> tuple[int, int] | None:
    if not direction.started:
        return None
    return direction.first_sequence, direction.next_sequence


def _no_segments() -> Segments:
    return Segments(memoryview(b""), [], [], [], [], [])
