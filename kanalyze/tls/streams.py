"""Replaces the streams of TLS connections by their plaintext, if the key log has the secrets.

In: :class:`~kanalyze.model.streams.StreamUpdate` of all connections, as ``net`` returns them. Out:
the same updates; for a decrypted connection, the items are plaintext.

Only a connection whose first bytes are TLS (:class:`TlsDetector`) is decrypted. Until a record with
data was decrypted, the original items are buffered, as copies, and the connection has no update. If
no secret fits, or if they take too many bytes, they are passed on, and everything that follows
passes unchanged.

If the first byte of a stream was captured, TLS has to begin with a record there. If it was not (the
capture began later, or the first packets are lost), most streams of TLS begin with a record too;
the others begin within one, and three records in a row prove them. Two zero bytes at the beginning
are taken for the size of a Kafka message below 64 KiB, and such a stream is not searched. Of
connections with TLS that begin within a record, this misses one in 32,768.

If the key log grows, a connection whose hellos were seen and whose secrets are not in the log waits
for them: up to :data:`MAX_WAIT_NS`, by the time of packets, and :data:`MAX_WAITING_BYTES`. A
closed connection waits too. Connections that were given up are reported (:class:`GivenUp`).
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final

from kanalyze.common.buffer_budget import BufferBudget
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items
from kanalyze.common.saved import Saved, load, save
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.streams import (
    Chunk,
    Gap,
    StreamUpdate,
    both_items,
    copy_of,
    first_packet,
    items_state,
    memory_of,
)
from kanalyze.model.tcp import open_connection
from kanalyze.model.tls import HEADER_BYTES, find_records, looks_like_record
from kanalyze.tls.late_start import LateStarts
from kanalyze.tls.negotiation import Decryption
from kanalyze.tls.protection import LATE_RECORDS
from kanalyze.tls.session import TlsSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import BothItems, StreamItem
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.tls.keylog import KeyLog

    _NewSession: TypeAlias = Callable[[TcpConnection], TlsSession]

_SEARCHED_BYTES: Final = 1 << 16
"""More than the size of three records of the largest size."""
_SMALL_SIZE: Final = bytes(2)
"""How the size of a Kafka message below 64 KiB begins."""


class TlsDetector:
    """Decides on one connection."""

    __slots__ = ("_first_direction", "_searched_bytes", "_starts_seen")
    _NOT_SAVED = ("_starts_seen",)
    _SAVED = Saved("_first_direction:end _searched_bytes:count")

    def __init__(self, first_direction: int, starts_seen: tuple[bool, bool]) -> None:
        """Begin.

        Args:
            first_direction: the direction of the first packet.
            starts_seen: by direction, whether the first item begins with the first byte sent.
        """
        self._first_direction = first_direction
        self._starts_seen = starts_seen
        self._searched_bytes = 0

    def decide(
        self, items: tuple[Sequence[StreamItem], Sequence[StreamItem]], *, is_last: bool
    ) -> bool | None:
        """Return true if this is TLS; None if more bytes are needed, never with ``is_last``.

        ``items`` are all items of both directions so far.
        """
        first = items[self._first_direction]
        head = _head(first)
        if self._starts_seen[self._first_direction] and not isinstance(first[0], Gap):
            is_tls = looks_like_record(head) if len(head) == HEADER_BYTES else None
        else:
            is_tls = self._find((first, items[1 - self._first_direction]), is_last=is_last)
        return False if is_last and is_tls is None else is_tls

    def _find(
        self, both: tuple[Sequence[StreamItem], Sequence[StreamItem]], *, is_last: bool
    ) -> bool | None:
        """Decide where the first bytes are not those that were sent first."""
        heads = [_head(items) for items in both]
        if any(map(looks_like_record, heads)):
            return True
        if any(len(head) == HEADER_BYTES and head[:2] == _SMALL_SIZE for head in heads):
            return False
        streams = [_joined(items) for items in both]
        size = sum(map(len, streams))
        # Search again only when the size has doubled, so that the total time is linear.
        if size >= 2 * self._searched_bytes or is_last:
            self._searched_bytes = size
            if any(find_records(memoryview(stream)) is not None for stream in streams):
                return True
        return False if max(map(len, streams)) >= _SEARCHED_BYTES else None


def _head(items: Sequence[StreamItem]) -> bytes:
    """Return the first captured bytes, at most five."""
    return _joined(items, HEADER_BYTES)


def _joined(items: Sequence[StreamItem], most: int = _SEARCHED_BYTES) -> bytes:
    """Return the first captured bytes, at most ``most``."""
    joined = bytearray()
    for item in items:
        if isinstance(item, Chunk):
            segments = item.segments
            for index in range(item.first, item.last):
                start = segments.start[index]
                joined += segments.view(start, start + segments.captured[index])
                if len(joined) >= most:
                    return bytes(joined[:most])
    return bytes(joined)


MAX_WAIT_NS: Final = 30 * 1_000_000_000
"""How long a connection waits for its secrets. Programs may write them through a buffer."""
MAX_WAITING_BYTES: Final = 1 << 23
"""Bytes that are buffered of a waiting connection: some 100 ms of a fast one."""
_MAX_GIVEN_UP: Final = 256
"""Connections that one call of ``take_given_up`` returns at most; all are counted."""
_MAX_ITEM_BYTES: Final = 1 << 18
"""Bytes that are buffered of one connection before it is decrypted: a handshake with long chains of
certificates takes a tenth."""
_SESSION_BYTES: Final = 12 << 10
"""Memory of a session without its buffers, with both ends' ciphers and its facts; measured."""


