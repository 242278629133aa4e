"""The stages below the rows, connected: captures in, exchanges out.

In: captures. Out: :class:`BatchEvents`, the events of each batch of packets.

    bytes -> PacketBatch -> StreamUpdate -> Exchange

What proxies put before a protocol is taken off the streams before anything else is read from them.
If rows of connections are requested, TLS handshakes are watched. With a key log, the payload of TLS
connections is decrypted before Kafka messages are read from it.

Only what open connections need is kept, bounded by :class:`MemoryBounds`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kanalyze.capture.merge import PacketLocations
from kanalyze.common.garbage_collection import no_collection
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.common.saved import load, save
from kanalyze.kafka.session.events import ConnectionCounts, ConnectionSummary
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.model.packets import PacketBatch
from kanalyze.net.proxy.streams import StreamsBehindProxies
from kanalyze.net.segment_columns import ALL_CONNECTIONS, Shard
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.reassembly import Reassembler
from kanalyze.runtime.memory import DEFAULT_MEMORY_BYTES, MemoryBounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.capture.file_metadata import DecryptionSecrets, FileMetadata
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.detection import BrokerSide
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_reader import KeepsBytes, MessageReader
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.model.streams import PrefixBytes, StreamUpdate, TokenBytes
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.net.layer_stats import NetCounters
    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.net.tcp.reassembly import ReassembledBatch
    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.streams import DecryptedStreams
    from kanalyze.tls.watcher import TlsWatcher

NOT_INSTALLED = "not_installed"
"""Outcome of connections if nothing is installed to use the secrets inside captures with."""


class TlsStage:
    """Watches the TLS of connections, and decrypts it."""

    _NOT_SAVED = ("_keylog", "_lacks_ciphers", "_most_bytes", "_secrets_taken")

    def __init__(self, most_bytes: int, *, watches: bool, keylog: KeyLog | None) -> None:
        """Make the stage.

        Args:
            most_bytes: unit of memory: connections that are decrypted, or wait for a secret, may
                take twice as much, and watched handshakes half as much.
            watches: whether the facts of TLS are written to connections.
            keylog: the secrets to decrypt with, besides those inside captures; None for none.
        """
        self._most_bytes = most_bytes
        self._keylog = keylog
        self._secrets_taken = 0
        """Number of the secrets inside captures that were read so far."""
        self._watcher = self._new_watcher() if watches else None
        self.streams = None if keylog is None else self._new_streams()
        """The connections that are decrypted, or wait for a secret; None if there are no keys."""
        self._lacks_ciphers = False
        """Whether there are secrets inside captures, and nothing to decrypt with."""

    def state(self) -> State:
        """Return the state between two batches, for :meth:`from_state`. No secret is in it."""
        parts = self._watcher, self.streams
        return tuple(None if part is None else save(part) for part in parts)

    def from_state(self, state: object, still_open: Mapping[int, TcpConnection]) -> TlsStage:
        """Return a stage that continues from a state; raises ValueError for any other value.

        ``still_open`` are the open connections, by their serial number.
        """
        watched, decrypted = fields(state, "TT")
        stage = TlsStage(self._most_bytes, watches=self._watcher is not None, keylog=self._keylog)
        if stage._watcher is not None:
            load(stage._watcher, watched, still_open)
        if stage.streams is None and decrypted:
            stage.streams = stage._new_streams()
        if stage.streams is not None:
            load(stage.streams, decrypted, still_open)
        return stage

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for open connections."""
        parts = self._watcher, self.streams
        return sum(part.buffered_bytes for part in parts if part is not None)

    def feed(
        self, updates: Sequence[StreamUpdate], *, is_last: bool
    ) -> tuple[Sequence[StreamUpdate], Sequence[Anomaly]]:
        """Return the updates from which Kafka is read, and anomalies.

        ``is_last``: whether the capture has ended.
        """
        if self._watcher is not None:
            self._watcher.feed(updates)
        if self.streams is None:
            return updates, ()
        return self.streams.feed(updates, is_last=is_last)

    def outcomes(self, encrypted_connections: int) -> dict[str, int]:
        """Return what became of connections with TLS since :meth:`reset_outcomes`, by name.

        Empty without keys; then all ``encrypted_connections``, those that ended with TLS that was
        not decrypted, could not be read for want of them.
        """
        if self.streams is not None:
            counts = {outcome.value: n for outcome, n in self.streams.outcomes.items()}
            return {"decrypted": 0, **counts}
        return {NOT_INSTALLED: encrypted_connections} if self._lacks_ciphers else {}

    def reset_outcomes(self) -> None:
        """Begin to count :meth:`outcomes` again."""
        if self.streams is not None:
            self.streams.outcomes.clear()

    def plaintext_tokens(self, tokens: list[TokenBytes]) -> list[TokenBytes]:
        """Return the tokens that packets have in plaintext: without decrypted connections."""
        if self.streams is None:
            return tokens
        return [token for token in tokens if not self.streams.is_decrypted(token.connection)]

    def write_open(self, tcp: TcpConnection) -> None:
        """Write the facts of TLS so far to an open connection."""
        if self._watcher is not None:
            self._watcher.write_open(tcp)

    def take_secrets(
        self,
        secrets: Sequence[DecryptionSecrets],
        still_open: Iterable[TcpConnection],
        *,
        may_be_late: bool,
    ) -> None:
        """Use the secrets inside captures.

        Args:
            secrets: all secrets read so far; those of earlier calls are ignored.
            still_open: the open connections.
            may_be_late: whether secrets may follow the packets that they decrypt, as in a pipe.
        """
        new_blocks = secrets[self._secrets_taken :]
        if not new_blocks:
            return
        self._secrets_taken = len(secrets)
        from kanalyze.tls.keylog import TLS_KEY_LOG, KeyLog, are_ciphers_installed

        logs = [block.data for block in new_blocks if block.kind == TLS_KEY_LOG]
        if not logs:
            return
        if not are_ciphers_installed():
            self._lacks_ciphers = True
            return
        if self.streams is None:
            self._keylog = KeyLog(grows=may_be_late)
            self.streams = self._new_streams()
            # These connections were read as encrypted until now.
            load(self.streams, None, {tcp.serial: tcp for tcp in still_open})
        for data in logs:
            self.streams.add_secrets(data)

    def _new_watcher(self) -> TlsWatcher:
        from kanalyze.tls.watcher import TlsWatcher  # imported late: only with connections

        return TlsWatcher(self._most_bytes // 2)

    def _new_streams(self) -> DecryptedStreams:
        from kanalyze.tls.keylog import KeyLog  # imported late: only with keys
        from kanalyze.tls.streams import DecryptedStreams

        keylog = KeyLog() if self._keylog is None else self._keylog
        return DecryptedStreams(keylog, 2 * self._most_bytes)


class Captures(PacketLocations, Protocol):
    """The inputs: :class:`~kanalyze.capture.merge.MergedCaptures`, or a substitute."""

    anomalies: list[Anomaly]
    """The anomalies of the captures themselves so far."""
    can_be_read_again: bool

    @property
    def names(self) -> list[str]:
        """The captures opened so far."""
        ...

    @property
    def description(self) -> FileMetadata | None:
        """The metadata of the captures so far; None if unknown."""
        ...

    @property
    def dropped_packets(self) -> int | None:
        """Number of packets that the capturing machines dropped; None if unknown."""
        ...

    @property
    def progress(self) -> tuple[int, int | None]:
        """Bytes read so far, and bytes in all; the latter is None if unknown."""
        ...

    def batches(self) -> Iterator[PacketBatch] | Iterator[SegmentColumns]:
        """Yield all packets, once, in batches that are not empty."""
        ...


StageParts: TypeAlias = "tuple[Reassembler, ConnectionTracker, TlsStage, StreamsBehindProxies]"
"""The parts of :class:`Stages`."""


class BatchEvents(NamedTuple):
    """The events of a batch of packets."""

    exchanges: list[Exchange]
    """Exchanges in the order in which they were completed on the wire."""
    completion_packets: list[int]
    """For each exchange, the number of the packet that completed it; ascending."""
    anomalies: list[Anomaly]
    summaries: list[ConnectionSummary]
    """Connections that closed, Kafka and others; filled only with ``connections``."""
    closed_connections: list[TcpConnection]
    closed_clients: dict[int, int | None]
    """Which end of the connections that closed is the client, by serial; None if unknown."""
    token_bytes: list[TokenBytes]
    proxy_credentials: Sequence[TokenBytes]
    """Where credentials for a proxy are, or may be."""
    prefixes: Sequence[PrefixBytes]
    """What proxies put before the protocol, of connections whose protocol begins."""


class Stages:
    """One pass over packets: reassembly, then Kafka."""

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        *,
        is_broker: BrokerSide | None = None,
        keep: KeepsBytes | None = None,
        memory: MemoryBounds | None = None,
        connections: bool = False,
        every_anomaly: bool = False,
        shard: Shard = ALL_CONNECTIONS,
        idle_ns: int | None = None,
        keylog: KeyLog | None = None,
    ) -> None:
        """Make the stages.

        Args:
            reader: decodes messages.
            catalog: the known APIs.
            is_broker: see :class:`~kanalyze.kafka.session.tracker.ConnectionTracker`.
            keep: see :class:`~kanalyze.kafka.session.tracker.ConnectionTracker`.
            memory: limits of memory; None for the default.
            connections: whether to measure TCP, to watch TLS, and to summarize each connection
                that closed.
            every_anomaly: return all anomalies of a batch, not only the first of each kind; all
                are counted in any case.
            shard: which connections to follow; the first shard counts what belongs to none.
            idle_ns: silence after which a connection is given up; None for never.
            keylog: the secrets to decrypt TLS with, besides those inside captures; None for none.
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
            collect_summaries=connections,
            most_undecided_bytes=bounds.undecided_bytes,
            most_kafka_bytes=bounds.kafka_bytes,
        )
        self._new_proxies = partial(StreamsBehindProxies, bounds.undecided_bytes // 2)
        self._reassembler = self._new_reassembler()
        self._proxies = self._new_proxies()
        self._tracker = self._new_tracker()
        self.tls = TlsStage(bounds.undecided_bytes, watches=connections, keylog=keylog)

    @property
    def settings(self) -> State:
        """The settings that must be equal in stages that load the state."""
        return self._reassembler.settings, self._tracker.settings

    def state(self) -> State:
        """Return the state of open connections between two batches. No secret is in it."""
        streams = save(self._tracker), self.tls.state(), save(self._proxies)
        return save(self._reassembler), *streams

    def parts_from_state(self, state: object) -> StageParts:
        """Return parts that continue from a state; raises ValueError for any other value."""
        net, connections, tls, proxies = fields(state, "tttt", (((), ()),))
        reassembler, tracker = self._new_reassembler(), self._new_tracker()
        load(reassembler, net)
        still_open = {tcp.serial: tcp for tcp in reassembler.open_tcp()}
        load(tracker, connections, still_open)
        if not tracker.serials <= still_open.keys():
            raise ValueError("a connection that is not open")
        streams = self._new_proxies()
        load(streams, proxies, still_open)
        return reassembler, tracker, self.tls.from_state(tls, still_open), streams

    def load_state(self, parts: StageParts) -> None:
        """Replace the parts; call it before the first batch."""
        self._reassembler, self._tracker, self.tls, self._proxies = parts

    @property
    def net(self) -> NetCounters:
        """Counts of packets and TCP so far."""
        return self._reassembler.counters

    @property
    def counts(self) -> ConnectionCounts:
        """Counts of connections and of decoded data so far."""
        return self._tracker.counts

    def client_index(self, tcp: TcpConnection, events: BatchEvents) -> int | None:
        """Return the index of the end of a connection that is the client; None if unknown.

        ``events`` are those of the last batch, which the connection may have closed with.
        """
        index = events.closed_clients.get(tcp.serial, self._tracker.client_index(tcp))
        if index is None and tcp.opened_by is None:
            return self._tracker.servers.client_of(tcp)
        return index

    def feed(self, batch: PacketBatch | SegmentColumns) -> BatchEvents:
        """Process the next packets, or segments whose headers were parsed elsewhere."""
        if isinstance(batch, PacketBatch):
            return self._events(self._reassembler.feed(batch))
        return self._events(self._reassembler.feed_segments(batch))

    def finish(self) -> BatchEvents:
        """End the capture: close all open connections."""
        return self._events(self._reassembler.finish(), is_last=True)

    @property
    def open_connections(self) -> int:
        """Number of open TCP connections."""
        return self._reassembler.open_connections

    def open_tcp(self) -> Iterator[TcpConnection]:
        """Yield the open TCP connections, except those with only a SYN."""
        return self._reassembler.open_tcp()

    def open_summary(self, tcp: TcpConnection) -> ConnectionSummary | None:
        """Return the summary of an open connection so far; None if its protocol is undecided."""
        self.tls.write_open(tcp)
        return self._tracker.open_summary(tcp)

    def is_unknown(self, tcp: TcpConnection) -> bool:
        """Return true if the protocol of an open connection has been unknown for long."""
        return self._tracker.is_unknown(tcp)

    def is_tls(self, tcp: TcpConnection) -> bool:
        """Return true if an open connection has TLS that is not decrypted."""
        return self._tracker.is_tls(tcp)

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for open connections: after gaps, undecided, in incomplete messages."""
        tracker = self._tracker
        session_bytes = tracker.undecided_bytes + tracker.kafka_bytes
        stream_bytes = self._proxies.buffered_bytes + self.tls.buffered_bytes
        return self._reassembler.buffered_bytes + stream_bytes + session_bytes

    def in_flight(self, before_ns: int) -> Iterable[Exchange]:
        """Yield the requests that wait for their response; call it between two batches.

        All that began before the Unix time ``before_ns`` are included, and some later ones.
        """
        return self._tracker.in_flight(before_ns)

    def reset_counts(self) -> None:
        """Reset :attr:`net`, :attr:`counts` and the outcomes of TLS; connections stay open."""
        self._reassembler.reset_counters()
        self.tls.reset_outcomes()
        self._tracker.counts = ConnectionCounts()

    def run(
        self, captures: Captures, *, close_connections: bool = True
    ) -> Iterator[tuple[PacketBatch | SegmentColumns | None, BatchEvents]]:
        """Read captures to their end; yield each batch with its events.

        With ``close_connections``, the connections still open are closed at the end, which yields
        None and their events. Otherwise they stay open.
        """
        for batch in captures.batches():
            if captures.description is not None:
                self.tls.take_secrets(
                    captures.description.decryption_secrets,
                    self.open_tcp(),
                    may_be_late=not captures.can_be_read_again,
                )
            # Most objects of a batch live to its end, those of a hundred thousand tiny connections
            # for long: to search among them took a third of the time.
            with no_collection():
                events = self.feed(batch)
            yield batch, events
        if close_connections:
            with no_collection():
                events = self.finish()
            yield None, events

    def _events(self, reassembled: ReassembledBatch, *, is_last: bool = False) -> BatchEvents:
        unwrapped = self._proxies.feed(reassembled.updates)
        updates, tls_anomalies = self.tls.feed(unwrapped.updates, is_last=is_last)
        session = self._tracker.feed(updates)
        return BatchEvents(
            exchanges=session.exchanges,
            completion_packets=session.completion_packets,
            anomalies=[*reassembled.anomalies, *session.anomalies, *tls_anomalies],
            summaries=session.summaries,
            closed_connections=[u.connection for u in reassembled.updates if u.closed],
            closed_clients=session.closed_clients,
            token_bytes=self.tls.plaintext_tokens(session.token_bytes),
            proxy_credentials=unwrapped.credentials,
            prefixes=unwrapped.prefixes,
        )
