"""Which connections are Kafka, and which end is the client: decided by content, not by ports.

In: :class:`~kanalyze.model.StreamUpdate`. Out: exchanges. This module must not know files, rows
or reports.

A connection is undecided until one of its directions holds a request: a header that makes sense
and a body that takes up the frame to the byte. Until then its bytes are kept (a bounded part), so
that nothing of a connection that turns out to be Kafka is lost. Ports decide only where the user
says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kanalyze.connection.exchange import Peers
from kanalyze.connection.kafka import KafkaConnection
from kanalyze.connection.kafka07 import Kafka07Connection
from kanalyze.connection.locate import RequestLocator, after_tokens
from kanalyze.connection.locate07 import Request07Locator
from kanalyze.connection.tls import looks_like_tls
from kanalyze.model import Anomaly, AnomalyKind, Chunk, Gap, Segments

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.connection.exchange import Exchange
    from kanalyze.connection.kafka import Keep
    from kanalyze.connection.reader import MessageReader
    from kanalyze.model import StreamItem, StreamUpdate, TcpConnection
    from kanalyze.protocol.catalog import Catalog

__all__ = ["BrokerSide", "ConnectionCounts", "ConnectionTracker"]

BrokerSide: TypeAlias = "Callable[[str, int], bool]"
"""Tells whether a broker listens on an IP address and port."""

_HELD_BYTES = 256 * 1024
"""Of an undecided direction; a request is found long before, and what is older is given up."""
_SOUGHT_BYTES = 16 * 1024 * 1024
"""How much of a direction is searched before the connection is taken for something else."""
_TLS_HEAD_BYTES = 5

_Connection: TypeAlias = KafkaConnection | Kafka07Connection
_Wire: TypeAlias = Literal["kafka", "kafka after tokens", "kafka-0.7"]


@dataclass(slots=True)
class ConnectionCounts:
    """What the connections turned out to be, and how much of them was read; sums may be added."""

    kafka: int = 0
    tls: int = 0
    other: int = 0
    kafka_bytes: int = 0
    """TCP payload of Kafka connections, each byte once."""
    decoded_bytes: int = 0
    undecoded_bytes: int = 0
    skipped_bytes: int = 0


@dataclass(slots=True)
class _Direction:
    """One direction of an undecided connection."""

    items: list[StreamItem] = field(default_factory=list)
    head: bytes = b""
    """The stream's first bytes, when it was seen from its start."""
    from_start: bool = True
    payload_bytes: int = 0
    sought_bytes: int = 0


class _Undecided:
    def __init__(self, tcp: TcpConnection) -> None:
        self.tcp = tcp
        self.directions = (_Direction(), _Direction())
        self.tls_sides: set[int] = set()


