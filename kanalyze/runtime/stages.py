"""The stages below the rows, put in a row: captures in, exchanges out.

In: captures. Out: :class:`Step`: what each batch of packets brought to its end. This module must
not know rows, reports, or what becomes of an exchange.

    bytes -> PacketBatch -> StreamUpdate -> Exchange

Nothing is held but what open connections need, and of that no more than :class:`MemoryBounds` says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.errors import UsageError
from kanalyze.kafka.session.connection_summary import ConnectionCounts
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.model.packets import PacketBatch
from kanalyze.net.shard import ALL_CONNECTIONS, Shard
from kanalyze.net.tcp.reassembly import Reassembler, ReassemblyLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.capture.file_metadata import FileMetadata
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.connection import Keep
    from kanalyze.kafka.session.connection_summary import EndedConnection
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.tracker import BrokerSide
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import TokenBytes
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.layer_stats import NetCounters
    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.net.tcp.reassembly import ReassembledBatch

__all__ = [
    "DEFAULT_MEMORY_BYTES",
    "LEAST_MEMORY_BYTES",
    "Captures",
    "MemoryBounds",
    "Stages",
    "Step",
]

DEFAULT_MEMORY_BYTES = 1 << 30
LEAST_MEMORY_BYTES = 32 << 20


class MemoryBounds(NamedTuple):
    """How much may be held of connections, in bytes.

    What the interpreter, the libraries, the buffers for reading and rows on their way to where they
    are written take (some 100 MiB) comes on top, and so do tables of names and statistics, which
    have bounds of their own.
    """

    reassembly_bytes: int
    """Open TCP connections and what waits for lost segments."""
    undecided_bytes: int
    """Of connections of which it is not known yet whether they are Kafka."""
    kafka_bytes: int
    """Of messages that have not ended, and of requests without a response."""

    @classmethod
    def of(cls, total_bytes: int) -> MemoryBounds:
        """Share ``total_bytes`` out; raises UsageError when that is too little to work with."""
        if total_bytes < LEAST_MEMORY_BYTES:
            least = LEAST_MEMORY_BYTES >> 20
            raise UsageError(f"too little memory: {total_bytes} bytes (at least {least} MiB)")
        return cls(total_bytes // 2, total_bytes // 8, total_bytes * 3 // 8)

    def of_shard(self, count: int) -> MemoryBounds:
        """Return the part of one of ``count`` that work side by side."""
        return MemoryBounds(
            self.reassembly_bytes // count, self.undecided_bytes // count, self.kafka_bytes // count
        )


class Captures(Protocol):
    """What is read: :class:`~kanalyze.capture.merge.MergedCaptures`, or what stands for it."""

    names: list[str]
    """Those opened so far."""
    anomalies: list[Anomaly]
    """Of the captures themselves, so far."""
    can_be_read_again: bool

    @property
    def description(self) -> FileMetadata | None:
        """What they say of themselves, as far as they were read; None where that is not known."""
        ...

    @property
    def dropped_packets(self) -> int | None:
        """Packets that the capturing machines dropped; None when nothing says it."""
        ...

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; None where that is not known."""
        ...

    def batches(self) -> Iterator[PacketBatch] | Iterator[SegmentColumns]:
        """Give all that is to be read, in batches that are not empty; once."""
        ...

    def place(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet, and the packet's number in it."""
        ...


Parts: TypeAlias = "tuple[Reassembler, ConnectionTracker]"
"""What :class:`Stages` are made of."""


class Step:
    """What a batch of packets brought."""

    __slots__ = ("anomalies", "closed", "ended", "exchanges", "latest", "tokens")

    def __init__(self, exchanges: list[Exchange], latest: list[int]) -> None:
        self.exchanges = exchanges
        """In the order in which they ended on the wire."""
        self.latest = latest
        """Of each the packet by which it counts as ended. Rises."""
        self.anomalies: list[Anomaly] = []
        self.ended: list[EndedConnection] = []
        """Only where they are asked for."""
        self.closed: list[TcpConnection] = []
        self.tokens: list[TokenBytes] = []


class Stages:
    """One pass over packets: reassembly, then Kafka."""

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        *,
        is_broker: BrokerSide | None = None,
        keep: Keep | None = None,
        memory: MemoryBounds | None = None,
        connections: bool = False,
        every_anomaly: bool = False,
        shard: Shard = ALL_CONNECTIONS,
        idle_ns: int | None = None,
    ) -> None:
        """Set up the stages.

        Args:
            reader: reads messages.
            catalog: the known APIs.
            is_broker: as in :class:`~kanalyze.kafka.session.tracker.ConnectionTracker`.
            keep: as there.
            memory: how much may be held; None for the default.
            connections: whether to measure TCP, and to tell of each connection that ended.
            every_anomaly: give all anomalies of a step, not only the first of each kind; all are
                counted in any case.
            shard: which connections to follow; the first shard counts what belongs to none.
            idle_ns: silence after which a connection is given up; None for never.
        """
        bounds = MemoryBounds.of(DEFAULT_MEMORY_BYTES) if memory is None else memory
        self._new_reassembler = partial(
            Reassembler,
            ReassemblyLimits.of_memory(bounds.reassembly_bytes, idle_ns),
            measure=connections,
            every_anomaly=every_anomaly,
            shard=shard,
        )
        self._new_tracker = partial(
            ConnectionTracker,
            reader,
            catalog,
            is_broker=is_broker,
            keep=keep,
            collect_ended=connections,
            most_undecided_bytes=bounds.undecided_bytes,
            most_kafka_bytes=bounds.kafka_bytes,
        )
        self._reassembler = self._new_reassembler()
        self._tracker = self._new_tracker()

    @property
    def settings(self) -> State:
        """What has to be the same in those that take up the state of these."""
        return self._reassembler.settings, self._tracker.settings

    def state(self) -> State:
        """Return what :meth:`parts_from_state` takes, between two batches: of open connections."""
        return self._reassembler.state(), self._tracker.state()

    def parts_from_state(self, state: object) -> Parts:
        """Return parts like these, which go on from a state; raises ValueError where it is none."""
        net, connections = fields(state, "tt")
        reassembler, tracker = self._new_reassembler(), self._new_tracker()
        reassembler.load_state(net)
        tracker.load_state(connections, {tcp.serial: tcp for tcp in reassembler.open_tcp()})
        return reassembler, tracker

    def load_state(self, parts: Parts) -> None:
        """Go on with other parts, before the first batch."""
        self._reassembler, self._tracker = parts

    @property
    def net(self) -> NetCounters:
        """Counts of packets and TCP so far."""
        return self._reassembler.counters

    @property
    def counts(self) -> ConnectionCounts:
        """Counts of connections and what was read of them so far."""
        return self._tracker.counts

    def client_side(self, tcp: TcpConnection) -> int | None:
        """Return which end of a connection is the client, as far as that is known."""
        return self._tracker.client_side(tcp)

    def feed(self, batch: PacketBatch | SegmentColumns) -> Step:
        """Take the next packets; or segments, where their headers were read elsewhere."""
        if isinstance(batch, PacketBatch):
            return self._step(self._reassembler.feed(batch))
        return self._step(self._reassembler.feed_segments(batch))

    def finish(self) -> Step:
        """End the capture: everything that is still open ends with it."""
        return self._step(self._reassembler.finish())

    @property
    def open_connections(self) -> int:
        """TCP connections that have not ended."""
        return self._reassembler.open_connections

    def open_tcp(self) -> Iterator[TcpConnection]:
        """Give the TCP connections that have not ended, but for those with a SYN alone."""
        return self._reassembler.open_tcp()

    def is_unknown(self, tcp: TcpConnection) -> bool:
        """Tell of an open connection whether nobody knows what it is, nor is to find out soon."""
        return self._tracker.is_unknown(tcp)

    @property
    def held_bytes(self) -> int:
        """Bytes held of open connections: behind holes, undecided, of messages not ended."""
        tracker = self._tracker
        return self._reassembler.buffered_bytes + tracker.held_bytes + tracker.kafka_held_bytes

    def in_flight(self, before_ns: int) -> Iterator[Exchange]:
        """Give the requests that wait for their response.

        All that began before a Unix time, and some of the later ones. Between two batches.
        """
        return self._tracker.in_flight(before_ns)

    def count_anew(self) -> None:
        """Let :attr:`net` and :attr:`counts` begin at zero; what is open stays open."""
        self._reassembler.reset_counters()
        self._tracker.counts = ConnectionCounts()

    def run(
        self, captures: Captures, *, ends: bool = True
    ) -> Iterator[tuple[PacketBatch | SegmentColumns | None, Step]]:
        """Read captures to their end; give each batch with its step, and None with the last.

        Where it does not end all, that last one is left out: what is open goes on elsewhere.
        """
        for batch in captures.batches():
            yield batch, self.feed(batch)
        if ends:
            yield None, self.finish()

    def _step(self, found: ReassembledBatch) -> Step:
        tracker, updates = self._tracker, found.updates
        step = Step(*tracker.feed_batch(updates).sort())
        step.closed = [update.connection for update in updates if update.closed]
        step.anomalies = [*found.anomalies, *tracker.take_anomalies()]
        step.ended = tracker.take_ended()
        step.tokens = tracker.take_tokens()
        return step
