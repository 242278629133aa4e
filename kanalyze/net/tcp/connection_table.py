"""TCP connections by their pair of endpoints, and the rules by which they begin and close.

In: first segments, limits, the time. Out: connections, and the last updates of closed ones;
whether a segment is a late one of a closed connection (TIME_WAIT of RFC 9293); whether a connection
was silent for too long, by capture times that may jump.
"""

from __future__ import annotations

from collections import OrderedDict
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, load, make, save
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import NO_TIME
from kanalyze.model.tcp import open_connection
from kanalyze.net.segment_columns import SYN
from kanalyze.net.tcp.connection import (
    ClosedConnection,
    HalfOpenConnection,
    OpenConnection,
    TimedSegments,
)
from kanalyze.net.tcp.half_stream import PAST_WINDOW_BYTES, distance
from kanalyze.net.tcp.segment_iterator import check_pair

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import Segments, StreamUpdate
    from kanalyze.model.tcp import ConnectionEnd, TcpConnection
    from kanalyze.net.layer_stats import LayerStats
    from kanalyze.net.segment_columns import Shard
    from kanalyze.net.tcp.limits import ReassemblyLimits
    from kanalyze.net.tcp.segment_iterator import Pair, Segment

_TICKS: Final = 4
"""A connection is idle after more ticks than these, because the first and the last are partial."""
_Connection = TypeVar("_Connection", OpenConnection, HalfOpenConnection)


