"""JSON Schema of a report, with a description of each field, and of a finding.

In: nothing. Out: :data:`REPORT_SCHEMA`, :data:`FINDING_SCHEMA`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.queries.json_schema.parts import (
    by_name,
    document,
    integer,
    number,
    ref,
    struct,
    text,
    time_ns,
)

from kanalyze.common.argument_values import count, truth
from kanalyze.queries.json_schema.rows import schema_of
from kanalyze.render.phrases import listed
from kanalyze.spec.filters import FILTERS
from kanalyze.spec.rows.anomalies import QUALITY
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from kanalyze.queries.json_schema.parts import Schema

    from kanalyze.spec.filters import Filter

__all__ = ["EXTENT", "FAILED_QUERIES", "FILTER", "FINDING_SCHEMA", "REPORT_SCHEMA"]

_UTC = "ISO 8601, in UTC, with nanoseconds"
_FAILED = "its query failed: see failed_queries"
FAILED_QUERIES = listed(
    "queries that failed, each of which costs what it would have answered; missing if there are "
    "none",
    struct(
        "one query",
        {
            "kind": text("what it is for", choices=("table", "finding", "page", "comparison")),
            "name": text("its name"),
            "reason": text("what the database said, in one line"),
        },
    ),
)
_OTHERS = "the line sums up all that have no line of their own"
_NO_PACKETS = "there are no packets"

EXTENT = {
    "captures": listed("the inputs as given, in order, without repetition", {"type": "string"}),
    "packets": count("packets of all kinds"),
    "captured_bytes": count("packets as captured, link headers included", unit="B"),
    "wire_bytes": count("the same as they were on the wire", unit="B"),
    "first_time_ns": time_ns("time of the earliest packet", null=_NO_PACKETS),
    "first_time": text(f"the same, {_UTC}", null=_NO_PACKETS),
    "last_time_ns": time_ns("time of the latest packet", null=_NO_PACKETS),
    "last_time": text(f"the same, {_UTC}", null=_NO_PACKETS),
    "duration_ns": integer("from the first packet to the last", unit="ns", null=_NO_PACKETS),
    "dropped_packets": count(
        "packets that the capturing program reports as dropped, summed over the inputs that do",
        null="no input reports it",
    ),
}
"""What was captured, and when."""

_TEXT = {"type": "string"}


def _condition(row_filter: Filter) -> Schema:
    if row_filter.is_repeated:
        items = {"type": "integer"} if row_filter.name == "port" else _TEXT
        return listed(row_filter.meaning, items)
    if row_filter.value is None:
        return truth(row_filter.meaning)
    if row_filter.unit:
        return count(row_filter.meaning, unit=row_filter.unit)
    return text(row_filter.meaning)


_CONDITIONS = {
    **{each.field: _condition(each) for each in FILTERS.values()},
    "host": listed("only packets of these addresses or networks (kanalyze live)", _TEXT),
    "filter": text("only packets that match this tcpdump filter (kanalyze live)"),
}
FILTER = struct(
    "the filter of the rows; conditions that are not there were not given. capture and quality "
    "are about all packets that were read, everything else is about the rows that match",
    _CONDITIONS,
    optional=_CONDITIONS,
)

_NO_LATENCIES = "count is 0 or null"
_LATENCY = struct(
    "a summary of durations, exact if there are few; see sql/tables/quantiles.sql. A duration is "
    "negative if the response was captured before the request",
    {
        "count": count("durations", null=f"not computed, for {_OTHERS}"),
        "min": integer("the shortest", unit="ns", null=_NO_LATENCIES),
        "p50": integer("the median, by nearest rank", unit="ns", null=_NO_LATENCIES),
        "p90": integer("the 90th percentile", unit="ns", null=_NO_LATENCIES),
        "p99": integer("the 99th percentile", unit="ns", null=_NO_LATENCIES),
        "max": integer("the longest", unit="ns", null=_NO_LATENCIES),
        "mean": integer("the mean, rounded down", unit="ns", null=_NO_LATENCIES),
    },
)
_PARTS = {"latency_summary": _LATENCY}


def _latency(of: str = "requests that did not wait on purpose") -> Schema:
    return ref(
        "latency_summary", f"from the last byte of a request to its response's first, of {of}"
    )


def _total_time(of: str) -> Schema:
    return ref(
        "latency_summary", f"from the first byte of a request to its response's last, of {of}"
    )


_TOTALS = {
    "rows": count("requests, and responses without one"),
    "requests": count("requests"),
    "responses": count("responses"),
    "ok": count("rows with status ok"),
    "error": count("rows with status error: a response with an error code other than 0"),
    "one_way": count("rows with status one_way: no response is due"),
    "unanswered": count("rows with status unanswered"),
    "orphan_response": count("rows with status orphan_response: the request was not captured"),
    "malformed": count("rows with status malformed"),
    "unread": count(
        "of malformed, those with a response whose error codes were not read: they are unknown"
    ),
    "request_bytes": count("bytes of requests, with size prefixes", unit="B"),
    "response_bytes": count("bytes of responses, with size prefixes", unit="B"),
    "produced_records": count("records sent and not refused, as far as known"),
    "produced_record_bytes": count("the same", unit="B"),
    "produced_records_known": truth("false: there were more, which could not be counted"),
    "refused_records": count("records sent and answered with an error; not in produced_records"),
    "acknowledged_records": count("of produced_records, answered without an error"),
    "acknowledged_record_bytes": count("the same", unit="B"),
    "unanswered_records": count("of produced_records, without a response: written or not"),
    "one_way_records": count("of produced_records, sent with acks=0"),
    "fetched_records": count("records in responses, as far as known"),
    "fetched_record_bytes": count("the same", unit="B"),
    "fetched_records_known": truth("false: there were more, which could not be counted"),
    "throttled": count("responses with a throttle time above 0"),
    "throttle_time_ms": integer("sum of throttle times", unit="ms"),
}

_NO_REQUEST = "responses without a request"
_NO_RECORDS = "the API carries no records"
_COUNTS = {
    "requests": count("requests"),
    "errors": count("of these, with an error code other than 0 at any level of the response"),
    "request_bytes": count("bytes of requests, with size prefixes", unit="B"),
    "response_bytes": count("bytes of responses, with size prefixes", unit="B"),
}
_UNREAD = count("of these, with a response whose error codes were not read: they are unknown")
_WAITED = struct(
    "of these requests, those that the broker held back on purpose",
    {
        **_COUNTS,
        "record_count": count("records", null=_NO_RECORDS),
        "latency_ns": _latency("these"),
        "total_time_ns": _total_time("these"),
    },
)
_API = {
    "wire": text("the protocol", choices=("kafka", "kafka-0.7")),
    "api_key": integer("key of the API; in kafka-0.7 the request type", null=_NO_REQUEST),
    "api_name": text("its name in Kafka's definitions", null="unknown API, or no request"),
    "other": truth("always false: every API has a line"),
    "requests": _COUNTS["requests"],
    "responses": count("responses"),
    "versions": by_name(
        "requests by version; unknown: version unknown, other: all after the first 64",
        count("requests"),
    ),
    "statuses": by_name("rows by status; statuses without rows are missing", count("rows")),
    "errors": _COUNTS["errors"],
    "unread": _UNREAD,
    **{name: _COUNTS[name] for name in ("request_bytes", "response_bytes")},
    "record_count": count("records, without refused ones", null=_NO_RECORDS),
    "record_bytes": count("the same", unit="B", null=_NO_RECORDS),
    "record_count_known": truth(
        "false: there were more, which could not be counted", null=_NO_RECORDS
    ),
    "throttled": count("responses with a throttle time above 0"),
    "throttle_time_ms": integer("sum of throttle times", unit="ms"),
    "waited": _WAITED,
    "latency_ns": _latency(),
    "total_time_ns": _total_time("requests that did not wait on purpose"),
}

_CODE = integer("the error code, not 0", null=_OTHERS)
_CODE_NAME = text("its name in Kafka, such as NOT_LEADER_OR_FOLLOWER", null=_OTHERS)
_FIRST_TIME = time_ns("time of the first response with it")
_LAST_TIME = time_ns("time of the last response with it")
_API_NAME = text("the API", null="unknown API, or the request was not captured")
_OTHER = truth("whether the line sums up all that have no line of their own")
_CLIENT_ID = text("client id in the request", null="it has none, or " + _OTHERS)
_TOPIC = text("topic name", null="only the id is known, or there is no topic, or " + _OTHERS)
_TOPIC_ID = text("topic id in Kafka's URL-safe base64", null="the name is known, or no topic")
_BROKER_IP = text("IP address of the broker")
_BROKER_PORT = integer("TCP port of the broker")

_ERROR = {
    "api_name": _API_NAME,
    "error_code": _CODE,
    "error_name": _CODE_NAME,
    "topic": text(
        "the topic that it concerns", null="none, or its name is unknown, or the line of others"
    ),
    "other": _OTHER,
    "count": count("number of codes; a response may have several"),
    "first_time_ns": _FIRST_TIME,
    "last_time_ns": _LAST_TIME,
}
_CLIENT = {
    "client_id": _CLIENT_ID,
    "other": _OTHER,
    "software": listed("name and version of the client's software, the first 8, sorted", _TEXT),
    "more_software": truth("whether there are more"),
    "client_ips": listed("its IP addresses, the first 8, sorted", _TEXT),
    "more_client_ips": truth("whether there are more"),
    "principals": listed("users that it authenticated as, the first 8, sorted", _TEXT),
    "more_principals": truth("whether there are more"),
    **_COUNTS,
    "unread": _UNREAD,
    "latency_ns": _latency(),
}
_PRODUCED = {
    "produce_requests": count("requests that produced to it"),
    "produced_records": count("records sent and not refused, as far as known"),
    "produced_records_known": truth("false: there were more, which could not be counted"),
    "produced_bytes": count("bytes of these records", unit="B"),
    "acknowledged_records": count("of these, answered without an error"),
    "acknowledged_bytes": count("the same", unit="B"),
    "unanswered_records": count("of these, without a response: written or not"),
    "one_way_records": count("of these, sent with acks=0"),
}
_FETCHED = {
    "fetch_requests": count("requests that fetched from it"),
    "fetched_records": count("records in responses, as far as known"),
    "fetched_records_known": truth("false: there were more, which could not be counted"),
    "fetched_bytes": count("bytes of these records", unit="B"),
}
_TOPIC_LINE = {
    "topic": _TOPIC,
    "topic_id": _TOPIC_ID,
    "other": _OTHER,
    **_PRODUCED,
    **_FETCHED,
    "errors": count("error codes that concern it, of all APIs"),
}
_GROUP = {
    "group_id": text("consumer group", null=_OTHERS),
    "other": _OTHER,
    "requests": count("requests that name it"),
    "joins": count("of these, JoinGroup"),
    "syncs": count("of these, SyncGroup"),
    "rebalance_time_ns": integer(
        "of JoinGroup and SyncGroup, from first byte to last, summed over the members",
        unit="ns",
        null="no complete response was captured",
    ),
    "longest_join_ns": integer("the longest JoinGroup", unit="ns", null="no complete response"),
    "longest_sync_ns": integer("the longest SyncGroup", unit="ns", null="no complete response"),
    "errors": count("of these, with an error code other than 0"),
    "unread": _UNREAD,
}
_BROKER = {
    "broker": text("IP:PORT", null=_OTHERS),
    "other": _OTHER,
    **_COUNTS,
    "unread": _UNREAD,
    "latency_ns": _latency(),
}
_CLIENT_API = {
    "client_id": text("client id in the request", null="it has none"),
    "api_name": _API_NAME,
    "requests": _COUNTS["requests"],
    "errors": _COUNTS["errors"],
    "unread": _UNREAD,
    "unanswered": count("of these, without a response"),
    "request_bytes": _COUNTS["request_bytes"],
    "response_bytes": _COUNTS["response_bytes"],
    "latency_ns": _latency(),
}
_CLIENT_ERROR = {
    "client_id": text("client id in the request", null="it has none, or it is unknown"),
    "api_name": _API_NAME,
    "error_code": integer("the error code, not 0"),
    "error_name": text("its name in Kafka"),
    "count": count("number of codes; a response may have several"),
    "first_time_ns": _FIRST_TIME,
    "last_time_ns": _LAST_TIME,
}
_TOPIC_LATENCY = {
    "topic": text("topic name", null="only the id is known"),
    "topic_id": _TOPIC_ID,
    "api_name": text("the API that produces or fetches"),
    "latency_ns": _latency("requests that name the topic and did not wait on purpose"),
}
_PARTITION = {
    "topic": text("topic name", null="only the id is known"),
    "topic_id": _TOPIC_ID,
    "partition": integer("index of the partition"),
    "produce_requests": _PRODUCED["produce_requests"],
    "produced_records": _PRODUCED["produced_records"],
    "produced_bytes": _PRODUCED["produced_bytes"],
    "fetch_requests": _FETCHED["fetch_requests"],
    "fetched_records": _FETCHED["fetched_records"],
    "fetched_bytes": _FETCHED["fetched_bytes"],
    "high_watermark": integer("the highest in any response", null="no response has one"),
}
_CODEC = {
    "client_id": text("client id in the request", null="it has none"),
    "codec": text("none, gzip, snappy, lz4, zstd, or mixed"),
    "requests": count("requests with such batches"),
    "batches": count("partitions of these requests, each counted as one batch"),
    "records": count("records in them", null="no header has the number"),
    "bytes": count("bytes of records in them, as sent", unit="B", null="unknown"),
    "bytes_p50": count("median of the bytes of one partition", unit="B", null="unknown"),
    "records_p50": count("median of the records of one partition", null="unknown"),
}
_TLS = {
    "broker": text("address and port of the broker, or another server"),
    "tls_version": text("that the broker chose", null="not seen"),
    "tls_cipher_suite": text("that the broker chose, by IANA's name", null="not seen"),
    "connections": count("TLS connections"),
    "decrypted": count("of these, decrypted, in part at least"),
    "failed": count("of these, that failed"),
    "resumed": count("of these, that resumed a session", null="not seen on any"),
    "mutual": count(
        "of these, on which the client sent a certificate",
        null="not seen on any: TLS 1.3 encrypts it",
    ),
    "handshake_p50_ns": integer(
        "median time from the ClientHello to the last Finished", unit="ns", null="not seen"
    ),
    "client_bytes": count("TCP payload of the clients, every copy counted", unit="B"),
    "broker_bytes": count("TCP payload of the broker, every copy counted", unit="B"),
    "estimated_requests": count(
        "an estimate: how often data of the client was followed by data of the broker",
        null="there is no telling which end is the client",
    ),
    "estimated_response_time_p50_ns": integer(
        "an estimate: median over connections of their median time from the former to the latter",
        unit="ns",
        null="there was no such data",
    ),
}
_CERTIFICATE = {
    "sent_by": text("whose it is", choices=("broker", "client")),
    "subject": text("the name in it"),
    "issuer": text("who signed it"),
    "not_after_ns": time_ns("until when it holds", null="later than 2262"),
    "connections": count("connections on which it was seen"),
    "expired": truth("whether it had expired before the last of them", null="later than 2262"),
}
_NOT_MEASURED = "it was not measured for any of them"


def _part(meaning: str) -> Schema:
    return struct(
        meaning,
        {
            "mean": integer("mean", unit="ns", null=_NOT_MEASURED),
            "per_mille": integer(
                "share of the sum of total times, in thousandths",
                null=f"{_NOT_MEASURED}, or the sum is below 1 µs",
            ),
        },
    )


_LATENCY_PARTS = {
    "api_name": _API_NAME,
    "broker_ip": _BROKER_IP,
    "broker_port": _BROKER_PORT,
    "capture_point": text(
        "where the capture was taken: client, broker, between, or host (both ends on one)",
        null="the round trips do not show it",
    ),
    "requests": count("requests whose parts are known and that did not wait on purpose"),
    "with_retransmissions": count("of these, with retransmitted packets"),
    "with_zero_windows": count("of these, with an end whose receive window was 0"),
    "total_time_ns": struct(
        "from the first byte of a request to the last of its response",
        {"mean": integer("mean", unit="ns")},
    ),
    "request_send_ns": _part("sending the request"),
    "broker_network_ns": _part("network from the capture point to the broker and back"),
    "retransmission_wait_ns": _part("waiting until lost bytes of the request were retransmitted"),
    "pipeline_wait_ns": _part("waiting for the previous response of the same connection"),
    "broker_time_ns": _part("in the broker"),
    "response_send_ns": _part("sending the response"),
    "client_network_ns": struct(
        "network from the capture point to the client and back; not a part of total_time_ns",
        {"mean": integer("mean", unit="ns", null=_NOT_MEASURED)},
    ),
}

_NOT_THERE = "there is no request, or no response"
_SLOW_OF_ROWS = {
    column.name: column
    for column in COLUMNS
    if column.name
    in (
        *("capture_point", "request_send_ns", "broker_network_ns", "retransmission_wait_ns"),
        *("pipeline_wait_ns", "broker_time_ns", "response_send_ns", "client_network_ns"),
        *("retransmitted_packets", "zero_windows", "waited_ns"),
    )
}
"""Fields of slow requests that are the same as in their rows."""
_SLOW = {
    "capture": text("the input as given"),
    "connection": text("CLIENT_IP:PORT>BROKER_IP:PORT"),
    "connection_number": count("1 for the first TCP connection on these addresses"),
    "client_id": text("client id in the request", null="it has none"),
    "api_key": integer("key of the API", null="unknown"),
    "api_name": _API_NAME,
    "api_version": integer("version of the API", null="unknown"),
    "correlation_id": integer("pairs the response with the request", null="kafka-0.7 has none"),
    "latency_ns": integer(
        "from the request's last byte to the response's first; negative if the response was "
        "captured first",
        unit="ns",
    ),
    "total_time_ns": integer(
        "from the request's first byte to the response's last",
        unit="ns",
        null="not all was captured",
    ),
    "request_start_ns": time_ns("time of the request's first byte", null=_NOT_THERE),
    "request_end_ns": time_ns("time of the request's last byte", null=_NOT_THERE),
    "response_start_ns": time_ns("time of the response's first byte", null=_NOT_THERE),
    "response_end_ns": time_ns("time of the response's last byte", null="it was not captured"),
    "request_packet": count("number of its first packet in the capture, from 1", null="unknown"),
    "response_packet": count("number of its first packet in the capture, from 1", null="unknown"),
    "request_bytes": count("with the size prefix", unit="B", null="unknown"),
    "response_bytes": count("with the size prefix", unit="B", null="unknown"),
    **{name: schema_of(column) for name, column in _SLOW_OF_ROWS.items()},
    "throttle_time_ms": integer(
        "throttle time in the response", unit="ms", null="the response has none"
    ),
    "status": text("as in rows of requests"),
    "error_name": text("of the first error code; NONE for 0", null="no response could be read"),
    "topics": listed("its topics, or their ids, the first 3, sorted", _TEXT),
    "more_topics": truth("whether there are more"),
}

_SPAN = {
    "start_ns": time_ns("beginning of the first bucket", null="there are no rows"),
    "bucket_ns": count("length of a bucket", unit="ns"),
}
_NO_LATENCY = "no request began in the bucket that was answered and did not wait on purpose"


def _per_bucket(meaning: str, *, unit: str = "") -> Schema:
    return listed(f"{meaning}, for each bucket", count(meaning, unit=unit))


def _latency_per_bucket(meaning: str) -> Schema:
    value = integer(meaning, unit="ns", null=_NO_LATENCY)
    return listed(f"{meaning}, for each bucket", value)


_THROUGHPUT = {
    **_SPAN,
    "requests": _per_bucket("requests that began"),
    "errors": _per_bucket("responses with an error that began"),
    "request_bytes": _per_bucket("bytes of requests that began", unit="B"),
    "response_bytes": _per_bucket("bytes of responses that began", unit="B"),
}
_LATENCY_SERIES = {
    **_SPAN,
    "p50": _latency_per_bucket("median of the latency"),
    "p90": _latency_per_bucket("90th percentile of the latency"),
    "p99": _latency_per_bucket("99th percentile of the latency"),
    "max": _latency_per_bucket("longest latency"),
}

_CONCERNS = {
    "client_id": text("client id"),
    "client_ip": text("address of the client"),
    "api_name": text("API"),
    "topic": text("topic"),
    "group_id": text("consumer group"),
    "error_name": text("name of the error code"),
    "broker": text("broker, as IP:PORT"),
}
_FINDING = struct(
    "one thing that is wrong",
    {
        "name": text("the kind of finding: the name of its query"),
        "title": text("what is wrong, in general"),
        "severity": {**count("0 to 100; higher is worse"), "maximum": 100},
        "what": text("what was seen: the figures, as a sentence"),
        "weight": number("higher is worse, among findings of one kind, which has its own unit"),
        "sure": text("how certain it is"),
        "why": text("why it matters"),
        "repair": text("how to repair it"),
        "concerns": struct(
            "whom it concerns; concerns that do not apply are missing",
            _CONCERNS,
            optional=_CONCERNS,
        ),
        "first_time_ns": time_ns("when it was first seen", null="it has no time"),
        "last_time_ns": time_ns("when it was last seen", null="it has no time"),
        "first_packet": count("number of a packet to begin with, from 1", null="none"),
        "command": text(
            "the command of kanalyze that shows its rows",
            choices=("requests", "connections", "anomalies"),
        ),
        "options": listed("options of that command", _TEXT),
    },
)


def _table(meaning: str, fields: dict[str, Schema]) -> Schema:
    return listed(meaning, struct("one line", fields), null=_FAILED)


_REPORT = {
    "schema": {**integer("version of this schema"), "const": 1},
    "kanalyze_version": text("version of kanalyze that wrote it"),
    "capture": struct("what was captured, and when", EXTENT),
    "filter": FILTER,
    "quality": QUALITY,
    "totals": struct("all rows together", _TOTALS, null=_FAILED),
    "apis": _table("by API, most requests first", _API),
    "errors": _table("error codes by API and topic, most frequent first", _ERROR),
    "clients": _table("by client id, most requests first", _CLIENT),
    "topics": _table("by topic, most bytes first", _TOPIC_LINE),
    "groups": _table("by consumer group, most requests first", _GROUP),
    "brokers": _table("by broker, most requests first", _BROKER),
    "client_apis": _table("by client id and API, most requests first", _CLIENT_API),
    "client_errors": _table("error codes by client id, most frequent first", _CLIENT_ERROR),
    "topic_latency": _table("latency by topic and API, most requests first", _TOPIC_LATENCY),
    "partitions": _table("by partition, most bytes first; without refused records", _PARTITION),
    "codecs": _table("batches of producers, by client and codec, most bytes first", _CODEC),
    "latency_parts": _table(
        "where the time of requests went, by API, broker and capture point", _LATENCY_PARTS
    ),
    "tls": _table("what TLS connections agreed on, by broker, version and suite", _TLS),
    "tls_certificates": _table(
        "certificates seen in handshakes, first to expire first", _CERTIFICATE
    ),
    "throughput": struct("requests and bytes over time", _THROUGHPUT, null=_FAILED),
    "latency": struct("latency over time", _LATENCY_SERIES, null=_FAILED),
    "slowest": _table(
        "the slowest requests that did not wait on purpose, up to 10, or more with --limit", _SLOW
    ),
    "limited": listed("names of the tables with a line of others", _TEXT),
    "findings": listed(
        "findings, the most severe first", ref("finding", "one thing that is wrong")
    ),
    "failed_queries": FAILED_QUERIES,
    "findings_left_out": listed(
        "kinds of findings that were not searched for, because they need all requests and a filter "
        "left some out, or because they need a table that is missing; missing if there are none",
        _TEXT,
    ),
}

FINDING_SCHEMA = document("A finding of kanalyze", _FINDING)
REPORT_SCHEMA = document(
    "A report of kanalyze",
    struct(
        "what kanalyze report --json writes. Lists that are tables have at most 10,000 lines; "
        "errors, clients, topics, groups and brokers may have one more, for the others. A value "
        "that is unknown is null, never 0. A table is null if a query of it failed",
        _REPORT,
        optional=("findings_left_out", "failed_queries"),
    ),
    {**_PARTS, "finding": _FINDING},
)
