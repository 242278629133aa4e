"""Buffers connections until their protocol is known.

In: stream updates of new connections. Out: the decision on each (:class:`KafkaStart`,
:class:`NotKafka`).

The buffered bytes are bounded, for each connection and for all together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import load_each, save_each
from kanalyze.kafka.session.detection import (
    ProtocolDetector,
    UndecidedConnection,
    client_hello_direction,
)
from kanalyze.kafka.session.stream_items import payload_bytes
from kanalyze.kafka.session.tls import is_alert, is_client_hello
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import NO_TIME
from kanalyze.model.tcp import open_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.detection import KafkaMatch
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.request_scan import Wire
    from kanalyze.model.streams import StreamItem, StreamUpdate
    from kanalyze.model.tcp import TcpConnection

__all__ = [
    "BrokerSide",
    "Decision",
    "KafkaStart",
    "NotKafka",
    "UndecidedConnections",
]

BrokerSide: TypeAlias = "Callable[[str, int], bool]"
"""Returns true if a broker listens on an IP address and port."""

_LONG_UNDECIDED_NS = 10_000_000_000
"""Most connections are decided at once."""


class KafkaStart(NamedTuple):
    """A connection that is Kafka, and its streams so far."""

    client_index: int
    wire: Wire
    in_sync: tuple[bool, bool]
    """By direction, whether its first byte begins a frame."""
    items: tuple[list[StreamItem], list[StreamItem]]
    dropped_bytes: int = 0
    """Payload in bytes that had been dropped before this was decided."""


class NotKafka(NamedTuple):
    """A connection that is something else."""

    tcp: TcpConnection
    protocol: str
    client_index: int | None
    anomaly: Anomaly | None = None


Decision: TypeAlias = "KafkaStart | NotKafka"


class UndecidedConnections:
    """Buffers connections until they are decided."""

    _NOT_SAVED = ("_buffered_bytes", "_detector", "_is_broker", "_most_bytes")

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        is_broker: BrokerSide | None,
        most_bytes: int,
    ) -> None:
        """Take the arguments of ``ConnectionTracker``."""
        self._detector = ProtocolDetector(reader, catalog)
        self._is_broker = is_broker
        self._most_bytes = most_bytes
        self._buffered_bytes = 0
        self._by_serial: dict[int, UndecidedConnection] = {}

    def __contains__(self, serial: int) -> bool:
        return serial in self._by_serial

    def __len__(self) -> int:
        return len(self._by_serial)

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, between two batches."""
        return save_each(self._by_serial)

    def load_state(self, state: object, connections: Mapping[int, TcpConnection]) -> None:
        """Continue from a state; raises ValueError for any other value."""
        self._by_serial = load_each(
            state, lambda serial: UndecidedConnection(open_connection(connections, serial))
        )
        self._buffered_bytes = sum([item.buffered_bytes for item in self._by_serial.values()])

    @property
    def serials(self) -> set[int]:
        """The serials of the connections."""
        return set(self._by_serial)

    @property
    def buffered_bytes(self) -> int:
        """Exactly how much memory the buffered bytes take."""
        return self._buffered_bytes

    def is_long_undecided(self, tcp: TcpConnection) -> bool:
        """Return true if a connection has been undecided for long."""
        undecided = self._by_serial.get(tcp.serial)
        if undecided is None or undecided.tls_directions:
            return False
        if tcp.first_time_ns == NO_TIME:
            return False
        return tcp.last_time_ns - tcp.first_time_ns >= _LONG_UNDECIDED_NS

    def feed(self, update: StreamUpdate) -> Decision | None:
        """Add an update of a connection; return the decision on it, None while undecided.

        The caller then calls :meth:`drop_oldest`, which bounds the memory.
        """
        tcp = update.connection
        undecided = self._by_serial.get(tcp.serial)
        if undecided is None:
            match = self._detector.at_first_sight(update, self._forced_client(tcp))
            if match is not None:
                starts = (tcp.start_seen[0], tcp.start_seen[1])
                return KafkaStart(match.client_index, match.wire, starts, update.items)
            undecided = self._by_serial[tcp.serial] = UndecidedConnection(tcp)
        before = undecided.buffered_bytes
        decision = self._decide(undecided, update)
        if decision is None:
            self._buffered_bytes += undecided.buffered_bytes - before
        else:
            self._buffered_bytes -= before
            del self._by_serial[tcp.serial]
        return decision

    def drop_oldest(self) -> list[NotKafka]:
        """Drop connections, oldest first, if too much is buffered, until a quarter is free.

        Dropping a quarter at once keeps the time in proportion to the bytes.
        """
        if self._buffered_bytes <= self._most_bytes:
            return []
        most = self._most_bytes - self._most_bytes // 4
        dropped = []
        for undecided in list(self._by_serial.values()):
            if self._buffered_bytes <= most:
                break
            if not undecided.buffered_bytes:
                continue
            self._buffered_bytes -= undecided.buffered_bytes
            del self._by_serial[undecided.tcp.serial]
            anomaly = Anomaly(
                AnomalyKind.MEMORY_LIMIT,
                time_ns=undecided.tcp.last_time_ns,
                connection=undecided.tcp,
                length=sum(stream.buffer.captured_bytes for stream in undecided.streams),
                detail="given up before it was known whether this is Kafka",
            )
            dropped.append(self._other(undecided)._replace(anomaly=anomaly))
        return dropped

    # -- deciding ---------------------------------------------------------------------------------

    def _decide(self, undecided: UndecidedConnection, update: StreamUpdate) -> Decision | None:
        undecided.begin(update)
        while undecided.step():
            decision = self._look(undecided)
            if decision is not None:
                return decision
            dropped = sum([stream.buffer.bound() for stream in undecided.streams])
            if dropped and self._detector.is_tls(undecided):
                return self._other(undecided)
        undecided.end_step()
        return self._decide_at_end(undecided) if update.closed else None

    def _look(self, undecided: UndecidedConnection) -> Decision | None:
        """Decide by the buffered bytes; None if that is not possible yet."""
        if undecided.tls_directions:
            return self._look_at_tls(undecided)
        match = self._match(undecided, last=False)
        if match is not None:
            return _start(undecided, match)
        is_forced = self._forced_client(undecided.tcp) is not None
        if not is_forced and self._detector.is_hopeless(undecided):
            return self._other(undecided)
        return None

    def _look_at_tls(self, undecided: UndecidedConnection) -> Decision | None:
        if len(undecided.tls_directions) == 2:
            return _tls(undecided)
        (direction,) = undecided.tls_directions
        buffer = undecided.streams[direction].buffer
        if not undecided.streams[1 - direction].buffer.payload_bytes:
            # A handshake without a reply may be a TLS client on a plaintext port: wait for the end
            # of the connection, and buffer nothing meanwhile.
            if not is_alert(buffer.head):
                buffer.clear()
            return None
        match = self._detector.clear_client(undecided)
        return _tls(undecided) if match is None else _start(undecided, match)

    def _decide_at_end(self, undecided: UndecidedConnection) -> Decision:
        if undecided.tls_directions:
            return _tls(undecided)._replace(anomaly=_tls_on_plaintext(undecided))
        match = self._match(undecided, last=True)
        if match is not None and any(stream.buffer.payload_bytes for stream in undecided.streams):
            return _start(undecided, match)
        return self._other(undecided)

    def _match(self, undecided: UndecidedConnection, *, last: bool) -> KafkaMatch | None:
        client_index = self._forced_client(undecided.tcp)
        if client_index is not None:
            return self._detector.forced(undecided, client_index, last=last)
        return self._detector.find(undecided, last=last)

    def _forced_client(self, tcp: TcpConnection) -> int | None:
        """Return the client of a connection to a broker that the user named; None for others."""
        if self._is_broker is None:
            return None
        brokers = [direction for direction in (0, 1) if self._is_broker(*tcp.endpoints[direction])]
        if len(brokers) == 2:
            return tcp.opened_by
        return 1 - brokers[0] if brokers else None

    def _other(self, undecided: UndecidedConnection) -> NotKafka:
        """Return the decision on a connection that is not Kafka, with its most likely protocol."""
        from kanalyze.kafka.session.signatures import guess_protocol  # not needed if all is Kafka

        first, second = (stream.buffer.head for stream in undecided.streams)
        protocol = guess_protocol(first, second)
        if protocol == "unknown" and self._detector.is_tls(undecided):
            protocol = "tls"
        return _tls(undecided) if protocol == "tls" else NotKafka(undecided.tcp, protocol, None)