class ConnectionTable:
    """The connections of a shard that have not closed, within limits."""

    _NOT_SAVED = ("_limits", "_opened", "_shard", "_stats", "_timed")

    def __init__(
        self,
        limits: ReassemblyLimits,
        stats: LayerStats,
        shard: Shard,
        timed: TimedSegments | None,
    ) -> None:
        """``timed`` is None where nothing is measured."""
        self._limits = limits
        self._stats = stats
        self._timed = timed
        self._shard = shard
        self.open: dict[Pair, OpenConnection] = {}
        self.half_open: dict[Pair, HalfOpenConnection] = {}
        """Connections with nothing but a SYN; those of a batch are in order of their packets."""
        self.with_holes: dict[Pair, OpenConnection] = {}
        """Open connections that were not in order after their last segment."""
        self._time_wait = TimeWaitTable(limits)
        self._idle_timer = None if limits.idle_ns is None else IdleTimer(limits.idle_ns)
        self._opened: list[tuple[int, TcpConnection | HalfOpenConnection]] = []
        """Connections without a serial yet, with the number of their first packet."""
        self._serial = shard.index + 1 - shard.count

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, between two batches."""
        return (
            self._serial,
            tuple([save(connection) for connection in self.open.values()]),
            tuple([save(connection) for connection in self.half_open.values()]),
            tuple([connection.tcp.serial for connection in self.with_holes.values()]),
            save(self._time_wait),
            None if self._idle_timer is None else save(self._idle_timer),
        )

    def load_state(self, state: object, _context: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        self._serial, opened, half_open, serials, time_wait, idle = fields(state, "ittttT")
        by_serial: dict[int, OpenConnection] = {}
        for item in items(opened, "t"):
            connection = OpenConnection.from_state(item, self._limits, self._stats, self._timed)
            self.open[connection.pair] = by_serial[connection.tcp.serial] = connection
        if not len(by_serial) == len(opened) == len(self.open):
            raise ValueError("connections that are there twice")
        for item in items(half_open, "t"):
            half_open_connection = make(HalfOpenConnection, item)
            self.half_open[half_open_connection.pair] = half_open_connection
        for serial in items(serials, "n"):
            connection = open_connection(by_serial, serial)
            self.with_holes[connection.pair] = connection
        load(self._time_wait, time_wait)
        if (self._idle_timer is None) != (idle is None):
            raise ValueError("silence counts in one run alone")
        if self._idle_timer is not None:
            load(self._idle_timer, idle)

    # -- begin ------------------------------------------------------------------------------------

    def begin_half_open(self, pair: Pair, syn: Segment) -> None:
        """Begin a connection with its SYN, unless that is a late one of an earlier connection."""
        if self.is_late(pair, syn):
            return
        tick = 0 if self._idle_timer is None else self._idle_timer.tick
        half_open = HalfOpenConnection(pair, self._time_wait.next_number(pair), syn, tick)
        self.half_open[pair] = half_open
        self._opened.append((syn.packet, half_open))

    def promote(self, pair: Pair, shared: Segments) -> OpenConnection | None:
        """Turn the half-open connection of a pair into an open one; None if it has none."""
        half_open = self.half_open.pop(pair, None)
        if half_open is None:
            return None
        connection = self._new(pair, half_open.syn, half_open.number)
        connection.tcp.serial = half_open.serial
        connection.active_tick = half_open.active_tick
        connection.receive(half_open.syn, shared)
        return connection

    def is_late(self, pair: Pair, segment: Segment) -> bool:
        """Return true if a segment is of a connection that has closed; count it if so."""
        if not self._time_wait.is_late(pair, segment):
            return False
        self._stats.counters.late_packets += 1
        self._stats.counters.late_bytes += segment.length
        return True

    def begin(self, pair: Pair, segment: Segment) -> OpenConnection:
        """Begin a connection with its first segment, which it does not receive yet."""
        connection = self._new(pair, segment, self._time_wait.next_number(pair))
        self._opened.append((segment.packet, connection.tcp))
        return connection

    def _new(self, pair: Pair, first: Segment, number: int) -> OpenConnection:
        connection = OpenConnection(pair, first, number, self._limits, self._stats, self._timed)
        self.open[pair] = connection
        return connection

    def assign_serials(self) -> None:
        """Assign serials to the connections that began in a batch, by their first packets."""
        self._opened.sort(key=itemgetter(0))
        for _, connection in self._opened:
            self._serial += self._shard.count
            connection.serial = self._serial
        self._opened.clear()

    # -- close ------------------------------------------------------------------------------------

    def close(
        self,
        connection: OpenConnection,
        shared: Segments,
        end: ConnectionEnd,
        packet: int | None = None,
    ) -> StreamUpdate:
        """Close a connection, with the packet that closed it, and return its last update."""
        update = connection.close(shared, end)
        update.closed_packet = packet
        del self.open[connection.pair]
        self.with_holes.pop(connection.pair, None)
        self._time_wait.add(connection)
        return update

    def _close_half_open(self, half_open: HalfOpenConnection, end: ConnectionEnd) -> StreamUpdate:
        update = half_open.close(end, measure=self._timed is not None)
        del self.half_open[half_open.pair]
        self._time_wait.add_cut_off(half_open.pair, half_open.number, half_open.last_time_ns)
        return update

    def close_all(self, shared: Segments) -> list[StreamUpdate]:
        """Close every connection: the capture ends."""
        updates = [self.close(full, shared, "open") for full in list(self.open.values())]
        updates += [self._close_half_open(half, "open") for half in list(self.half_open.values())]
        self._time_wait.clear()
        return updates

    def close_excess(self, shared: Segments) -> list[StreamUpdate]:
        """Close the connections that were silent for longest, if there are too many."""
        updates = []
        for connection in _excess(self.open, self._limits.connections):
            updates.append(self.close(connection, shared, "limit"))
            self._report_limit(connection.tcp)
        for half_open in _excess(self.half_open, self._limits.half_open):
            updates.append(self._close_half_open(half_open, "limit"))
            self._report_limit(updates[-1].connection)
        return updates

    def _report_limit(self, tcp: TcpConnection) -> None:
        kind = AnomalyKind.CONNECTION_LIMIT
        if self._stats.count_and_reserve(kind):
            self._stats.add_reserved(Anomaly(kind, time_ns=tcp.last_time_ns, connection=tcp))

    def close_idle(
        self, active: list[OpenConnection], now_ns: int, shared: Segments
    ) -> list[StreamUpdate]:
        """Close the connections that are silent for too long at ``now_ns``.

        ``active`` are those with segments in the current batch.
        """
        timer = self._idle_timer
        if timer is None:
            return []
        for connection in active:
            connection.active_tick = timer.tick
        if not timer.advance_to(now_ns):
            return []
        idle = [full for full in self.open.values() if timer.is_idle(full.active_tick)]
        updates = [self.close(full, shared, "idle") for full in idle]
        idle_half = [half for half in self.half_open.values() if timer.is_idle(half.active_tick)]
        return updates + [self._close_half_open(half, "idle") for half in idle_half]


def _excess(connections: dict[Pair, _Connection], most: int) -> list[_Connection]:
    """Return the connections that are silent longest, at least a quarter, if there are too many."""
    if len(connections) <= most:
        return []
    silent = sorted(connections.values(), key=attrgetter("last_time_ns"))
    return silent[: len(silent) - most * 3 // 4]


class TimeWaitTable:
    """The last closed connections, each on its pair of endpoints; the oldest are forgotten."""

    _NOT_SAVED = ("_limits",)
    _SAVED = Saved("_closed:ordered[*(wide,wide),ClosedConnection]", ClosedConnection, bare=True)

    def __init__(self, limits: ReassemblyLimits) -> None:
        self._limits = limits
        # Not a plain dict: to find its first entry, Python steps over all deleted ones before it.
        self._closed: OrderedDict[Pair, ClosedConnection] = OrderedDict()
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._closed)

    def _after_load(self) -> None:
        for pair in self._closed:
            check_pair(pair)

    def clear(self) -> None:
        """Forget all."""
        self._closed.clear()

    def add(self, connection: OpenConnection) -> None:
        """Remember a connection that is closed."""
        lower, higher = connection.half_streams
        if connection.tcp.end in ("limit", "idle"):
            self.add_cut_off(
                connection.pair, connection.tcp.connection_number, connection.tcp.last_time_ns
            )
        else:
            number, closed_ns = connection.tcp.connection_number, connection.tcp.last_time_ns
            closed = ClosedConnection(number, closed_ns, lower.span(), higher.span())
            self._add(connection.pair, closed)

    def add_cut_off(self, pair: Pair, number: int, closed_ns: int) -> None:
        """Remember a connection that a limit or idleness closed: later packets are not late."""
        self._add(pair, ClosedConnection(number, closed_ns))

    def _add(self, pair: Pair, closed: ClosedConnection) -> None:
        self._closed[pair] = closed
        if len(self._closed) > self._limits.time_wait_pairs:
            self._closed.popitem(last=False)

    def next_number(self, pair: Pair) -> int:
        """Return the number of a new connection on a pair, and forget the last one."""
        earlier = self._closed.pop(pair, None)
        return earlier.number + 1 if earlier is not None else 1

    def is_late(self, pair: Pair, segment: Segment) -> bool:
        """Return true if a segment is a late one of the last connection on its pair.

        The pair has no open connection. A SYN is late if it repeats the old one. A segment without
        SYN and payload is always late. Payload is late if its sequence number is near the old
        stream's end, it comes soon after the close, and not too many such segments came before.
        """
        closed = self._closed.get(pair)
        if closed is None:
            return False
        span = closed.span(bool(segment.from_higher))
        if segment.flags & SYN:
            return span is not None and distance(segment.sequence + 1, span[0]) == 0
        if not segment.length:
            return True
        if span is None or abs(distance(segment.sequence, span[1])) > PAST_WINDOW_BYTES:
            return False
        closed.late += 1
        return closed.late <= self._limits.late_segments and (
            closed.closed_ns == NO_TIME
            or segment.time_ns - closed.closed_ns <= self._limits.late_ns
        )


class IdleTimer:
    """Counts time in ticks, of which the idle time has four.

    A jump of the time, ahead or back, counts as one tick, so it closes no connection.
    """

    _NOT_SAVED = ("_tick_ns",)
    _SAVED = Saved("_began_ns:int? tick:count")

    def __init__(self, idle_ns: int) -> None:
        """``idle_ns`` is the least silence that counts as idle: more than 0."""
        self._tick_ns = -(-idle_ns // _TICKS)
        self._began_ns: int | None = None
        self.tick = 0
        """The current tick."""

    def advance_to(self, now_ns: int) -> bool:
        """Let time pass; tell whether there was a tick."""
        if now_ns == NO_TIME:
            return False
        if self._began_ns is None:
            self._began_ns = now_ns
        if abs(now_ns - self._began_ns) < self._tick_ns:
            return False
        self._began_ns = now_ns
        self.tick += 1
        return True

    def is_idle(self, active_tick: int) -> bool:
        """True if a connection is idle now whose last segment came in tick ``active_tick``."""
        return self.tick - active_tick > _TICKS
