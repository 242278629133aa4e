"""What a passive observer knows of the TLS of a connection.

In: what ``tls`` finds. Out: :class:`TlsConnection`, which a
:class:`~kanalyze.model.tcp.TcpConnection` carries to the rows.

None means not known: it is encrypted, or not in the capture. Texts are from the wire and untrusted;
the code that reads them bounds their length.
"""

from __future__ import annotations

from typing import Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved

__all__ = ["ENCRYPTED", "CertificateFacts", "SentAlert", "TlsConnection"]

ENCRYPTED: Final = "encrypted"
"""In place of the name of an alert that cannot be read."""


@Saved("subject:str issuer:str not_before_ns:int? not_after_ns:int?")
class CertificateFacts(NamedTuple):
    """What a certificate says of itself."""

    subject: str
    """A distinguished name as RFC 4514 writes it; untrusted."""
    issuer: str
    not_before_ns: int | None
    """Unix time; None where 64 bits do not hold it."""
    not_after_ns: int | None


@Saved("direction:end level:str? name:str")
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
    _SAVED = Saved(
        "client_index:end? version:str? suite:str? alpn:str? server_name:str? "
        "offered_versions:tuple[str]? offered_alpn:tuple[str]? resumed:bool? "
        "certificate_requested:bool? mutual:bool? server_certificate:CertificateFacts? "
        "client_certificate:CertificateFacts? handshake_ns:int? is_complete:bool "
        "alerts:tuple[SentAlert] records:2*count bytes:2*count is_decrypted:bool "
        "is_clear_client:bool estimated_requests:count? estimated_median_ns:int? "
        "estimated_p99_ns:int?",
        CertificateFacts,
        SentAlert,
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