class GivenUp(NamedTuple):
    """A connection with TLS that is not decrypted."""

    tcp: TcpConnection
    reason: Decryption


class DecryptedBatch(NamedTuple):
    """The updates of a batch, those of decrypted connections with plaintext."""

    updates: list[StreamUpdate]
    anomalies: list[Anomaly]


class DecryptedStreams:
    """Replaces TLS streams by their plaintext, if the key log has the secrets.

    Attributes:
        decrypted_connections: how many open connections are decrypted.
        given_up_connections: how many were given up so far; only counted if the key log grows.
        outcomes: how many connections were decrypted, and how many were given up, by reason, since
            this was emptied.
    """

    _NOT_SAVED = (
        *("_anomalies", "_closed_decrypted", "_given_up", "_budget", "_log", "_log_version"),
        *("_now_ns", "_waiting", "decrypted_connections"),
        *("given_up_connections", "outcomes"),
    )

    def __init__(self, log: KeyLog, most_bytes: int) -> None:
        """Begin.

        Args:
            log: the secrets; more may be added between two batches.
            most_bytes: memory for all connections. Above it, the connections that are silent for
                longest are passed on as they are, or not decrypted any further.
        """
        self._log = log
        self._late_starts = LateStarts(log)
        self._budget = BufferBudget(most_bytes)
        self._connections: dict[int, _Connection | None] = {}
        """By serial; None for those that pass unchanged."""
        self._waiting: dict[int, _Connection] = {}
        """Connections that wait for secrets, by serial. Closed ones are only here."""
        self._log_version = log.version
        self._now_ns = 0
        """Time of the latest packet."""
        self._closed_decrypted: set[int] = set()
        """Serials of the decrypted connections that closed with the last batch."""
        self._given_up: list[GivenUp] = []
        self._anomalies: list[Anomaly] = []
        self.decrypted_connections = 0
        self.given_up_connections = 0
        self.outcomes: Counter[Decryption] = Counter()

    def state(self, _context: object) -> State:
        """Return what :meth:`load_state` takes, between two batches. No secret is in it.

        Connections that wait for secrets start again; closed ones among them are not in it.
        """
        connections = self._connections.items()
        return (
            save(self._late_starts),
            tuple([(serial, None if c is None else save(c)) for serial, c in connections]),
        )

    def load_state(self, state: object, connections: Mapping[int, TcpConnection]) -> None:
        """Continue from a state, before anything was fed; secrets are looked up in the log.

        Args:
            state: the state of another object; None if the earlier run had no key log, so that
                open connections pass unchanged.
            connections: the open connections, by serial.

        Raises:
            ValueError: the state is any other value.
        """
        if state is None:
            self._connections = dict.fromkeys(connections)
            return
        late_starts, followed = fields(state, "tt")
        load(self._late_starts, late_starts)
        for entry in items(followed, "t"):
            serial, connection_state = fields(entry, "nT")
            tcp = open_connection(connections, serial)
            connection = None
            if connection_state is not None:
                connection = _Connection.from_state(connection_state, tcp, self._new_session)
                self._budget.note(serial, connection.buffered_bytes)
                self.decrypted_connections += connection.is_decrypted
            self._connections[serial] = connection

    def add_secrets(self, data: bytes) -> None:
        """Add a whole key log to the secrets."""
        self._log.feed(data)
        self._log.end()

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for open connections."""
        return self._budget.total

    @property
    def waiting_connections(self) -> int:
        """How many open connections wait for secrets."""
        return sum(connection.closing is None for connection in self._waiting.values())

    def is_decrypted(self, tcp: TcpConnection) -> bool:
        """Return true if a connection, open or closed with the last batch, is decrypted."""
        connection = self._connections.get(tcp.serial)
        is_open = connection is not None and connection.is_decrypted
        return is_open or tcp.serial in self._closed_decrypted

    def take_given_up(self) -> list[GivenUp]:
        """Return the first connections that were given up since the last call."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def feed(self, updates: Sequence[StreamUpdate], *, is_last: bool = False) -> DecryptedBatch:
        """Return the updates of a batch in the same order, with plaintext for decrypted ones.

        Updates of connections that are not decided yet come later; not with ``is_last``.
        """
        self._closed_decrypted.clear()
        if self._waiting:
            times = (update.connection.last_time_ns for update in updates)
            self._now_ns = max(times, default=self._now_ns)
        read = (self._read(update) for update in updates)
        decrypted = [update for update in read if update is not None]
        for serial in self._budget.excess():
            decrypted += self._dropped(serial)
        if self._waiting:
            decrypted += self._settled(is_last=is_last)
        self._log_version = self._log.version
        anomalies, self._anomalies = self._anomalies, []
        return DecryptedBatch(decrypted, anomalies)

    def _read(self, update: StreamUpdate) -> StreamUpdate | None:
        serial = update.connection.serial
        if serial not in self._connections:
            if not any(update.items):
                return update
            tcp = update.connection
            detector = TlsDetector(_first_direction(update), _starts_seen(tcp))
            self._connections[serial] = _Connection(tcp, detector)
        connection = self._connections[serial]
        if update.closed:
            del self._connections[serial]
        if connection is None:
            return update
        if connection.has_lost_keys:
            self._note_lost_keys(connection, update)
        items = self._next_items(connection, update)
        connection.copy_buffered()
        if connection.is_waiting:
            self._budget.note(serial, connection.buffered_bytes)
            connection.closing = update if update.closed else None
            self._waiting[serial] = connection
            return None
        return self._following(connection, update, items)

    def _following(
        self, connection: _Connection, update: StreamUpdate, items: BothItems | None
    ) -> StreamUpdate | None:
        """Return the update to pass on, with ``items``; register the connection's new state."""
        if update.closed and connection.is_decrypted:
            self._closed_decrypted.add(update.connection.serial)
            self.decrypted_connections -= 1
        serial, is_over = update.connection.serial, update.closed or connection.passes
        if connection.passes and not update.closed:
            self._connections[serial] = None
        self._budget.note(serial, 0 if is_over else connection.buffered_bytes)
        if items is None:
            return None
        read = StreamUpdate(update.connection, items, update.closed)
        read.closed_packet = update.closed_packet
        return read

    def _next_items(self, connection: _Connection, update: StreamUpdate) -> BothItems | None:
        """Return the items to pass on for an update; None for no update."""
        if not connection.is_decrypted:
            connection.buffer_items(update.items)
        if connection.is_waiting:
            return None
        if connection.is_dropped:
            return ([], [])
        if connection.session is None and not self._begin(connection, update):
            if update.closed or connection.passes:
                return connection.give_up()
            return None
        connection.decrypt(update.items, is_last=update.closed)
        if connection.is_decrypted:
            update.connection.path.forget_ranges()
            connection.note_facts()
            return connection.take_plaintext()
        if self._log.grows and connection.begins_waiting(is_closed=update.closed):
            return None
        if connection.is_opened():
            return self._first_plaintext(connection)
        is_too_much = connection.item_bytes > _MAX_ITEM_BYTES
        if update.closed or is_too_much or connection.has_no_secret:
            return self._given_up_items(connection)
        return None

    def _first_plaintext(self, connection: _Connection) -> BothItems:
        """Return the first plaintext of a connection, which is decrypted from now on."""
        assert connection.session is not None
        connection.session.note_used()
        self.decrypted_connections += 1
        self.outcomes[Decryption.DECRYPTED] += 1
        connection.tcp.path.forget_ranges()
        connection.note_facts()
        return connection.take_plaintext()

    def _given_up_items(
        self, connection: _Connection, reason: Decryption | None = None
    ) -> BothItems:
        """Give a connection up; return its original items."""
        assert connection.session is not None
        reason = reason or connection.session.facts.decryption
        self.outcomes[reason] += 1
        if self._log.grows and reason is not Decryption.NOTHING_SEALED:
            self.given_up_connections += 1
            if len(self._given_up) < _MAX_GIVEN_UP:
                self._given_up.append(GivenUp(connection.tcp, reason))
        connection.note_facts()
        return connection.give_up()

    def _settled(self, *, is_last: bool) -> Iterator[StreamUpdate]:
        """Yield updates of connections that stop waiting: they have secrets, or waited too long."""
        has_grown = self._log.version != self._log_version
        for serial, connection in list(self._waiting.items()):
            is_over = (
                is_last
                or self._now_ns - connection.waits_since_ns > MAX_WAIT_NS
                or connection.item_bytes > MAX_WAITING_BYTES
            )
            if not is_over and not (has_grown and connection.has_secrets):
                continue
            del self._waiting[serial]
            tcp, closing = connection.tcp, connection.closing
            connection.session = self._new_session(tcp)
            connection.decrypt_buffered()
            items = None
            if connection.is_opened():
                items = self._first_plaintext(connection)
            elif is_over or closing is not None or connection.has_no_secret:
                items = self._given_up_items(connection)
            update = StreamUpdate(tcp, ([], []), closed=False) if closing is None else closing
            read = self._following(connection, update, items)
            if read is not None:
                yield read

    def _dropped(self, serial: int) -> Iterator[StreamUpdate]:
        """Give up a connection, because all buffer too much; yield an update with its items."""
        connection = self._waiting.get(serial) or self._connections[serial]
        assert connection is not None
        tcp = connection.tcp
        if connection.is_waiting:
            connection.waits_since_ns = -2 * MAX_WAIT_NS  # its waiting time is over
            return
        if connection.is_decrypted:
            items, detail = connection.drop(), "TLS is decrypted no further"
            self._anomalies.append(
                Anomaly(AnomalyKind.MEMORY_LIMIT, tcp.last_time_ns, connection=tcp, detail=detail)
            )
        else:
            has_begun = connection.session is not None
            reason = Decryption.MEMORY_LIMIT
            items = self._given_up_items(connection, reason) if has_begun else connection.give_up()
            self._connections[serial] = None
        yield StreamUpdate(tcp, items, closed=False)

    def _begin(self, connection: _Connection, update: StreamUpdate) -> bool:
        """Begin a session if the connection is TLS; return whether it is."""
        is_tls = connection.is_tls(is_last=update.closed)
        if not is_tls:
            connection.passes = is_tls is False
            return False
        connection.session = self._new_session(update.connection)
        return True

    def _new_session(self, tcp: TcpConnection) -> TlsSession:
        one, other = sorted([end.ip for end in tcp.endpoints])
        return TlsSession(self._log, self._late_starts, _starts_seen(tcp), (one, other))

    def _note_lost_keys(self, connection: _Connection, update: StreamUpdate) -> None:
        """Report, once, that a connection cannot be decrypted any further."""
        item_lists = [items for items in update.items if items]
        if not item_lists:
            return
        connection.has_lost_keys, connection.is_reported = False, True
        packet = min(first_packet(items[0]) for items in item_lists)
        place = (update.connection.last_time_ns, packet, update.connection)
        self._anomalies.append(Anomaly(AnomalyKind.KEYS_MISSING, *place))


