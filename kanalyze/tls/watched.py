"""One connection with TLS, watched without keys.

In: new items of both streams of a connection. Out: what is known of its TLS, written into a
:class:`~kanalyze.model.tls.TlsConnection`.

The handshake is read by a :class:`~kanalyze.tls.session.TlsSession` without secrets, until both
ends have sent encrypted data, or too many bytes were read. Of all records the headers are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.tls import ALERT, ENCRYPTED, SentAlert, TlsConnection
from kanalyze.tls.alerts import SEALED_ALERT_BYTES
from kanalyze.tls.cipher_suites import TLS_1_3, suite_name
from kanalyze.tls.estimate import RequestEstimate
from kanalyze.tls.facts import MAX_ALERTS, Decryption, TlsFacts, version_name
from kanalyze.tls.keylog import KeyLog
from kanalyze.tls.late_start import LateStarts
from kanalyze.tls.record_headers import RecordHeaders, SealedData
from kanalyze.tls.session import TlsSession

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamUpdate
    from kanalyze.model.tcp import TcpConnection

__all__ = ["WatchedConnection", "note_facts"]

_MAX_HANDSHAKE_BYTES: Final = 1 << 18
"""A handshake with long chains of certificates takes a tenth."""
_SESSION_BYTES: Final = 1 << 13
"""Memory of a session without the bytes that it buffers."""
_MAX_HELD: Final = 16
"""Records that are held while the first of them may be an alert. Those after it are of the other
end, and of a longer run only the first ones and the last count for the estimate."""
_MAX_UNDECIDED: Final = 64
"""Out of order, records may come before the hellos; if so many do, a hello is lost."""
_NO_KEYS: Final = KeyLog()
_NO_LATE_STARTS: Final = LateStarts(_NO_KEYS)


class WatchedConnection:
    """The state of one watched connection."""

    __slots__ = (
        *("_client_index", "_estimate", "_fed_bytes", "_headers", "_hidden_alerts", "_is_13"),
        "_is_sealed",
        *("_held", "_session", "_undecided", "tls"),
    )

    _NOT_SAVED = ("tls",)
    _SAVED = Saved(
        "_session:here? _fed_bytes:count _client_index:end? _is_13:bool _is_sealed:2*bool "
        "_hidden_alerts:list[count] _held:list[(count,*SealedData)] "
        "_undecided:list[(count,*SealedData)] _headers:(RecordHeaders,RecordHeaders) "
        "_estimate:RequestEstimate",
        SealedData,
        RecordHeaders,
        RequestEstimate,
    )

    def __init__(self, tcp: TcpConnection) -> None:
        self.tls = tcp.tls = tcp.tls or TlsConnection()
        from_start = (tcp.start_seen[0], tcp.start_seen[1])
        self._session: TlsSession | None = TlsSession(_NO_KEYS, _NO_LATE_STARTS, from_start)
        self._fed_bytes = 0
        """Bytes that the session read."""
        self._headers = (RecordHeaders(), RecordHeaders())
        self._client_index = tcp.opened_by
        """As seen without keys. Decryption may find it too, but in which batch is not defined."""
        self._is_13 = False
        """As seen without keys, for the same reason."""
        self._undecided: list[tuple[int, SealedData]] = []
        """Records that came before the version was known, with their directions."""
        self._estimate = RequestEstimate()
        self._is_sealed = [False, False]
        """By direction, whether encrypted data came."""
        self._held: list[tuple[int, SealedData]] = []
        """The latest records from one on that may be an alert, with their directions."""
        self._hidden_alerts: list[int] = []
        """Directions of alerts that are encrypted."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered for the handshake."""
        return 0 if self._session is None else _SESSION_BYTES + self._session.buffered_bytes

    def feed(self, update: StreamUpdate) -> None:
        """Take an update of the connection."""
        if self._session is not None:
            self._read_handshake(self._session, update)
        records = [
            (data.packet, direction, data)
            for direction in (0, 1)
            for data in self._headers[direction].feed(update.items[direction])
        ]
        self._undecided += [(direction, data) for _, direction, data in sorted(records)]
        if update.closed or self._is_decided():
            undecided, self._undecided = self._undecided, []
            for direction, data in undecided:
                self._take(direction, data, self._client_index)
        if update.closed:
            self._end(self._client_index)
            self.write()

    def forget_handshake(self) -> None:
        """Stop reading the handshake, and free its memory."""
        self._session = None

    def write(self) -> None:
        """Write the sums so far."""
        tls = self.tls
        tls.records = [headers.records for headers in self._headers]
        tls.bytes = [headers.bytes for headers in self._headers]
        if self._client_index is not None:
            self._estimate.write(tls)

    def _read_handshake(self, session: TlsSession, update: StreamUpdate) -> None:
        session.feed(update.items)
        if update.closed:
            session.close()
        facts = session.facts
        if facts.client_index is not None:
            self._client_index = facts.client_index
        self._is_13 = facts.version == TLS_1_3
        if not self.tls.is_decrypted:
            note_facts(self.tls, facts)
        self._fed_bytes = sum(counts.bytes + counts.lost_bytes for counts in facts.counts)
        is_over = all(counts.unopened_records for counts in facts.counts)
        if is_over or self._fed_bytes > _MAX_HANDSHAKE_BYTES:
            self._session = None

    def _is_decided(self) -> bool:
        """Return true if the version is known, or will not be known any more."""
        session = self._session
        is_known = session is None or session.facts.version is not None
        return is_known or len(self._undecided) > _MAX_UNDECIDED

    def _take(self, direction: int, data: SealedData, client_index: int | None) -> None:
        if data.kind == ALERT:
            if len(self._hidden_alerts) < MAX_ALERTS:
                self._hidden_alerts.append(direction)
            return
        held = self._held
        if held or self._may_be_alert(data):
            held.append((direction, data))
            while held and self._is_data(0):
                self._take_data(*held.pop(0), client_index)
            if len(held) > _MAX_HELD:
                del held[-2]
        else:
            self._take_data(direction, data, client_index)

    def _may_be_alert(self, data: SealedData) -> bool:
        return self._is_13 and data.body_bytes in SEALED_ALERT_BYTES

    def _is_data(self, index: int) -> bool:
        """Return true if a held record is data: its size says so, or its sender sent more.

        What the other end sends means nothing: it may not have seen an alert yet.
        """
        direction, data = self._held[index]
        later = self._held[index + 1 :]
        return not self._may_be_alert(data) or any(sender == direction for sender, _ in later)

    def _take_data(self, direction: int, data: SealedData, client_index: int | None) -> None:
        self._is_sealed[direction] = True
        self.tls.is_complete = self.tls.is_complete or all(self._is_sealed)
        if direction == client_index:
            self._estimate.client_sent(data.end_ns, data.body_bytes, is_13=self._is_13)
        elif client_index is not None:
            self._estimate.server_sent(data.begin_ns, is_13=self._is_13)

    def _end(self, client_index: int | None) -> None:
        """Decide whether the last records are alerts or data, when the connection closes."""
        for index, (direction, data) in enumerate(self._held):
            if self._is_data(index) or not self._is_alert(direction, data.body_bytes, client_index):
                self._take_data(direction, data, client_index)
            else:
                self._hidden_alerts.append(direction)
        self._held = []
        tls = self.tls
        if not tls.is_decrypted:
            hidden = [SentAlert(direction, None, ENCRYPTED) for direction in self._hidden_alerts]
            tls.alerts += tuple(hidden)

    def _is_alert(self, direction: int, body_bytes: int, client_index: int | None) -> bool:
        """Return true if the last record of an end is an alert, if it has the size of one.

        Java pads records; such an alert is as large as a small response.
        """
        if body_bytes == min(SEALED_ALERT_BYTES) or direction == client_index:
            return True
        return bool(self._hidden_alerts) or not self._estimate.requests


def note_facts(tls: TlsConnection, facts: TlsFacts) -> None:
    """Write the facts of a session into ``tls``."""
    tls.client_index = facts.client_index
    tls.version = None if facts.version is None else version_name(facts.version)
    tls.suite = None if facts.suite is None else suite_name(facts.suite)
    tls.alpn, tls.server_name = facts.alpn, facts.server_name
    tls.offered_alpn = facts.offered_alpn
    if facts.offered_versions is not None:
        tls.offered_versions = tuple(map(version_name, facts.offered_versions))
    tls.resumed = facts.resumed
    tls.certificate_requested, tls.mutual = facts.certificate_requested, facts.mutual
    tls.server_certificate = facts.server_certificate
    tls.client_certificate = facts.client_certificate
    tls.handshake_ns = facts.handshake_ns
    # Sorted, because each direction is read by itself, and their order depends on batches.
    by_time = sorted(facts.alerts, key=lambda alert: (alert.time_ns, alert.packet))
    tls.alerts = tuple(
        [SentAlert(alert.direction, alert.level, alert.description) for alert in by_time]
    )
    tls.is_complete = tls.is_complete or facts.handshake_ns is not None
    tls.is_decrypted = facts.decryption is Decryption.DECRYPTED