def _start(undecided: UndecidedConnection, match: KafkaMatch) -> KafkaStart:
    """Return the start of a Kafka connection, with all its buffered bytes."""
    in_sync = (undecided.streams[0].from_start, undecided.streams[1].from_start)
    streams = (undecided.rest(0), undecided.rest(1))
    dropped_bytes = undecided.payload_bytes - payload_bytes(streams)
    return KafkaStart(match.client_index, match.wire, in_sync, streams, dropped_bytes)


def _tls(undecided: UndecidedConnection) -> NotKafka:
    return NotKafka(undecided.tcp, "tls", client_hello_direction(undecided))


def _tls_on_plaintext(undecided: UndecidedConnection) -> Anomaly | None:
    tcp, direction = undecided.tcp, undecided.tls_directions[0]
    if not is_client_hello(undecided.streams[direction].buffer.head):
        return None
    if not tcp.packets[1 - direction] or tcp.payload_bytes[1 - direction]:
        return None
    return Anomaly(
        AnomalyKind.TLS_ON_PLAINTEXT_PORT,
        time_ns=tcp.first_time_ns,
        connection=tcp,
        direction=direction,
        length=undecided.streams[direction].buffer.payload_bytes,
        detail=f"{tcp.endpoints[direction]} began TLS with {tcp.endpoints[1 - direction]}, "
        "which closed without an answer",
    )