class _Connection:
    """The state of one connection."""

    __slots__ = (
        *("_buffered", "_copied_items", "_detector", "_fed", "_plaintext", "closing"),
        *("has_lost_keys", "is_decrypted", "is_reported", "is_waiting", "item_bytes", "passes"),
        *("session", "tcp", "waits_since_ns"),
    )
    _NOT_SAVED = (
        *("_copied_items", "closing", "has_lost_keys", "item_bytes", "passes", "tcp"),
        "waits_since_ns",
    )

    def __init__(self, tcp: TcpConnection, detector: TlsDetector) -> None:
        self.tcp = tcp
        self.session: TlsSession | None = None
        self.is_decrypted = False
        self.has_lost_keys = False
        """Whether it was decrypted and its keys are missing now; False once that is reported."""
        self.is_reported = False
        self.is_waiting = False
        """Whether nothing is read until the key log has more secrets."""
        self.waits_since_ns = 0
        self.closing: StreamUpdate | None = None
        """The update that closed it while it waited."""
        self.passes = False
        """Whether all that follows passes unchanged."""
        self.item_bytes = 0
        self._buffered: BothItems = ([], [])
        """The original items so far."""
        self._copied_items = [0, 0]
        """How many of them are copied, by direction."""
        self._fed = False
        """Whether the buffered items were fed to the session."""
        self._plaintext: BothItems = ([], [])
        self._detector = detector

    def state(self, _context: object) -> State:
        """Return what :meth:`from_state` takes."""
        # A connection that waits starts again with all buffered items.
        session = None if self.is_waiting else self.session
        return (
            *(save(self._detector), self._fed and session is not None, self.is_decrypted),
            *(self.is_reported, tuple(map(items_state, self._buffered))),
            tuple(map(items_state, self._plaintext)),
            None if session is None else save(session),
        )

    @classmethod
    def from_state(cls, state: object, tcp: TcpConnection, new_session: _NewSession) -> _Connection:
        """Make one from a state; raises ValueError for any other value."""
        detector, fed, is_decrypted, is_reported, *others = fields(state, "tbbbttT")
        buffered, plaintext, session = others
        if session is None and fed:
            raise ValueError("no connection that begins as TLS does")
        connection = cls(tcp, TlsDetector(0, _starts_seen(tcp)))
        load(connection._detector, detector)
        connection._fed = fed
        connection.is_decrypted, connection.is_reported = is_decrypted, is_reported
        connection._buffered, connection._plaintext = both_items(buffered), both_items(plaintext)
        connection._copied_items = [len(items) for items in connection._buffered]
        connection.item_bytes = sum(map(memory_of, chain(*connection._buffered)))
        if session is not None:
            connection.session = new_session(tcp)
            load(connection.session, session)
            connection.has_lost_keys = not is_reported and connection.session.has_lost_keys
        return connection

    @property
    def buffered_bytes(self) -> int:
        """Bytes of memory."""
        session = self.session
        of_session = 0 if session is None else _SESSION_BYTES + session.buffered_bytes
        return self.item_bytes + of_session

    @property
    def is_dropped(self) -> bool:
        """Whether it is not decrypted any more because of the memory limit."""
        return self.is_decrypted and self.session is None

    @property
    def has_secrets(self) -> bool:
        """Whether the key log has the secrets that it waits for."""
        return self.session is not None and not self.session.lacks_secrets

    @property
    def has_no_secret(self) -> bool:
        """Whether records of both ends were tried, and none could be decrypted."""
        assert self.session is not None
        facts = self.session.facts
        least = LATE_RECORDS if facts.decryption is Decryption.NO_HELLO else 1
        return all(
            counts.unopened_records >= least and not counts.opened_records
            for counts in facts.counts
        )

    def buffer_items(self, items: BothItems) -> None:
        """Buffer original items, which are valid until :meth:`copy_buffered`."""
        for buffered, added in zip(self._buffered, items, strict=True):
            buffered.extend(added)
            self.item_bytes += sum(map(memory_of, added))

    def copy_buffered(self) -> None:
        """Copy the items buffered since the last call, before the batch's buffer is used again."""
        for direction, buffered in enumerate(self._buffered):
            copied = self._copied_items[direction]
            buffered[copied:] = map(copy_of, buffered[copied:])
            self._copied_items[direction] = len(buffered)

    def is_tls(self, *, is_last: bool) -> bool | None:
        """Return true if this is TLS; None if more bytes are needed."""
        return self._detector.decide(self._buffered, is_last=is_last)

    def decrypt(self, items: BothItems, *, is_last: bool) -> None:
        """Feed items to the session; the first time, all buffered ones."""
        assert self.session is not None
        steps = [self.session.feed(items if self._fed else self._buffered)]
        self._fed = True
        if is_last:
            steps.append(self.session.close())
        for direction in (0, 1):
            for plaintext in steps:
                self._plaintext[direction].extend(plaintext[direction])

    def decrypt_buffered(self) -> None:
        """Feed all buffered items to a new session."""
        self.is_waiting, self._fed = False, False
        self.decrypt(self._buffered, is_last=self.closing is not None)

    def begins_waiting(self, *, is_closed: bool) -> bool:
        """Begin to wait if secrets of the session are missing; return whether it waits now.

        The plaintext so far is dropped: a new session reads everything again.
        """
        session = self.session
        assert session is not None
        if not session.lacks_secrets:
            return False
        if is_closed and session.facts.decryption is Decryption.NOTHING_SEALED:
            return False
        self._plaintext = ([], [])
        self.is_waiting, self.waits_since_ns = True, self.tcp.last_time_ns
        return True

    def is_opened(self) -> bool:
        """Return true if there is plaintext; if so, drop the buffered items."""
        if any(isinstance(item, Chunk) for items in self._plaintext for item in items):
            self.is_decrypted = True
            self._drop_buffered()
        return self.is_decrypted

    def note_facts(self) -> None:
        """Write the facts of a decrypted session into ``tcp.tls``, if TLS is watched."""
        if self.session is None or self.tcp.tls is None:
            return
        facts = self.session.facts
        if facts.decryption is Decryption.DECRYPTED:
            facts.write_into(self.tcp.tls)

    def take_plaintext(self) -> BothItems:
        """Return the plaintext since the last call."""
        plaintext, self._plaintext = self._plaintext, ([], [])
        return plaintext

    def give_up(self) -> BothItems:
        """Return the original items; everything that follows passes unchanged."""
        buffered = self._buffered
        self._drop_buffered()
        self.passes, self.session = True, None
        return buffered

    def drop(self) -> BothItems:
        """Return the end of the plaintext, with gaps for everything that follows."""
        assert self.session is not None
        items = self.session.close(gives_up=True)
        self.note_facts()
        self.session, self._fed = None, False
        return items

    def _drop_buffered(self) -> None:
        self._buffered, self._copied_items, self.item_bytes = ([], []), [0, 0], 0


def _starts_seen(tcp: TcpConnection) -> tuple[bool, bool]:
    """Return, by direction, whether a stream begins with the first byte that was sent."""
    return tcp.start_seen[0], tcp.start_seen[1]


def _first_direction(update: StreamUpdate) -> int:
    """Return the direction with the first packet."""
    directions = [direction for direction in (0, 1) if update.items[direction]]
    return min(directions, key=lambda direction: first_packet(update.items[direction][0]))
