"""Follows every TCP connection: undecided, Kafka, TLS, or something else.

In: :class:`~kanalyze.model.streams.StreamUpdate`. Out: :class:`SessionEvents`: exchanges and
anomalies, and a summary of each connection.

Content decides which protocol a connection has, and which end is the client. Ports decide only if
the user says so. The memory of all open Kafka connections together is bounded
(:class:`KafkaConnections`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, load, save_each
from kanalyze.kafka.session.connection import (
    KafkaConnection,
    LossSteps,
    has_loss,
    payload_bytes,
)
from kanalyze.kafka.session.detection import KafkaStart, UndecidedConnections
from kanalyze.kafka.session.events import (
    ConnectionCounts,
    ConnectionEvents,
    ConnectionSummary,
    SessionEvents,
)
from kanalyze.kafka.session.exchange import Peers
from kanalyze.kafka.session.resync import MAX_UNCONFIRMED_BYTES, RequestLocator
from kanalyze.model.tcp import Endpoint, open_connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.connection import BothItems
    from kanalyze.kafka.session.detection import BrokerSide, NotKafka
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_reader import KeepsBytes, MessageReader
    from kanalyze.kafka.v07.connection import Kafka07Connection
    from kanalyze.model.streams import StreamUpdate
    from kanalyze.model.tcp import TcpConnection

_MAX_SERVERS = 4096


class KnownServers:
    """The servers of all connections so far; bounded, the first ones are kept."""

    _SAVED = Saved("_ends:dict[Endpoint]", Endpoint, bare=True)

    def __init__(self) -> None:
        self._ends: dict[Endpoint, None] = {}

    def _after_load(self) -> None:
        if len(self._ends) > _MAX_SERVERS:
            raise ValueError("more servers than are remembered")

    def note(self, tcp: TcpConnection, client_index: int | None) -> None:
        """Note the server of a connection, if it is known which end that is."""
        index = tcp.opened_by if client_index is None else client_index
        if index is not None and len(self._ends) < _MAX_SERVERS:
            self._ends[tcp.endpoints[1 - index]] = None

    def client_of(self, tcp: TcpConnection) -> int | None:
        """Return which end is the client, since the other one is a server; None if unknown."""
        first, second = (end in self._ends for end in tcp.endpoints)
        return int(first) if first != second else None


_SEGMENTS_AFTER_A_LOSS = 32
"""How many segments of each direction are read first after a loss. Each later step reads four
times as many."""

_Connection: TypeAlias = "KafkaConnection | Kafka07Connection"


class OpenKafkaConnection:
    """A Kafka connection, and counts over its exchanges."""

    _SAVED = Saved(
        "client_index:end protocol:str dropped_bytes:count client_id:str? requests:count "
        "buffered_bytes:count connection:here"
    )

    def __init__(
        self, connection: _Connection, client_index: int, protocol: str, dropped_bytes: int
    ) -> None:
        self.connection = connection
        self.client_index = client_index
        self.protocol = protocol
        self.dropped_bytes = dropped_bytes
        """Payload in bytes that had been dropped before this connection was detected."""
        self.client_id: str | None = None
        self.requests = 0
        self.buffered_bytes = 0

    def _after_load(self) -> None:
        if self.connection.client_index != self.client_index:
            raise ValueError("two ends that are both the client")
        if self.connection.buffered_bytes != self.buffered_bytes:
            raise ValueError("bytes that are not buffered")

    def count(self, exchanges: Iterable[Exchange]) -> None:
        """Count requests, and note the client id of the first one that has any."""
        for exchange in exchanges:
            if exchange.request is None:
                continue
            self.requests += 1
            if self.client_id is None:
                self.client_id = exchange.client_id

    def summary(self, tcp: TcpConnection) -> ConnectionSummary:
        """Return the summary of the connection so far."""
        connection = self.connection
        return ConnectionSummary(
            tcp,
            self.protocol,
            self.client_index,
            self.client_id,
            connection.peers.software_name,
            connection.peers.software_version,
            connection.peers.principal,
            self.requests,
            connection.decoded_bytes,
            connection.undecoded_bytes,
            connection.skipped_bytes + self.dropped_bytes,
        )


class KafkaConnections:
    """Reads the open Kafka connections; bounds the memory that they take together."""

    _NOT_SAVED = (
        "_buffered_bytes",
        "_count_requests",
        "_keep",
        "_locator",
        "_most_bytes",
        "_reader",
    )

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        keep: KeepsBytes | None,
        most_bytes: int,
        *,
        count_requests: bool,
    ) -> None:
        """Take the arguments of ``ConnectionTracker``."""
        self._reader = reader
        self._locator = RequestLocator(
            reader, catalog, most_unconfirmed_bytes=MAX_UNCONFIRMED_BYTES
        )
        self._keep = keep
        self._most_bytes = most_bytes
        self._count_requests = count_requests
        self._buffered_bytes = 0
        self._by_serial: dict[int, OpenKafkaConnection] = {}

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, between two batches."""
        return save_each(self._by_serial)

    def load_state(self, state: object, connections: Mapping[int, TcpConnection]) -> None:
        """Continue from a state; raises ValueError for any other value."""
        for item in items(state, "t"):
            serial, saved = fields(item, "nt")
            client_index, protocol, *_ = fields(saved, "nsnSnnt")
            if client_index > 1 or protocol not in ("kafka", "kafka-0.7"):
                raise ValueError("not a protocol of Kafka, or no client")
            start = KafkaStart(client_index, protocol, (True, True), ([], []), 0)
            tcp = open_connection(connections, serial)
            load(self._open(tcp, start, _is_from_start(tcp, start)), saved)
        self._buffered_bytes = sum([item.buffered_bytes for item in self._by_serial.values()])

    @property
    def serials(self) -> set[int]:
        """The serials of the connections."""
        return set(self._by_serial)

    @property
    def buffered_bytes(self) -> int:
        """About how much memory incomplete messages and pending requests take."""
        return self._buffered_bytes

    def find(self, serial: int) -> OpenKafkaConnection | None:
        """Return the connection with a serial; None if there is none."""
        return self._by_serial.get(serial)

    def in_flight(self) -> Iterable[Exchange]:
        """Yield the requests that wait for their response, connection by connection."""
        for opened in self._by_serial.values():
            if isinstance(opened.connection, KafkaConnection):
                yield from opened.connection.in_flight()

    def expire(self, before_ns: int, events: SessionEvents) -> None:
        """Complete requests that expect no response and have waited for too long."""
        for opened in self._by_serial.values():
            if isinstance(opened.connection, KafkaConnection):
                self._add(opened, opened.connection.expire(before_ns), events)

    def begin(self, tcp: TcpConnection, start: KafkaStart) -> ConnectionEvents:
        """Begin to read a connection; return the events of its bytes so far."""
        from_start = _is_from_start(tcp, start)
        opened = self._open(tcp, start, from_start)
        connection = opened.connection
        if (from_start and all(start.in_sync)) or not isinstance(connection, KafkaConnection):
            return self.read(opened, start.items)
        events = connection.begin()
        events.extend(self.read(opened, start.items))
        return events

    def _open(self, tcp: TcpConnection, start: KafkaStart, from_start: bool) -> OpenKafkaConnection:
        client_index = start.client_index
        peers = Peers(tcp, *tcp.endpoint_and_peer(client_index))
        connection: _Connection
        if start.wire == "kafka-0.7":
            from kanalyze.kafka.v07.connection import Kafka07Connection  # rarely needed

            connection = Kafka07Connection(
                peers, client_index, in_sync=start.in_sync, from_start=from_start, keep=self._keep
            )
        else:
            connection = KafkaConnection(
                peers,
                client_index,
                self._reader,
                self._locator,
                in_sync=start.in_sync,
                from_start=from_start,
                keep=self._keep,
                tokens_first=start.wire == "kafka after tokens",
            )
        protocol = "kafka-0.7" if start.wire == "kafka-0.7" else "kafka"
        opened = OpenKafkaConnection(connection, client_index, protocol, start.dropped_bytes)
        self._by_serial[tcp.serial] = opened
        return opened

    def read(self, opened: OpenKafkaConnection, streams: BothItems) -> ConnectionEvents:
        """Read an update of a connection; :meth:`account` has to follow."""
        connection = opened.connection
        if isinstance(connection, KafkaConnection):
            events = _read_streams(connection, streams)
        else:
            events = connection.feed(streams)
        if self._count_requests:
            opened.count(events.exchanges)
        return events

    def close(
        self, serial: int, opened: OpenKafkaConnection, packet: int | None
    ) -> ConnectionEvents:
        """End a connection, which ``packet`` closed; return its last events."""
        del self._by_serial[serial]
        self._buffered_bytes -= opened.buffered_bytes
        events = opened.connection.close()
        for exchange in events.exchanges:
            exchange.settled_packet = packet
        if self._count_requests:
            opened.count(events.exchanges)
        return events

    def account(self, opened: OpenKafkaConnection, events: SessionEvents) -> None:
        """Update the memory of a connection; if all take too much, drop some buffered bytes."""
        buffered = opened.connection.buffered_bytes
        self._buffered_bytes += buffered - opened.buffered_bytes
        opened.buffered_bytes = buffered
        if self._buffered_bytes > self._most_bytes:
            self._shed(events)

    def _shed(self, events: SessionEvents) -> None:
        """Drop the buffers of the largest connections, until a quarter of the memory is free."""
        target_bytes = self._most_bytes - self._most_bytes // 4
        for opened in sorted(self._by_serial.values(), key=lambda opened: -opened.buffered_bytes):
            if self._buffered_bytes <= target_bytes or not opened.buffered_bytes:
                break
            self._add(opened, opened.connection.shed(), events)
            buffered = opened.connection.buffered_bytes
            self._buffered_bytes += buffered - opened.buffered_bytes
            opened.buffered_bytes = buffered

    def _add(
        self,
        opened: OpenKafkaConnection,
        connection_events: ConnectionEvents,
        events: SessionEvents,
    ) -> None:
        if self._count_requests:
            opened.count(connection_events.exchanges)
        events.add(connection_events)


