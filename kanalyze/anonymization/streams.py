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
from collections import defaultdict
from itertools import pairwise
from socket import AF_INET, AF_INET6, inet_pton
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

import numpy as np

from kanalyze.anonymization.contents import anonymous_prefix, raw_token
from kanalyze.anonymization.rewriting import (
    PIECE_CELLS,
    MessageWriter,
    OneWayStream,
    PieceReader,
    PieceWriter,
    StreamPayloads,
)
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.anonymization.messages import MessageAnonymizer
    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.session.exchange import Exchange, Message, Peers
    from kanalyze.model.streams import TokenBytes
    from kanalyze.model.tcp import Endpoint, TcpConnection
    from kanalyze.runtime.stages import BatchEvents


Place: TypeAlias = tuple[bytes, int, int, int]
"""The ends of a stream, its number, its first packet and its first sequence number."""


class StreamPieces(PieceReader):
    """Pieces of streams that a :class:`.PieceWriter` wrote to a file."""

    def __init__(self, file: BinaryIO, cells: array[int]) -> None:
        """Read the pieces that ``cells`` of the writer tell of."""
        super().__init__()
        self._mapped: mmap.mmap | None = None
        bounds, (offsets, lengths, places) = _by_stream(cells, PIECE_CELLS)
        self.bounds = {
            stream: (first, last, max(lengths[first:last]))
            for stream, (first, last) in bounds.items()
        }
        if any(lengths):
            self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.set_pieces(offsets, lengths, places, self._mapped)
        else:
            self.set_pieces(offsets, lengths, places, b"")

    def close(self) -> None:
        """Discard the pieces; after that, the file may be closed."""
        self.bounds = {}
        self.set_pieces(array("q"), array("q"), array("q"), b"")
        if self._mapped is not None:
            self._mapped.close()


class StreamRanges:
    """Ranges of streams that do not overlap; all are added before the first is looked up."""

    def __init__(self) -> None:
        self._cells = array("q")
        """Stream, begin and end of each."""
        self._begins = array("q")
        self._ends = array("q")
        self._bounds: dict[int, tuple[int, int]] = {}

    def add(self, stream: int, begin: int, end: int) -> None:
        """Add a range."""
        self._cells.extend((stream, begin, end))

    def sort(self) -> None:
        """Prepare for :meth:`without_end`, after the last :meth:`add`."""
        self._bounds, (self._begins, self._ends) = _by_stream(self._cells, 3)

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


def _by_stream(
    cells: array[int], width: int
) -> tuple[dict[int, tuple[int, int]], list[array[int]]]:
    """Sort rows of a stream's number, an offset in it, and more; return bounds and the columns.

    The column of the streams is left out: the bounds say where the rows of each are.
    """
    table = np.frombuffer(cells, np.int64).reshape(-1, width)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    return _bounds(table[:, 0]), [array("q", column.tobytes()) for column in table.T[1:]]


def _bounds(streams: NDArray[np.int64]) -> dict[int, tuple[int, int]]:
    """Return begin and end of each stream, whose numbers rise."""
    numbers, starts = np.unique(streams, return_index=True)
    bounds = pairwise((*starts.tolist(), len(streams)))
    return dict(zip(numbers.tolist(), bounds, strict=True))


def places_of(connection: TcpConnection) -> Iterator[Place]:
    """Yield the places of both streams of a connection whose first sequence numbers are known."""
    one, other = map(_packed, connection.endpoints)
    for direction, ends in ((0, _key(one, other)), (1, _key(other, one))):
        number, packet = 2 * connection.serial + direction, connection.first_packet or 0
        yield ends, number, packet, connection.first_sequence[direction]


def streams_at(shards: Iterable[Iterable[Place]]) -> dict[bytes, list[OneWayStream]]:
    """Return the streams of all shards between the same ends, by time."""
    streams: defaultdict[bytes, list[OneWayStream]] = defaultdict(list)
    for shard, places in enumerate(shards):
        for ends, number, packet, sequence in places:
            streams[ends].append(OneWayStream(number, packet, sequence, shard))
    for between in streams.values():
        between.sort(key=lambda stream: stream.first_packet)
    return dict(streams)


def _packed(end: Endpoint) -> tuple[bytes, bytes]:
    family = AF_INET6 if ":" in end.ip else AF_INET
    return inet_pton(family, end.ip), end.port.to_bytes(2)


def _key(source: tuple[bytes, bytes], destination: tuple[bytes, bytes]) -> bytes:
    return source[0] + destination[0] + source[1] + destination[1]


_NEVER_WRAPS_BYTES: Final = 1 << 30
_PREFIX_BYTES: Final = 4
_SASL_HANDSHAKE: Final = 17
_MAX_CLIENT_ID_BYTES: Final = 0x7FFF
_size: Final = Struct(">i").pack
_response_head: Final = Struct(">ii").pack
_request_head: Final = Struct(">ihhi").pack
_int16: Final = Struct(">h")


