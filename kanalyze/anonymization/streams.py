"""The anonymized bytes of TCP streams: made of exchanges, found by stream and offset.

In: events of a pass over captures in which messages keep their bytes. Out: the bytes of any range
of a stream, zero where nothing was read.

A message with missing bytes is anonymized up to the point where it cannot be read. If none of its
bytes were kept, only its size and header are written, from the exchange. SASL tokens outside of
messages (Kafka before 1.0) are replaced by tokens of the same length and mechanism.

Pieces of streams are in a temporary file; each also takes 32 bytes of memory.
"""

from __future__ import annotations

import mmap
from array import array
from bisect import bisect_left
from operator import add
from socket import AF_INET, AF_INET6, inet_pton
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from kanalyze.anonymization.contents import anonymous_prefix, raw_token
from kanalyze.anonymization.rewriting import OneWayStream, PieceReader
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.anonymization.messages import AnonymousMessage, MessageAnonymizer
    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.session.exchange import Exchange, Message
    from kanalyze.model.streams import TokenBytes
    from kanalyze.model.tcp import Endpoint, TcpConnection
    from kanalyze.runtime.stages import BatchEvents

__all__ = [
    "Collection",
    "FoundMessages",
    "FoundStreams",
    "StreamPieces",
    "StreamPlaces",
    "StreamRanges",
]


class PieceColumns(NamedTuple):
    """Pieces of streams, whose bytes are in a file."""

    streams: array[int]
    offsets: array[int]
    lengths: array[int]
    places: array[int]
    """Positions in the file."""
    longest: dict[int, int]
    """Size of the longest piece of each stream."""
    file_bytes: int


class StreamPieces(PieceReader):
    """Pieces of streams; all are added before the first is read."""

    def __init__(self, file: BinaryIO, columns: PieceColumns | None = None) -> None:
        """Write pieces to a file; or read those that another process wrote to it."""
        super().__init__()
        self._file = file
        if columns is None:
            columns = PieceColumns(array("q"), array("q"), array("q"), array("q"), {}, 0)
        self._streams, self._added = columns.streams, columns[1:4]
        self.longest, self._written = columns.longest, columns.file_bytes
        self._mapped: mmap.mmap | None = None

    def add(self, stream: int, offset: int, data: bytes | bytearray) -> None:
        """Add bytes at an offset of a stream."""
        self._file.write(data)
        offsets, lengths, places = self._added
        self._streams.append(stream)
        offsets.append(offset)
        lengths.append(len(data))
        places.append(self._written)
        self._written += len(data)
        if len(data) > self.longest.get(stream, 0):
            self.longest[stream] = len(data)

    def columns(self) -> PieceColumns:
        """Return the pieces, which are in the file then."""
        self._file.flush()
        return PieceColumns(self._streams, *self._added, self.longest, self._written)

    @property
    def furthest(self) -> int:
        """The end of the piece that is furthest in its stream, before :meth:`sort`."""
        offsets, lengths, _ = self._added
        return max(map(add, offsets, lengths), default=0)

    def sort(self) -> None:
        """Prepare for :meth:`read`, after the last :meth:`add`."""
        self._file.flush()
        if not self._written:
            return
        self._mapped = mmap.mmap(self._file.fileno(), self._written, access=mmap.ACCESS_READ)
        order, self.bounds = _sorted(self._streams, self._added[0])
        self._streams = array("q")
        offsets, lengths, places = (_reordered(column, order) for column in self._added)
        self._added = offsets, lengths, places
        self.set_pieces(*self._added, self._mapped)

    def close(self) -> None:
        """Discard the pieces; after that, the file may be closed."""
        self.bounds = {}
        if self._mapped is not None:
            self._mapped.close()


