"""Detects Kafka by content: connections whose protocol is not known yet, and the verdict on each.

In: stream updates of new connections. Out: the decision on each (:class:`KafkaStart`,
:class:`NotKafka`): Kafka, with its wire protocol and its client; TLS; something else; or not known
yet.

A connection is Kafka if one of its directions has a request: a plausible header, a body that
takes up the frame to the byte, and evidence that this is no coincidence (see
:mod:`~kanalyze.kafka.session.heuristics`). Until then its bytes are buffered, within bounds for
each connection and for all together, so that nothing of a Kafka connection is lost. Most
connections are detected at first sight, and nothing of them is buffered: see
:meth:`.RequestLocator.client_at_first_sight`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved, load_each, save_each
from kanalyze.kafka.framing.framer import LARGEST_FRAME_BYTES
from kanalyze.kafka.session.connection import payload_bytes
from kanalyze.kafka.session.heuristics import is_answered_first
from kanalyze.kafka.session.request_scan import (
    FirstBytes,
    FirstBytesReader,
    RequestScanner,
    ScanState,
)
from kanalyze.kafka.session.resync import RequestLocator
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packets import NO_TIME
from kanalyze.model.streams import Chunk
from kanalyze.model.tcp import open_connection
from kanalyze.model.tls import (
    ALERT,
    HANDSHAKE_RECORD,
    HEADER_BYTES,
    find_records,
    looks_like_record,
    record_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kanalyze.common.plain_values import State
    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.kafka.session.message_reader import MessageReader
    from kanalyze.kafka.session.replay_buffer import ReplayBuffer
    from kanalyze.kafka.session.request_scan import Wire
    from kanalyze.model.streams import StreamItem, StreamUpdate
    from kanalyze.model.tcp import TcpConnection

_CLIENT_HELLO = 1


def is_client_hello(head: bytes | memoryview) -> bool:
    """Return true if a stream begins with a ClientHello (RFC 8446 section 4: handshake type 1)."""
    return (
        len(head) > HEADER_BYTES
        and looks_like_record(head)
        and head[0] == HANDSHAKE_RECORD
        and head[HEADER_BYTES] == _CLIENT_HELLO
    )


def is_alert(head: bytes | memoryview) -> bool:
    """Return true if a stream begins with an alert: a server's reply to a client without TLS."""
    return looks_like_record(head) and head[0] == ALERT


def records_fit(view: bytes | memoryview) -> bool:
    """Return true if the bytes are records from the first one to the last."""
    at = 0
    while at + HEADER_BYTES <= len(view):
        size = record_at(view, at)
        if size is None:
            return False
        at += size
    return at > 0


_STEP_BYTES = 16 * 1024
"""Bytes of each direction that are buffered between two verdicts: bytes after the final verdict are
never copied."""
_FIRST_STEP_BYTES = 512
"""Size of the first step; each later one is four times as long. One message is mostly enough."""
_SEARCHED_BYTES = LARGEST_FRAME_BYTES + 16 * 1024 * 1024
"""Bytes that are searched before a connection counts as something else: the capture may begin
within the largest possible request."""
_ONE_SIDED_BYTES = 16 * 1024
"""Bytes without a request that are buffered while the other end is silent: its request may be
captured after the response."""
_LONG_BYTES = 64 * 1024


class KafkaMatch(NamedTuple):
    """A connection that is Kafka: its client, and the protocol on the wire."""

    client_index: int
    wire: Wire


