"""The connections of a capture with TLS that a key log opens: their streams become plaintext.

In: :class:`~kanalyze.model.streams.StreamUpdate` of all connections, as ``net`` gives them. Out:
the same; of a connection that the key log opens, the items are plaintext. Must not know: which
protocol the plaintext is, nor where a key log comes from.

A connection is looked at if the first bytes of the end that was seen first look like a record.
Until a record with data was opened, the original items are kept, as copies, and the connection
gives no update. If that shows that no secret fits, or if it takes too many bytes, they are handed
on, and all that follows passes unchanged.
"""

from __future__ import annotations

import operator
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, Gap, StreamUpdate
from kanalyze.model.tls_record import HEADER_BYTES, looks_like_record
from kanalyze.tls.facts import Decryption
from kanalyze.tls.late_start import LateStarts
from kanalyze.tls.protection import LATE_RECORDS
from kanalyze.tls.session import TlsSession
from kanalyze.tls.watched import note_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import StreamItem
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.tls.keylog import KeyLog

    _BothItems: TypeAlias = "tuple[list[StreamItem], list[StreamItem]]"
    _NewSession: TypeAlias = Callable[[tuple[bool, bool]], TlsSession]

__all__ = ["DecryptedStreams"]

_MOST_KEPT_BYTES: Final = 1 << 18
"""Of one connection: a handshake with long chains of certificates takes a tenth."""
_BYTES_OF_AN_ITEM: Final = 512
"""What an item takes besides its bytes."""


class DecryptedStreams:
    """Replaces what is TLS by its plaintext, where the key log has the secrets."""

    _LEFT_OUT = ("_anomalies", "_kept_bytes", "_log", "_most_kept_bytes")

    def __init__(self, log: KeyLog, most_kept_bytes: int) -> None:
        """Begin.

        Args:
            log: the secrets; more may be added between two batches.
            most_kept_bytes: of all connections of which it is not known whether a secret fits.
                Above it, those with new bytes are handed on as they are.
        """
        self._log = log
        self._late_starts = LateStarts(log)
        self._most_kept_bytes = most_kept_bytes
        self._kept_bytes = 0
        self._connections: dict[int, _Connection | None] = {}
        """By serial; None for those that pass unchanged."""
        self._anomalies: list[Anomaly] = []

    def state(self) -> State:
        """Return what :meth:`load_state` takes, between two batches. No secret is in it."""
        connections = self._connections.items()
        return (
            self._late_starts.state(),
            tuple([(serial, None if c is None else c.state()) for serial, c in connections]),
        )

    def load_state(self, state: object, connections: Mapping[int, TcpConnection]) -> None:
        """Continue from a state, before anything was fed; secrets are looked up in the log.

        Args:
            state: what other streams returned; None where there were none, so that what is open
                passes unchanged.
            connections: those that are open, by serial.

        Raises:
            ValueError: it is anything else.
        """
        if state is None:
            self._connections = dict.fromkeys(connections)
            return
        late_starts, followed = fields(state, "tt")
        self._late_starts.load_state(late_starts)
        for each in items(followed, "t"):
            serial, known = fields(each, "nT")
            if serial not in connections:
                raise ValueError("a connection that is not open")
            connection = None if known is None else _Connection.from_state(known, self._new_session)
            self._connections[serial] = connection
            self._kept_bytes += 0 if connection is None else connection.kept_bytes

    def take_anomalies(self) -> list[Anomaly]:
        """Return the anomalies since the last call."""
        taken, self._anomalies = self._anomalies, []
        return taken

    def add_secrets(self, data: bytes) -> None:
        """Add a whole key log to the secrets."""
        self._log.feed(data)
        self._log.end()

    @property
    def held_bytes(self) -> int:
        """Bytes held of open connections."""
        followed = (each for each in self._connections.values() if each is not None)
        return self._kept_bytes + sum(each.buffered_bytes for each in followed)

    def feed(self, updates: Iterable[StreamUpdate]) -> list[StreamUpdate]:
        """Return the updates of a batch, in the same order; some come later, some as plaintext."""
        read = (self._read(update) for update in updates)
        return [update for update in read if update is not None]

    def _read(self, update: StreamUpdate) -> StreamUpdate | None:
        serial = update.connection.serial
        if serial not in self._connections:
            if not any(update.items):
                return update
            self._connections[serial] = _Connection(_first_side(update))
        connection = self._connections[serial]
        if update.closed:
            del self._connections[serial]
        if connection is None:
            return update
        if connection.has_lost_keys:
            self._note_lost_keys(connection, update)
        kept_before = connection.kept_bytes
        items = self._next_items(connection, update)
        self._kept_bytes += connection.kept_bytes - kept_before
        if connection.passes and not update.closed:
            self._connections[serial] = None
        if items is None:
            return None
        read = StreamUpdate(update.connection, items, update.closed)
        read.closed_packet = update.closed_packet
        return read

    def _next_items(self, connection: _Connection, update: StreamUpdate) -> _BothItems | None:
        """Return what is handed on of an update; None for nothing."""
        if not connection.is_decrypted:
            connection.keep(update.items)
        if connection.session is None and not self._begin(connection, update.connection):
            if update.closed or connection.passes:
                return connection.give_up()
            return None
        connection.decrypt(update)
        if connection.is_decrypted:
            update.connection.path.forget_ranges()
            connection.note_facts(update.connection)
            return connection.take_plaintext()
        is_too_much = (
            connection.kept_bytes > _MOST_KEPT_BYTES
            or self._kept_bytes + connection.kept_bytes > self._most_kept_bytes
        )
        if update.closed or is_too_much or connection.has_no_secret:
            connection.note_facts(update.connection)
            return connection.give_up()
        return None

    def _begin(self, connection: _Connection, tcp: TcpConnection) -> bool:
        """Begin to decrypt if the connection begins as TLS does."""
        head = connection.head()
        if len(head) < HEADER_BYTES:
            return False
        if not looks_like_record(head):
            connection.passes = True
            return False
        connection.session = self._new_session((tcp.start_seen[0], tcp.start_seen[1]))
        return True

    def _new_session(self, from_start: tuple[bool, bool]) -> TlsSession:
        return TlsSession(self._log, self._late_starts, from_start)

    def _note_lost_keys(self, connection: _Connection, update: StreamUpdate) -> None:
        """Note, once, that a connection cannot be decrypted on."""
        sides = [items for items in update.items if items]
        if not sides:
            return
        connection.has_lost_keys, connection.is_noted = False, True
        packet = min(_first_packet(items[0]) for items in sides)
        place = (update.connection.last_time_ns, packet, update.connection)
        self._anomalies.append(Anomaly(AnomalyKind.KEYS_MISSING, *place))