class StreamRanges:
    """Ranges of streams that do not overlap; all are added before the first is looked up."""

    def __init__(self) -> None:
        self._streams = array("q")
        self._begins = array("q")
        self._ends = array("q")
        self._bounds: dict[int, tuple[int, int]] = {}

    def add(self, stream: int, begin: int, end: int) -> None:
        """Add a range."""
        self._streams.append(stream)
        self._begins.append(begin)
        self._ends.append(end)

    def sort(self) -> None:
        """Prepare for :meth:`without_end`, after the last :meth:`add`."""
        order, self._bounds = _sorted(self._streams, self._begins)
        self._begins, self._ends = _reordered(self._begins, order), _reordered(self._ends, order)

    def without_end(self, stream: int, offset: int, length: int) -> int:
        """Return how many of ``length`` bytes come before the stored range that they end in.

        Returns ``length`` if they do not end in a stored range.
        """
        first, last = self._bounds.get(stream, (0, 0))
        end = offset + length
        index = bisect_left(self._begins, end, first, last) - 1
        if index < first or self._ends[index] < end:
            return length
        return max(self._begins[index] - offset, 0)


def _sorted(
    streams: array[int], offsets: array[int]
) -> tuple[NDArray[np.int64], dict[int, tuple[int, int]]]:
    """Return the order by stream and offset, and begin and end of each stream in that order."""
    if not streams:
        return np.empty(0, np.int64), {}
    numbers = np.frombuffer(streams, np.int64)
    order = np.lexsort((np.frombuffer(offsets, np.int64), numbers))
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    ends = np.append(starts[1:], len(order))
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    return order, dict(zip(ordered[starts].tolist(), bounds, strict=True))


def _reordered(column: array[int], order: NDArray[np.int64]) -> array[int]:
    return array("q", np.frombuffer(column, np.int64)[order].tobytes()) if column else column


class StreamPlaces:
    """Finds the stream that a packet belongs to, and the packet's stream offset."""

    def __init__(self) -> None:
        self._streams: dict[bytes, list[OneWayStream]] = {}

    def rows(self) -> Iterator[tuple[bytes, int, int, int]]:
        """Yield the ends, the number, the first packet and sequence number of each stream."""
        for ends, streams in self._streams.items():
            for each in streams:
                yield ends, each.number, each.first_packet, each.first_sequence

    def add_rows(
        self, rows: Iterable[tuple[bytes, int, int, int]], shard: int, shards: int
    ) -> None:
        """Add streams of a shard: the numbers times ``shards``, plus ``shard``, become theirs."""
        for ends, number, *first in rows:
            stream = OneWayStream(number * shards + shard, *first)
            self._streams.setdefault(ends, []).append(stream)

    def add(self, connection: TcpConnection) -> None:
        """Add both streams of a connection whose first sequence numbers are known."""
        one, other = map(_packed, connection.endpoints)
        for direction, key in ((0, _key(one, other)), (1, _key(other, one))):
            self._streams.setdefault(key, []).append(
                OneWayStream(
                    2 * connection.serial + direction,
                    connection.first_packet or 0,
                    connection.first_sequence[direction],
                )
            )

    def sort(self) -> None:
        """Sort the connections of each address pair by time, after the last :meth:`add`."""
        for streams in self._streams.values():
            streams.sort(key=lambda stream: stream.first_packet)

    def find(
        self, source: bytes, destination: bytes, ports: bytes, sequence: int, packet: int
    ) -> tuple[int, int] | None:
        """Return the number of the stream and the offset in it; None if the stream is unknown."""
        streams = self._streams.get(source + destination + ports)
        if streams is None:
            return None
        stream = streams[0]
        for later in streams[1:]:
            if later.first_packet > packet:
                break
            stream = later
        return stream.number, stream.offset_of(sequence)


def _packed(end: Endpoint) -> tuple[bytes, bytes]:
    family = AF_INET6 if ":" in end.ip else AF_INET
    return inet_pton(family, end.ip), end.port.to_bytes(2)


def _key(source: tuple[bytes, bytes], destination: tuple[bytes, bytes]) -> bytes:
    return source[0] + destination[0] + source[1] + destination[1]


