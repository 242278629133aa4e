"""The connections of a capture with TLS that a key log opens: their streams become plaintext.

In: :class:`~kanalyze.model.streams.StreamUpdate` of all connections, as ``net`` gives them. Out:
the same; of a connection that the key log opens, the items are plaintext. Must not know: which
protocol the plaintext is, nor where a key log comes from.

A connection is looked at if its first bytes say that it is TLS (``detection.py``).
Until a record with data was opened, the original items are kept, as copies, and the connection
gives no update. If that shows that no secret fits, or if it takes too many bytes, they are handed
on, and all that follows passes unchanged.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, StreamUpdate
from kanalyze.tls.detection import TlsDetector
from kanalyze.tls.facts import Decryption
from kanalyze.tls.late_start import LateStarts
from kanalyze.tls.protection import LATE_RECORDS
from kanalyze.tls.session import TlsSession

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from kanalyze.model.streams import StreamItem
    from kanalyze.tls.keylog import KeyLog

    _BothItems: TypeAlias = "tuple[list[StreamItem], list[StreamItem]]"

__all__ = ["DecryptedStreams"]

_MOST_KEPT_BYTES: Final = 1 << 18
"""Of one connection: a handshake with long chains of certificates takes a tenth."""
_BYTES_OF_AN_ITEM: Final = 512
"""What an item takes besides its bytes."""


class DecryptedStreams:
    """Replaces what is TLS by its plaintext, where the key log has the secrets."""

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
            self._connections[serial] = _Connection(update)
        connection = self._connections[serial]
        if update.closed:
            del self._connections[serial]
        if connection is None:
            return update
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
        if connection.session is None and not self._begin(connection, update):
            if update.closed or connection.passes:
                return connection.give_up()
            return None
        connection.decrypt(update)
        if connection.is_decrypted:
            update.connection.path.forget_ranges()
            return connection.take_plaintext()
        is_too_much = (
            connection.kept_bytes > _MOST_KEPT_BYTES
            or self._kept_bytes + connection.kept_bytes > self._most_kept_bytes
        )
        if update.closed or is_too_much or connection.has_no_secret:
            return connection.give_up()
        return None

    def _begin(self, connection: _Connection, update: StreamUpdate) -> bool:
        """Begin to decrypt if the connection is TLS."""
        is_tls = connection.is_tls(is_last=update.closed)
        if not is_tls:
            connection.passes = is_tls is False
            return False
        tcp = update.connection
        from_start = (tcp.start_seen[0], tcp.start_seen[1])
        connection.session = TlsSession(self._log, self._late_starts, from_start)
        return True


class _Connection:
    """What is kept of a connection."""

    __slots__ = (
        *("_detector", "_fed", "_kept", "_plaintext", "is_decrypted", "kept_bytes", "passes"),
        "session",
    )

    def __init__(self, update: StreamUpdate) -> None:
        self.session: TlsSession | None = None
        self.is_decrypted = False
        self.passes = False
        """Whether all that follows passes unchanged."""
        self.kept_bytes = 0
        self._kept: _BothItems = ([], [])
        """The original items so far, as copies."""
        self._fed = False
        """Whether what was kept was given to the session."""
        self._plaintext: _BothItems = ([], [])
        sides = [side for side in (0, 1) if update.items[side]]
        first_side = min(sides, key=lambda side: _first_packet(update.items[side][0]))
        seen = update.connection.start_seen
        self._detector = TlsDetector(first_side, (seen[0], seen[1]))

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
                self.kept_bytes += _BYTES_OF_AN_ITEM
                if isinstance(item, Chunk):
                    self.kept_bytes += sum(item.segments.captured[item.first : item.last])

    def is_tls(self, *, is_last: bool) -> bool | None:
        """Tell whether this is TLS; None if more bytes have to say."""
        return self._detector.decide(self._kept, is_last=is_last)

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
