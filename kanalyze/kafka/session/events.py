"""What a step brings: completed exchanges, anomalies, tokens, closed connections.

In: frames and exchanges of one connection, and what is wrong with them. Out:
:class:`ConnectionEvents`, the events of a connection; :class:`SessionEvents`, those of all
connections in a batch, in the order of completion; a summary of each connection, and counts.
"""

from __future__ import annotations

import operator
from array import array
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.session.batch_checks import BatchCounts
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.streams import TokenBytes

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.framing.frame import NO_PACKET


if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.kafka.framing.framer import FrameCutter, SyncLoss
    from kanalyze.kafka.session.exchange import Exchange
    from kanalyze.model.tcp import TcpConnection

PREFIX_BYTES = 4
"""The size prefix of a frame: no part of a token."""
_NONE = -1


class TokenRanges:
    """Reports where tokens are. A later range of the same message replaces an earlier one."""

    _NOT_SAVED = ("_tcp",)
    _SAVED = Saved("_partial_offsets:2*int")

    def __init__(self, tcp: TcpConnection) -> None:
        self._tcp = tcp
        self._partial_offsets = [_NONE, _NONE]
        """By direction: stream offset of the last incomplete frame that might have a token."""

    def has_partial(self, direction: int) -> bool:
        """Return true if an incomplete frame of a direction was ever reported."""
        return self._partial_offsets[direction] != _NONE

    def of_frame(
        self, frame: Frame, direction: int, begin: int = PREFIX_BYTES, end: int | None = None
    ) -> TokenBytes:
        """Report a token in a frame, from one frame position to another, or to its end."""
        at = frame.stream_offset
        last = at + (frame.length if end is None else end)
        return TokenBytes(self._tcp, direction, at, at + begin, last, self._tcp.last_time_ns)

    def of_none(self, frame: Frame, direction: int) -> TokenBytes:
        """Report that a frame has no token, though an earlier range said so."""
        return self.of_frame(frame, direction, 0, 0)

    def of_partial(self, frame: Frame, direction: int) -> TokenBytes:
        """Report that an incomplete frame may have a token, until that is known."""
        self._partial_offsets[direction] = frame.stream_offset
        return self.of_frame(frame, direction)

    def of_unread(self, direction: int, stream_offset: int, end: int | None = None) -> TokenBytes:
        """Report that unreadable bytes may have a token, up to ``end`` if that is known."""
        time_ns = self._tcp.last_time_ns
        return TokenBytes(self._tcp, direction, stream_offset, stream_offset, end, time_ns)

    def was_partial(self, frame: Frame, direction: int) -> bool:
        """Return true if a complete frame was reported as a possible token before."""
        return self._partial_offsets[direction] == frame.stream_offset


class UnknownTotal:
    """Connections of an unknown protocol."""

    __slots__ = ("bytes", "connections", "packets")
    _SAVED = Saved("connections:count packets:count bytes:count")

    def __init__(self) -> None:
        self.connections = 0
        self.packets = 0
        self.bytes = 0
        """Payload in bytes, every byte of a stream once."""

    def add(self, connections: int, packets: int, size: int) -> None:
        """Add counts."""
        self.connections += connections
        self.packets += packets
        self.bytes += size


class ConnectionCounts:
    """Counts of connections by protocol, and of bytes read; counts can be added up."""

    _SAVED = Saved(
        "kafka:count tls:count other:count kafka_bytes:count decoded_bytes:count "
        "undecoded_bytes:count skipped_bytes:count kafka_ports:dict[count,count] "
        "unknown_ports:dict[count,UnknownTotal] by_protocol:dict[str,count]",
        UnknownTotal,
        added="batches:here",
    )

    def __init__(self) -> None:
        self.kafka = 0
        self.tls = 0
        self.other = 0
        self.kafka_bytes = 0
        """TCP payload of Kafka connections, each byte once."""
        self.decoded_bytes = 0
        self.undecoded_bytes = 0
        self.skipped_bytes = 0
        self.kafka_ports: dict[int, int] = {}
        """Kafka connections by the broker's port."""
        self.unknown_ports: dict[int, UnknownTotal] = {}
        """Closed ``unknown`` connections, by the port that was connected to; by both ports if the
        handshake was not seen."""
        self.by_protocol: dict[str, int] = {}
        """Connections that are not Kafka, by protocol (one of ``signatures.PROTOCOLS``); their sum
        is ``tls`` plus ``other``. Protocols without connections are left out."""
        self.batches = BatchCounts()
        """Batches of records, and which of them were checked."""

    def count(self, protocol: str) -> None:
        """Count a connection that is not Kafka."""
        self.by_protocol[protocol] = self.by_protocol.get(protocol, 0) + 1
        if protocol == "tls":
            self.tls += 1
        else:
            self.other += 1

    def count_kafka(self, port: int) -> None:
        """Count a Kafka connection to a broker's port."""
        self.kafka += 1
        self.kafka_ports[port] = self.kafka_ports.get(port, 0) + 1

    def count_unknown(self, tcp: TcpConnection) -> None:
        """Count a connection that closed with an unknown protocol."""
        directions = (0, 1) if tcp.opened_by is None else (1 - tcp.opened_by,)
        for port in {tcp.endpoints[direction].port for direction in directions}:
            total = self.unknown_ports.setdefault(port, UnknownTotal())
            total.add(1, sum(tcp.packets), sum(tcp.unique_bytes))