class ConnectionTracker:
    """Follows every TCP connection: undecided, Kafka, TLS, or something else."""

    def __init__(
        self,
        reader: MessageReader,
        catalog: Catalog,
        *,
        is_broker: BrokerSide | None = None,
        keep: Keep | None = None,
    ) -> None:
        """Make a tracker.

        Args:
            reader: reads messages.
            catalog: the known APIs.
            is_broker: tells of an IP address and a port whether a broker is there, whatever the
                bytes look like; None leaves it to the bytes.
            keep: tells of an API key whether the bytes of its messages are wanted.
        """
        self._reader = reader
        self._catalog = catalog
        self._is_broker = is_broker
        self._keep = keep
        self._locate = RequestLocator(reader, catalog)
        self._undecided: dict[int, _Undecided] = {}
        self._locate07 = Request07Locator()
        self._kafka: dict[int, _Connection] = {}
        self._ignored: set[int] = set()
        self._anomalies: list[Anomaly] = []
        self.counts = ConnectionCounts()

    def feed(self, update: StreamUpdate) -> list[Exchange]:
        """Take in what a batch added to one connection; return the exchanges it completes."""
        serial = update.connection.serial
        connection = self._kafka.get(serial)
        if connection is not None:
            self.counts.kafka_bytes += _payload_bytes(update.items)
            exchanges = connection.feed(update.items)
        elif serial in self._ignored:
            if update.closed:
                self._ignored.discard(serial)
            return []
        else:
            exchanges = self._decide(update)
            connection = self._kafka.get(serial)
        if update.closed:
            exchanges.extend(self._close(serial, connection))
        elif connection is not None:
            self._anomalies.extend(connection.take_anomalies())
        return exchanges

    def take_anomalies(self) -> list[Anomaly]:
        """Return the anomalies found since the last call."""
        found, self._anomalies = self._anomalies, []
        return found

    # -- deciding ---------------------------------------------------------------------------------

    def _decide(self, update: StreamUpdate) -> list[Exchange]:
        tcp = update.connection
        state = self._undecided.get(tcp.serial)
        if state is None:
            state = self._undecided[tcp.serial] = _Undecided(tcp)
        for side in (0, 1):
            self._hold(state, side, update.items[side])
        client_side = self._forced_client(tcp)
        if client_side is not None:
            return self._begin(state, client_side, self._forced_wire(state.directions[client_side]))
        if state.tls_sides:
            return self._tls(state)
        found = self._find_client(state)
        if found is not None:
            return self._begin(state, *found)
        if self._hopeless(state):
            self._ignore(state, tls=False)
            return []
        for direction in state.directions:
            _keep(direction)
        return []

    def _forced_client(self, tcp: TcpConnection) -> int | None:
        for side in (0, 1):
            if self._is_broker is not None and self._is_broker(*tcp.endpoints[side]):
                return 1 - side
        return None

    @staticmethod
    def _hold(state: _Undecided, side: int, items: list[StreamItem]) -> None:
        direction = state.directions[side]
        for item in items:
            if isinstance(item, Gap):
                if direction.payload_bytes == 0:
                    direction.from_start = False
                continue
            if direction.payload_bytes == 0:
                # Without a SYN the first byte seen is just that.
                direction.from_start = direction.from_start and state.tcp.opened_by is not None
            if len(direction.head) < _TLS_HEAD_BYTES:
                direction.head = (direction.head + _first_bytes(item))[:_TLS_HEAD_BYTES]
                if looks_like_tls(direction.head):
                    state.tls_sides.add(side)
            direction.payload_bytes += _item_bytes(item)
        direction.items.extend(items)

    def _forced_wire(self, direction: _Direction) -> _Wire:
        view = _contiguous(direction.items)
        if self._locate.verdict(view) == "no" and self._locate07.verdict(view) == "yes":
            return "kafka-0.7"
        return "kafka"

    def _find_client(self, state: _Undecided) -> tuple[int, _Wire] | None:
        order = (0, 1) if state.tcp.opened_by in (0, None) else (1, 0)
        for side in order:
            wire = self._wire(state.directions[side], state.directions[1 - side])
            if wire is not None:
                return side, wire
        return None

    def _wire(self, direction: _Direction, other: _Direction) -> _Wire | None:
        """Tell whose requests begin in what is held; at its first byte if that is known."""
        view = _contiguous(direction.items)
        if len(view) == 0:
            return None
        if not _unbroken(direction):
            direction.sought_bytes += len(view)
            return self._wire_within(view)
        new, old = self._locate.verdict(view), self._locate07.verdict(view)
        # A body that is not all there, newer than the tables, or sound in both readings: an
        # answer with the same correlation id speaks for the later versions.
        answer = _contiguous(other.items)
        same_id = len(answer) >= 8 and len(view) >= 12 and answer[4:8] == view[8:12]
        other_id = len(answer) >= 6 and answer[4:8] != view[8 : 8 + len(answer[4:8])]
        if old == "yes" and (new != "yes" or other_id):
            return "kafka-0.7"
        if new == "yes" or (new == "perhaps" and (same_id or _is_long(view))):
            return "kafka"
        if old == "perhaps" and new == "no" and _is_long(view):
            return "kafka-0.7"
        if new == "no" and after_tokens(view, self._locate.verdict) == "yes":
            return "kafka after tokens"
        return None

    def _wire_within(self, view: memoryview) -> _Wire | None:
        if self._locate(view)[0] is not None:
            return "kafka"
        found, _ = self._locate07(view)
        if found is not None and self._locate07.verdict(view[found:]) == "yes":
            return "kafka-0.7"
        return None

    def _may_begin(self, view: memoryview) -> bool:
        """Tell whether a stream that begins with these bytes may be a client's of Kafka."""
        return (
            self._locate.verdict(view) != "no"
            or self._locate07.verdict(view) != "no"
            or after_tokens(view, self._locate.verdict) != "no"
        )

    def _hopeless(self, state: _Undecided) -> bool:
        """Tell whether this can be no Kafka connection any more."""
        for direction in state.directions:
            if not direction.payload_bytes:
                continue
            if direction.from_start:
                view = _contiguous(direction.items)
                if self._may_begin(view):
                    return False
            elif direction.sought_bytes < _SOUGHT_BYTES:
                return False
        return any(direction.payload_bytes for direction in state.directions)

    # -- decided ----------------------------------------------------------------------------------

    def _begin(self, state: _Undecided, client_side: int, wire: _Wire) -> list[Exchange]:
        tcp = state.tcp
        del self._undecided[tcp.serial]
        peers = Peers(tcp, tcp.endpoints[client_side], tcp.endpoints[1 - client_side])
        directions = state.directions
        in_sync = (directions[0].from_start, directions[1].from_start)
        from_start = tcp.opened_by is not None and in_sync[client_side]
        connection: _Connection
        if wire == "kafka-0.7":
            connection = Kafka07Connection(
                peers, client_side, in_sync=in_sync, from_start=from_start, keep=self._keep
            )
        else:
            connection = KafkaConnection(
                peers,
                client_side,
                self._reader,
                self._catalog,
                in_sync=in_sync,
                from_start=from_start,
                keep=self._keep,
                tokens_first=wire == "kafka after tokens",
            )
        self._kafka[tcp.serial] = connection
        self.counts.kafka += 1
        items = (directions[0].items, directions[1].items)
        self.counts.kafka_bytes += directions[0].payload_bytes + directions[1].payload_bytes
        return connection.feed(items)

    def _tls(self, state: _Undecided) -> list[Exchange]:
        if len(state.tls_sides) == 2:
            self._ignore(state, tls=True)
            return []
        # A handshake without an answer may yet be a TLS client on a plaintext port: wait for the
        # end of the connection, and keep nothing meanwhile.
        for direction in state.directions:
            direction.items.clear()
        (side,) = state.tls_sides
        if state.directions[1 - side].payload_bytes:
            self._ignore(state, tls=True)
        return []

    def _ignore(self, state: _Undecided, *, tls: bool) -> None:
        del self._undecided[state.tcp.serial]
        self._ignored.add(state.tcp.serial)
        if tls:
            self.counts.tls += 1
        else:
            self.counts.other += 1

    def _close(self, serial: int, connection: _Connection | None) -> list[Exchange]:
        state = self._undecided.pop(serial, None)
        self._ignored.discard(serial)
        exchanges: list[Exchange] = []
        if state is not None:
            exchanges = self._close_undecided(state)
            connection = self._kafka.get(serial)
        if connection is None:
            return exchanges
        del self._kafka[serial]
        exchanges += connection.close()
        self._anomalies.extend(connection.take_anomalies())
        counts = self.counts
        counts.decoded_bytes += connection.decoded_bytes
        counts.undecoded_bytes += connection.undecoded_bytes
        counts.skipped_bytes += connection.skipped_bytes
        return exchanges

    def _close_undecided(self, state: _Undecided) -> list[Exchange]:
        if not state.tls_sides:
            for side in (0, 1):
                direction = state.directions[side]
                view = _contiguous(direction.items)
                known = len(view) >= 12 and _unbroken(direction)
                if known and self._locate.verdict(view) == "perhaps":
                    self._undecided[state.tcp.serial] = state
                    return self._begin(state, side, "kafka")
            self.counts.other += 1
            return []
        self.counts.tls += 1
        (side,) = state.tls_sides
        tcp = state.tcp
        if tcp.packets[1 - side] and not tcp.payload_bytes[1 - side]:
            self._anomalies.append(
                Anomaly(
                    AnomalyKind.TLS_ON_PLAINTEXT_PORT,
                    time_ns=tcp.first_time_ns,
                    connection=tcp,
                    direction=side,
                    length=state.directions[side].payload_bytes,
                    detail=f"{tcp.endpoints[side]} began TLS with {tcp.endpoints[1 - side]}, "
                    "which closed without an answer",
                )
            )
        return []


