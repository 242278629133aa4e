"""The rows of TCP connections: one per connection, of any protocol.

In: closed connections, with their protocol. Out: :class:`ConnectionRow`.

Each figure is defined in :class:`kanalyze.model.TcpConnection` and
:class:`kanalyze.model.TcpMeasures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.model.packets import known_time
from kanalyze.spec.rows.connections import ConnectionRow
from kanalyze.tables.connection_tls import tls_columns
from kanalyze.tables.requests.latency_parts import capture_point

if TYPE_CHECKING:
    from kanalyze.model.tcp import RoundTrips, TcpConnection
    from kanalyze.spec.rows.connections import End

__all__ = ["connection_row"]

_AFTER_ALL_PACKETS = (1 << 63) - 1
"""A packet number above all others."""


def connection_row(
    tcp: TcpConnection,
    *,
    capture: str,
    first_packet: int | None,
    client_index: int | None,
    protocol: str,
    likely_client: int | None = None,
    client_id: str | None = None,
    client_software_name: str | None = None,
    client_software_version: str | None = None,
    principal: str | None = None,
    requests: int | None = None,
    decoded_bytes: int | None = None,
    skipped_bytes: int | None = None,
) -> ConnectionRow:
    """Make the row of a closed connection. Raises nothing.

    Args:
        tcp: the closed connection; without ``measures`` the columns made from them are null.
        capture: the input with its first packet.
        first_packet: number of the first packet in that input, from 1; None if unknown.
        client_index: index of the client in ``tcp.endpoints``; None if unknown.
        protocol: the protocol, as in the column.
        likely_client: index of the client as far as other connections show it, if it is unknown.
        client_id: this and the following are as in their columns.
        client_software_name: None unless it was in a Kafka request.
        client_software_version: None unless it was in a Kafka request.
        principal: user of SASL; never a secret.
        requests: number of Kafka requests; None if the connection is not read as Kafka.
        decoded_bytes: None if the connection is not read as Kafka.
        skipped_bytes: None if the connection is not read as Kafka.
    """
    start_ns = known_time(tcp.first_time_ns)
    likely = tcp.likely_client if likely_client is None else likely_client
    index = likely if client_index is None else client_index
    client, broker = tcp.endpoint_and_peer(index)
    figures: dict[str, Any] = {
        **_handshake(tcp, index),
        **_round_trips(tcp, index),
        **_network(tcp, index),
        **_counters(tcp, index),
        **tls_columns(tcp, index, protocol),
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
        protocol=protocol,
        client_id=client_id,
        client_software_name=client_software_name,
        client_software_version=client_software_version,
        principal=principal,
        requests=requests,
        first_packet=first_packet,
        start_ns=start_ns,
        end_ns=known_time(tcp.last_time_ns),
        duration_ns=None if start_ns is None else tcp.last_time_ns - start_ns,
        opened_by=_end_name(tcp.opened_by, index),
        closed_by=_end_name(tcp.closed_by, index),
        closed_ns=None if tcp.measures is None else tcp.measures.closed_time_ns,
        end=tcp.end or "open",
        **figures,
        decoded_bytes=decoded_bytes,
        skipped_bytes=skipped_bytes,
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