def _is_from_start(tcp: TcpConnection, start: KafkaStart) -> bool:
    return tcp.start_seen[start.client_index] and start.in_sync[start.client_index]


def _read_streams(connection: KafkaConnection, streams: BothItems) -> ConnectionEvents:
    """Read an update of a connection, in smaller steps if bytes are missing."""
    if connection.is_in_sync() and not has_loss(streams):
        return connection.feed(streams)
    return _read_around_losses(connection, streams)


def _read_around_losses(connection: KafkaConnection, streams: BothItems) -> ConnectionEvents:
    """Read up to each loss, then a few segments at a time until in sync, then on to the next one.

    The result of a search depends on how many bytes it gets, so it gets few at a time.
    """
    events = ConnectionEvents()
    steps, segments = LossSteps(streams), _SEGMENTS_AFTER_A_LOSS
    while steps.has_any():
        is_in_sync, is_at_loss = connection.is_in_sync(), steps.is_at_loss()
        if is_in_sync or is_at_loss:
            segments = _SEGMENTS_AFTER_A_LOSS
        if is_in_sync and not is_at_loss:
            step = steps.to_loss()
        else:
            step = steps.about(segments)
            segments *= 4
        events.extend(connection.feed(step))
    return events


_MAX_UNDECIDED_BYTES = 64 * 1024 * 1024
_MAX_KAFKA_BYTES = 192 * 1024 * 1024
_SILENT = "none"
"""The protocol of a connection without a byte of payload (see ``signatures.PROTOCOLS``)."""


