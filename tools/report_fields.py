"""What a report is beside its tables: each of its figures, once.

In: nothing. Out: :func:`report_fields`, the whole report, :data:`FINDING`, and :data:`MORE_SHARED`,
what reports and comparisons have. The JSON Schema of a report is made from these.
"""

from __future__ import annotations

from kanalyze.spec.fields import JsonField, fields_of
from kanalyze.spec.report import FAILED, SHARED, TABLES

__all__ = ["FINDING", "MORE_SHARED", "report_fields"]

_UTC = "ISO 8601, in UTC, with nanoseconds"
MORE_SHARED = {
    **SHARED,
    "captures": "captures texts the inputs as given, in order, without repetition",
    "packets": """
        packets count packets of all kinds
        captured_bytes count[B] packets as captured, link headers included
        wire_bytes count[B] the same as they were on the wire
    """,
    "first_time_ns": """
        first_time_ns time? time of the earliest packet; null: there are no packets
    """,
    "last_time_ns": """
        last_time_ns time? time of the latest packet; null: there are no packets
    """,
    "times": f"""
        ...first_time_ns
        first_time text? the same, {_UTC}; null: there are no packets
        ...last_time_ns
        last_time text? the same, {_UTC}; null: there are no packets
        duration_ns integer[ns]? from the first packet to the last; null: there are no packets
    """,
    "dropped_packets": """
        dropped_packets count? packets that the capturing program reports as dropped, summed over \
            the inputs that do; null: no input reports it
    """,
    "filter": f"""
        filter object the filter of the rows; conditions that are not there were not given. \
            capture and quality are about all packets that were read, everything else is about \
            the rows that match
            api? texts names of APIs, or their numbers
            client_id? texts client ids; * and ? stand for any text
            principal? texts users that have logged in; * and ? stand for any text
            client_ip? texts addresses or networks of clients
            broker? texts brokers, as IP or IP:PORT
            port? integers TCP ports of brokers
            client_app? texts applications of clients, by the names of addresses
            zone? texts zones of clients, by the names of addresses
            topic? texts topics; * and ? stand for any text
            partition? texts partitions, as N or TOPIC-N
            group? texts consumer groups; * and ? stand for any text
            connection? texts connections, or the clients' ends of connections
            packet? integers numbers of packets that requests or responses begin in
            correlation_id? integers correlation ids
            anomaly? texts kinds of anomalies that requests have
            status? texts statuses of rows
            error? texts names of error codes in the response
            errors? bool only requests with an error code, or whose response was not read; never \
                false
            slower_than_ns? count[ns] only requests with a longer latency
            since? text begun at this time or later, {_UTC}
            until? text begun before this time, {_UTC}
            host? texts only packets of these addresses or networks (kanalyze live)
            filter? text only packets that match this tcpdump filter (kanalyze live)
    """,
    "failed_queries": """
        failed_queries? list(one query) queries that failed, each of which costs what it would \
            have answered; missing if there are none
            kind text(table|finding|page|comparison) what it is for
            name text its name
            reason text what the database said, in one line
    """,
    "names": """
        names? map(one address) what is known of the addresses in it; missing without names of \
            addresses
            name text? of a pod, a host; null: unknown
            app text? application; null: unknown
            zone text? zone; null: unknown
    """,
    "span": """
        start_ns time? beginning of the first bucket; null: there are no rows
        bucket_ns count[ns] length of a bucket
    """,
}
"""Lines that reports and comparisons have, those of several tables too."""
FINDING = fields_of(
    """
finding object one thing that is wrong
    name text the kind of finding: the name of its query
    title text what is wrong, in general
    severity count(0..100) 0 to 100; higher is worse
    what text what was seen: the figures, as a sentence
    weight number higher is worse, among findings of one kind, which has its own unit
    sure text how certain it is
    why text why it matters
    repair text how to repair it
    concerns object whom it concerns; concerns that do not apply are missing
        client_id? text client id
        client_ip? text address of the client
        api_name? text API
        topic? text topic
        group_id? text consumer group
        error_name? text name of the error code
        broker? text broker, as IP:PORT
    first_time_ns time? when it was first seen; null: it has no time
    last_time_ns time? when it was last seen; null: it has no time
    first_packet count? number of a packet to begin with, from 1; null: none
    command text(requests|connections|anomalies) the command of kanalyze that shows its rows
    options texts options of that command
    see texts sections of the report for people that show more of it
    cause object? the finding that explains it, which comes before it; null: no known cause
        name text its kind
        number count its number in this list, from 1
    first_capture text? the capture that first_packet is in; null: none, or unknown
"""
)[0]
_NO_LATENCY = "no request began in the bucket that was answered and did not wait on purpose"
_HEAD = f"""
schema constant(1) version of this schema
kanalyze_version text version of kanalyze that wrote it
capture object what was captured, and when
    ...captures
    ...packets
    ...times
    ...dropped_packets
...filter
quality object how complete the captures are, and how much could be decoded
    ...captures
    ...packets
    ...first_time_ns
    ...last_time_ns
    ...dropped_packets
    interfaces map interfaces with a name or a filter as described in the captures, \
        with the number of descriptions: up to 100; other: the rest
    comments map comments on captures and interfaces, with their number: up to 100; \
        other: the rest
    packet_comments count comments on packets
    tcp_packets count packets with a TCP segment; one in several fragments counts once
    not_tcp_packets count packets of other protocols
    unreadable_packets count packets with a malformed link, IP or TCP header
    other_packets map packets that are not analysed, by protocol
    tunnels map TCP segments in tunnels, by kind; one in two tunnels counts twice
    fragment_packets count IP fragments of datagrams that may contain TCP
    lost_datagrams count IP datagrams of which some fragments were not captured
    connections count TCP connections: the sum of the next three
    kafka_connections count of these, Kafka
    tls_connections count of these, TLS
    other_connections count of these, anything else
    other_protocols map connections that are not Kafka, by their likely protocol; \
        none: without payload
    payload_bytes count[B] TCP payload; each byte of a stream counts once
    kafka_bytes count[B] of these, on Kafka connections
    decoded_bytes count[B] of these, in frames whose body was decoded, without bytes left \
        over after it
    undecoded_bytes count[B] of kafka_bytes, in frames whose body was not, or left over after \
        a body (up to four zero bytes are padding, and decoded)
    record_batches count batches of records, and messages of older formats, without cut ones; \
        0: not checked
    checked_batches count of these, compared with their CRC: all bytes were captured
    wrong_batches count of these, with another CRC
    skipped_bytes count[B] skipped in the search for a frame boundary
    lost_bytes count[B] never captured: gaps in the streams of closed connections
    snapped_bytes count[B] cut off by the snap length
    retransmitted_bytes count[B] payload that was sent again
    duplicate_bytes count[B] payload in additional copies of packets in the capture
    network_duplicate_bytes count[B] of these, duplicated by the network
    refused_connections count connections whose SYN was answered by a RST
    refused_by map the same by IP:PORT that refused; other: all after 1,000
    unanswered_connections count connections whose SYN was sent again and never answered
    unanswered_by map the same by IP:PORT that did not answer; other: all after 1,000
    out_of_order_packets count packets that arrived in another order than they were sent
    late_packets count packets after the end of their connection; not read
    late_bytes count[B] payload of these; not read
    out_of_window_packets count packets whose sequence number is outside the window of their \
        connection; not read
    out_of_window_bytes count[B] payload of these; not read
    untimed_packets count packets without a time, such as those in pcapng's Simple Packet \
        Blocks; what they are part of has no times and no latencies
    before_start_bytes count[B] payload before the first byte seen of a connection; not read
    tls_outcomes map connections with TLS by what became of them where keys were \
        given: decrypted (in part at least), or why not; empty without keys
    anomalies map(one kind) what is missing or wrong in the input, by kind, as kanalyze \
        anomalies lists it
        count count how often
        bytes count[B] bytes concerned; 0 for kinds without bytes
    unread_ports map(one port) connections to ports of Kafka brokers that were not recognised \
        as Kafka, by port
        connections count connections
        packets count their packets
        bytes count[B] their payload
    decoded_share number(0..1)? ratio of decoded_bytes to kafka_bytes, rounded down; null: no \
        Kafka bytes
totals object? all rows together; null: {FAILED}
    rows count requests, and responses without one
    requests count requests
    responses count responses
    ok count rows with status ok
    error count rows with status error: a response with an error code other than 0
    one_way count rows with status one_way: no response is due
    unanswered count rows with status unanswered
    orphan_response count rows with status orphan_response: the request was not captured
    malformed count rows with status malformed
    unread count of malformed, those with a response whose error codes were not read: they \
        are unknown
    ...bytes
    ...produced_records
    produced_record_bytes count[B] the same
    ...produced_known
    refused_records count records sent and answered with an error; not in produced_records
    acknowledged_records count of produced_records, answered without an error
    acknowledged_record_bytes count[B] the same
    unanswered_records count of produced_records, without a response: written or not
    one_way_records count of produced_records, sent with acks=0
    ...fetched_records
    fetched_record_bytes count[B] the same
    ...fetched_known
    ...throttling
"""
_SERIES = f"""
throughput object? requests and bytes over time; null: {FAILED}
    ...span
    requests series(count) requests that began
    errors series(count) responses with an error that began
    request_bytes series(count)[B] bytes of requests that began
    response_bytes series(count)[B] bytes of responses that began
latency object? latency over time; null: {FAILED}
    ...span
    p50 series(integer)[ns]? median of the latency; null: {_NO_LATENCY}
    p90 series(integer)[ns]? 90th percentile of the latency; null: {_NO_LATENCY}
    p99 series(integer)[ns]? 99th percentile of the latency; null: {_NO_LATENCY}
    max series(integer)[ns]? longest latency; null: {_NO_LATENCY}
"""
_END = """
limited texts names of the tables with a line of others
findings list findings, the most severe first, each with the findings that it explains behind it
    - @finding one thing that is wrong
...failed_queries
...names
findings_left_out? texts kinds of findings that were not searched for, because they need all \
    requests and a filter left some out, or because they need a table that is missing; missing if \
    there are none
findings_span? object the requests that the last run of an archive searched for findings: those \
    before are as earlier runs found them; missing if all were searched
    first_time_ns time when the first of these requests or of their responses began
    last_time_ns time when the last of them began
"""


def report_fields() -> tuple[JsonField, ...]:
    """Return the fields of a report, in the order in which JSON has them."""
    *tables, slowest = (table.field for table in TABLES.values())
    return (
        *fields_of(_HEAD, MORE_SHARED),
        *tables,
        *fields_of(_SERIES, MORE_SHARED),
        slowest,
        *fields_of(_END, MORE_SHARED),
    )