class _Connection:
    """What is kept of a connection."""

    __slots__ = (
        *("_fed", "_first_side", "_kept", "_plaintext", "has_lost_keys", "is_decrypted"),
        *("is_noted", "kept_bytes", "passes", "session"),
    )
    _LEFT_OUT = ("has_lost_keys", "kept_bytes", "passes")

    def __init__(self, first_side: int) -> None:
        self.session: TlsSession | None = None
        self.is_decrypted = False
        self.has_lost_keys = False
        """Whether it was decrypted, and cannot be decrypted on; False once that is noted."""
        self.is_noted = False
        self.passes = False
        """Whether all that follows passes unchanged."""
        self.kept_bytes = 0
        self._kept: _BothItems = ([], [])
        """The original items so far, as copies."""
        self._fed = False
        """Whether what was kept was given to the session."""
        self._plaintext: _BothItems = ([], [])
        self._first_side = first_side

    def state(self) -> State:
        """Return what :meth:`from_state` takes; those that pass have none."""
        session = self.session
        kept, plaintext = (tuple(map(_items_state, both)) for both in (self._kept, self._plaintext))
        return (
            *(self._first_side, self._fed, self.is_decrypted, self.is_noted, kept),
            *(plaintext, None if session is None else session.state()),
        )

    @classmethod
    def from_state(cls, state: object, new_session: _NewSession) -> _Connection:
        """Make one from a state; raises ValueError for any other value."""
        first_side, fed, is_decrypted, is_noted, kept, *others = fields(state, "nbbbttT")
        plaintext, session = others
        if first_side > 1 or (session is None and (fed or is_decrypted)):
            raise ValueError("no connection that begins as TLS does")
        made = cls(first_side)
        made._fed, made.is_decrypted, made.is_noted = fed, is_decrypted, is_noted
        made._kept, made._plaintext = _both_items(kept), _both_items(plaintext)
        made.kept_bytes = sum(map(_kept_bytes, chain(*made._kept)))
        if session is not None:
            made.session = new_session((False, False))
            made.session.load_state(session)
            made.has_lost_keys = not made.is_noted and made.session.has_lost_keys
        return made

    @property
    def buffered_bytes(self) -> int:
        """Bytes that the session holds."""
        return 0 if self.session is None else self.session.buffered_bytes

    @property
    def has_no_secret(self) -> bool:
        """Whether records of both ends were tried, and none could be opened."""
        assert self.session is not None
        facts = self.session.facts
        least = LATE_RECORDS if facts.decryption is Decryption.NO_HELLO else 1
        return all(
            counts.unopened_records >= least and not counts.opened_records
            for counts in facts.counts
        )

    def keep(self, items: _BothItems) -> None:
        """Keep original items."""
        for kept, added in zip(self._kept, items, strict=True):
            for item in added:
                kept.append(_copied(item))
                self.kept_bytes += _kept_bytes(item)

    def head(self) -> bytes:
        """Return the first bytes of the end that was seen first."""
        head = b""
        for item in self._kept[self._first_side]:
            if isinstance(item, Chunk):
                head += bytes(item.segments.buffer[: HEADER_BYTES - len(head)])
        return head

    def decrypt(self, update: StreamUpdate) -> None:
        """Give an update to the session, at first with all that was kept."""
        assert self.session is not None
        found = [self.session.feed(update.items if self._fed else self._kept)]
        self._fed = True
        if update.closed:
            found.append(self.session.close())
        for side in (0, 1):
            for events in found:
                self._plaintext[side].extend(events.items[side])
        if not self.is_decrypted and any(
            isinstance(item, Chunk) for side in self._plaintext for item in side
        ):
            self.is_decrypted = True
            self._forget_kept()

    def note_facts(self, tcp: TcpConnection) -> None:
        """Write what only who has keys knows, where TLS is watched."""
        if self.session is None or tcp.tls is None:
            return
        facts = self.session.facts
        if facts.decryption is Decryption.DECRYPTED:
            note_facts(tcp.tls, facts)

    def take_plaintext(self) -> _BothItems:
        """Return the plaintext since the last call."""
        taken, self._plaintext = self._plaintext, ([], [])
        return taken

    def give_up(self) -> _BothItems:
        """Return the original items; all that follows passes unchanged."""
        kept = self._kept
        self._forget_kept()
        self.passes, self.session = True, None
        return kept

    def _forget_kept(self) -> None:
        self._kept, self.kept_bytes = ([], []), 0


