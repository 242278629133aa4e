"""The rows of TCP connections: one per connection, of any protocol.

In: summaries of connections. Out: :class:`ConnectionRow`.

Each figure is defined in :class:`kanalyze.model.TcpConnection` and
:class:`kanalyze.model.TcpMeasures`.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.packets import known_time
from kanalyze.model.tls import ENCRYPTED, TlsConnection
from kanalyze.spec.rows.connections import CONNECTION_COLUMNS, ConnectionRow
from kanalyze.tables.requests.row_columns import capture_point

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.kafka.session.events import ConnectionSummary
    from kanalyze.model.tcp import Endpoint, RoundTrips, TcpConnection
    from kanalyze.model.tls import CertificateFacts, SentAlert
    from kanalyze.spec.rows.connections import End

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
    values = (
        *(capture, f"{client}>{broker}", tcp.connection_number),
        *(client.ip, client.port, broker.ip, broker.port, client_index is not None),
        *(summary.protocol, summary.client_id, summary.software_name, summary.software_version),
        summary.principal,
        summary.requests if is_kafka else None,
        *(first_packet, start_ns, known_time(tcp.last_time_ns)),
        None if start_ns is None else tcp.last_time_ns - start_ns,
        *(_end_name(tcp.opened_by, index), _end_name(tcp.closed_by, index)),
        None if tcp.measures is None else tcp.measures.closed_time_ns,
        tcp.end or "open",
        summary.decoded_bytes if is_kafka else None,
        summary.skipped_bytes if is_kafka else None,
        *_handshake(tcp, index),
        *_round_trips(tcp, index),
        *_network(tcp, index, client, broker),
        *_counters(tcp, index),
        *_tls(tcp, index, summary.protocol),
        *(_NO_PROXY if tcp.proxy is None else tcp.proxy),
    )
    return ConnectionRow._make(_in_order()(values))


_OWN: Final = (
    *("capture", "connection", "connection_number"),
    *("client_ip", "client_port", "broker_ip", "broker_port", "client_known"),
    *("protocol", "client_id", "client_software_name", "client_software_version", "principal"),
    *("requests", "first_packet", "start_ns", "end_ns", "duration_ns", "opened_by", "closed_by"),
    *("closed_ns", "end", "decoded_bytes", "skipped_bytes"),
)
_PROXY: Final = ("proxy", "proxied_client_ip", "proxied_client_port", "proxied_target")
_NO_PROXY: Final = (None,) * len(_PROXY)


@cache
def _in_order() -> itemgetter[tuple[Any, ...]]:
    """Return what puts the values of a row, which come in groups, into the order of its columns.

    A dictionary with the name of each of 80 values would take ten times as long.
    """
    legs = (*_leg_names("broker"), *_leg_names("client"))
    names = (*_OWN, *_HANDSHAKE, *legs, *_NETWORK, *_COUNTER_NAMES, *_TLS_LISTS, *_PROXY)
    return itemgetter(*map(names.index, ConnectionRow._fields))


def _end_name(index: int | None, client_index: int) -> End | None:
    if index is None:
        return None
    return "client" if index == client_index else "broker"


def _handshake(tcp: TcpConnection, client_index: int) -> tuple[int | None, ...]:
    measures = tcp.measures
    if measures is None:
        return (None,) * len(_HANDSHAKE)
    first_ns, second_ns = measures.answer_rtt_ns, measures.opener_rtt_ns
    # The first half is the round trip to the end that did not open the connection.
    if measures.opened_by == client_index:
        return measures.handshake_rtt_ns, first_ns, second_ns
    return measures.handshake_rtt_ns, second_ns, first_ns


_HANDSHAKE: Final = ("handshake_rtt_ns", "broker_handshake_rtt_ns", "client_handshake_rtt_ns")


def _round_trips(tcp: TcpConnection, client_index: int) -> tuple[int | None, ...]:
    if tcp.measures is None:
        return (*_leg(None), *_leg(None))
    # The broker acknowledges what the client sends.
    trips = tcp.measures.round_trips
    return (*_leg(trips[client_index]), *_leg(trips[1 - client_index]))


def _leg(trips: RoundTrips | None) -> tuple[int | None, ...]:
    if trips is None:
        return (None,) * 4
    return trips.least_ns, trips.mean_ns, trips.most_ns, trips.samples


def _leg_names(end: End) -> list[str]:
    """Return the names of the values of :func:`_leg`."""
    return [f"{end}_rtt_{name}" for name in ("min_ns", "mean_ns", "max_ns", "samples")]


def _network(
    tcp: TcpConnection, client_index: int, client: Endpoint, broker: Endpoint
) -> tuple[int | str | None, ...]:
    """Return the network's share of all round trips, and where the capture was taken by them."""
    trips = tcp.path.round_trips
    to_broker = trips[client_index].least_at(_AFTER_ALL_PACKETS)
    to_client = trips[1 - client_index].least_at(_AFTER_ALL_PACKETS)
    return (
        to_broker if to_broker >= 0 else None,
        to_client if to_client >= 0 else None,
        "host" if client.ip == broker.ip else capture_point(to_client, to_broker),
    )


_NETWORK: Final = ("broker_rtt_ns", "client_rtt_ns", "capture_point")


def _counters(tcp: TcpConnection, client_index: int) -> tuple[int | None, ...]:
    """Return the counts that come in pairs: the client's, then the broker's."""
    measured = _NOT_MEASURED if tcp.measures is None else _MEASURED(tcp.measures)
    ends = tuple(zip(*_COUNTED(tcp), *measured, strict=True))
    return (*ends[client_index], *ends[1 - client_index])


_COUNTED_NAMES: Final = (
    *("packets", "payload_bytes", "duplicate_bytes", "retransmitted_bytes"),
    *("out_of_order_packets", "lost_bytes", "snapped_bytes"),
)
"""The common part of the names of two columns, which is that of the connection's attribute."""
_MEASURED_NAMES: Final = {
    "duplicate_packets": "duplicate_packets",
    "retransmitted_packets": "retransmitted_packets",
    "zero_windows": "zero_window_packets",
    "keep_alives": "keep_alive_packets",
    "resets": "reset_packets",
    "fins": "fin_packets",
    "syn_retransmissions": "syn_retransmissions",
}
"""The same common part, with the attribute of the connection's ``measures``."""
_COUNTED: Final = attrgetter(*_COUNTED_NAMES)
_MEASURED: Final = attrgetter(*_MEASURED_NAMES.values())
_NOT_MEASURED: Final = ((None, None),) * len(_MEASURED_NAMES)
_COUNTER_NAMES: Final = tuple(
    f"{end}_{name}" for end in ("client", "broker") for name in (*_COUNTED_NAMES, *_MEASURED_NAMES)
)


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


def _tls(tcp: TcpConnection, client_index: int, protocol: str) -> list[Any]:
    """Return the values of the columns about TLS, in the order of :data:`_TLS_LISTS`."""
    if tcp.tls is None and protocol != "tls":
        return [[] if is_list else None for is_list in _TLS_LISTS.values()]
    columns = tls_columns(tcp, client_index, protocol)
    return [columns[name] for name in _TLS_LISTS]


_TLS_LISTS: Final = {
    column.name: column.type.startswith("list<")
    for column in CONNECTION_COLUMNS
    if column.name.startswith(("tls_", "client_tls_", "broker_tls_", "estimated_"))
}
"""The columns about TLS: whether they are lists."""


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
