"""JSON Schema of what a report says of its captures: how much they hold, and could be read.

In: nothing. Out: :data:`QUALITY`. This module must not know how anything is counted.
"""

from __future__ import annotations

from kanalyze.queries.json_schema.parts import (
    by_name,
    count,
    listed,
    number,
    struct,
    time_ns,
)

__all__ = ["QUALITY"]

_NO_PACKETS = "there are no packets"
_TIMES = count("how many")

_FIELDS = {
    "captures": listed("the inputs as given, in order, each once", {"type": "string"}),
    "packets": count("packets of all kinds"),
    "captured_bytes": count("packets as captured, link headers included", unit="B"),
    "wire_bytes": count("the same as they were on the wire", unit="B"),
    "first_time_ns": time_ns("of the earliest packet", null=_NO_PACKETS),
    "last_time_ns": time_ns("of the latest packet", null=_NO_PACKETS),
    "dropped_packets": count(
        "packets that the capturing side says it lost, summed over the inputs that say it",
        null="none of them says it",
    ),
    "interfaces": by_name(
        "interfaces with a name or a filter, as captures describe them, and how often they do: "
        "100; other: those beyond",
        _TIMES,
    ),
    "comments": by_name(
        "comments on captures and interfaces, and how often they stand there: 100; other: those "
        "beyond",
        _TIMES,
    ),
    "packet_comments": count("comments on packets"),
    "tcp_packets": count("packets that hold a TCP segment; one put together of fragments is one"),
    "not_tcp_packets": count("packets of other protocols"),
    "unreadable_packets": count("packets whose link, IP or TCP header made no sense"),
    "other_packets": by_name("packets that are read no further, by protocol", _TIMES),
    "tunnels": by_name("TCP segments in tunnels, by kind; one in two tunnels counts twice", _TIMES),
    "fragment_packets": count("IP fragments of what may hold TCP"),
    "lost_datagrams": count("IP packets of which not all fragments were captured"),
    "connections": count("TCP connections: the sum of the next three"),
    "kafka_connections": count("of these, Kafka"),
    "tls_connections": count("of these, TLS"),
    "other_connections": count("of these, anything else"),
    "other_protocols": by_name(
        "connections that are not Kafka, by what they look like; none: those without payload",
        _TIMES,
    ),
    "payload_bytes": count("TCP payload, every byte of a stream once", unit="B"),
    "kafka_bytes": count("of these, on Kafka connections", unit="B"),
    "decoded_bytes": count("of these, in frames whose body was read to its end", unit="B"),
    "undecoded_bytes": count("of kafka_bytes, in frames whose body was not", unit="B"),
    "skipped_bytes": count("passed over while looking for a frame boundary", unit="B"),
    "lost_bytes": count("never captured: gaps in the streams of connections that ended", unit="B"),
    "snapped_bytes": count("cut off by the snap length", unit="B"),
    "retransmitted_bytes": count("payload that was sent again", unit="B"),
    "duplicate_bytes": count("payload captured more than once, without the first", unit="B"),
    "network_duplicate_bytes": count("of these, doubled by the network", unit="B"),
    "refused_connections": count("connections whose SYN got a RST"),
    "refused_by": by_name("the same by IP:PORT that refused; other: beyond 1,000", _TIMES),
    "unanswered_connections": count("connections whose SYN was sent again and never answered"),
    "unanswered_by": by_name("the same by IP:PORT that did not; other: beyond 1,000", _TIMES),
    "out_of_order_packets": count("packets that came in another order than they were sent"),
    "late_packets": count("packets that came after their connection had ended; not read"),
    "late_bytes": count("payload of these; not read", unit="B"),
    "out_of_window_packets": count(
        "packets whose sequence number does not fit their connection; not read"
    ),
    "out_of_window_bytes": count("payload of these; not read", unit="B"),
    "before_start_bytes": count(
        "payload from before the first byte seen of a connection; not read", unit="B"
    ),
    "anomalies": by_name(
        "what is missing or wrong in the input, by kind, as kanalyze anomalies lists it",
        struct(
            "one kind",
            {
                "count": count("how often"),
                "bytes": count("bytes concerned; 0 where a kind concerns none", unit="B"),
            },
        ),
    ),
    "unread_ports": by_name(
        "connections on ports of Kafka brokers that were not recognised, by port",
        struct(
            "one port",
            {
                "connections": count("connections"),
                "packets": count("their packets"),
                "bytes": count("their payload", unit="B"),
            },
        ),
    ),
    "decoded_share": {
        **number("decoded_bytes of kafka_bytes, rounded down", null="there are no Kafka bytes"),
        "minimum": 0,
        "maximum": 1,
    },
}

QUALITY = struct("how much of the traffic the captures hold, and how much could be read", _FIELDS)
