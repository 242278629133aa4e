"""The rows of TCP connections: one per connection, of any protocol.

In: closed connections, with their protocol. Out: :class:`ConnectionRow`.

Most columns come in pairs, one for each end: the end that sent the packets. Round trips are
measured at the capture point: ``broker_rtt`` from there to the broker and back, ``client_rtt`` from
there to the client and back. If the capture was made at one end, the round trip to that end is
close to 0. Each figure is defined in :class:`kanalyze.model.TcpConnection` and
:class:`kanalyze.model.TcpMeasures`.
"""

# No "from __future__ import annotations": see kanalyze.tables.row.

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.packets import known_time
from kanalyze.model.tcp import ConnectionEnd
from kanalyze.tables.connection_tls import tls_columns
from kanalyze.tables.requests.latency_parts import capture_point
from kanalyze.tables.row import (
    CAPTURE_POINT,
    CLIENT_ID,
    CONNECTION,
    CONNECTION_NUMBER,
    PRINCIPAL,
    PROXIED_CLIENT_IP,
    PROXIED_CLIENT_PORT,
    PROXIED_TARGET,
    PROXY,
    Column,
    Meaning,
    columns_of,
)

if TYPE_CHECKING:
    from kanalyze.model.tcp import RoundTrips, TcpConnection

__all__ = ["CONNECTION_COLUMNS", "ConnectionRow", "End", "connection_row"]

End: TypeAlias = Literal["client", "broker"]

_AFTER_ALL_PACKETS = (1 << 63) - 1
"""A packet number above all others."""


def _number(text: str, unit: str = "") -> Meaning:
    return Meaning("int64", text, unit)


def _time(text: str) -> Meaning:
    return Meaning("int64", text, "ns", is_time=True)


def _nullable_number(text: str, unit: str = "") -> Meaning:
    return Meaning("int64", text, unit, nullable=True)


def _nullable_time(text: str) -> Meaning:
    return Meaning("int64", text, "ns", nullable=True, is_time=True)


def _nullable_text(text: str) -> Meaning:
    return Meaning("string", text, nullable=True)


