"""What the two ends negotiate: reads the handshake messages of both.

In: handshake messages, their senders and times. Out: the values that keys depend on (hellos,
version, suite), and :class:`TlsFacts`: what is known of a session by the clear part of the
handshake, and with keys by the encrypted one. None means not known, because it is encrypted or not
in the capture.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.packets import known_time
from kanalyze.model.tls import CertificateFacts, SentAlert
from kanalyze.tls import handshake
from kanalyze.tls.handshake import SEALED_ALERT_BYTES, TlsAlert, certificate_facts
from kanalyze.tls.keys import (
    APPLICATION,
    HANDSHAKE,
    TLS_1_2,
    TLS_1_3,
    Epochs12,
    Epochs13,
    Handshake12,
    cipher_suite,
    has_secrets_13,
    suite_name,
)

if TYPE_CHECKING:
    from kanalyze.model.tls import TlsConnection
    from kanalyze.tls.handshake import ClientHello, HandshakeMessage, ServerHello
    from kanalyze.tls.keylog import KeyLog
    from kanalyze.tls.keys import CipherSuite
    from kanalyze.tls.records import TlsRecord

_VERSIONS: Final = {
    0x0300: "SSL 3.0",
    0x0301: "TLS 1.0",
    0x0302: "TLS 1.1",
    0x0303: "TLS 1.2",
    0x0304: "TLS 1.3",
}
MAX_ALERTS: Final = 16
"""Alerts of one session that are kept; all are counted."""


def _version_name(number: int) -> str:
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
        offered_versions, offered_alpn, server_name: of the ClientHello.
        version, suite, alpn: what the server chose. In TLS 1.3 the last is encrypted.
        resumed: whether a session was resumed, by ticket, session id or pre-shared key.
        retried: whether the server asked for another ClientHello (HelloRetryRequest).
        certificate_requested: whether the server asked for the client's certificate.
        mutual: whether the client presented a certificate.
        server_certificate, client_certificate: the first of the chain.
        handshake_ns: from the first byte of the ClientHello to the last Finished. Of TLS 1.3
            without keys: to the first encrypted record of the client, which usually has it.
        accepted_early_data: 0-RTT.
        alerts: the first sixteen.
    """

    _NOT_SAVED = ("counts", "decryption")
    __slots__ = (
        *("accepted_early_data", "alerts", "alpn", "certificate_requested", "client_certificate"),
        *("client_index", "counts", "decryption", "handshake_ns", "mutual", "offered_alpn"),
        *("offered_versions", "resumed", "retried", "server_certificate", "server_name"),
        *("suite", "version"),
    )
    _SAVED = Saved(
        "client_index:end? offered_versions:tuple[count]? -offered_suites:tuple[count]? "
        "offered_alpn:tuple[str]? server_name:str? version:count? suite:count? alpn:str? "
        "resumed:bool? retried:bool mutual:bool? server_certificate:CertificateFacts? "
        "client_certificate:CertificateFacts? handshake_ns:int? -offered_early_data:bool? "
        "accepted_early_data:bool? -tickets:count -key_updates:count -renegotiations:count "
        "alerts:list[TlsAlert] -alert_count:count certificate_requested:bool?",
        CertificateFacts,
        TlsAlert,
    )

    def __init__(self) -> None:
        self.client_index: int | None = None
        self.offered_versions: tuple[int, ...] | None = None
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
        self.accepted_early_data: bool | None = None
        self.alerts: list[TlsAlert] = []
        self.decryption = Decryption.NOTHING_SEALED
        self.counts = (TlsCounts(0, 0, 0, 0, 0, 0), TlsCounts(0, 0, 0, 0, 0, 0))

    def _after_load(self) -> None:
        if len(self.alerts) > MAX_ALERTS:
            raise ValueError("more alerts than are kept")

    def add_alert(self, alert: TlsAlert) -> None:
        """Keep an alert, where there is room."""
        if len(self.alerts) < MAX_ALERTS:
            self.alerts.append(alert)

    def write_into(self, tls: TlsConnection) -> None:
        """Write what is known into ``tls``."""
        tls.client_index = self.client_index
        tls.version = None if self.version is None else _version_name(self.version)
        tls.suite = None if self.suite is None else suite_name(self.suite)
        tls.alpn, tls.server_name = self.alpn, self.server_name
        tls.offered_alpn = self.offered_alpn
        if self.offered_versions is not None:
            tls.offered_versions = tuple(map(_version_name, self.offered_versions))
        tls.resumed = self.resumed
        tls.certificate_requested, tls.mutual = self.certificate_requested, self.mutual
        tls.server_certificate = self.server_certificate
        tls.client_certificate = self.client_certificate
        tls.handshake_ns = self.handshake_ns
        # Sorted, because each direction is read by itself, and their order depends on batches.
        by_time = sorted(self.alerts, key=lambda alert: (alert.time_ns, alert.packet))
        tls.alerts = tuple(
            [SentAlert(alert.direction, alert.level, alert.description) for alert in by_time]
        )
        tls.is_complete = tls.is_complete or self.handshake_ns is not None
        tls.is_decrypted = self.decryption is Decryption.DECRYPTED