def _first_side(update: StreamUpdate) -> int:
    """Return the end that was seen first."""
    sides = [side for side in (0, 1) if update.items[side]]
    return min(sides, key=lambda side: _first_packet(update.items[side][0]))


def _kept_bytes(item: StreamItem) -> int:
    """Return about how much memory an item takes that is kept."""
    if not isinstance(item, Chunk):
        return _BYTES_OF_AN_ITEM
    return _BYTES_OF_AN_ITEM + sum(item.segments.captured[item.first : item.last])


def _items_state(kept: list[StreamItem]) -> State:
    """Return what :func:`_items_from_state` takes, of copies."""
    return tuple(
        [
            tuple(item)
            if not isinstance(item, Chunk)
            else (item.stream_offset, bytes(item.segments.buffer), *_columns(item.segments))
            for item in kept
        ]
    )


def _columns(segments: Segments) -> State:
    return (
        *(tuple(segments.length), tuple(segments.captured)),
        *(tuple(segments.time_ns), tuple(segments.packet)),
    )


def _both_items(state: object) -> _BothItems:
    """Return the items of both directions from a state; raises ValueError for any other value."""
    one, other = fields(state, "tt")
    return _items_from_state(one), _items_from_state(other)


def _items_from_state(state: object) -> list[StreamItem]:
    found: list[StreamItem] = []
    for each in items(state, "t"):
        if len(each) == len(Gap._fields):
            found.append(Gap(*fields(each, "nnin")))
            continue
        offset, data, lengths, captured, times, packets = fields(each, "nytttt")
        columns = (lengths, captured, times, packets)
        for column, kind in zip(columns, "nnin", strict=True):
            items(column, kind)
        count = len(lengths)
        if not count or any(len(column) != count for column in columns):
            raise ValueError("columns of different lengths")
        if sum(captured) != len(data) or any(map(operator.gt, captured, lengths)):
            raise ValueError("more bytes than a segment had")
        starts = list(accumulate(captured, initial=0))[:-1]
        found.append(Chunk(offset, Segments(memoryview(data), starts, *columns), 0, count))
    return found


def _first_packet(item: StreamItem) -> int:
    return item.segments.packet[item.first] if isinstance(item, Chunk) else item.packet


def _copied(item: StreamItem) -> StreamItem:
    """Return an item that stays valid after its batch."""
    if not isinstance(item, Chunk):
        return item
    segments, rows = item.segments, slice(item.first, item.last)
    captured = segments.captured[rows]
    pieces = [
        segments.view(start, start + size)
        for start, size in zip(segments.start[rows], captured, strict=True)
    ]
    copied = Segments(
        memoryview(b"".join(pieces)),
        list(accumulate(captured, initial=0))[:-1],
        *(segments.length[rows], captured, segments.time_ns[rows], segments.packet[rows]),
    )
    return Chunk(item.stream_offset, copied, 0, len(pieces))