class ConnectionRow(NamedTuple):
    """One TCP connection, from its first packet to its last."""

    capture: Annotated[
        str, Meaning("string", "the input with the first packet; live:IFACE for an interface")
    ]
    connection: Annotated[str, CONNECTION]
    connection_number: Annotated[int, CONNECTION_NUMBER]
    client_ip: Annotated[str, Meaning("string", "IP address of the client")]
    client_port: Annotated[int, Meaning("int32", "TCP port of the client")]
    broker_ip: Annotated[str, Meaning("string", "IP address of the broker, or another server")]
    broker_port: Annotated[int, Meaning("int32", "TCP port of the broker, or another server")]
    client_known: Annotated[
        bool,
        Meaning(
            "bool",
            "false: unknown; then the end that other connections go to counts as the broker, else "
            "the end with the lower port",
        ),
    ]
    protocol: Annotated[
        str, Meaning("string", "the protocol: kafka, kafka-0.7, tls, http, ..., or unknown")
    ]
    client_id: Annotated[str | None, CLIENT_ID]
    client_software_name: Annotated[
        str | None, Meaning("string", "from ApiVersions v3+", nullable=True)
    ]
    client_software_version: Annotated[
        str | None, Meaning("string", "from ApiVersions v3+", nullable=True)
    ]
    principal: Annotated[str | None, PRINCIPAL]
    requests: Annotated[
        int | None, _nullable_number("Kafka requests seen; null if it is not read as Kafka")
    ]
    first_packet: Annotated[
        int | None,
        _nullable_number("number in the capture, from 1, of the first packet; null if unknown"),
    ]
    start_ns: Annotated[int | None, _nullable_time("time of the first packet; null if it has none")]
    end_ns: Annotated[
        int | None, _nullable_time("time of the last packet; null if no packet has one")
    ]
    duration_ns: Annotated[int | None, _nullable_number("end_ns - start_ns", "ns")]
    opened_by: Annotated[
        End | None,
        Meaning(
            "string",
            "client or broker: the end that sent the first SYN; null if the capture began later",
            nullable=True,
        ),
    ]
    closed_by: Annotated[
        End | None,
        Meaning(
            "string",
            "client or broker: the end that sent the first FIN or RST; null if none was seen",
            nullable=True,
        ),
    ]
    closed_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "time of the first FIN or RST; null if none was seen",
            "ns",
            nullable=True,
            is_time=True,
        ),
    ]
    end: Annotated[
        ConnectionEnd,
        Meaning(
            "string",
            "fin (both ends closed), reset, open (the capture ended first), reused (a new "
            "connection has the same ports), limit (too many were open; a later row continues it), "
            "idle (no packets for long, only in kanalyze live; a later row continues it)",
        ),
    ]
    handshake_rtt_ns: Annotated[
        int | None,
        _nullable_number(
            "from the SYN to the acknowledgment of its SYN-ACK; null if one of the three packets "
            "was not seen or a SYN was sent again",
            "ns",
        ),
    ]
    broker_handshake_rtt_ns: Annotated[
        int | None,
        _nullable_number(
            "part of handshake_rtt_ns: from the capture point to the broker and back",
            "ns",
        ),
    ]
    broker_rtt_min_ns: Annotated[
        int | None, _nullable_number("shortest of the round trips in broker_rtt_mean_ns", "ns")
    ]
    broker_rtt_mean_ns: Annotated[
        int | None,
        _nullable_number(
            "mean time from the capture point to the broker and back: from data of the "
            "client to its acknowledgment, including delayed acknowledgments, which are no "
            "measure of the network (broker_rtt_ns is)",
            "ns",
        ),
    ]
    broker_rtt_max_ns: Annotated[
        int | None, _nullable_number("longest of the round trips in broker_rtt_mean_ns", "ns")
    ]
    broker_rtt_samples: Annotated[
        int | None, _nullable_number("number of round trips; retransmitted data is not measured")
    ]
    client_handshake_rtt_ns: Annotated[
        int | None,
        _nullable_number(
            "part of handshake_rtt_ns: from the capture point to the client and back",
            "ns",
        ),
    ]
    client_rtt_min_ns: Annotated[
        int | None, _nullable_number("shortest of the round trips in client_rtt_mean_ns", "ns")
    ]
    client_rtt_mean_ns: Annotated[
        int | None,
        _nullable_number(
            "mean time from the capture point to the client and back: from data of the "
            "broker to its acknowledgment, including delayed acknowledgments, which are no "
            "measure of the network (client_rtt_ns is)",
            "ns",
        ),
    ]
    client_rtt_max_ns: Annotated[
        int | None, _nullable_number("longest of the round trips in client_rtt_mean_ns", "ns")
    ]
    client_rtt_samples: Annotated[
        int | None, _nullable_number("number of round trips; retransmitted data is not measured")
    ]
    capture_point: Annotated[str | None, CAPTURE_POINT]
    client_packets: Annotated[int, _number("by the client: packets captured, every copy counted")]
    broker_packets: Annotated[int, _number("by the broker: packets captured, every copy counted")]
    client_payload_bytes: Annotated[
        int, _number("by the client: TCP payload captured, every copy counted", "B")
    ]
    broker_payload_bytes: Annotated[
        int, _number("by the broker: TCP payload captured, every copy counted", "B")
    ]
    client_duplicate_packets: Annotated[
        int | None,
        _nullable_number(
            "by the client: additional copies of packets in the capture; if these are few, the "
            "network duplicated them",
        ),
    ]
    broker_duplicate_packets: Annotated[
        int | None,
        _nullable_number(
            "by the broker: additional copies of packets in the capture; if these are few, the "
            "network duplicated them",
        ),
    ]
    client_duplicate_bytes: Annotated[
        int,
        _number(
            "by the client: TCP payload in additional copies of packets in the capture",
            "B",
        ),
    ]
    broker_duplicate_bytes: Annotated[
        int,
        _number(
            "by the broker: TCP payload in additional copies of packets in the capture",
            "B",
        ),
    ]
    client_retransmitted_packets: Annotated[
        int | None,
        _nullable_number(
            "by the client: packets whose payload had been seen before, at least in part",
        ),
    ]
    broker_retransmitted_packets: Annotated[
        int | None,
        _nullable_number(
            "by the broker: packets whose payload had been seen before, at least in part",
        ),
    ]
    client_retransmitted_bytes: Annotated[
        int, _number("by the client: TCP payload that had been seen before", "B")
    ]
    broker_retransmitted_bytes: Annotated[
        int, _number("by the broker: TCP payload that had been seen before", "B")
    ]
    client_out_of_order_packets: Annotated[
        int,
        _number(
            "by the client: packets whose payload precedes payload seen before: captured in "
            "another order, or retransmitted after a loss before the capture point",
        ),
    ]
    broker_out_of_order_packets: Annotated[
        int,
        _number(
            "by the broker: packets whose payload precedes payload seen before: captured in "
            "another order, or retransmitted after a loss before the capture point",
        ),
    ]
    client_lost_bytes: Annotated[int, _number("by the client: sent but not in the capture", "B")]
    broker_lost_bytes: Annotated[int, _number("by the broker: sent but not in the capture", "B")]
    client_snapped_bytes: Annotated[int, _number("by the client: cut off by the snap length", "B")]
    broker_snapped_bytes: Annotated[int, _number("by the broker: cut off by the snap length", "B")]
    client_zero_windows: Annotated[
        int | None, _nullable_number("by the client: packets with a receive window of 0")
    ]
    broker_zero_windows: Annotated[
        int | None, _nullable_number("by the broker: packets with a receive window of 0")
    ]
    client_keep_alives: Annotated[int | None, _nullable_number("by the client: keep-alive probes")]
    broker_keep_alives: Annotated[int | None, _nullable_number("by the broker: keep-alive probes")]
    client_resets: Annotated[int | None, _nullable_number("by the client: packets with RST")]
    broker_resets: Annotated[int | None, _nullable_number("by the broker: packets with RST")]
    client_fins: Annotated[int | None, _nullable_number("by the client: packets with FIN")]
    broker_fins: Annotated[int | None, _nullable_number("by the broker: packets with FIN")]
    client_syn_retransmissions: Annotated[
        int | None, _nullable_number("by the client: SYNs after the first")
    ]
    broker_syn_retransmissions: Annotated[
        int | None, _nullable_number("by the broker: SYNs after the first")
    ]
    decoded_bytes: Annotated[
        int | None, _nullable_number("bytes of Kafka frames whose body was decoded to the end", "B")
    ]
    skipped_bytes: Annotated[
        int | None, _nullable_number("bytes skipped in the search for a frame boundary", "B")
    ]
    tls_decrypted: Annotated[
        bool | None,
        Meaning("bool", "whether its TLS could be decrypted; null without TLS", nullable=True),
    ]
    tls_version: Annotated[
        str | None, _nullable_text("version that the server chose, such as TLS 1.3")
    ]
    tls_cipher_suite: Annotated[
        str | None, _nullable_text("cipher suite that the server chose, by IANA's name")
    ]
    tls_server_name: Annotated[str | None, _nullable_text("server name that the client sent (SNI)")]
    tls_alpn: Annotated[
        str | None, _nullable_text("protocol that the server chose (ALPN); TLS 1.3 encrypts it")
    ]
    tls_offered_versions: Annotated[
        list[str],
        Meaning(
            "list<string>", "versions that the client offers; empty if its ClientHello was not seen"
        ),
    ]
    tls_offered_alpn: Annotated[
        list[str], Meaning("list<string>", "protocols that the client offers (ALPN)")
    ]
    tls_handshake_ns: Annotated[
        int | None,
        _nullable_number(
            "from the ClientHello to the last Finished; in TLS 1.3 that is not decrypted, to the "
            "client's first encrypted record; null if the handshake was not seen or failed",
            "ns",
        ),
    ]
    tls_resumed: Annotated[
        bool | None,
        Meaning("bool", "whether an earlier session was resumed; null if not seen", nullable=True),
    ]
    tls_certificate_requested: Annotated[
        bool | None,
        Meaning(
            "bool",
            "whether the broker asked for a certificate of the client; null if not seen (TLS 1.3 "
            "encrypts it), or if a session was resumed",
            nullable=True,
        ),
    ]
    tls_mutual: Annotated[
        bool | None,
        Meaning("bool", "whether the client sent a certificate; null if not seen", nullable=True),
    ]
    tls_certificate_subject: Annotated[
        str | None,
        _nullable_text(
            "subject of the broker's certificate; null if it was not seen (TLS 1.3 encrypts it)"
        ),
    ]
    tls_certificate_issuer: Annotated[
        str | None, _nullable_text("issuer of the broker's certificate")
    ]
    tls_certificate_not_after_ns: Annotated[
        int | None, _nullable_time("time of expiry of the broker's certificate")
    ]
    tls_client_certificate_subject: Annotated[
        str | None, _nullable_text("subject of the client's certificate; null if none was seen")
    ]
    tls_client_certificate_issuer: Annotated[
        str | None, _nullable_text("issuer of the client's certificate")
    ]
    tls_client_certificate_not_after_ns: Annotated[
        int | None, _nullable_time("time of expiry of the client's certificate")
    ]
    tls_alerts: Annotated[
        list[str],
        Meaning(
            "list<string>",
            "the first 16 alerts: the end that sent it, its level, its name; encrypted if it "
            "cannot be read",
        ),
    ]
    tls_failure: Annotated[
        str | None,
        _nullable_text(
            "why the handshake or the session failed: the name of an alert, encrypted, closed "
            "(without an alert), plaintext_on_tls_port, tls_on_plaintext_port; null if no failure "
            "was seen"
        ),
    ]
    tls_failed_by: Annotated[
        End | None,
        Meaning(
            "string",
            "client or broker: the end that sent that alert, or that closed the connection",
            nullable=True,
        ),
    ]
    client_tls_records: Annotated[int | None, _nullable_number("by the client: TLS records")]
    broker_tls_records: Annotated[int | None, _nullable_number("by the broker: TLS records")]
    client_tls_bytes: Annotated[
        int | None,
        _nullable_number("by the client: bytes of these records, with their headers", "B"),
    ]
    broker_tls_bytes: Annotated[
        int | None,
        _nullable_number("by the broker: bytes of these records, with their headers", "B"),
    ]
    estimated_requests: Annotated[
        int | None,
        _nullable_number(
            "estimated from the encrypted records: how often data of the client was followed by "
            "data of the broker; null without TLS, or if the client is unknown"
        ),
    ]
    estimated_response_time_median_ns: Annotated[
        int | None,
        _nullable_number(
            "estimated: median time from such data of the client to that of the broker, like "
            "latency_ns of requests",
            "ns",
        ),
    ]
    estimated_response_time_p99_ns: Annotated[
        int | None, _nullable_number("estimated: 99th percentile of the same time", "ns")
    ]
    proxy: Annotated[str | None, PROXY]
    proxied_client_ip: Annotated[str | None, PROXIED_CLIENT_IP]
    proxied_client_port: Annotated[int | None, PROXIED_CLIENT_PORT]
    proxied_target: Annotated[str | None, PROXIED_TARGET]
    broker_rtt_ns: Annotated[
        int | None,
        _nullable_number(
            "network from the capture point to the broker and back: the shortest round trip, "
            "handshake included; null if every acknowledgment may have been delayed",
            "ns",
        ),
    ]
    client_rtt_ns: Annotated[
        int | None,
        _nullable_number(
            "network from the capture point to the client and back: the shortest round trip, "
            "handshake included; null if every acknowledgment may have been delayed",
            "ns",
        ),
    ]


