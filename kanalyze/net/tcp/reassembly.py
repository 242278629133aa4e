"""TCP reassembly: batches of packets to streams of bytes, one pair of streams for each connection.

In: :class:`kanalyze.model.PacketBatch`, in the order of the capture. Out:
:class:`ReassembledBatch`.

Segments in order, the usual case, are passed on by compiled code as one chunk per direction and
batch; Python code runs once per connection and batch. All others (a SYN, a FIN, a retransmission,
segments that arrive while bytes are missing) are taken one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.streams import Segments
from kanalyze.model.tcp import KEPT_NS
from kanalyze.net.headers import HeaderReader
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import ALL_CONNECTIONS, Shard
from kanalyze.net.tcp.connection import IS_ANOTHER, IS_OVER, TimedSegments
from kanalyze.net.tcp.connection_table import ConnectionTable
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.segment_iterator import DuplicateDetector, SegmentIterator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import StreamUpdate
    from kanalyze.model.tcp import NetworkPath, TcpConnection
    from kanalyze.net.layer_stats import NetCounters
    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.net.tcp.connection import OpenConnection
    from kanalyze.net.tcp.segment_iterator import Pair


class ReassembledBatch(NamedTuple):
    """What one batch of packets adds."""

    updates: list[StreamUpdate]
    """In the order of the connections' serials. Their chunks point into the batch that was fed, and
    are valid as long as it is."""
    anomalies: list[Anomaly]
    """The first few of each kind, or all with ``every_anomaly``. Counters count all."""


class Reassembler:
    """Follows every TCP connection of a capture."""

    _NOT_SAVED = ("_active", "_closed", "_eventful", "_limits", "_shard", "_timed")
    _SAVED = Saved("_stats:here _headers:here _duplicates:here _table:here _last_time_ns:int?")

    def __init__(
        self,
        limits: ReassemblyLimits | None = None,
        *,
        measure: bool = False,
        every_anomaly: bool = False,
        shard: Shard = ALL_CONNECTIONS,
    ) -> None:
        """Make a reassembler that has seen nothing.

        Args:
            limits: bounds of memory, and how long to wait for missing bytes; None for the defaults.
            measure: give each connection its :class:`kanalyze.model.TcpMeasures`.
            every_anomaly: return all anomalies of a batch, at worst about as many as packets, not
                only the first few of each kind.
            shard: which connections to follow; packets that belong to no connection are counted
                with the first shard. Serials of one shard differ by the number of shards.
        """
        self._limits = limits or ReassemblyLimits()
        self._timed = TimedSegments() if measure else None
        self._duplicates = DuplicateDetector()
        self._stats = LayerStats(every_anomaly=every_anomaly)
        self._shard = shard
        self._headers = HeaderReader(self._stats if shard.is_first else LayerStats())
        self._table = ConnectionTable(self._limits, self._stats, shard, self._timed)
        self._closed: list[StreamUpdate] = []
        """Last updates of the connections that were closed in the current batch."""
        self._active: list[OpenConnection] = []
        """Connections with something to deliver of the current batch."""
        self._eventful: dict[int, NetworkPath] = {}
        """Paths that remember events, by the connection's serial."""
        self._last_time_ns: int | None = None
        """The latest time of the batch before."""

    @property
    def settings(self) -> State:
        """What has to be the same in a reassembler that loads the state of this one."""
        shard = self._shard.index, self._shard.count
        return shard, tuple(self._limits), self._timed is not None, self._stats.settings

    def _after_load(self) -> None:
        self._eventful = {tcp.serial: tcp.path for tcp in self.open_tcp() if tcp.path.events}

    @property
    def counters(self) -> NetCounters:
        """Counts over everything fed so far."""
        return self._stats.counters

    @property
    def open_connections(self) -> int:
        """Number of connections that have not closed."""
        return len(self._table.open) + len(self._table.half_open)

    def open_tcp(self) -> Iterator[TcpConnection]:
        """Return the connections that have not closed, without those with nothing but a SYN."""
        return (connection.tcp for connection in self._table.open.values())

    def reset_counters(self) -> None:
        """Let :attr:`counters` begin at zero."""
        self._stats.reset_counters()

    @property
    def buffered_bytes(self) -> int:
        """Payload of all connections that is buffered behind holes."""
        connections = self._table.with_holes.values()
        return sum(connection.buffered_bytes for connection in connections)

    def feed(self, batch: PacketBatch) -> ReassembledBatch:
        """Take the next packets of the capture."""
        return self.feed_segments(self._headers.read(batch, self._shard))

    def feed_segments(self, segments: SegmentColumns) -> ReassembledBatch:
        """Take the next segments, whose headers were read elsewhere.

        Packet numbers have to rise, and to be about as far apart as in the capture.
        """
        if not len(segments):
            return self._end_batch()
        self._forget_events()
        iterator = SegmentIterator(segments, self._duplicates)
        if self._timed is not None:
            iterator.mark_all()
        shared, table = iterator.shared, self._table
        opened, half_open = table.open, table.half_open
        for group in range(iterator.groups.count):
            pair = iterator.groups.pair(group)
            connection = opened.get(pair)
            iterator.begin(group)
            if connection is not None:
                self._feed_pair(pair, connection, iterator)
            elif pair not in half_open and iterator.is_lone_syn(group):
                table.begin_half_open(pair, iterator.segment())
            else:
                self._feed_pair(pair, table.promote(pair, shared), iterator)
        self._duplicates.remember(segments)
        table.assign_serials()
        now_ns = self._last_time_ns = iterator.last_time_ns
        self._give_up_old_holes(now_ns, shared)
        self._bound_buffered_bytes(shared)
        self._closed += table.close_excess(shared)
        self._closed += table.close_idle(self._active, now_ns, shared)
        self._bound_timed_segments()
        return self._end_batch()

    def finish(self) -> ReassembledBatch:
        """End the capture: deliver all buffered bytes, with gaps, and close every connection."""
        self._headers.finish()
        self._closed += self._table.close_all(Segments(memoryview(b""), [], [], [], [], []))
        return self._end_batch()

    def _feed_pair(
        self, pair: Pair, connection: OpenConnection | None, iterator: SegmentIterator
    ) -> None:
        """Read the segments of one pair of endpoints; ``connection`` is None if none is open."""
        table = self._table
        while not iterator.at_end:
            if connection is None:
                segment = iterator.segment()
                if table.is_late(pair, segment):
                    iterator.advance()
                else:
                    connection = table.begin(pair, segment)
            elif (outcome := connection.feed(iterator)) == IS_ANOTHER:
                segment = iterator.segment()
                self._closed.append(
                    table.close(connection, iterator.shared, "reused", segment.packet)
                )
                connection = table.begin(pair, segment)
            elif outcome == IS_OVER:
                packet = iterator.segment().packet
                self._closed.append(table.close(connection, iterator.shared, "reset", packet))
                connection = None
                iterator.advance()
        if connection is not None:
            connection.end_writing()
            self._active.append(connection)
            if not connection.is_in_order():
                table.with_holes[pair] = connection

    def _give_up_old_holes(self, now_ns: int, shared: Segments) -> None:
        """Give up the holes that are overdue, also of connections without packets in the batch."""
        for pair, connection in list(self._table.with_holes.items()):
            halves = connection.half_streams
            if connection.is_in_order():
                del self._table.with_holes[pair]
            elif any(half.has_hole() and half.buffer.is_overdue(now_ns) for half in halves):
                for half, writer in zip(halves, connection.writers(shared), strict=True):
                    half.age(now_ns, writer)
                connection.end_writing()
                self._active.append(connection)

    def _bound_buffered_bytes(self, shared: Segments) -> None:
        """Give up holes of the connections that buffer the most, until all fit into the limit."""
        waiting = self._table.with_holes.values()
        total = sum(connection.buffered_memory_bytes for connection in waiting)
        if total <= self._limits.buffered_bytes:
            return
        for connection in sorted(waiting, key=lambda holed: -holed.buffered_memory_bytes):
            if total <= self._limits.buffered_bytes:
                return
            total -= connection.buffered_memory_bytes
            writers = connection.writers(shared)
            for half, writer in zip(connection.half_streams, writers, strict=True):
                if half.has_hole():
                    half.buffer.report_limit(half)
                    half.give_up_all(writer)
            connection.end_writing()
            self._active.append(connection)

    def _forget_events(self) -> None:
        """Forget the events that are older than KEPT_NS; forget all if they are too many."""
        if not self._eventful or self._last_time_ns is None:
            return
        before_ns, total = self._last_time_ns - KEPT_NS, 0
        for serial, path in list(self._eventful.items()):
            path.forget_before(before_ns)
            total += path.events
            if not path.events:
                del self._eventful[serial]
        if total > self._limits.path_events:
            for path in self._eventful.values():
                path.forget_all()
            self._eventful.clear()

    def _bound_timed_segments(self) -> None:
        if self._timed is None or self._timed.count <= self._limits.timed_segments:
            return
        for connection in self._table.open.values():
            if connection.meter is not None:
                connection.meter.drop_timed()

    def _note_events(self, tcp: TcpConnection) -> None:
        """Register a path with events in ``_eventful``; remove it when the connection ended."""
        if tcp.end is not None:
            self._eventful.pop(tcp.serial, None)
        elif tcp.path.events:
            self._eventful[tcp.serial] = tcp.path

    def _end_batch(self) -> ReassembledBatch:
        """Return the updates of the batch, each once."""
        updates, self._closed = self._closed, []
        for connection in self._active:
            if connection.tcp.path.has_events:
                self._note_events(connection.tcp)
            if connection.update is not None:
                if not connection.update.closed:
                    updates.append(connection.update)
                connection.update = None
        self._active.clear()
        updates.sort(key=lambda update: update.connection.serial)
        return ReassembledBatch(updates, self._stats.drain_anomalies())
