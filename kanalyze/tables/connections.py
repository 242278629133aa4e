"""The rows of TCP connections: one per connection, of any protocol.

In: summaries of connections. Out: :class:`ConnectionRow`.

Each figure is defined in :class:`kanalyze.model.TcpConnection` and
:class:`kanalyze.model.TcpMeasures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.packets import known_time
from kanalyze.model.tls import ENCRYPTED, TlsConnection
from kanalyze.spec.rows.connections import ConnectionRow
from kanalyze.tables.requests.row_columns import capture_point

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.kafka.session.events import ConnectionSummary
    from kanalyze.model.tcp import RoundTrips, TcpConnection
    from kanalyze.model.tls import CertificateFacts, SentAlert
    from kanalyze.spec.rows.connections import End

__all__ = ["connection_row", "tls_columns"]

_AFTER_ALL_PACKETS = (1 << 63) - 1
"""A packet number above all others."""


def connection_row(
    summary: ConnectionSummary, locate: Callable[[int], tuple[str, int | None]]
) -> ConnectionRow:
    """Make the row of a connection, which is complete if it has closed. Raises nothing.

    Args:
        summary: the connection; without ``tcp.measures`` the columns made from them are null.
        locate: maps a packet number over the whole input to the capture and the number there.
    """
    tcp = summary.tcp
    capture, first_packet = locate(tcp.first_packet or 0)
    start_ns = known_time(tcp.first_time_ns)
    client_index = tcp.opened_by if summary.client_index is None else summary.client_index
    index = tcp.likely_client if summary.likely_client is None else summary.likely_client
    if client_index is not None:
        index = client_index
    is_kafka = summary.protocol.startswith("kafka")
    client, broker = tcp.endpoint_and_peer(index)
    figures: dict[str, Any] = {
        **_handshake(tcp, index),
        **_round_trips(tcp, index),
        **_network(tcp, index),
        **_counters(tcp, index),
        **tls_columns(tcp, index, summary.protocol),
    }
    proxy = tcp.proxy
    return ConnectionRow(
        capture=capture,
        connection=f"{client}>{broker}",
        connection_number=tcp.connection_number,
        client_ip=client.ip,
        client_port=client.port,
        broker_ip=broker.ip,
        broker_port=broker.port,
        client_known=client_index is not None,
        protocol=summary.protocol,
        client_id=summary.client_id,
        client_software_name=summary.software_name,
        client_software_version=summary.software_version,
        principal=summary.principal,
        requests=summary.requests if is_kafka else None,
        first_packet=first_packet,
        start_ns=start_ns,
        end_ns=known_time(tcp.last_time_ns),
        duration_ns=None if start_ns is None else tcp.last_time_ns - start_ns,
        opened_by=_end_name(tcp.opened_by, index),
        closed_by=_end_name(tcp.closed_by, index),
        closed_ns=None if tcp.measures is None else tcp.measures.closed_time_ns,
        end=tcp.end or "open",
        **figures,
        decoded_bytes=summary.decoded_bytes if is_kafka else None,
        skipped_bytes=summary.skipped_bytes if is_kafka else None,
        proxy=None if proxy is None else proxy.kind,
        proxied_client_ip=None if proxy is None else proxy.client_ip,
        proxied_client_port=None if proxy is None else proxy.client_port,
        proxied_target=None if proxy is None else proxy.target,
    )


def _end_name(index: int | None, client_index: int) -> End | None:
    if index is None:
        return None
    return "client" if index == client_index else "broker"


def _handshake(tcp: TcpConnection, client_index: int) -> dict[str, int | None]:
    measures = tcp.measures
    if measures is None:
        return dict.fromkeys(_HANDSHAKE)
    halves = (measures.answer_rtt_ns, measures.opener_rtt_ns)
    # The first half is the round trip to the end that did not open the connection.
    broker_ns, client_ns = halves if measures.opened_by == client_index else halves[::-1]
    figures = (measures.handshake_rtt_ns, broker_ns, client_ns)
    return dict(zip(_HANDSHAKE, figures, strict=True))


_HANDSHAKE = ("handshake_rtt_ns", "broker_handshake_rtt_ns", "client_handshake_rtt_ns")


def _round_trips(tcp: TcpConnection, client_index: int) -> dict[str, int | None]:
    broker: RoundTrips | None = None
    client: RoundTrips | None = None
    if tcp.measures is not None:
        # The broker acknowledges what the client sends.
        broker = tcp.measures.round_trips[client_index]
        client = tcp.measures.round_trips[1 - client_index]
    return {**_leg("broker", broker), **_leg("client", client)}


def _network(tcp: TcpConnection, client_index: int) -> dict[str, int | str | None]:
    """Return the network's share of all round trips, and where the capture was taken by them."""
    client, broker = tcp.endpoint_and_peer(client_index)
    to_broker, to_client = (
        tcp.path.round_trips[index].least_at(_AFTER_ALL_PACKETS)
        for index in (client_index, 1 - client_index)
    )
    is_one_host = client.ip == broker.ip
    return {
        "broker_rtt_ns": to_broker if to_broker >= 0 else None,
        "client_rtt_ns": to_client if to_client >= 0 else None,
        "capture_point": "host" if is_one_host else capture_point(to_client, to_broker),
    }


def _leg(end: End, trips: RoundTrips | None) -> dict[str, int | None]:
    return {
        f"{end}_rtt_min_ns": None if trips is None else trips.least_ns,
        f"{end}_rtt_mean_ns": None if trips is None else trips.mean_ns,
        f"{end}_rtt_max_ns": None if trips is None else trips.most_ns,
        f"{end}_rtt_samples": None if trips is None else trips.samples,
    }


def _counters(tcp: TcpConnection, client_index: int) -> dict[str, int | None]:
    """Return the columns of counts that come in pairs, named as in :data:`_PAIRS`."""
    columns: dict[str, int | None] = {}
    for name, attribute, is_measured in _PAIRS:
        source = tcp.measures if is_measured else tcp
        pair = (None, None) if source is None else getattr(source, attribute)
        columns[f"client_{name}"] = pair[client_index]
        columns[f"broker_{name}"] = pair[1 - client_index]
    return columns


_PAIRS = (
    ("packets", "packets", False),
    ("payload_bytes", "payload_bytes", False),
    ("duplicate_packets", "duplicate_packets", True),
    ("duplicate_bytes", "duplicate_bytes", False),
    ("retransmitted_packets", "retransmitted_packets", True),
    ("retransmitted_bytes", "retransmitted_bytes", False),
    ("out_of_order_packets", "out_of_order_packets", False),
    ("lost_bytes", "lost_bytes", False),
    ("snapped_bytes", "snapped_bytes", False),
    ("zero_windows", "zero_window_packets", True),
    ("keep_alives", "keep_alive_packets", True),
    ("resets", "reset_packets", True),
    ("fins", "fin_packets", True),
    ("syn_retransmissions", "syn_retransmissions", True),
)
"""For each pair of columns: the common part of the names, the field with the counts, and whether
that field is in ``measures``."""


# -- TLS -------------------------------------------------------------------------------------------


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
        "tls_failed_by": None if failure is None else _end_name(failure.direction, client_index),
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
    words = (_end_name(alert.direction, client_index), alert.level, alert.name)
    return " ".join([word for word in words if word])


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
