"""What a passive observer knows of the TLS of a connection.

In: what ``tls`` finds. Out: :class:`TlsConnection`, which a
:class:`~kanalyze.model.tcp.TcpConnection` carries to the rows.

None means not known: it is encrypted, or not in the capture. Texts are from the wire and untrusted;
the code that reads them bounds their length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State

__all__ = ["ENCRYPTED", "CertificateFacts", "SentAlert", "TlsConnection"]

ENCRYPTED: Final = "encrypted"
"""In place of the name of an alert that cannot be read."""


class CertificateFacts(NamedTuple):
    """What a certificate says of itself."""

    subject: str
    """A distinguished name as RFC 4514 writes it; untrusted."""
    issuer: str
    not_before_ns: int | None
    """Unix time; None where 64 bits do not hold it."""
    not_after_ns: int | None

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return self.subject, self.issuer, self.not_before_ns, self.not_after_ns

    @classmethod
    def from_state(cls, state: object) -> CertificateFacts:
        """Make one from a state; raises ValueError for any other value."""
        return cls(*fields(state, "ssII"))


class SentAlert(NamedTuple):
    """An alert, and who sent it."""

    direction: int
    """Index in ``TcpConnection.endpoints``."""
    level: str | None
    """``warning`` or ``fatal``; None where it is encrypted."""
    name: str
    """The registry's name, or :data:`ENCRYPTED`."""


class TlsConnection:
    """The TLS of one connection. Pairs are by direction, as in ``TcpConnection``.

    Attributes:
        client_index: which end sent the ClientHello.
        version, suite, alpn: what the server chose, by name.
        offered_versions, offered_alpn, server_name: of the ClientHello.
        resumed: whether a session was resumed.
        certificate_requested: whether the server asked for a certificate of the client.
        mutual: whether the client presented one.
        handshake_ns: from the ClientHello to the last Finished.
        is_complete: whether both ends were seen to send encrypted data after the hellos.
        alerts: the first ones.
        records, bytes: of TLS, with their headers.
        is_decrypted: whether some records were decrypted.
        is_clear_client: the client does not speak TLS, and the server answers with an alert.
        estimated_requests: how often data of the client was followed by data of the server.
        estimated_median_ns, estimated_p99_ns: time from the end of the client's data to the first
            data of the server.
    """

    __slots__ = (
        *("alerts", "alpn", "bytes", "certificate_requested", "client_certificate", "client_index"),
        *("estimated_median_ns", "estimated_p99_ns", "estimated_requests", "handshake_ns"),
        *("is_complete", "is_decrypted", "is_clear_client", "mutual", "offered_alpn"),
        *("offered_versions", "records", "resumed", "server_certificate", "server_name", "suite"),
        "version",
    )

    def __init__(self) -> None:
        self.client_index: int | None = None
        self.version: str | None = None
        self.suite: str | None = None
        self.alpn: str | None = None
        self.server_name: str | None = None
        self.offered_versions: tuple[str, ...] | None = None
        self.offered_alpn: tuple[str, ...] | None = None
        self.resumed: bool | None = None
        self.certificate_requested: bool | None = None
        self.mutual: bool | None = None
        self.server_certificate: CertificateFacts | None = None
        self.client_certificate: CertificateFacts | None = None
        self.handshake_ns: int | None = None
        self.is_complete = False
        self.alerts: tuple[SentAlert, ...] = ()
        self.records = [0, 0]
        self.bytes = [0, 0]
        self.is_decrypted = False
        self.is_clear_client = False
        self.estimated_requests: int | None = None
        self.estimated_median_ns: int | None = None
        self.estimated_p99_ns: int | None = None

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        server, client = self.server_certificate, self.client_certificate
        return (
            *(self.client_index, self.version, self.suite, self.alpn, self.server_name),
            *(self.offered_versions, self.offered_alpn, self.resumed, self.certificate_requested),
            *(self.mutual, None if server is None else server.state()),
            *(None if client is None else client.state(), self.handshake_ns, self.is_complete),
            *(tuple([tuple(alert) for alert in self.alerts]), *self.records, *self.bytes),
            *(self.is_decrypted, self.is_clear_client, self.estimated_requests),
            *(self.estimated_median_ns, self.estimated_p99_ns),
        )

    @classmethod
    def from_state(cls, state: object) -> TlsConnection:
        """Make one from a state; raises ValueError for any other value."""
        values = fields(state, "NSSSSTTBBBTTIbtnnnnbbNII")
        connection = cls()
        connection.client_index = None if values[0] is None else _end(values[0])
        connection.version, connection.suite, connection.alpn, connection.server_name = values[1:5]
        connection.offered_versions = None if values[5] is None else items(values[5], "s")
        connection.offered_alpn = None if values[6] is None else items(values[6], "s")
        connection.resumed, connection.certificate_requested, connection.mutual = values[7:10]
        connection.server_certificate, connection.client_certificate = map(
            _certificate, values[10:12]
        )
        connection.handshake_ns, connection.is_complete = values[12:14]
        connection.alerts = tuple([_alert(alert) for alert in items(values[14], "t")])
        connection.records, connection.bytes = list(values[15:17]), list(values[17:19])
        connection.is_decrypted, connection.is_clear_client = values[19:21]
        (
            connection.estimated_requests,
            connection.estimated_median_ns,
            connection.estimated_p99_ns,
        ) = values[21:]
        return connection


def _certificate(state: object) -> CertificateFacts | None:
    return None if state is None else CertificateFacts.from_state(state)


def _alert(state: object) -> SentAlert:
    direction, level, name = fields(state, "nSs")
    return SentAlert(_end(direction), level, name)


def _end(direction: int) -> int:
    if direction > 1:
        raise ValueError(f"end {direction} of a connection")
    return direction
