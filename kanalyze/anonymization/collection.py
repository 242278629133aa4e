"""Turns exchanges into the anonymized bytes of their streams.

In: events of a pass over captures in which messages keep their bytes. Out: pieces of streams
(:mod:`.streams`), and the connections they belong to.

A message with missing bytes is anonymized up to the point where it cannot be read. If none of its
bytes were kept, only its size and header are written, from the exchange. SASL tokens outside of
messages (Kafka before 1.0) are replaced by tokens of the same length and mechanism.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from kanalyze.anonymization.contents import anonymous_prefix, raw_token

if TYPE_CHECKING:
    from kanalyze.anonymization.messages import AnonymousMessage, MessageAnonymizer
    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.anonymization.streams import StreamPieces, StreamPlaces, StreamRanges
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.session.exchange import Exchange, Message
    from kanalyze.model.streams import TokenBytes
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.runtime.stages import BatchEvents

__all__ = ["Collection"]

_PREFIX_BYTES: Final = 4
_SASL_HANDSHAKE: Final = 17
_ENVELOPE: Final = 58
_MAX_CLIENT_ID_BYTES: Final = 0x7FFF
_size: Final = Struct(">i").pack
_response_head: Final = Struct(">ii").pack
_request_head: Final = Struct(">ihhi").pack
_int16: Final = Struct(">h")


class _KnownConnection:
    """What is known about an open connection."""

    __slots__ = ("client_index", "is_kafka", "mechanism", "tokens", "user")

    def __init__(self, client_index: int | None) -> None:
        self.client_index = client_index
        self.is_kafka = False
        """False if nothing but a proxy's prefix was read."""
        self.mechanism: bytes | None = None
        self.user: bytes | None = None
        self.tokens: dict[tuple[int, int], tuple[int, int | None]] = {}
        """Frames that may be raw tokens, by direction and stream offset: begin and end of the
        content. The end is None if it is unknown."""


