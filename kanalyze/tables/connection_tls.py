"""The columns of a connection that are about its TLS.

In: a connection, closed or open. Out: values of columns of
:class:`~kanalyze.spec.rows.connections.ConnectionRow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.tls import ENCRYPTED, TlsConnection

if TYPE_CHECKING:
    from kanalyze.model.tcp import TcpConnection
    from kanalyze.model.tls import CertificateFacts, SentAlert

__all__ = ["tls_columns"]

_ENDS: Final = ("client", "broker")
_CLOSING: Final = ("close_notify", "user_canceled")
"""Alerts that do not mean a failure."""
_FATAL: Final = "fatal"
_UNKNOWN: Final = TlsConnection()
"""The facts of a TLS connection whose handshake was not read: all unknown."""


class _Failure(NamedTuple):
    """Why TLS failed."""

    reason: str
    direction: int | None
    """Index of the end that sent the alert, or that closed the connection."""


def tls_columns(tcp: TcpConnection, client_index: int, protocol: str) -> dict[str, Any]:
    """Return the values of the columns about TLS, by column name."""
    tls = tcp.tls
    if tls is not None and not (protocol == "tls" or tls.is_decrypted or tls.is_clear_client):
        tls = None  # the bytes only looked like TLS
    has_tls = tls is not None or protocol == "tls"
    if tls is None:
        tls = _UNKNOWN
    is_counted = tls.client_index is not None or any(tls.records)
    failure = _failure(tcp, tls)
    return {
        "tls_decrypted": tls.is_decrypted if has_tls and not tls.is_clear_client else None,
        "tls_version": tls.version,
        "tls_cipher_suite": tls.suite,
        "tls_server_name": tls.server_name,
        "tls_alpn": tls.alpn,
        "tls_offered_versions": list(tls.offered_versions or ()),
        "tls_offered_alpn": list(tls.offered_alpn or ()),
        "tls_handshake_ns": tls.handshake_ns,
        "tls_resumed": tls.resumed,
        "tls_certificate_requested": tls.certificate_requested,
        "tls_mutual": tls.mutual,
        **_certificate("tls_certificate", tls.server_certificate),
        **_certificate("tls_client_certificate", tls.client_certificate),
        "tls_alerts": [_alert(alert, client_index) for alert in tls.alerts],
        "tls_failure": None if failure is None else failure.reason,
        "tls_failed_by": None if failure is None else _end(failure.direction, client_index),
        "client_tls_records": tls.records[client_index] if is_counted else None,
        "broker_tls_records": tls.records[1 - client_index] if is_counted else None,
        "client_tls_bytes": tls.bytes[client_index] if is_counted else None,
        "broker_tls_bytes": tls.bytes[1 - client_index] if is_counted else None,
        "estimated_requests": tls.estimated_requests,
        "estimated_response_time_median_ns": tls.estimated_median_ns,
        "estimated_response_time_p99_ns": tls.estimated_p99_ns,
    }


def _certificate(name: str, facts: CertificateFacts | None) -> dict[str, Any]:
    subject, issuer, _, not_after_ns = (None,) * 4 if facts is None else facts
    return {
        f"{name}_subject": subject,
        f"{name}_issuer": issuer,
        f"{name}_not_after_ns": not_after_ns,
    }


def _alert(alert: SentAlert, client_index: int) -> str:
    words = (_end(alert.direction, client_index), alert.level, alert.name)
    return " ".join([word for word in words if word])


def _end(direction: int | None, client_index: int) -> str | None:
    return None if direction is None else _ENDS[direction != client_index]


def _failure(tcp: TcpConnection, tls: TlsConnection) -> _Failure | None:
    """Return why TLS failed; None where nothing shows that it did."""
    if tls.is_clear_client:
        return _Failure("plaintext_on_tls_port", 1 - (tls.client_index or 0))
    if _is_closed_without_a_word(tcp, tls):
        return _Failure("tls_on_plaintext_port", tcp.closed_by)
    for alert in tls.alerts:
        if _is_failure(alert, tls):
            return _Failure(alert.name, alert.direction)
    if tls.is_complete or tls.offered_versions is None or tls.client_index is None:
        return None
    if tls.version is None and tcp.end == "open":
        return None
    if tcp.closed_by is None or any(tcp.lost_bytes) or any(tcp.snapped_bytes):
        return None
    return _Failure("closed", tcp.closed_by)


def _is_closed_without_a_word(tcp: TcpConnection, tls: TlsConnection) -> bool:
    """Return true if the server closes as soon as it has a ClientHello, and sends nothing.

    So does a listener without TLS. A client that leaves by itself shows nothing; one that was left
    may send an alert.
    """
    if tls.client_index is None or tls.offered_versions is None or tls.version is not None:
        return False
    server_index = 1 - tls.client_index
    has_sent = tcp.payload_bytes[server_index] or tcp.lost_bytes[server_index]
    return tcp.end != "open" and tcp.closed_by == server_index and not has_sent


def _is_failure(alert: SentAlert, tls: TlsConnection) -> bool:
    if alert.name in _CLOSING:
        return False
    if alert.name != ENCRYPTED:
        return alert.level == _FATAL or not tls.is_complete
    if tls.offered_versions is None:
        return False
    # An encrypted alert is also the normal end of a session.
    is_of_server = alert is tls.alerts[0] and alert.direction != tls.client_index
    return not tls.is_complete or (is_of_server and not tls.estimated_requests)