_NEVER_WRAPS_BYTES: Final = 1 << 30
_PREFIX_BYTES: Final = 4
_SASL_HANDSHAKE: Final = 17
_ENVELOPE: Final = 58
_MAX_CLIENT_ID_BYTES: Final = 0x7FFF
_size: Final = Struct(">i").pack
_response_head: Final = Struct(">ii").pack
_request_head: Final = Struct(">ihhi").pack
_int16: Final = Struct(">h")


class FoundMessages(NamedTuple):
    """What the first pass found in a shard of the connections."""

    pieces: PieceColumns
    places: list[tuple[bytes, int, int, int]]
    """See :meth:`StreamPlaces.rows`."""
    records: StreamRanges
    furthest: int
    """The furthest end of a piece in its stream."""
    connections: int
    """Kafka connections."""
    messages: int
    unread_messages: int
    """Messages whose body could not be read; the whole body is blank."""
    unread_batches: int
    """Batches of records that are blank as a whole."""
    wire_bytes: int
    """Bytes of all packets, those of other shards too."""


class FoundStreams:
    """Returns the anonymized payload of packets, from what was found in all shards."""

    def __init__(
        self, found: Sequence[FoundMessages], files: Sequence[BinaryIO], *, strips_records: bool
    ) -> None:
        """Read the pieces of each shard from its file."""
        self._pieces = [
            StreamPieces(file, each.pieces) for file, each in zip(files, found, strict=True)
        ]
        self._records = [each.records for each in found]
        self._strips_records = strips_records
        self._places = StreamPlaces()
        for shard, each in enumerate(found):
            self._places.add_rows(each.places, shard, len(found))
        self._places.sort()
        for pieces, records in zip(self._pieces, self._records, strict=True):
            pieces.sort()
            records.sort()
        self.may_wrap = any(
            max(each.furthest, each.wire_bytes) >= _NEVER_WRAPS_BYTES for each in found
        )
        """Whether a stream may have so many bytes that a sequence number is in it twice."""
        self.kept_bytes = 0
        """Bytes of the payload returned last to keep, if records are to be left out."""

    def payload(
        self,
        source: bytes,
        destination: bytes,
        ports: bytes,
        sequence: int,
        length: int,
        packet: int,
    ) -> bytes | None:
        """See :class:`~kanalyze.anonymization.rewriting.Payloads`."""
        place = self._places.find(source, destination, ports, sequence, packet)
        if place is None:
            return None
        number, offset = place
        stream, shard = divmod(number, len(self._pieces))
        if self._strips_records:
            self.kept_bytes = self._records[shard].without_end(stream, offset, length)
        return self._pieces[shard].read(stream, offset, length)

    def close(self) -> None:
        """Discard the pieces; after that, the files may be closed."""
        for pieces in self._pieces:
            pieces.close()


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
        file: BinaryIO,
    ) -> None:
        """Begin; the bytes go to a file."""
        self._messages = messages
        self._stand_ins = stand_ins
        self._pieces = StreamPieces(file)
        self._places = StreamPlaces()
        self._records = StreamRanges()
        self._open: dict[int, _KnownConnection] = {}
        self._message_count = 0
        self._unread_messages = 0
        self._connections = 0

    def found(self, unread_batches: int, wire_bytes: int) -> FoundMessages:
        """Return all that was collected."""
        return FoundMessages(
            self._pieces.columns(),
            list(self._places.rows()),
            self._records,
            self._pieces.furthest,
            self._connections,
            self._message_count,
            self._unread_messages,
            unread_batches,
            wire_bytes,
        )

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
        self._message_count += 1
        anonymous = self._anonymous(exchange, message, kind, forwarded)
        message.data = message.pieces = None
        if anonymous is None:
            self._unread_messages += 1
            self._pieces.add(stream, offset, _head_of(exchange, message, kind, self._stand_ins))
            return
        if not anonymous.is_read:
            self._unread_messages += 1
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
        self._connections += connection.is_kafka
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