class UndecidedStream:
    """One direction of an undecided connection."""

    __slots__ = ("buffer", "first", "index", "is_tls", "scan", "tcp")
    _NOT_SAVED = ("index", "tcp")
    _SAVED = Saved("is_tls:bool buffer:here first:here scan:here")

    def __init__(self, tcp: TcpConnection, index: int) -> None:
        # imported late: nearly every connection is detected at first sight
        from kanalyze.kafka.session.replay_buffer import ReplayBuffer

        self.tcp = tcp
        self.index = index
        self.buffer = ReplayBuffer()
        self.first = FirstBytes()
        self.scan = ScanState()
        self.is_tls = False

    @property
    def opened(self) -> bool:
        """True if the beginning of the stream was seen."""
        return self.tcp.start_seen[self.index]

    @property
    def from_start(self) -> bool:
        """True if the first buffered byte is the stream's first one."""
        return self.opened and self.buffer.is_whole and not self.buffer.runs.begins_with_gap

    @property
    def is_known_no_client(self) -> bool:
        """True if the stream's first bytes were seen and are not those of a Kafka client."""
        return self.opened and not self.buffer.runs.begins_with_gap and self.first.is_hopeless


class UndecidedConnection:
    """A connection whose protocol is not known yet, with its buffered bytes.

    Without a SYN the first byte seen is not the first byte of the stream.
    """

    _NOT_SAVED = ("_items", "_next", "tcp")
    _SAVED = Saved("_step_bytes:count streams:2*here")

    def __init__(self, tcp: TcpConnection) -> None:
        self.tcp = tcp
        self.streams = (UndecidedStream(tcp, 0), UndecidedStream(tcp, 1))
        self._items: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        self._next: list[tuple[int, int]] = [(0, -1), (0, -1)]
        self._step_bytes = _FIRST_STEP_BYTES

    def _after_load(self) -> None:
        if not 0 < self._step_bytes <= _STEP_BYTES:
            raise ValueError("a step of no bytes, or too many")

    @property
    def buffered_bytes(self) -> int:
        """Memory that the bytes of both directions take."""
        return self.streams[0].buffer.buffered_bytes + self.streams[1].buffer.buffered_bytes

    @property
    def payload_bytes(self) -> int:
        """Payload of both directions, each byte once, with the rest of the update."""
        remaining = self._remaining_items(0), self._remaining_items(1)
        buffered_bytes = sum(stream.buffer.payload_bytes for stream in self.streams)
        return payload_bytes(remaining) + buffered_bytes

    @property
    def tls_directions(self) -> list[int]:
        """The directions that begin with a TLS record."""
        return [direction for direction in (0, 1) if self.streams[direction].is_tls]

    def begin(self, update: StreamUpdate) -> None:
        """Begin with an update, which is buffered in steps."""
        self._items = update.items
        self._next = [(0, -1), (0, -1)]

    def step(self) -> bool:
        """Buffer the next step of each direction; return false if nothing is left."""
        more = self._step(0)
        more = self._step(1) or more
        self._step_bytes = min(4 * self._step_bytes, _STEP_BYTES)
        return more

    def rest(self, direction: int) -> list[StreamItem]:
        """Return the buffered bytes of a direction, and the rest of the update."""
        return [*self.streams[direction].buffer.items(), *self._remaining_items(direction)]

    def _remaining_items(self, direction: int) -> list[StreamItem]:
        index, first = self._next[direction]
        remaining = self._items[direction][index:]
        if remaining and first >= 0 and isinstance(remaining[0], Chunk):
            remaining[0] = _from(remaining[0], first)
        return remaining

    def end_step(self) -> None:
        """Drop the update, whose buffers are used again."""
        self._items = ([], [])
        self._next = [(0, -1), (0, -1)]

    def _step(self, direction: int) -> bool:
        index, first = self._next[direction]
        items, buffer = self._items[direction], self.streams[direction].buffer
        if index >= len(items):
            return False
        before = buffer.end
        while index < len(items) and buffer.end - before < self._step_bytes:
            item = items[index]
            begin = first
            if begin < 0 and isinstance(item, Chunk):
                begin = item.first
            first = buffer.add(item, begin, self._step_bytes)
            if first < 0:
                index += 1
        self._next[direction] = (index, first)
        self._note_tls(self.streams[direction])
        return True

    @staticmethod
    def _note_tls(stream: UndecidedStream) -> None:
        if stream.is_tls or stream.buffer.payload_bytes > 2 * _STEP_BYTES:
            return
        head = stream.buffer.head
        if looks_like_record(head[:HEADER_BYTES]):
            # If the first byte of the stream was not seen, all bytes have to be records.
            stream.is_tls = stream.opened or records_fit(
                stream.buffer.read(0, stream.buffer.runs.first_end)
            )