class FoundMessages(NamedTuple):
    """What the first pass found in a shard of the connections."""

    pieces: array[int]
    """See :meth:`.PieceWriter.cells`."""
    places: list[Place]
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


class FoundStreams(StreamPayloads):
    """The anonymized payload of packets, from what was found in all shards."""

    def __init__(
        self, found: Sequence[FoundMessages], files: Sequence[BinaryIO], *, strips_records: bool
    ) -> None:
        """Read the pieces of each shard from its file."""
        self._pieces = [
            StreamPieces(file, each.pieces) for file, each in zip(files, found, strict=True)
        ]
        super().__init__(streams_at(each.places for each in found), self._pieces)
        self._records = [each.records for each in found] if strips_records else []
        for records in self._records:
            records.sort()
        self.may_wrap = any(
            max(each.furthest, each.wire_bytes) >= _NEVER_WRAPS_BYTES for each in found
        )
        """Whether a stream may have so many bytes that a sequence number is in it twice."""

    def kept(self, stream: OneWayStream, offset: int, length: int) -> int:
        """Return how many bytes of a payload to keep if records are to be left out."""
        if not self._records:
            return length
        return self._records[stream.shard].without_end(stream.number, offset, length)

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


class Collection(MessageWriter):
    """Collects the anonymized bytes of messages, in the order of events."""

    def __init__(
        self,
        messages: MessageAnonymizer,
        stand_ins: StandIns,
        file: BinaryIO,
        *,
        strips_records: bool = False,
    ) -> None:
        """Begin; the bytes go to a file. ``strips_records``: whether to note where these are."""
        self._records = StreamRanges()
        super().__init__(messages, PieceWriter(file), self._records if strips_records else None)
        self._anonymizer = messages
        self._stand_ins = stand_ins
        self._places: list[Place] = []
        self._open: dict[int, _KnownConnection] = {}
        self._connections = 0

    def found(self, wire_bytes: int) -> FoundMessages:
        """Return all that was collected."""
        self.pieces.flush()
        return FoundMessages(
            self.pieces.cells(),
            self._places,
            self._records,
            self.pieces.furthest,
            self._connections,
            self.message_count,
            self.unread_messages,
            self._anonymizer.blanked_batches,
            wire_bytes,
        )

    def add(self, events: BatchEvents) -> None:
        """Add the events of a batch of packets."""
        for prefix in events.prefixes:
            tcp = prefix.connection
            self._connection(tcp, is_kafka=False)
            stream = 2 * tcp.serial + prefix.direction
            self.pieces.add(stream, 0, anonymous_prefix(prefix, self._stand_ins))
        for token in events.token_bytes:
            self._token(token)
        self.add_exchanges(events.exchanges)
        for tcp in events.closed_connections:
            self._close(tcp)

    # -- messages ---------------------------------------------------------------------------------

    def connection(self, peers: Peers) -> tuple[int, dict[tuple[int, int], tuple[int, int | None]]]:
        """See :class:`.MessageWriter`."""
        tcp = peers.tcp
        direction = 0 if tcp.endpoints[0] == peers.client else 1
        connection = self._connection(tcp)
        connection.client_index = direction
        if peers.principal is not None and connection.user is None:
            connection.user = self._stand_ins.name(peers.principal.encode("utf-8", "replace"))
        return 2 * tcp.serial + direction, connection.tokens

    def rare_exchange(self, exchange: Exchange) -> tuple[int, int] | None:
        """See :class:`.MessageWriter`."""
        data = None if exchange.request is None else exchange.request.data
        if data is None:
            return None
        if exchange.api_key == _SASL_HANDSHAKE:
            self._connection(exchange.peers.tcp).mechanism = _mechanism(data)
            return None
        return self._anonymizer.forwarded(data)

    def other_message(
        self,
        exchange: Exchange,
        message: Message,
        is_request: bool,
        forwarded: tuple[int, int] | None,
    ) -> tuple[bytes | bytearray, Sequence[tuple[int, int]], bool]:
        """See :class:`.MessageWriter`."""
        kind: Kind = "request" if is_request else "response"
        data: bytes | None = message.data
        holes: list[tuple[int, int]] = []
        if data is None and message.pieces is not None:
            data, holes = _with_holes(message.pieces, message.length)
            if holes and holes[0][0] < _PREFIX_BYTES:
                data = None
        if data is None:  # no bytes were kept
            return _head_of(exchange, message, kind, self._stand_ins), (), False
        ids = exchange.api_key, exchange.api_version
        return self._anonymizer.message(data, *ids, kind, holes, forwarded)

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
        self._places += places_of(tcp)
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
            self.pieces.add(2 * tcp.serial + direction, offset, _size(size) + content)


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
