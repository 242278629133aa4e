"""JSON Schema of the quality of captures in a report: how complete, and how much could be decoded.

In: nothing. Out: :data:`QUALITY`.
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
    "captures": listed("the inputs as given, in order, without repetition", {"type": "string"}),
    "packets": count("packets of all kinds"),
    "captured_bytes": count("packets as captured, link headers included", unit="B"),
    "wire_bytes": count("the same as they were on the wire", unit="B"),
    "first_time_ns": time_ns("time of the earliest packet", null=_NO_PACKETS),
    "last_time_ns": time_ns("time of the latest packet", null=_NO_PACKETS),
    "dropped_packets": count(
        "packets that the capturing program reports as dropped, summed over the inputs that do",
        null="no input reports it",
    ),
    "interfaces": by_name(
        "interfaces with a name or a filter as described in the captures, with the number of "
        "descriptions: up to 100; other: the rest",
        _TIMES,
    ),
    "comments": by_name(
        "comments on captures and interfaces, with their number: up to 100; other: the rest",
        _TIMES,
    ),
    "packet_comments": count("comments on packets"),
    "tcp_packets": count("packets with a TCP segment; one in several fragments counts once"),
    "not_tcp_packets": count("packets of other protocols"),
    "unreadable_packets": count("packets with a malformed link, IP or TCP header"),
    "other_packets": by_name("packets that are not analysed, by protocol", _TIMES),
    "tunnels": by_name("TCP segments in tunnels, by kind; one in two tunnels counts twice", _TIMES),
    "fragment_packets": count("IP fragments of datagrams that may contain TCP"),
    "lost_datagrams": count("IP datagrams of which some fragments were not captured"),
    "connections": count("TCP connections: the sum of the next three"),
    "kafka_connections": count("of these, Kafka"),
    "tls_connections": count("of these, TLS"),
    "other_connections": count("of these, anything else"),
    "other_protocols": by_name(
        "connections that are not Kafka, by their likely protocol; none: without payload",
        _TIMES,
    ),
    "payload_bytes": count("TCP payload; each byte of a stream counts once", unit="B"),
    "kafka_bytes": count("of these, on Kafka connections", unit="B"),
    "decoded_bytes": count(
        "of these, in frames whose body was decoded, without bytes left over after it", unit="B"
    ),
    "undecoded_bytes": count(
        "of kafka_bytes, in frames whose body was not, or left over after a body (up to four zero "
        "bytes are padding, and decoded)",
        unit="B",
    ),
    "record_batches": count(
        "batches of records, and messages of older formats, without cut ones; 0: not checked"
    ),
    "checked_batches": count("of these, compared with their CRC: all bytes were captured"),
    "wrong_batches": count("of these, with another CRC"),
    "skipped_bytes": count("skipped in the search for a frame boundary", unit="B"),
    "lost_bytes": count("never captured: gaps in the streams of closed connections", unit="B"),
    "snapped_bytes": count("cut off by the snap length", unit="B"),
    "retransmitted_bytes": count("payload that was sent again", unit="B"),
    "duplicate_bytes": count("payload in additional copies of packets in the capture", unit="B"),
    "network_duplicate_bytes": count("of these, duplicated by the network", unit="B"),
    "refused_connections": count("connections whose SYN was answered by a RST"),
    "refused_by": by_name("the same by IP:PORT that refused; other: all after 1,000", _TIMES),
    "unanswered_connections": count("connections whose SYN was sent again and never answered"),
    "unanswered_by": by_name(
        "the same by IP:PORT that did not answer; other: all after 1,000", _TIMES
    ),
    "out_of_order_packets": count("packets that arrived in another order than they were sent"),
    "late_packets": count("packets after the end of their connection; not read"),
    "late_bytes": count("payload of these; not read", unit="B"),
    "out_of_window_packets": count(
        "packets whose sequence number is outside the window of their connection; not read"
    ),
    "out_of_window_bytes": count("payload of these; not read", unit="B"),
    "untimed_packets": count(
        "packets without a time, such as those in pcapng's Simple Packet Blocks; what they are "
        "part of has no times and no latencies"
    ),
    "before_start_bytes": count(
        "payload before the first byte seen of a connection; not read", unit="B"
    ),
    "tls_outcomes": by_name(
        "connections with TLS by what became of them where keys were given: decrypted (in part at "
        "least), or why not; empty without keys",
        _TIMES,
    ),
    "anomalies": by_name(
        "what is missing or wrong in the input, by kind, as kanalyze anomalies lists it",
        struct(
            "one kind",
            {
                "count": count("how often"),
                "bytes": count("bytes concerned; 0 for kinds without bytes", unit="B"),
            },
        ),
    ),
    "unread_ports": by_name(
        "connections to ports of Kafka brokers that were not recognised as Kafka, by port",
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
        **number("ratio of decoded_bytes to kafka_bytes, rounded down", null="no Kafka bytes"),
        "minimum": 0,
        "maximum": 1,
    },
}

QUALITY = struct("how complete the captures are, and how much could be decoded", _FIELDS)
