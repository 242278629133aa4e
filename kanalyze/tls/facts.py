"""What is known of a TLS session: the clear part of the handshake, and with keys the encrypted one.

In: what the stages find. Out: :class:`TlsFacts`.

None means not known, because it is encrypted or not in the capture.
"""

from __future__ import annotations

import enum
from typing import Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.tls import CertificateFacts
from kanalyze.tls.alerts import TlsAlert

__all__ = ["Decryption", "TlsCounts", "TlsFacts", "version_name"]

_VERSIONS: Final = {
    0x0300: "SSL 3.0",
    0x0301: "TLS 1.0",
    0x0302: "TLS 1.1",
    0x0303: "TLS 1.2",
    0x0304: "TLS 1.3",
}
MAX_ALERTS: Final = 16
"""Alerts of one session that are kept; all are counted."""


def version_name(number: int) -> str:
    """Return the name of a version; the number in hex where it has none."""
    return _VERSIONS.get(number, f"0x{number:04x}")


class Decryption(enum.StrEnum):
    """What became of the records of a session."""

    DECRYPTED = "decrypted"
    """At least some records were decrypted."""
    FAILED = "failed"
    """There is a secret, but it opens no record."""
    NO_SECRET = "no_secret"  # noqa: S105 - no password
    """The key log has no secret of this session."""
    NO_HELLO = "no_hello"
    """The hellos, which identify the secret, are not in the capture, and no logged secret fits."""
    UNSUPPORTED = "unsupported"
    """A version or a suite that is not decrypted."""
    NOTHING_SEALED = "nothing_sealed"
    """No encrypted record was seen."""
    MEMORY_LIMIT = "memory_limit"
    """Not tried to the end: connections that were not decided yet took too much memory."""


class TlsCounts(NamedTuple):
    """Sums of one direction."""

    records: int
    bytes: int
    """With the headers."""
    opened_records: int
    unopened_records: int
    """Encrypted records that were captured and could not be decrypted."""
    plaintext_bytes: int
    lost_bytes: int
    """Bytes of records that are not in the capture, or not completely."""


class TlsFacts:
    """What is known of a session.

    Attributes:
        client_index: which end sent the ClientHello, or has the client's keys.
        offered_versions, offered_alpn, offered_suites, server_name: of the ClientHello.
        version, suite, alpn: what the server chose. In TLS 1.3 the last is encrypted.
        resumed: whether a session was resumed, by ticket, session id or pre-shared key.
        retried: whether the server asked for another ClientHello (HelloRetryRequest).
        certificate_requested: whether the server asked for the client's certificate.
        mutual: whether the client presented a certificate.
        server_certificate, client_certificate: the first of the chain.
        handshake_ns: from the first byte of the ClientHello to the last Finished. Of TLS 1.3
            without keys: to the first encrypted record of the client, which usually has it.
        offered_early_data, accepted_early_data: 0-RTT.
        tickets: NewSessionTicket messages.
        key_updates: KeyUpdate messages of both ends.
        renegotiations: handshakes of TLS 1.2 after the first.
        alerts: the first sixteen.
        alert_count: number of all alerts.
    """

    _NOT_SAVED = ("counts", "decryption")
    __slots__ = (
        *("accepted_early_data", "alert_count", "alerts", "alpn", "certificate_requested"),
        "client_certificate",
        *("client_index", "counts", "decryption", "handshake_ns", "key_updates", "mutual"),
        *("offered_alpn", "offered_early_data", "offered_suites", "offered_versions"),
        *("renegotiations", "resumed", "retried", "server_certificate", "server_name"),
        *("suite", "tickets", "version"),
    )
    _SAVED = Saved(
        "client_index:end? offered_versions:tuple[count]? offered_suites:tuple[count]? "
        "offered_alpn:tuple[str]? server_name:str? version:count? suite:count? alpn:str? "
        "resumed:bool? retried:bool mutual:bool? server_certificate:CertificateFacts? "
        "client_certificate:CertificateFacts? handshake_ns:int? offered_early_data:bool? "
        "accepted_early_data:bool? tickets:count key_updates:count renegotiations:count "
        "alerts:list[TlsAlert] alert_count:count certificate_requested:bool?",
        CertificateFacts,
        TlsAlert,
    )

    def __init__(self) -> None:
        self.client_index: int | None = None
        self.offered_versions: tuple[int, ...] | None = None
        self.offered_suites: tuple[int, ...] | None = None
        self.offered_alpn: tuple[str, ...] | None = None
        self.server_name: str | None = None
        self.version: int | None = None
        self.suite: int | None = None
        self.alpn: str | None = None
        self.resumed: bool | None = None
        self.retried = False
        self.certificate_requested: bool | None = None
        self.mutual: bool | None = None
        self.server_certificate: CertificateFacts | None = None
        self.client_certificate: CertificateFacts | None = None
        self.handshake_ns: int | None = None
        self.offered_early_data: bool | None = None
        self.accepted_early_data: bool | None = None
        self.tickets = 0
        self.key_updates = 0
        self.renegotiations = 0
        self.alerts: list[TlsAlert] = []
        self.alert_count = 0
        self.decryption = Decryption.NOTHING_SEALED
        self.counts = (TlsCounts(0, 0, 0, 0, 0, 0), TlsCounts(0, 0, 0, 0, 0, 0))

    def _after_load(self) -> None:
        if len(self.alerts) > MAX_ALERTS:
            raise ValueError("more alerts than are kept")

    def add_alert(self, alert: TlsAlert) -> None:
        """Count an alert, and keep it where there is room."""
        self.alert_count += 1
        if len(self.alerts) < MAX_ALERTS:
            self.alerts.append(alert)
