"""Follows every TCP connection: undecided, Kafka, TLS, or something else.

In: :class:`~kanalyze.model.streams.StreamUpdate`. Out: :class:`SessionEvents`: exchanges and
anomalies, and a summary of each connection.

Content decides which protocol a connection has, and which end is the client. Ports decide only if
the user says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.session.connection_summary import ConnectionCounts, ConnectionSummary
from kanalyze.kafka.session.events import SessionEvents
from kanalyze.kafka.session.kafka_connections import KafkaConnections
from kanalyze.kafka.session.known_servers import KnownServers
from kanalyze.kafka.session.stream_items import payload_bytes
from kanalyze.kafka.session.undecided import KafkaStart, UndecidedConnections

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.events import ConnectionEvents
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.kafka_connections import OpenKafkaConnection
    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.undecided import BrokerSide, NotKafka
    from kanalyze.model.streams import StreamUpdate
    from kanalyze.model.tcp import TcpConnection

__all__ = ["ConnectionTracker"]

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
        serial = update.connection.serial
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
        tcp, counts = update.connection, self.counts
        connection_events.extend(self._kafka.close(tcp.serial, kafka, update.closed_packet))
        events.add(connection_events)
        counts.decoded_bytes += kafka.connection.decoded_bytes
        counts.undecoded_bytes += kafka.connection.undecoded_bytes
        counts.batches.add(kafka.connection.batches)
        counts.skipped_bytes += kafka.connection.skipped_bytes + kafka.dropped_bytes
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
