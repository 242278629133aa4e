"""What a passive observer sees of TLS: the headers of records, and what is known of a connection.

In: bytes; what ``tls`` finds. Out: whether a record may begin there, and its size;
:class:`TlsConnection`, which a :class:`~kanalyze.model.tcp.TcpConnection` carries to the rows.

The header of a record is the content type (20 to 23), the legacy version 3.0 to 3.4 and the length
of the body (RFC 8446 section 5.1, RFC 5246 section 6.2.1). Random bytes look like one once in 2^23.
Its first four bytes, read as a Kafka frame size, are 335 MB and more, which no broker accepts.

Of a connection, None means not known: it is encrypted, or not in the capture. Texts are from the
wire and untrusted; the code that reads them bounds their length.
"""

from __future__ import annotations

import re
from typing import Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE_RECORD, APPLICATION_DATA = range(20, 24)
"""Content types."""
HEADER_BYTES: Final = 5
_MAX_BODY_BYTES: Final = (1 << 14) + 2048
"""Of TLS 1.2; TLS 1.3 allows 256 beyond 2^14."""
_CHAIN: Final = 3
"""Headers in a row that prove TLS at any position. Random bytes look like a header at one position
in 2^23, and like three headers, each where the one before it says, at one in 2^69."""
_MAX_CANDIDATES: Final = 4096
_HEADER: Final = rb"(?s)[\x14-\x17](?=\x03[\x00-\x04][\x00-\x48].)"
"""Matches each byte that may be the first of a header. Of the length it checks only the high byte,
so that it may be up to 255 too large."""
ENCRYPTED: Final = "encrypted"
"""In place of the name of an alert that cannot be read."""


def record_bytes(data: bytes | bytearray | memoryview, at: int = 0) -> int | None:
    """Return the size of the record at ``at``, with its header; None if no header is there.

    The header's five bytes have to be in ``data``.
    """
    size = size_by_header(data[at], data[at + 1], data[at + 2], data[at + 3] << 8 | data[at + 4])
    return None if size < 0 else size


def size_by_header(kind: int, major: int, minor: int, body_bytes: int) -> int:
    """Return the size of a record, with its header, from the header's fields; -1 for no header."""
    if not 20 <= kind <= 23 or major != 3 or minor > 4 or body_bytes > _MAX_BODY_BYTES:
        return -1
    return 5 + body_bytes


def looks_like_record(head: bytes | bytearray | memoryview) -> bool:
    """Return true if these bytes may be the beginning of a record that is not empty."""
    return len(head) >= HEADER_BYTES and (record_bytes(head) or 0) > HEADER_BYTES


def record_at(data: bytes | bytearray | memoryview, at: int) -> int | None:
    """Return the size of the record at ``at``; None if the bytes there do not look like one."""
    return record_bytes(data, at) if looks_like_record(data[at : at + HEADER_BYTES]) else None


def find_record(data: bytearray | memoryview, begin: int = 0) -> int | None:
    """Return the first index from ``begin`` on that looks like a record; None if there is none.

    The whole header has to be in ``data``.
    """
    header = re.compile(_HEADER)  # not before the first capture with TLS; Python keeps it
    match = header.search(data, begin)
    while match is not None:
        at = match.start()
        if looks_like_record(data[at : at + HEADER_BYTES]):
            return at
        match = header.search(data, at + 1)
    return None


def find_records(data: bytearray | memoryview) -> int | None:
    """Return the index of the first record in bytes that may begin within one; None without one.

    A record counts if two more follow it, each where the length before it says. Time: one
    pass, and three headers for each of at most 4096 candidates.
    """
    at = find_record(data)
    for _ in range(_MAX_CANDIDATES):
        if at is None or _is_chain(data, at):
            return at
        at = find_record(data, at + 1)
    return None


def _is_chain(data: bytearray | memoryview, at: int) -> bool:
    for _ in range(_CHAIN):
        size = record_at(data, at)
        if size is None:
            return False
        at += size
    return True


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
