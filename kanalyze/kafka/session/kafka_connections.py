"""The open Kafka connections, and the memory that they take together.

In: updates of connections. Out: exchanges and anomalies; a summary of each connection that closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, load, save_each
from kanalyze.kafka.session.connection import MAX_UNCONFIRMED_BYTES, KafkaConnection
from kanalyze.kafka.session.connection_summary import ConnectionSummary
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.exchange import Peers
from kanalyze.kafka.session.resync import RequestLocator
from kanalyze.kafka.session.stream_items import LossSteps, has_loss
from kanalyze.kafka.session.undecided import KafkaStart
from kanalyze.model.tcp import open_connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.events import SessionEvents
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.kafka.session.message_bodies import KeepsBytes
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.stream_items import BothItems
    from kanalyze.kafka.v07.connection import Kafka07Connection
    from kanalyze.model.tcp import TcpConnection

__all__ = ["KafkaConnections", "OpenKafkaConnection"]

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

    def __len__(self) -> int:
        return len(self._by_serial)

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
            load(self._open(open_connection(connections, serial), start), saved)
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
        opened = self._open(tcp, start)
        connection = opened.connection
        if (_is_from_start(tcp, start) and all(start.in_sync)) or not isinstance(
            connection, KafkaConnection
        ):
            return self.read(opened, start.items)
        events = connection.begin()
        events.extend(self.read(opened, start.items))
        return events

    def _open(self, tcp: TcpConnection, start: KafkaStart) -> OpenKafkaConnection:
        client_index, from_start = start.client_index, _is_from_start(tcp, start)
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
    if connection.is_in_sync and not has_loss(streams):
        return connection.feed(streams)
    return _read_around_losses(connection, streams)


def _read_around_losses(connection: KafkaConnection, streams: BothItems) -> ConnectionEvents:
    """Read up to each loss, then a few segments at a time until in sync, then on to the next one.

    The result of a search depends on how many bytes it gets, so it gets few at a time.
    """
    events = ConnectionEvents()
    steps, segments = LossSteps(streams), _SEGMENTS_AFTER_A_LOSS
    while steps.has_any():
        is_in_sync, is_at_loss = connection.is_in_sync, steps.is_at_loss()
        if is_in_sync or is_at_loss:
            segments = _SEGMENTS_AFTER_A_LOSS
        if is_in_sync and not is_at_loss:
            step = steps.to_loss()
        else:
            step = steps.about(segments)
            segments *= 4
        events.extend(connection.feed(step))
    return events