class ProtocolDetector:
    """Decides whether a connection is Kafka, and which end is the client."""

    def __init__(self, reader: MessageReader, catalog: Catalog) -> None:
        self._reader = reader
        self.locate = RequestLocator(reader, catalog)
        self._first = FirstBytesReader(reader, catalog, self.locate)
        self._scanner = RequestScanner(reader, self.locate)

    def find(self, state: UndecidedConnection, *, last: bool = False) -> KafkaMatch | None:
        """Return the client whose requests are buffered; None if there are none (yet).

        ``last``: the connection has ended.
        """
        order = (1, 0) if state.tcp.opened_by == 1 else (0, 1)
        for direction in order:
            stream, other = state.streams[direction], state.streams[1 - direction]
            wire = self._wire(stream, other, last=last)
            is_accepted = state.tcp.opened_by == 1 - direction
            # The end that was connected to is the client only if it is answered: a response whose
            # request is lost looks like a request with the first topic's name as client id.
            if is_accepted and wire == "kafka" and not self._is_answered(stream, other, last=last):
                wire = None
            if wire is not None:
                return KafkaMatch(direction, wire)
            if state.tcp.opened_by == direction and stream.first.new == "yes":
                # Its end sent a request that fits first: the other end is no client of Kafka.
                return None
        return None

    def forced(
        self, state: UndecidedConnection, client_index: int, *, last: bool = False
    ) -> KafkaMatch | None:
        """Return the match of a connection that the user says is Kafka.

        None while its wire protocol is unknown. ``last``: the connection has ended.
        """
        stream, other = state.streams[client_index], state.streams[1 - client_index]
        if not stream.buffer.payload_bytes and not last:
            # Responses alone prove nothing; but they are buffered no longer than other bytes.
            return KafkaMatch(client_index, "kafka") if _is_long(other.buffer) else None
        wire = self._wire(stream, other, last=last)
        if wire is not None or not stream.from_start:
            return KafkaMatch(client_index, wire or "kafka")
        first = stream.first
        if first.new == "no" and first.old != "no":
            return KafkaMatch(client_index, "kafka-0.7")
        if first.new == "no" and first.tokens != "no":
            return KafkaMatch(client_index, "kafka after tokens")
        if first.new == "perhaps" and not first.heads and not last:
            return None
        return KafkaMatch(client_index, "kafka")

    @staticmethod
    def is_hopeless(state: UndecidedConnection) -> bool:
        """Return true if this cannot be a Kafka connection."""
        streams = state.streams
        if any(stream.buffer.payload_bytes and not stream.is_known_no_client for stream in streams):
            return sum(stream.buffer.payload_bytes for stream in streams) >= _SEARCHED_BYTES
        if all(stream.buffer.payload_bytes for stream in streams):
            return True
        return any(stream.buffer.payload_bytes > _ONE_SIDED_BYTES for stream in streams)

    @staticmethod
    def is_tls(state: UndecidedConnection) -> bool:
        """Return true if the buffered bytes are from the middle of a TLS connection."""
        for stream in state.streams:
            buffer = stream.buffer
            if (
                not stream.from_start
                and find_records(buffer.read(buffer.begin, buffer.end)) is not None
            ):
                return True
        return False

    def clear_client(self, state: UndecidedConnection) -> KafkaMatch | None:
        """Return a Kafka client without TLS whose broker wants TLS; None if that is not the case.

        Such a broker sends an alert (RFC 8446 section 6) and closes.
        """
        (server,) = state.tls_directions
        client = state.streams[1 - server]
        if not is_alert(state.streams[server].buffer.head) or not client.from_start:
            return None
        self._first.look(client.first, client.buffer)
        return KafkaMatch(1 - server, "kafka") if client.first.new == "yes" else None

    # -- evidence ---------------------------------------------------------------------------------

    def _wire(self, stream: UndecidedStream, other: UndecidedStream, *, last: bool) -> Wire | None:
        if not stream.buffer.payload_bytes or stream.is_known_no_client:
            return None
        if stream.from_start:
            self._first.look(stream.first, stream.buffer, last=last)
            wire = self._first_wire(stream, other, last=last)
            if wire is not None or stream.buffer.runs.is_unbroken or stream.first.is_hopeless:
                return wire
        return self._scanner.look(stream.scan, stream.buffer, other.buffer, last=last)

    def _first_wire(
        self, stream: UndecidedStream, other: UndecidedStream, *, last: bool
    ) -> Wire | None:
        first = stream.first
        answered = self._is_answered(stream, other, last=last)
        if last and answered is None and other.buffer.captured_bytes and other.from_start:
            answered = False  # a few bytes, and no more will come
        # The body is incomplete, newer than the tables, or fits both protocols: a response with the
        # same correlation id is evidence for the later versions.
        if first.old == "yes" and (first.new != "yes" or answered is False):
            return "kafka-0.7"
        if first.new != "no":
            return "kafka" if self._is_accepted(stream, answered, last=last) else None
        if first.old == "perhaps" and _is_long(stream.buffer):
            return "kafka-0.7"
        return "kafka after tokens" if first.tokens == "yes" else None

    @staticmethod
    def _is_accepted(stream: UndecidedStream, answered: bool | None, *, last: bool) -> bool:
        first = stream.first
        if not first.heads:
            return False
        # A second request is only there if both take up their frames.
        named = any(head.is_named for head in first.heads)
        if first.new == "yes":
            # Without a client id: if the other end responded, or sent nothing.
            return named or bool(answered) or (last and answered is None)
        return bool(answered) or (named and (last or _is_long(stream.buffer)))

    def _is_answered(
        self, stream: UndecidedStream, other: UndecidedStream, *, last: bool
    ) -> bool | None:
        """Return true if the other end begins with a response to one of the first requests.

        None if that is not known. The first request may expect no response (acks=0).
        """
        heads = stream.first.heads
        if not heads or not other.from_start:
            return None
        runs = other.buffer.runs
        answers = other.buffer.read(0, min(runs.first_end, _STEP_BYTES))
        fits = stream.first.new == "yes"
        may_grow = not last and runs.is_unbroken and runs.first_end < _STEP_BYTES
        verdicts = [
            is_answered_first(self._reader, head, answers, fits=fits, may_grow=may_grow)
            for head in heads
        ]
        if True in verdicts:
            return True
        return None if None in verdicts else False


def _is_long(buffer: ReplayBuffer) -> bool:
    return buffer.end >= _LONG_BYTES


def _from(chunk: Chunk, first: int) -> Chunk:
    """Return a chunk without its segments before index ``first``."""
    skipped = sum(chunk.segments.length[chunk.first : first])
    return Chunk(chunk.stream_offset + skipped, chunk.segments, first, chunk.last)


def client_hello_direction(state: UndecidedConnection) -> int | None:
    """Return the direction that sent a ClientHello; None if none was seen."""
    for direction in (0, 1):
        if is_client_hello(state.streams[direction].buffer.head):
            return direction
    return None


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
            forced = self._forced_client(tcp)
            client_index = self._detector.locate.client_at_first_sight(update, forced)
            if client_index >= 0:
                starts = (tcp.start_seen[0], tcp.start_seen[1])
                return KafkaStart(client_index, "kafka", starts, update.items)
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