class ConnectionSummary(NamedTuple):
    """One TCP connection that closed, or that was open at the end of the capture."""

    tcp: TcpConnection
    protocol: str
    """``kafka``, ``kafka-0.7``, or one of ``signatures.PROTOCOLS``."""
    client_index: int | None = None
    """Which end is the client, 0 or 1: in Kafka the one that sent requests, in TLS the one that
    sent a ClientHello. None if neither was seen."""
    client_id: str | None = None
    """The first one seen; None if there was none, and in Kafka 0.7."""
    software_name: str | None = None
    software_version: str | None = None
    principal: str | None = None
    """The user that logged in, if the login was seen; never a secret."""
    requests: int = 0
    """Requests, with and without a response."""
    decoded_bytes: int = 0
    """Bytes of frames whose body was read to the end. 0 if it is not Kafka; so are the next two."""
    undecoded_bytes: int = 0
    skipped_bytes: int = 0
    """Bytes skipped while searching for a frame boundary."""
    likely_client: int | None = None
    """Which end other connections show to be the client, as the other one is a server of theirs;
    None if neither is, or both are."""


class ConnectionEvents:
    """The events of one connection in one step."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        """The completed exchanges, in the order of the connection's streams."""
        self.anomalies: list[Anomaly] = []
        self.token_bytes: list[TokenBytes] = []

    def extend(self, later: ConnectionEvents) -> None:
        """Add the events of a later step."""
        self.exchanges += later.exchanges
        self.anomalies += later.anomalies
        self.token_bytes += later.token_bytes


