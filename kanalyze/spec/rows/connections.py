"""The row contract of TCP connections, of any protocol: one row per connection.

In: nothing. Out: :class:`ConnectionRow` and :data:`CONNECTION_COLUMNS`.

Most columns come in pairs, one for each end: the end that sent the packets. Round trips are
measured at the capture point: ``broker_rtt`` from there to the broker and back, ``client_rtt`` from
there to the client and back. If the capture was made at one end, the round trip to that end is
close to 0.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from typing import Annotated, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import Bytes, Column, Int32, Int64, Nanoseconds, Time, columns_of
from kanalyze.spec.rows.requests import (
    CapturePoint,
    ClientId,
    Connection,
    ConnectionEnd,
    ConnectionNumber,
    Principal,
    ProxiedClientIp,
    ProxiedClientPort,
    ProxiedTarget,
    Proxy,
)

End: TypeAlias = Literal["client", "broker"]

_HandshakeRtt: TypeAlias = Annotated[
    Nanoseconds | None, "part of handshake_rtt_ns: from the capture point to the {end} and back"
]
_RttMin: TypeAlias = Annotated[
    Nanoseconds | None, "shortest of the round trips in {end}_rtt_mean_ns"
]
_RttMean: TypeAlias = Annotated[
    Nanoseconds | None,
    "mean time from the capture point to the {end} and back: from data of the {other} to its "
    "acknowledgment, including delayed acknowledgments, which are no measure of the network "
    "({end}_rtt_ns is)",
]
_RttMax: TypeAlias = Annotated[
    Nanoseconds | None, "longest of the round trips in {end}_rtt_mean_ns"
]
_Packets: TypeAlias = Annotated[Int64, "by the {end}: packets captured, every copy counted"]
_PayloadBytes: TypeAlias = Annotated[
    Bytes, "by the {end}: TCP payload captured, every copy counted"
]
_DuplicatePackets: TypeAlias = Annotated[
    Int64 | None,
    "by the {end}: additional copies of packets in the capture; if these are few, the network "
    "duplicated them",
]
_DuplicateBytes: TypeAlias = Annotated[
    Bytes, "by the {end}: TCP payload in additional copies of packets in the capture"
]
_RetransmittedPackets: TypeAlias = Annotated[
    Int64 | None, "by the {end}: packets whose payload had been seen before, at least in part"
]
_RetransmittedBytes: TypeAlias = Annotated[
    Bytes, "by the {end}: TCP payload that had been seen before"
]
_OutOfOrderPackets: TypeAlias = Annotated[
    Int64,
    "by the {end}: packets whose payload precedes payload seen before: captured in another "
    "order, or retransmitted after a loss before the capture point",
]
_LostBytes: TypeAlias = Annotated[Bytes, "by the {end}: sent but not in the capture"]
_SnappedBytes: TypeAlias = Annotated[Bytes, "by the {end}: cut off by the snap length"]
_ZeroWindows: TypeAlias = Annotated[
    Int64 | None, "by the {end}: packets with a receive window of 0"
]
_KeepAlives: TypeAlias = Annotated[Int64 | None, "by the {end}: keep-alive probes"]
_Resets: TypeAlias = Annotated[Int64 | None, "by the {end}: packets with RST"]
_Fins: TypeAlias = Annotated[Int64 | None, "by the {end}: packets with FIN"]
_SynRetransmissions: TypeAlias = Annotated[Int64 | None, "by the {end}: SYNs after the first"]
_TlsRecords: TypeAlias = Annotated[Int64 | None, "by the {end}: TLS records"]
_TlsBytes: TypeAlias = Annotated[
    Bytes | None, "by the {end}: bytes of these records, with their headers"
]
_Rtt: TypeAlias = Annotated[
    Nanoseconds | None,
    "network from the capture point to the {end} and back: the shortest round trip, handshake "
    "included; null if every acknowledgment may have been delayed",
]
"""Columns that both ends have: ``{end}`` is the end that the name of the column begins with."""


class ConnectionRow(NamedTuple):
    """One TCP connection, from its first packet to its last."""

    capture: Annotated[str, "the input with the first packet; live:IFACE for an interface"]
    connection: Connection
    connection_number: ConnectionNumber
    client_ip: Annotated[str, "IP address of the client"]
    client_port: Annotated[Int32, "TCP port of the client"]
    broker_ip: Annotated[str, "IP address of the broker, or another server"]
    broker_port: Annotated[Int32, "TCP port of the broker, or another server"]
    client_known: Annotated[
        bool,
        "false: unknown; then the end that other connections go to counts as the broker, else "
        "the end with the lower port",
    ]
    protocol: Annotated[str, "the protocol: kafka, kafka-0.7, tls, http, ..., or unknown"]
    client_id: ClientId
    client_software_name: Annotated[str | None, "from ApiVersions v3+"]
    client_software_version: Annotated[str | None, "from ApiVersions v3+"]
    principal: Principal
    requests: Annotated[Int64 | None, "Kafka requests seen; null if it is not read as Kafka"]
    first_packet: Annotated[
        Int64 | None, "number in the capture, from 1, of the first packet; null if unknown"
    ]
    start_ns: Annotated[Time | None, "time of the first packet; null if it has none"]
    end_ns: Annotated[Time | None, "time of the last packet; null if no packet has one"]
    duration_ns: Annotated[Nanoseconds | None, "end_ns - start_ns"]
    opened_by: Annotated[
        End | None,
        "client or broker: the end that sent the first SYN; null if the capture began later",
    ]
    closed_by: Annotated[
        End | None,
        "client or broker: the end that sent the first FIN or RST; null if none was seen",
    ]
    closed_ns: Annotated[Time | None, "time of the first FIN or RST; null if none was seen"]
    end: Annotated[
        ConnectionEnd,
        "fin (both ends closed), reset, open (the capture ended first), reused (a new "
        "connection has the same ports), limit (too many were open; a later row continues it), "
        "idle (no packets for long, only in kanalyze live; a later row continues it)",
    ]
    handshake_rtt_ns: Annotated[
        Nanoseconds | None,
        "from the SYN to the acknowledgment of its SYN-ACK; null if one of the three packets "
        "was not seen or a SYN was sent again",
    ]
    broker_handshake_rtt_ns: _HandshakeRtt
    broker_rtt_min_ns: _RttMin
    broker_rtt_mean_ns: _RttMean
    broker_rtt_max_ns: _RttMax
    broker_rtt_samples: Annotated[
        Int64 | None, "number of round trips; retransmitted data is not measured"
    ]
    client_handshake_rtt_ns: _HandshakeRtt
    client_rtt_min_ns: _RttMin
    client_rtt_mean_ns: _RttMean
    client_rtt_max_ns: _RttMax
    client_rtt_samples: Annotated[
        Int64 | None, "number of round trips; retransmitted data is not measured"
    ]
    capture_point: CapturePoint
    client_packets: _Packets
    broker_packets: _Packets
    client_payload_bytes: _PayloadBytes
    broker_payload_bytes: _PayloadBytes
    client_duplicate_packets: _DuplicatePackets
    broker_duplicate_packets: _DuplicatePackets
    client_duplicate_bytes: _DuplicateBytes
    broker_duplicate_bytes: _DuplicateBytes
    client_retransmitted_packets: _RetransmittedPackets
    broker_retransmitted_packets: _RetransmittedPackets
    client_retransmitted_bytes: _RetransmittedBytes
    broker_retransmitted_bytes: _RetransmittedBytes
    client_out_of_order_packets: _OutOfOrderPackets
    broker_out_of_order_packets: _OutOfOrderPackets
    client_lost_bytes: _LostBytes
    broker_lost_bytes: _LostBytes
    client_snapped_bytes: _SnappedBytes
    broker_snapped_bytes: _SnappedBytes
    client_zero_windows: _ZeroWindows
    broker_zero_windows: _ZeroWindows
    client_keep_alives: _KeepAlives
    broker_keep_alives: _KeepAlives
    client_resets: _Resets
    broker_resets: _Resets
    client_fins: _Fins
    broker_fins: _Fins
    client_syn_retransmissions: _SynRetransmissions
    broker_syn_retransmissions: _SynRetransmissions
    decoded_bytes: Annotated[
        Bytes | None, "bytes of Kafka frames whose body was decoded to the end"
    ]
    skipped_bytes: Annotated[Bytes | None, "bytes skipped in the search for a frame boundary"]
    tls_decrypted: Annotated[bool | None, "whether its TLS could be decrypted; null without TLS"]
    tls_version: Annotated[str | None, "version that the server chose, such as TLS 1.3"]
    tls_cipher_suite: Annotated[str | None, "cipher suite that the server chose, by IANA's name"]
    tls_server_name: Annotated[str | None, "server name that the client sent (SNI)"]
    tls_alpn: Annotated[str | None, "protocol that the server chose (ALPN); TLS 1.3 encrypts it"]
    tls_offered_versions: Annotated[
        list[str], "versions that the client offers; empty if its ClientHello was not seen"
    ]
    tls_offered_alpn: Annotated[list[str], "protocols that the client offers (ALPN)"]
    tls_handshake_ns: Annotated[
        Nanoseconds | None,
        "from the ClientHello to the last Finished; in TLS 1.3 that is not decrypted, to the "
        "client's first encrypted record; null if the handshake was not seen or failed",
    ]
    tls_resumed: Annotated[bool | None, "whether an earlier session was resumed; null if not seen"]
    tls_certificate_requested: Annotated[
        bool | None,
        "whether the broker asked for a certificate of the client; null if not seen (TLS 1.3 "
        "encrypts it), or if a session was resumed",
    ]
    tls_mutual: Annotated[bool | None, "whether the client sent a certificate; null if not seen"]
    tls_certificate_subject: Annotated[
        str | None,
        "subject of the broker's certificate; null if it was not seen (TLS 1.3 encrypts it)",
    ]
    tls_certificate_issuer: Annotated[str | None, "issuer of the broker's certificate"]
    tls_certificate_not_after_ns: Annotated[
        Time | None, "time of expiry of the broker's certificate"
    ]
    tls_client_certificate_subject: Annotated[
        str | None, "subject of the client's certificate; null if none was seen"
    ]
    tls_client_certificate_issuer: Annotated[str | None, "issuer of the client's certificate"]
    tls_client_certificate_not_after_ns: Annotated[
        Time | None, "time of expiry of the client's certificate"
    ]
    tls_alerts: Annotated[
        list[str],
        "the first 16 alerts: the end that sent it, its level, its name; encrypted if it "
        "cannot be read",
    ]
    tls_failure: Annotated[
        str | None,
        "why the handshake or the session failed: the name of an alert, encrypted, closed "
        "(without an alert), plaintext_on_tls_port, tls_on_plaintext_port; null if no failure "
        "was seen",
    ]
    tls_failed_by: Annotated[
        End | None, "client or broker: the end that sent that alert, or that closed the connection"
    ]
    client_tls_records: _TlsRecords
    broker_tls_records: _TlsRecords
    client_tls_bytes: _TlsBytes
    broker_tls_bytes: _TlsBytes
    estimated_requests: Annotated[
        Int64 | None,
        "estimated from the encrypted records: how often data of the client was followed by "
        "data of the broker; null without TLS, or if the client is unknown",
    ]
    estimated_response_time_median_ns: Annotated[
        Nanoseconds | None,
        "estimated: median time from such data of the client to that of the broker, like "
        "latency_ns of requests",
    ]
    estimated_response_time_p99_ns: Annotated[
        Nanoseconds | None, "estimated: 99th percentile of the same time"
    ]
    proxy: Proxy
    proxied_client_ip: ProxiedClientIp
    proxied_client_port: ProxiedClientPort
    proxied_target: ProxiedTarget
    broker_rtt_ns: _Rtt
    client_rtt_ns: _Rtt


CONNECTION_COLUMNS: tuple[Column, ...] = columns_of(ConnectionRow)
"""The columns of :class:`ConnectionRow`, in the order of its fields."""
