"""TCP reassembly: batches of packets to streams of bytes, one pair of streams a connection.

In: :class:`kanalyze.model.PacketBatch`, in the order of the capture. Out:
:class:`kanalyze.model.StreamUpdate`. Must not know: where packets come from, nor what the streams
say.

Segments in order, the usual case, are passed on by compiled code, and are one chunk a direction and
batch; here Python runs once a connection and batch. Anything else (a SYN, a FIN, a hole, a
retransmission) is taken up segment by segment, and so is what follows as long as bytes are missing.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, TypeVar

from kanalyze.common.plain_values import fields, items
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.segments import Segments
from kanalyze.net.headers import HeaderReader
from kanalyze.net.layer_stats import Notes
from kanalyze.net.shard import EVERYTHING, Share
from kanalyze.net.tcp.connection import IS_ANOTHER, IS_OVER, ConnectionState
from kanalyze.net.tcp.duplicates import Duplicates
from kanalyze.net.tcp.half_open import HalfOpen
from kanalyze.net.tcp.idle_timer import Ages
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.round_trips import TimedSegments
from kanalyze.net.tcp.segment_iterator import Walk
from kanalyze.net.tcp.time_wait import ClosedPairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import StreamUpdate
    from kanalyze.model.tcp import ConnectionEnd, TcpConnection
    from kanalyze.net.headers import SegmentColumns
    from kanalyze.net.layer_stats import NetCounters
    from kanalyze.net.tcp.delivery import Segment
    from kanalyze.net.tcp.endpoint_pairs import Pair

__all__ = ["Reassembler", "ReassemblyLimits"]

_State = TypeVar("_State", "ConnectionState", "HalfOpen")


class Reassembler:
    """Follows every TCP connection of a capture.

    Updates come in the order of the connections' serials. The chunks of an update point into the
    batch that was fed, and are valid as long as it is.
    """

    _LEFT_OUT = ("_limits", "_opened", "_share", "_timed", "_touched", "_updates")

    def __init__(
        self,
        limits: ReassemblyLimits | None = None,
        *,
        measure: bool = False,
        every_anomaly: bool = False,
        share: Share = EVERYTHING,
    ) -> None:
        """Make a reassembler that has seen nothing.

        Args:
            limits: bounds of memory and patience; None for the defaults.
            measure: give each connection its :class:`kanalyze.model.TcpMeasures`.
            every_anomaly: keep all anomalies until they are taken, not only the first few of each
                kind: about as many as packets, at worst.
            share: which connections to follow; packets that belong to none are counted with the
                first share. Serials are then as far apart as there are shares.
        """
        self._limits = limits or ReassemblyLimits()
        self._timed = TimedSegments() if measure else None
        self._duplicates = Duplicates()
        self._notes = Notes(every_anomaly=every_anomaly)
        self._share = share
        self._headers = HeaderReader(self._notes if share.is_first else Notes())
        self._open: dict[Pair, ConnectionState] = {}
        self._half_open: dict[Pair, HalfOpen] = {}
        """Those with nothing but a SYN, the first one of a batch first."""
        self._holding: dict[Pair, ConnectionState] = {}
        """Those with a hole, or nearly: looked at after each batch."""
        self._closed = ClosedPairs(self._limits)
        self._ages = None if self._limits.idle_ns is None else Ages(self._limits.idle_ns)
        self._opened: list[tuple[int, ConnectionState | HalfOpen]] = []
        """Connections without a serial yet, with the number of their first packet."""
        self._updates: list[StreamUpdate] = []
        self._touched: list[ConnectionState] = []
        self._serial = share.index + 1 - share.count

    @property
    def settings(self) -> State:
        """What has to be the same in the one that takes up its state."""
        share = self._share.index, self._share.count
        return share, tuple(self._limits), self._timed is not None, self._notes.settings

    def state(self) -> State:
        """Return what :meth:`load_state` takes, between two batches, once anomalies were taken."""
        return (
            self._serial,
            self._notes.state(),
            self._headers.state(),
            self._duplicates.state(),
            tuple([state.state() for state in self._open.values()]),
            tuple([known.state() for known in self._half_open.values()]),
            tuple([state.tcp.serial for state in self._holding.values()]),
            self._closed.state(),
            None if self._ages is None else self._ages.state(),
        )

    def load_state(self, state: object) -> None:
        """Go on from a state, before anything was fed.

        Raises:
            ValueError: it is none; this one is not to be used then.
        """
        values = fields(state, "it*Ttttt*")
        self._serial = values[0]
        self._notes.load_state(values[1])
        self._headers.load_state(values[2])
        self._duplicates.load_state(values[3])
        by_serial: dict[int, ConnectionState] = {}
        for each in items(values[4], "t"):
            opened = ConnectionState.from_state(each, self._limits, self._notes, self._timed)
            self._open[opened.pair] = by_serial[opened.tcp.serial] = opened
        for each in items(values[5], "t"):
            known = HalfOpen.from_state(each)
            self._half_open[known.pair] = known
        for serial in items(values[6], "n"):
            holding = by_serial.get(serial)
            if holding is None:
                raise ValueError(f"no connection {serial} is open")
            self._holding[holding.pair] = holding
        self._closed.load_state(values[7])
        if (self._ages is None) != (values[8] is None):
            raise ValueError("silence counts in one run alone")
        if self._ages is not None:
            self._ages.load_state(values[8])
        if len(by_serial) != len(items(values[4], "t")) or len(by_serial) != len(self._open):
            raise ValueError("connections that are there twice")

    @property
    def counters(self) -> NetCounters:
        """Counts over everything fed so far."""
        return self._notes.counters

    @property
    def open_connections(self) -> int:
        """Connections that have not ended."""
        return len(self._open) + len(self._half_open)

    def open_tcp(self) -> Iterator[TcpConnection]:
        """Give the connections that have not ended, but for those with a SYN and nothing else."""
        return (state.tcp for state in self._open.values())

    def count_anew(self) -> None:
        """Let :attr:`counters` begin at zero."""
        self._notes.count_anew()

    @property
    def held_bytes(self) -> int:
        """Payload held back behind holes, in all."""
        return sum(state.held_bytes for state in self._holding.values())

    def take_anomalies(self) -> list[Anomaly]:
        """Hand over the anomalies since the last time: all, or the first few of each kind.

        All of them are counted in ``counters``.
        """
        return self._notes.take()

    def feed(self, batch: PacketBatch) -> list[StreamUpdate]:
        """Take the next packets of the capture; return what they add to each connection."""
        return self.feed_segments(self._headers.read(batch, self._share))

    def feed_segments(self, segments: SegmentColumns) -> list[StreamUpdate]:
        """Take the next segments, whose headers were read elsewhere; otherwise as :meth:`feed`.

        Their numbers rise, and are about as far apart as packets of the capture.
        """
        if not len(segments):
            return []
        walk = Walk(segments, self._duplicates)
        if self._timed is not None:
            walk.mark_all()
        shared = walk.shared
        for group in range(walk.groups.count):
            pair = walk.groups.pair(group)
            state = self._open.get(pair)
            walk.begin(group)
            if state is not None:
                self._take_group(pair, state, walk)
            elif pair not in self._half_open and walk.is_lone_syn(group):
                self._begin_half_open(pair, walk.segment())
            else:
                self._take_group(pair, self._promote(pair, shared), walk)
        self._duplicates.remember(segments)
        self._number_opened()
        now_ns = walk.last_time_ns
        self._give_up_old_holes(now_ns, shared)
        self._bound_held_bytes(shared)
        self._bound_connections(shared)
        if self._ages is not None:
            self._close_idle(self._ages, now_ns, shared)
        self._bound_timed_segments()
        return self._end_batch()

    def finish(self) -> list[StreamUpdate]:
        """End the capture: deliver everything held back, with gaps, and close every connection."""
        self._headers.finish()
        shared = _no_segments()
        for state in list(self._open.values()):
            self._close(state, shared, "open")
        for half_open in list(self._half_open.values()):
            self._close_half_open(half_open, "open")
        self._closed.clear()
        return self._end_batch()

    def _take_group(self, pair: Pair, state: ConnectionState | None, walk: Walk) -> None:
        """Take what one pair sent."""
        while not walk.at_end:
            if state is None:
                state = self._begin_at(pair, walk)
            elif (met := state.take(walk)) == IS_ANOTHER:
                segment = walk.segment()
                self._close(state, walk.shared, "reused", segment.packet)
                state = self._begin(pair, segment)
            elif met == IS_OVER:
                self._close(state, walk.shared, "reset", walk.segment().packet)
                state = None
                walk.advance()
        if state is not None:
            state.end_writing()
            self._touched.append(state)
            if not state.is_plain:
                self._holding[pair] = state

    def _begin_half_open(self, pair: Pair, syn: Segment) -> None:
        """Begin a connection with its SYN, unless it is a late one of an earlier connection."""
        if self._closed.is_late(pair, syn):
            self._count_late(syn)
            return
        seen = 0 if self._ages is None else self._ages.now
        begun = HalfOpen(pair, self._closed.take_number(pair), syn, seen)
        self._half_open[pair] = begun
        self._opened.append((syn.packet, begun))
        self.counters.connections += 1

    def _promote(self, pair: Pair, shared: Segments) -> ConnectionState | None:
        """Give a connection that was a SYN so far a state; None where there is none."""
        known = self._half_open.pop(pair, None)
        if known is None:
            return None
        syn = known.syn
        state = ConnectionState(pair, syn, known.number, self._limits, self._notes, self._timed)
        state.tcp.serial = known.serial
        state.seen = known.seen
        state.receive(syn, shared)
        self._open[pair] = state
        return state

    def _begin_at(self, pair: Pair, walk: Walk) -> ConnectionState | None:
        """Begin a connection with the segment that a walk is at; step over one that is late."""
        segment = walk.segment()
        if not self._closed.is_late(pair, segment):
            return self._begin(pair, segment)
        self._count_late(segment)
        walk.advance()
        return None

    def _count_late(self, segment: Segment) -> None:
        self.counters.late_packets += 1
        self.counters.late_bytes += segment.length

    def _begin(self, pair: Pair, segment: Segment) -> ConnectionState:
        number = self._closed.take_number(pair)
        state = ConnectionState(pair, segment, number, self._limits, self._notes, self._timed)
        self._open[pair] = state
        self._opened.append((segment.packet, state))
        self.counters.connections += 1
        return state

    def _close(
        self,
        state: ConnectionState,
        shared: Segments,
        end: ConnectionEnd,
        packet: int | None = None,
    ) -> None:
        update = state.close(shared, end)
        update.closed_packet = packet
        self._updates.append(update)
        del self._open[state.pair]
        self._holding.pop(state.pair, None)
        self._closed.add(state)

    def _close_half_open(self, known: HalfOpen, end: ConnectionEnd) -> TcpConnection:
        update = known.close(end, measure=self._timed is not None)
        self._updates.append(update)
        del self._half_open[known.pair]
        self._closed.add_cut_off(known.pair, known.number, known.time_ns)
        return update.connection

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
        total = sum(state.held_memory_bytes for state in self._holding.values())
        if total <= self._limits.held_bytes:
            return
        largest = sorted(self._holding.values(), key=lambda state: -state.held_memory_bytes)
        for state in largest:
            if total <= self._limits.held_bytes:
                return
            total -= state.held_memory_bytes
            for direction, writer in zip(state.directions, state.writers(shared), strict=True):
                if direction.held:
                    direction.note_limit()
                    direction.give_up_all(writer)
            state.end_writing()
            self._touched.append(state)

    def _bound_connections(self, shared: Segments) -> None:
        for state in _beyond(self._open, self._limits.connections):
            self._close(state, shared, "limit")
            self._note_closed(state.tcp)
        for known in _beyond(self._half_open, self._limits.half_open):
            self._note_closed(self._close_half_open(known, "limit"))

    def _note_closed(self, tcp: TcpConnection) -> None:
        """Say that a connection was closed for want of room."""
        kind = AnomalyKind.CONNECTION_LIMIT
        if self._notes.wants(kind):
            self._notes.keep(Anomaly(kind, time_ns=tcp.last_time_ns, connection=tcp))

    def _close_idle(self, ages: Ages, now_ns: int, shared: Segments) -> None:
        for state in self._touched:
            state.seen = ages.now
        if ages.pass_time(now_ns):
            for state in [each for each in self._open.values() if ages.is_idle(each.seen)]:
                self._close(state, shared, "idle")
            for known in [each for each in self._half_open.values() if ages.is_idle(each.seen)]:
                self._close_half_open(known, "idle")

    def _bound_timed_segments(self) -> None:
        if self._timed is None or self._timed.count <= self._limits.timed_segments:
            return
        for state in self._open.values():
            if state.meter is not None:
                state.meter.drop_timed()

    def _number_opened(self) -> None:
        """Give the connections that the batch began their serials."""
        self._opened.sort(key=itemgetter(0))
        for _, opened in self._opened:
            self._serial += self._share.count
            opened.serial = self._serial
        self._opened.clear()

    def _end_batch(self) -> list[StreamUpdate]:
        """Hand over the updates of the batch, each once."""
        updates, self._updates = self._updates, []
        for state in self._touched:
            if state.update is not None:
                if not state.update.closed:
                    updates.append(state.update)
                state.update = None
        self._touched.clear()
        updates.sort(key=lambda update: update.connection.serial)
        return updates


def _beyond(known: dict[Pair, _State], most: int) -> list[_State]:
    """Return those that were silent for longest, where there are too many: a quarter, and more."""
    if len(known) <= most:
        return []
    silent = sorted(known.values(), key=attrgetter("last_time_ns"))
    return silent[: len(silent) - most * 3 // 4]


def _no_segments() -> Segments:
    return Segments(memoryview(b""), [], [], [], [], [])