class SessionEvents:
    """The events of all connections in one batch."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.anomalies: list[Anomaly] = []
        self.token_bytes: list[TokenBytes] = []
        self.summaries: list[ConnectionSummary] = []
        """Of the connections that closed; empty unless the tracker collects summaries."""
        self.closed_clients: dict[int, int | None] = {}
        """Which end of the connections that closed is the client, by serial; None if unknown."""
        self._parts = 0
        """How many times exchanges were added."""

    @property
    def completion_packets(self) -> list[int]:
        """For each exchange, the packet with which it counts as complete."""
        return _completed_of(self.exchanges)

    def add(self, events: ConnectionEvents) -> None:
        """Add the events of a connection in one step.

        An exchange does not count as complete before the one before it in the same streams,
        whatever packets they came in.
        """
        latest = 0
        for exchange in events.exchanges:
            packet = _completion_packet(exchange)
            if packet > latest:  # max() would make objects
                latest = packet
            exchange.completed = latest
        if events.exchanges:
            self._parts += 1
            self.exchanges += events.exchanges
        if events.anomalies:
            self.anomalies += events.anomalies
        if events.token_bytes:
            self.token_bytes += events.token_bytes

    def sort(self) -> None:
        """Put the exchanges in the order of completion."""
        if self._parts > 1:
            # Equal packets are of one connection, whose order stays.
            self.exchanges = _in_order(self.exchanges)


def _completed_of(exchanges: list[Exchange]) -> list[int]:
    packets = []
    for exchange in exchanges:
        packets.append(exchange.completed)  # noqa: PERF401 - compiled, this is faster
    return packets


_completed = operator.attrgetter("completed")
_MOST_PACKETS = 8
"""Packets of a batch for each of its exchanges, up to which they are put in order by counting."""


def _in_order(exchanges: list[Exchange]) -> list[Exchange]:
    """Return the exchanges in the order of completion, in the order given where that is equal."""
    first = last = exchanges[0].completed
    for exchange in exchanges:
        packet = exchange.completed
        if packet < first:
            first = packet
        elif packet > last:
            last = packet
    if last - first >= _MOST_PACKETS * len(exchanges):
        return sorted(exchanges, key=_completed)
    # How many were complete before each packet: a number becomes no object, as it would as a key.
    column = array("q", [0]) * (last - first + 2)
    before = memoryview(column)
    for exchange in exchanges:
        before[exchange.completed - first + 1] += 1
    for index in range(1, len(before)):
        before[index] += before[index - 1]
    ordered = exchanges[:]
    for exchange in exchanges:
        index = exchange.completed - first
        ordered[before[index]] = exchange
        before[index] += 1
    return ordered


def _completion_packet(exchange: Exchange) -> int:
    if exchange.settled != NO_PACKET:
        return exchange.settled
    message = exchange.request if exchange.response is None else exchange.response
    if message is None:
        return 0
    return message.start_packet if message.last_packet == NO_PACKET else message.last_packet


_new = tuple.__new__


def frame_anomaly(
    kind: AnomalyKind,
    tcp: TcpConnection,
    frame: Frame,
    direction: int,
    detail: str = "",
    exchange: Exchange | None = None,
) -> Anomaly:
    """Make the anomaly of a frame; note it in the frame's exchange too, if that is known."""
    if exchange is not None and kind not in exchange.anomalies:
        exchange.anomalies.append(kind)
    key = None if exchange is None else exchange.api_key
    version = None if exchange is None else exchange.api_version
    time_ns, packet, offset = frame.start_time_ns, frame.start_packet, frame.stream_offset
    # Not by the slower constructor: some clients make the same mistake in every message.
    return _new(
        Anomaly,
        (kind, time_ns, packet, tcp, direction, offset, frame.length, key, version, None, detail),
    )


def exchange_anomaly(kind: AnomalyKind, exchange: Exchange) -> Anomaly:
    """Make the anomaly of an exchange as a whole; note it in the exchange too."""
    message = exchange.request or exchange.response
    # Of an incomplete message, fewer bytes came than its declared size says.
    is_whole = AnomalyKind.INCOMPLETE_FRAME not in exchange.anomalies
    exchange.anomalies.append(kind)
    return Anomaly(
        kind,
        message.start_ns if message else None,
        message.start_packet if message else None,
        exchange.peers.tcp,
        length=message.length if message and is_whole else None,
        api_key=exchange.api_key,
        api_version=exchange.api_version,
    )


def sync_loss_anomaly(
    tcp: TcpConnection, loss: SyncLoss, direction: int, client_index: int
) -> Anomaly:
    """Make the anomaly of a loss of sync."""
    kind, detail = AnomalyKind.NOT_IN_SYNC, ""
    if loss.size is not None:
        from kanalyze.kafka.session.signatures import describe_size  # imported late: rare

        speaker = None
        if not loss.stream_offset and tcp.start_seen[direction]:
            speaker = "the client" if direction == client_index else "the server"
        kind = AnomalyKind.IMPLAUSIBLE_SIZE
        detail = f"size {loss.size}{describe_size(loss.size, speaker)}"
    return Anomaly(
        kind, loss.time_ns, loss.packet, tcp, direction, loss.stream_offset, detail=detail
    )


def incomplete_frame_anomaly(
    tcp: TcpConnection, frame: Frame, seen_bytes: int, direction: int
) -> Anomaly:
    """Make the anomaly of a direction that ended within a frame."""
    return Anomaly(
        AnomalyKind.INCOMPLETE_FRAME,
        frame.start_time_ns,
        frame.start_packet,
        tcp,
        direction,
        frame.stream_offset,
        seen_bytes,
        detail=f"of {frame.length} bytes",
    )


def shed(cutter: FrameCutter, tcp: TcpConnection, direction: int) -> list[Anomaly]:
    """Drop the buffered bytes of a cutter; return the anomaly if there were any."""
    offset, dropped = cutter.shed()
    if not dropped:
        return []
    detail = "of a message that has not ended, or out of sync"
    origin = None, tcp, direction, offset, dropped
    return [Anomaly(AnomalyKind.MEMORY_LIMIT, tcp.last_time_ns, *origin, detail=detail)]