@Saved("protocol:str client_index:end?")
class _OtherConnection(NamedTuple):
    """A connection that is not Kafka, until it closes."""

    protocol: str
    client_index: int | None = None


class ConnectionTracker:
    """Passes the updates of each connection to its reader."""

    _NOT_SAVED = ("_collect_summaries", "_settings")
    _SAVED = Saved(
        "counts:here _undecided:here _kafka:here _others:dict[count,_OtherConnection] "
        "_expiry_ns:int?",
        _OtherConnection,
        added="servers:here",
    )

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        *,
        is_broker: BrokerSide | None = None,
        keep: KeepsBytes | None = None,
        collect_summaries: bool = False,
        most_undecided_bytes: int = _MAX_UNDECIDED_BYTES,
        most_kafka_bytes: int = _MAX_KAFKA_BYTES,
    ) -> None:
        """Make a tracker.

        Args:
            reader: reads messages.
            catalog: the known APIs.
            is_broker: returns true if a broker is at an IP address and port, whatever the bytes
                look like; None leaves it to the bytes. If both ends are brokers, the one that
                opened the connection is the client. A TLS handshake is TLS nevertheless.
            keep: returns true for an API key if the bytes of its messages are kept.
            collect_summaries: whether events have a summary of each connection that closed.
            most_undecided_bytes: how much memory the bytes of undecided connections may take
                together. Above it the oldest ones are dropped.
            most_kafka_bytes: how much memory incomplete messages and pending requests may take
                together. Above it the largest connections drop theirs.
        """
        self._undecided = UndecidedConnections(reader, catalog, is_broker, most_undecided_bytes)
        self._kafka = KafkaConnections(
            reader, catalog, keep, most_kafka_bytes, count_requests=collect_summaries
        )
        self._others: dict[int, _OtherConnection] = {}
        self.servers = KnownServers()
        self._collect_summaries = collect_summaries
        self._expiry_ns: int | None = None
        """The time given to the last :meth:`in_flight`. The next batch completes the requests that
        had expired by then."""
        options = collect_summaries, is_broker is not None, keep is not None
        self._settings = (most_undecided_bytes, most_kafka_bytes), options
        self.counts = ConnectionCounts()

    @property
    def settings(self) -> State:
        """Settings that have to be equal in the tracker that loads the state."""
        return self._settings

    def _after_load(self) -> None:
        parts = self._undecided.serials, self._kafka.serials, self._others
        if len(self.serials) != sum(map(len, parts)):
            raise ValueError("a connection in two states")

    @property
    def serials(self) -> set[int]:
        """The serials of all connections."""
        return self._undecided.serials | self._kafka.serials | self._others.keys()

    @property
    def undecided_bytes(self) -> int:
        """Exactly how much memory the bytes of undecided connections take."""
        return self._undecided.buffered_bytes

    @property
    def kafka_bytes(self) -> int:
        """About how much memory incomplete messages and pending requests take."""
        return self._kafka.buffered_bytes

    def client_index(self, tcp: TcpConnection) -> int | None:
        """Return which end of an open connection is the client; None if that is not known yet."""
        kafka = self._kafka.find(tcp.serial)
        if kafka is not None:
            return kafka.client_index
        other = self._others.get(tcp.serial)
        return None if other is None else other.client_index

    def open_summary(self, tcp: TcpConnection) -> ConnectionSummary | None:
        """Return the summary of an open connection so far; None while its protocol is undecided."""
        kafka = self._kafka.find(tcp.serial)
        if kafka is not None:
            return kafka.summary(tcp)
        other = self._others.get(tcp.serial)
        return other and self._summary(tcp, other)

    def is_unknown(self, tcp: TcpConnection) -> bool:
        """Return true if the protocol of an open connection has been unknown for long."""
        other = self._others.get(tcp.serial)
        if other is not None:
            return other.protocol == "unknown"
        return self._undecided.is_long_undecided(tcp)

    def is_tls(self, tcp: TcpConnection) -> bool:
        """Return true if an open connection has TLS."""
        other = self._others.get(tcp.serial)
        return other is not None and other.protocol == "tls"

    def in_flight(self, before_ns: int) -> Iterable[Exchange]:
        """Yield the requests that wait for their response, connection by connection.

        These are all that began before a Unix time, and some of the later ones. To be called
        between two batches.
        """
        self._expiry_ns = before_ns
        return self._kafka.in_flight()

    def feed(self, updates: Iterable[StreamUpdate]) -> SessionEvents:
        """Read the updates of connections in a batch; return their events."""
        events = SessionEvents()
        if self._expiry_ns is not None:
            self._kafka.expire(self._expiry_ns, events)
            self._expiry_ns = None
        for update in updates:
            self._feed(update, events)
        events.sort()
        return events

    def _feed(self, update: StreamUpdate, events: SessionEvents) -> None:
        """Read the update of one connection."""
        tcp = update.connection
        serial = tcp.serial
        kafka = self._kafka.find(serial)
        if kafka is not None:
            self.counts.kafka_bytes += payload_bytes(update.items)
            self._finish_step(update, kafka, self._kafka.read(kafka, update.items), events)
        elif serial in self._others:
            if update.closed:
                self._close_other(update.connection, events)
        elif update.items[0] or update.items[1] or serial in self._undecided:
            self._decide(update, events)
        elif update.closed:
            # Nothing was sent: there was nothing to decide.
            self.counts.count(_SILENT)
            self.servers.note(update.connection, None)
            self._summarize(update.connection, _OtherConnection(_SILENT), events)

    def _decide(self, update: StreamUpdate, events: SessionEvents) -> None:
        """Feed an undecided connection; once decided, begin to read it."""
        decision = self._undecided.feed(update)
        if decision is None:
            for dropped in self._undecided.drop_oldest():
                self._begin_other(dropped, events)
        elif isinstance(decision, KafkaStart):
            tcp = update.connection
            self.counts.kafka_bytes += payload_bytes(decision.items) + decision.dropped_bytes
            self.counts.count_kafka(tcp.endpoints[1 - decision.client_index].port)
            self.servers.note(tcp, decision.client_index)
            first_events = self._kafka.begin(tcp, decision)
            kafka = self._kafka.find(tcp.serial)
            assert kafka is not None
            self._finish_step(update, kafka, first_events, events)
        else:
            self._begin_other(decision, events)
            if update.closed:
                self._close_other(update.connection, events)

    def _finish_step(
        self,
        update: StreamUpdate,
        kafka: OpenKafkaConnection,
        connection_events: ConnectionEvents,
        events: SessionEvents,
    ) -> None:
        """Add the events of a Kafka connection; close the connection if it ended."""
        if not update.closed:
            events.add(connection_events)
            self._kafka.account(kafka, events)
            return
        tcp, counts, connection = update.connection, self.counts, kafka.connection
        connection_events.extend(self._kafka.close(tcp.serial, kafka, update.closed_packet))
        events.add(connection_events)
        counts.decoded_bytes += connection.decoded_bytes
        counts.undecoded_bytes += connection.undecoded_bytes
        if connection.batches is not None:
            counts.batches.add(connection.batches)
        counts.skipped_bytes += connection.skipped_bytes + kafka.dropped_bytes
        events.closed_clients[tcp.serial] = kafka.client_index
        if self._collect_summaries:
            events.summaries.append(kafka.summary(tcp))

    def _begin_other(self, decision: NotKafka, events: SessionEvents) -> None:
        if decision.anomaly is not None:
            events.anomalies.append(decision.anomaly)
        other = _OtherConnection(decision.protocol, decision.client_index)
        self._others[decision.tcp.serial] = other
        self.servers.note(decision.tcp, decision.client_index)
        self.counts.count(decision.protocol)

    def _close_other(self, tcp: TcpConnection, events: SessionEvents) -> None:
        other = self._others.pop(tcp.serial)
        if other.protocol == "unknown":
            self.counts.count_unknown(tcp)
        self._summarize(tcp, other, events)

    def _summarize(
        self, tcp: TcpConnection, other: _OtherConnection, events: SessionEvents
    ) -> None:
        events.closed_clients[tcp.serial] = other.client_index
        if self._collect_summaries:
            events.summaries.append(self._summary(tcp, other))

    def _summary(self, tcp: TcpConnection, other: _OtherConnection) -> ConnectionSummary:
        likely = self.servers.client_of(tcp)
        return ConnectionSummary(tcp, other.protocol, other.client_index, likely_client=likely)