CONNECTION_COLUMNS: tuple[Column, ...] = columns_of(ConnectionRow)
"""The columns of :class:`ConnectionRow`, in the order of its fields."""


def connection_row(
    tcp: "TcpConnection",
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


def _handshake(tcp: "TcpConnection", client_index: int) -> dict[str, int | None]:
    measures = tcp.measures
    if measures is None:
        return dict.fromkeys(_HANDSHAKE)
    halves = (measures.answer_rtt_ns, measures.opener_rtt_ns)
    # The first half is the round trip to the end that did not open the connection.
    broker_ns, client_ns = halves if measures.opened_by == client_index else halves[::-1]
    figures = (measures.handshake_rtt_ns, broker_ns, client_ns)
    return dict(zip(_HANDSHAKE, figures, strict=True))


_HANDSHAKE = ("handshake_rtt_ns", "broker_handshake_rtt_ns", "client_handshake_rtt_ns")


def _round_trips(tcp: "TcpConnection", client_index: int) -> dict[str, int | None]:
    broker: RoundTrips | None = None
    client: RoundTrips | None = None
    if tcp.measures is not None:
        # The broker acknowledges what the client sends.
        broker = tcp.measures.round_trips[client_index]
        client = tcp.measures.round_trips[1 - client_index]
    return {**_leg("broker", broker), **_leg("client", client)}


def _network(tcp: "TcpConnection", client_index: int) -> dict[str, int | str | None]:
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


def _leg(end: End, trips: "RoundTrips | None") -> dict[str, int | None]:
    return {
        f"{end}_rtt_min_ns": None if trips is None else trips.least_ns,
        f"{end}_rtt_mean_ns": None if trips is None else trips.mean_ns,
        f"{end}_rtt_max_ns": None if trips is None else trips.most_ns,
        f"{end}_rtt_samples": None if trips is None else trips.samples,
    }


def _counters(tcp: "TcpConnection", client_index: int) -> dict[str, int | None]:
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