class Collection:
    """Collects the anonymized bytes of messages, in the order of events."""

    def __init__(
        self,
        messages: MessageAnonymizer,
        stand_ins: StandIns,
        pieces: StreamPieces,
        places: StreamPlaces,
        records: StreamRanges,
    ) -> None:
        self._messages = messages
        self._stand_ins = stand_ins
        self._pieces = pieces
        self._places = places
        self._records = records
        self._open: dict[int, _KnownConnection] = {}
        self.message_count = 0
        self.unread_messages = 0
        """Messages whose body could not be read; the whole body is blank."""
        self.connections = 0

    def add(self, events: BatchEvents) -> None:
        """Add the events of a batch of packets."""
        for prefix in events.prefixes:
            tcp = prefix.connection
            self._connection(tcp, is_kafka=False)
            stream = 2 * tcp.serial + prefix.direction
            self._pieces.add(stream, 0, anonymous_prefix(prefix, self._stand_ins))
        for token in events.token_bytes:
            self._token(token)
        for exchange in events.exchanges:
            self._exchange(exchange)
        for tcp in events.closed_connections:
            self._close(tcp)

    # -- messages ---------------------------------------------------------------------------------

    def _exchange(self, exchange: Exchange) -> None:
        peers = exchange.peers
        tcp = peers.tcp
        direction = 0 if tcp.endpoints[0] == peers.client else 1
        connection = self._connection(tcp)
        connection.client_index = direction
        if exchange.wire != "kafka":
            return
        if peers.principal is not None and connection.user is None:
            connection.user = self._stand_ins.name(peers.principal.encode("utf-8", "replace"))
        request, response = exchange.request, exchange.response
        forwarded = None
        if request is not None:
            data = request.data
            if data is not None and exchange.api_key == _SASL_HANDSHAKE:
                connection.mechanism = _mechanism(data)
            if data is not None and exchange.api_key == _ENVELOPE:
                forwarded = self._messages.forwarded(data)
            self._message(exchange, request, "request", 2 * tcp.serial + direction, connection)
        if response is not None:
            stream = 2 * tcp.serial + 1 - direction
            self._message(exchange, response, "response", stream, connection, forwarded)

    def _message(
        self,
        exchange: Exchange,
        message: Message,
        kind: Kind,
        stream: int,
        connection: _KnownConnection,
        forwarded: tuple[int, int] | None = None,
    ) -> None:
        offset = message.stream_offset
        connection.tokens.pop((stream & 1, offset), None)
        self.message_count += 1
        anonymous = self._anonymous(exchange, message, kind, forwarded)
        message.data = message.pieces = None
        if anonymous is None:
            self.unread_messages += 1
            self._pieces.add(stream, offset, _head_of(exchange, message, kind, self._stand_ins))
            return
        if not anonymous.is_read:
            self.unread_messages += 1
        self._pieces.add(stream, offset, anonymous.data)
        for begin, end in anonymous.records:
            if begin < end:
                self._records.add(stream, offset + begin, offset + end)

    def _anonymous(
        self, exchange: Exchange, message: Message, kind: Kind, forwarded: tuple[int, int] | None
    ) -> AnonymousMessage | None:
        """Return the anonymized message; None if its bytes were not kept."""
        ids = exchange.api_key, exchange.api_version
        if message.data is not None:
            return self._messages.message(message.data, *ids, kind, (), forwarded)
        if message.pieces is None:
            return None
        data, holes = _with_holes(message.pieces, message.length)
        if holes and holes[0][0] < _PREFIX_BYTES:
            return None
        return self._messages.message(data, *ids, kind, holes, forwarded)

    # -- tokens -----------------------------------------------------------------------------------

    def _token(self, token: TokenBytes) -> None:
        connection = self._connection(token.connection)
        key = token.direction, token.stream_offset
        if token.end is not None and token.end > token.begin:
            connection.tokens[key] = token.begin, token.end
        else:
            connection.tokens.pop(key, None)

    def _connection(self, tcp: TcpConnection, *, is_kafka: bool = True) -> _KnownConnection:
        connection = self._open.get(tcp.serial)
        if connection is None:
            connection = self._open[tcp.serial] = _KnownConnection(None)
        connection.is_kafka |= is_kafka
        return connection

    def _close(self, tcp: TcpConnection) -> None:
        connection = self._open.pop(tcp.serial, None)
        if connection is None:
            return
        self.connections += connection.is_kafka
        self._places.add(tcp)
        counts = [0, 0]
        for (direction, offset), (begin, end) in sorted(connection.tokens.items()):
            if end is None or begin - offset != _PREFIX_BYTES:
                continue
            size = end - begin
            content = raw_token(
                connection.mechanism,
                connection.user,
                counts[direction],
                size,
                is_clients=direction == connection.client_index,
            )
            counts[direction] += 1
            self._pieces.add(2 * tcp.serial + direction, offset, _size(size) + content)


def _with_holes(
    pieces: tuple[tuple[int, ...], tuple[bytes, ...]], length: int
) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a frame with zeros in place of missing bytes, and the ranges of these bytes."""
    frame = bytearray(length)
    holes = []
    covered_to = 0
    for at, piece in zip(*pieces, strict=True):
        frame[at : at + len(piece)] = piece
        if at > covered_to:
            holes.append((covered_to, at))
        covered_to = max(covered_to, at + len(piece))
    if covered_to < length:
        holes.append((covered_to, length))
    return bytes(frame[:length]), holes


def _head_of(exchange: Exchange, message: Message, kind: Kind, stand_ins: StandIns) -> bytes:
    """Return the size prefix and header of a message, made from the fields of its exchange."""
    size = message.length - _PREFIX_BYTES
    correlation_id = exchange.correlation_id or 0
    if kind == "response":
        return _response_head(size, correlation_id)[: message.length]
    key, version = exchange.api_key or 0, exchange.api_version or 0
    head = _request_head(size, key, version, correlation_id)
    if exchange.client_id is None:
        return (head + b"\xff\xff")[: message.length]
    client_id = exchange.client_id.encode("utf-8", "replace")[:_MAX_CLIENT_ID_BYTES]
    return (head + _int16.pack(len(client_id)) + stand_ins.name(client_id))[: message.length]


def _mechanism(data: bytes) -> bytes | None:
    """Return the mechanism in a SaslHandshake request: its last field, after the client id."""
    at = 12
    for _ in range(2):
        if at + 2 > len(data):
            return None
        size = max(_int16.unpack_from(data, at)[0], 0)
        name = data[at + 2 : at + 2 + size]
        at += 2 + size
    return name