Ends: TypeAlias = tuple[str, str]
"""The addresses of both ends in order, without ports: a client has another one each time."""
NOBODY: Final[Ends] = ("", "")


class RecordPlace(NamedTuple):
    """Where an encrypted record is whose keys are searched."""

    ends: Ends
    most_missing: int
    """How many encrypted records of its sender may be missing before it."""


class MessageOrigin(NamedTuple):
    """Where a handshake message was."""

    direction: int
    """0 or 1, as in :class:`~kanalyze.model.streams.StreamUpdate`."""
    is_sealed: bool
    """Whether it was in an encrypted record."""
    is_gapless: bool
    """Whether no byte before it is missing."""
    record: TlsRecord
    """The last record that it was in."""
    is_cut: bool = False
    """Whether only its beginning was captured: of hellos, that is read too."""


class Negotiation:
    """The handshake of a session, and those that renegotiate.

    Attributes:
        facts: what is known so far.
        handshakes: how many handshakes began, by their ClientHello.
        log: the key log.
        ends: between whom the session is.
        both_epochs_12: the epochs of TLS 1.2 of the client, then those of the server.
    """

    _NOT_SAVED = ("ends", "log")
    _SAVED = Saved(
        "facts:TlsFacts handshakes:count client_hello:ClientHello? server_hello:ServerHello? "
        "client_random:bytes? both_epochs_12:2*here _times.begin_ns:int? "
        "_times.finished_ns:list[int?] may_have_early_data:bool has_begun:2*bool "
        "_adopted_number:count?",
        TlsFacts,
        handshake.ClientHello,
        handshake.ServerHello,
    )

    def __init__(self, log: KeyLog, ends: Ends = NOBODY) -> None:
        self.log = log
        self.ends = ends
        self.facts = TlsFacts()
        self.handshakes = 0
        self.client_hello: ClientHello | None = None
        self.server_hello: ServerHello | None = None
        self.client_random: bytes | None = None
        """From the ClientHello, or from the session in the key log whose secrets fit."""
        self._adopted_suite: CipherSuite | None = None
        """Suite of a session whose ServerHello was not seen."""
        self.both_epochs_12 = (Epochs12(log, 0), Epochs12(log, 1))
        self.has_begun = [False, False]
        """By direction, whether records came that are sent after its hello."""
        self._times = _HandshakeTimes()
        self.may_have_early_data = False

    # -- state ------------------------------------------------------------------------------------

    def _after_load(self) -> None:
        if len(self._times.finished_ns) != 2:
            raise ValueError("not the times of two ends")

    @property
    def _adopted_number(self) -> int | None:
        return None if self._adopted_suite is None else self._adopted_suite.number

    @_adopted_number.setter
    def _adopted_number(self, number: int | None) -> None:
        self._adopted_suite = None if number is None else cipher_suite(number)

    # -- what keys depend on ----------------------------------------------------------------------

    @property
    def suite(self) -> CipherSuite | None:
        """The suite of the latest ServerHello; None if its records cannot be decrypted."""
        hello = self.server_hello
        if hello is None or hello.version not in (TLS_1_2, TLS_1_3) or hello.compression:
            return None
        suite = cipher_suite(hello.suite)
        return suite if suite is not None and suite.version == hello.version else None

    @property
    def is_13(self) -> bool:
        """Whether this is TLS 1.3, by the ServerHello or by the secrets that the key log has.

        A HelloRetryRequest shows it before: only TLS 1.3 has it.
        """
        if self.server_hello is not None:
            return self.server_hello.version == TLS_1_3
        if self.facts.retried:
            return True
        return self.client_random is not None and has_secrets_13(self.log, self.client_random)

    def handshake_12(self, client_random: bytes) -> Handshake12 | None:
        """Return the values that keys of TLS 1.2 depend on; None without such a ServerHello."""
        hello, suite = self.server_hello, self.suite
        if hello is None or suite is None or suite.version != TLS_1_2:
            return None
        return Handshake12(
            client_random, hello.random, hello.session_id, suite, hello.encrypt_then_mac
        )

    def end_of(self, direction: int) -> int | None:
        """Return 0 for the client's direction, 1 for the server's; None if that is not known."""
        client_index = self.facts.client_index
        return None if client_index is None else int(direction != client_index)

    def epochs_12(self, direction: int) -> Epochs12 | None:
        """Return the epochs of TLS 1.2 of a direction; None if they cannot be known."""
        end, suite = self.end_of(direction), self.suite
        is_12 = suite is not None and suite.version == TLS_1_2 and self.client_random is not None
        return self.both_epochs_12[end] if is_12 and end is not None else None

    def epochs_13(self, direction: int) -> Epochs13 | None:
        """Return the epochs of TLS 1.3 of a direction; None if they cannot be known."""
        end = self.end_of(direction)
        if end is None or self.client_random is None:
            return None
        if self.server_hello is not None and self.suite is None:
            return None
        return Epochs13(self.log, self.client_random, end, self.suite or self._adopted_suite)

    @property
    def names(self) -> tuple[bytes, ...]:
        """The names of this session in the key log, if known: client random and session id.

        Of a resumed one, also the name of the session whose secret it uses.
        """
        hello, master = self.server_hello, self.both_epochs_12[0].master_name(0)
        session_id = b"" if hello is None or self.is_13 else hello.session_id
        resumed = b"" if master is None else master.name
        names = (self.client_random, session_id, resumed)
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def lacks_secrets(self) -> bool:
        """Whether both hellos were seen, and the key log lacks secrets of application data.

        False if records of the session cannot be decrypted with any secret.
        """
        if self.server_hello is None or self.client_random is None or self.suite is None:
            return False
        epochs_of = self.epochs_13 if self.is_13 else self.epochs_12
        epochs = [epochs_of(direction) for direction in (0, 1)]
        first = APPLICATION if self.is_13 else 0
        return any(end is not None and not end.keys(first) for end in epochs)

    def adopt(self, client_random: bytes, client_index: int, suite: CipherSuite) -> None:
        """Use a session of the key log: its secrets fit, and a hello is missing."""
        self._adopted_suite = suite
        self.client_random = client_random
        self.facts.client_index = client_index
        if self.server_hello is None:
            self.facts.version = TLS_1_3
        else:
            self._agree(self.server_hello)

    # -- messages ---------------------------------------------------------------------------------

    def read(self, message: HandshakeMessage, origin: MessageOrigin) -> int | None:
        """Read a message; return the epoch that begins after it for its sender, or None.

        Only for TLS 1.3: in TLS 1.2, a ChangeCipherSpec record begins an epoch.
        """
        kind, body, facts = message.kind, message.body, self.facts
        if kind == handshake.CLIENT_HELLO:
            self._client_hello(body, origin)
        elif kind == handshake.SERVER_HELLO:
            self._server_hello(body, origin)
        elif origin.is_cut:
            return None
        elif kind == handshake.CERTIFICATE:
            self._certificate(body, origin)
        elif kind == handshake.CERTIFICATE_REQUEST:
            facts.certificate_requested = True
        elif kind == handshake.SERVER_HELLO_DONE:
            if facts.resumed is None and _offers_ticket(self):
                facts.resumed = False
            # The server's side may be read before the ClientHello.
            if self.handshakes <= 1 and origin.is_gapless and not facts.certificate_requested:
                facts.certificate_requested = facts.mutual = False
        elif origin.is_sealed and self.is_13:
            return self._sealed_13(kind, body, origin)
        return None

    def note_sealed(self, origin: MessageOrigin, *, is_first: bool) -> None:
        """Note the first encrypted record of a side that was captured.

        ``is_first`` says that none before it is missing; otherwise it is not known what it has.

        In TLS 1.2 it has the Finished. A server that sends it right after its hello resumes a
        session; if its session id is not the client's, then by a ticket (RFC 5077 section 3.4).

        In TLS 1.3 the client's first encrypted record usually has the Finished, but may have an
        alert. If it can be decrypted, the message itself is used.
        """
        direction, record = origin.direction, origin.record
        if not is_first:
            return
        if self.is_13:
            is_alert = len(record.body) in SEALED_ALERT_BYTES
            is_client = self.end_of(direction) == 0
            if is_alert or not is_client or self.may_have_early_data:
                return
        elif self.facts.resumed is None and origin.is_gapless and self.end_of(direction) == 1:
            self.facts.resumed = _offers_ticket(self) or None
        self._finish(direction, record)

    def _client_hello(self, body: bytes, origin: MessageOrigin) -> None:
        is_cut = origin.is_cut
        hello = handshake.read_client_hello(body, is_cut=is_cut)
        facts = self.facts
        if hello is None or facts.client_index not in (None, origin.direction):
            return
        # What the server sends may be read after it. A hello that renegotiates is encrypted.
        is_retry = self.handshakes > 0 and not origin.is_sealed
        self.handshakes += not is_retry
        self.client_hello, self.client_random = hello, hello.random
        facts.client_index = origin.direction
        if self.handshakes > 1:
            self.server_hello = None
            return
        self.may_have_early_data = hello.has_early_data
        if is_retry:
            return
        self._times.begin_ns = known_time(origin.record.first_time_ns)
        # What is not in the beginning of a hello is not known.
        facts.offered_versions = hello.versions or (None if is_cut else ())
        facts.offered_alpn = hello.alpn or (None if is_cut else ())
        facts.server_name = hello.server_name
        if self.server_hello is not None:  # captured before the ClientHello
            self._agree(self.server_hello)
            facts.handshake_ns = self._times.took_ns(facts.client_index if self.is_13 else None)

    def _server_hello(self, body: bytes, origin: MessageOrigin) -> None:
        hello = handshake.read_server_hello(body, is_cut=origin.is_cut)
        facts = self.facts
        if hello is None or facts.client_index == origin.direction:
            return
        if hello.is_retry:
            facts.retried = True
        elif self.server_hello is None:
            facts.client_index = 1 - origin.direction
            self.server_hello = hello
            self._agree(hello)

    def _agree(self, hello: ServerHello) -> None:
        """Note what the server chose; called again when the ClientHello comes after it."""
        facts, client = self.facts, self.client_hello
        if self.handshakes <= 1:
            facts.version, facts.suite = hello.version, hello.suite
            if hello.version == TLS_1_3:
                facts.resumed = hello.has_psk or (None if hello.is_cut else False)
            else:
                facts.alpn = hello.alpn
                if client is not None:
                    same = client.session_id == hello.session_id
                    facts.resumed = bool(hello.session_id) and same
                    is_known = facts.resumed or facts.server_certificate is not None
                    if client.has_ticket and not is_known:
                        facts.resumed = None  # the server's next record shows it
        agreed = None if self.client_random is None else self.handshake_12(self.client_random)
        if agreed is None:
            return
        for epochs in self.both_epochs_12:
            epochs.negotiate(max(0, self.handshakes - 1), agreed)

    def _certificate(self, body: bytes | None, origin: MessageOrigin) -> None:
        """Note a certificate and its sender; ``body`` is None if it cannot be decompressed."""
        end = self.end_of(origin.direction)
        facts = self.facts
        chain = [] if body is None else handshake.certificates_in(body, is_13=self.is_13)
        if body is None and end == 0:
            facts.mutual = True  # an empty list of certificates is not compressed
        elif end == 0:
            facts.mutual = bool(chain)
            if chain and facts.client_certificate is None:
                facts.client_certificate = certificate_facts(chain[0])
        elif end == 1 and chain and facts.server_certificate is None:
            facts.server_certificate = certificate_facts(chain[0])

    def _sealed_13(self, kind: int, body: bytes, origin: MessageOrigin) -> int | None:
        facts = self.facts
        if kind == handshake.ENCRYPTED_EXTENSIONS:
            extensions = handshake.read_encrypted_extensions(body)
            facts.alpn = extensions.alpn
            facts.accepted_early_data = extensions.takes_early_data
        elif kind == handshake.COMPRESSED_CERTIFICATE:
            self._certificate(handshake.decompressed_certificate(body), origin)
        elif kind == handshake.END_OF_EARLY_DATA:
            return HANDSHAKE
        elif kind == handshake.FINISHED:
            if origin.is_gapless and not facts.resumed:
                _note_no_certificates(facts, self.end_of(origin.direction))
            self._finish(origin.direction, origin.record)
            return APPLICATION
        return None

    def _finish(self, direction: int, record: TlsRecord) -> None:
        """Note when a side finished; in TLS 1.3 the client finishes last."""
        if self.handshakes <= 1:
            self._times.finished_ns[direction] = known_time(record.time_ns)
            facts = self.facts
            facts.handshake_ns = self._times.took_ns(facts.client_index if self.is_13 else None)


class _HandshakeTimes:
    """When the first handshake began, and when each side finished; either may be read first."""

    def __init__(self) -> None:
        self.begin_ns: int | None = None
        self.finished_ns: list[int | None] = [None, None]

    def took_ns(self, last_direction: int | None) -> int | None:
        """Return the duration in ns; None as long as it is not known.

        ``last_direction`` is the side that finishes last; None if it may be either.
        """
        directions = (0, 1) if last_direction is None else (last_direction,)
        if self.begin_ns is None or any(self.finished_ns[i] is None for i in directions):
            return None
        return max(end_ns for end_ns in self.finished_ns if end_ns is not None) - self.begin_ns


def _note_no_certificates(facts: TlsFacts, end: int | None) -> None:
    """Note, at a Finished of TLS 1.3, that its sender requested or presented no certificate.

    Not for a resumed session, whose certificates were sent before.
    """
    if end == 1:
        facts.certificate_requested = bool(facts.certificate_requested)
    elif facts.mutual is None:
        facts.mutual = False


def _offers_ticket(negotiation: Negotiation) -> bool:
    """Return true if the client of the first handshake sent a ticket of TLS 1.2."""
    hello = negotiation.client_hello
    return negotiation.handshakes == 1 and hello is not None and hello.has_ticket