def _is_long(view: memoryview) -> bool:
    return len(view) >= _HELD_BYTES // 4


def _unbroken(direction: _Direction) -> bool:
    return direction.from_start and not any(isinstance(i, Gap) for i in direction.items)


def _item_bytes(chunk: Chunk) -> int:
    return sum(chunk.segments.length[chunk.first : chunk.last])


def _payload_bytes(items: tuple[list[StreamItem], list[StreamItem]]) -> int:
    return sum(_item_bytes(item) for side in items for item in side if not isinstance(item, Gap))


def _first_bytes(chunk: Chunk) -> bytes:
    found = b""
    segments = chunk.segments
    for index in range(chunk.first, chunk.last):
        start = segments.start[index]
        found += bytes(segments.buffer[start : start + min(segments.captured[index], 8)])
        if len(found) >= _TLS_HEAD_BYTES:
            break
    return found


def _contiguous(items: list[StreamItem]) -> memoryview:
    """Return the bytes held before the first hole, at most ``_HELD_BYTES`` and a segment."""
    parts: list[memoryview] = []
    total = 0
    for item in items:
        if isinstance(item, Gap):
            if parts:
                break
            continue
        segments = item.segments
        for index in range(item.first, item.last):
            start, captured = segments.start[index], segments.captured[index]
            parts.append(segments.buffer[start : start + captured])
            total += captured
            if captured < segments.length[index] or total >= _HELD_BYTES:
                return memoryview(b"".join(parts))
    return memoryview(b"".join(parts))


def _keep(direction: _Direction) -> None:
    """Copy what is held, and give up what is more than may be held: its oldest part."""
    kept: list[StreamItem] = []
    total = 0
    for item in reversed(direction.items):
        if total >= _HELD_BYTES:
            direction.from_start = False
            break
        kept.append(item if isinstance(item, Gap) else _own(item))
        if not isinstance(item, Gap):
            total += _item_bytes(item)
    kept.reverse()
    direction.items = kept


def _own(chunk: Chunk) -> Chunk:
    """Return a chunk with a copy of the bytes (see PacketBatch: buffers are used again)."""
    segments = chunk.segments
    part = slice(chunk.first, chunk.last)
    starts, parts, at = [], [], 0
    for start, captured in zip(segments.start[part], segments.captured[part], strict=True):
        starts.append(at)
        parts.append(segments.buffer[start : start + captured])
        at += captured
    owned = Segments(
        memoryview(b"".join(parts)),
        starts,
        segments.length[part],
        segments.captured[part],
        segments.time_ns[part],
        segments.packet[part],
    )
    return Chunk(chunk.stream_offset, owned, 0, len(starts))
