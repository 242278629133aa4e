"""The tables of the page: their titles, notes and columns.

In: nothing. Out: declarations, which ``page.js`` fills with the sums of a selection.
"""

from __future__ import annotations

from typing import Any

from kanalyze.common.named_tuples import NamedTuple


class PageColumn(NamedTuple):
    """A column of a table."""

    title: str
    kind: str
    """The format of cells: ``name`` and ``info`` look up a name, ``text`` is written unchanged, and
    most others are numbers."""
    field: str = ""
    """The field of the line, or of the name."""
    dimension: str = ""
    """The dimension that the name belongs to."""
    key_index: int = 0
    """The index of the name in the line's key."""
    is_optional: bool = False
    """True if the column is left out when no line has a value in it."""


class Table(NamedTuple):
    """A table of the page."""

    name: str
    title: str
    note: str
    columns: tuple[PageColumn, ...]
    sort: str
    """The field that sorts the lines at first, in descending order."""
    is_optional: bool = False
    """True if the table is left out when it has no lines."""


def _name(title: str, dimension: str, key_index: int = 0) -> PageColumn:
    return PageColumn(title, "name", "", dimension, key_index)


def _ns(title: str) -> PageColumn:
    return PageColumn(title, "ns", title)


_REQUESTS = PageColumn("requests", "count", "requests")
_ERRORS = PageColumn("errors", "failed", "errors")
_UNANSWERED = PageColumn("unanswered", "failed", "unanswered")
_SENT = PageColumn("sent", "bytes", "sent")
_RECEIVED = PageColumn("received", "bytes", "received")
_THROTTLED = PageColumn("throttled", "failed", "throttled", is_optional=True)
_TRAFFIC = (_REQUESTS, _ERRORS, _UNANSWERED, _THROTTLED, _SENT, _RECEIVED)
_QUANTILES = (_ns("p50"), _ns("p90"), _ns("p99"), _ns("max"))
_PARTITION_COLUMNS = (
    PageColumn("produces", "count", "produces"),
    PageColumn("records in", "count", "records_in"),
    PageColumn("bytes in", "bytes", "bytes_in"),
    PageColumn("fetches", "count", "fetches"),
    PageColumn("records out", "count", "records_out"),
    PageColumn("bytes out", "bytes", "bytes_out"),
)

TABLES = (
    Table(
        "apis",
        "APIs",
        "Requests that the broker held back on purpose, such as a Fetch that waits for data, are "
        "listed apart as (waited): their latency is not a measure of work.",
        (
            PageColumn("API", "api"),
            PageColumn("versions", "versions"),
            *_TRAFFIC,
            PageColumn("records", "records", "records"),
            *_QUANTILES,
        ),
        "requests",
    ),
    Table(
        "latency_parts",
        "Where the time went",
        "Means over the requests that did not wait on purpose and whose parts are known. The parts "
        "add up to the time from request to response: sending the request; the network between the "
        "capture point and the broker, both ways; waiting until lost packets were sent again; "
        "waiting for the previous response of the same connection; the broker; sending the "
        "response. The network between the client and the capture point is not included. Resent "
        "and closed count the requests during which packets were sent again, or an end had closed "
        "its receive window.",
        (
            _name("API", "api"),
            _name("broker", "broker", 1),
            PageColumn("captured at", "key", "", "", 2),
            _REQUESTS,
            PageColumn("resent", "failed", "resent", is_optional=True),
            PageColumn("closed", "failed", "closed", is_optional=True),
            PageColumn("in all", "ns", "whole"),
            PageColumn("each", "ns", "total"),
            PageColumn("sending", "ns", "request_send_ns"),
            PageColumn("network", "ns", "broker_network_ns"),
            PageColumn("waited for resent", "ns", "retransmission_wait_ns"),
            PageColumn("queued", "ns", "pipeline_wait_ns"),
            PageColumn("in broker", "ns", "broker_time_ns"),
            PageColumn("response", "ns", "response_send_ns"),
            PageColumn("to client", "ns", "client_network_ns"),
        ),
        "whole",
    ),
    Table(
        "clients",
        "Clients",
        "By client id. Latencies are of requests that did not wait on purpose; software, addresses "
        "and users are those of the whole capture.",
        (
            _name("client", "client"),
            PageColumn("software", "info", "software", "client"),
            PageColumn("from", "info", "from", "client"),
            PageColumn("user", "info", "user", "client", is_optional=True),
            *_TRAFFIC,
            *_QUANTILES,
        ),
        "requests",
    ),
    Table(
        "client_apis",
        "Clients by API",
        "Latencies are of requests that did not wait on purpose.",
        (_name("client", "client"), _name("API", "api", 1), *_TRAFFIC, *_QUANTILES),
        "requests",
    ),
    Table(
        "errors",
        "Errors by client and topic",
        "Every error code in a response counts, at any level.",
        (
            _name("error", "code"),
            _name("API", "api", 1),
            _name("client", "client", 2),
            _name("topic", "topic", 3),
            PageColumn("count", "failed", "count"),
            PageColumn("first", "time", "first"),
            PageColumn("last", "time", "last"),
        ),
        "count",
    ),
    Table(
        "topics",
        "Topics",
        "A request counts once for each topic that it names; records are those that went through.",
        (
            _name("topic", "topic"),
            _REQUESTS,
            _ERRORS,
            *_PARTITION_COLUMNS,
        ),
        "requests",
    ),
    Table(
        "topic_apis",
        "Topics by API",
        "A request counts once for each topic that it names. Latencies are of requests that did "
        "not wait on purpose.",
        (_name("topic", "topic"), _name("API", "api", 1), _REQUESTS, _ERRORS, *_QUANTILES),
        "requests",
    ),
    Table(
        "partitions",
        "Partitions",
        "What was produced to and fetched from each; what a broker refused is left out.",
        (
            PageColumn("topic", "info", "topic", "part"),
            _name("partition", "part"),
            *_PARTITION_COLUMNS,
            PageColumn("high watermark", "count", "mark"),
        ),
        "bytes_in",
    ),
    Table(
        "brokers",
        "Brokers",
        "Latencies are of requests that did not wait on purpose.",
        (_name("broker", "broker"), *_TRAFFIC, *_QUANTILES),
        "requests",
    ),
    Table(
        "groups",
        "Consumer groups",
        "Requests that name a group.",
        (
            _name("group", "group"),
            _REQUESTS,
            _ERRORS,
            PageColumn("clients", "count", "clients"),
            PageColumn("joins", "count", "joins"),
            PageColumn("syncs", "count", "syncs"),
            PageColumn("leaves", "count", "leaves"),
            PageColumn("heartbeats", "count", "heartbeats"),
            PageColumn("commits", "count", "commits"),
        ),
        "requests",
    ),
    Table(
        "codecs",
        "Codecs and batch sizes",
        "Batches of each produced partition of a request; what a broker refused is left out. Bytes "
        "and records per batch are means.",
        (
            _name("client", "client"),
            PageColumn("codec", "key", "", "", 1),
            PageColumn("batches", "count", "batches"),
            PageColumn("records", "count", "records_in"),
            PageColumn("bytes", "bytes", "bytes_in"),
            PageColumn("bytes each", "bytes", "bytes_each"),
            PageColumn("records each", "count", "records_each"),
        ),
        "bytes_in",
    ),
    Table(
        "versions",
        "Versions in use",
        "",
        (
            _name("API", "api"),
            _name("version", "version", 1),
            _REQUESTS,
            _ERRORS,
            PageColumn("clients", "count", "clients"),
        ),
        "requests",
    ),
    Table(
        "slowest",
        "Slowest requests",
        "Requests that waited on purpose are left out. The packets are those with the first bytes "
        "of request and response, numbered as in Wireshark.",
        (
            PageColumn("latency", "ns", "latency"),
            PageColumn("API", "text", "api_label"),
            PageColumn("client", "text", "client_label"),
            PageColumn("topics", "text", "topics_label"),
            PageColumn("status", "text", "status"),
            PageColumn("most of the time", "text", "parts_label"),
            PageColumn("at", "time", "at"),
            PageColumn("packets", "text", "packets"),
            PageColumn("connection", "text", "connection"),
        ),
        "latency",
    ),
    Table(
        "tls",
        "TLS",
        "Connections of the whole capture, whatever is selected. Figures marked (est.) are "
        "estimated by the times of encrypted records.",
        (
            PageColumn("broker", "text", "broker"),
            PageColumn("version", "text", "tls_version"),
            PageColumn("cipher suite", "text", "tls_cipher_suite"),
            PageColumn("connections", "count", "connections"),
            PageColumn("decrypted", "count", "decrypted"),
            PageColumn("failed", "failed", "failed"),
            PageColumn("resumed", "count", "resumed"),
            PageColumn("mutual", "count", "mutual", is_optional=True),
            PageColumn("handshake p50", "ns", "handshake_p50_ns"),
            PageColumn("sent", "bytes", "client_bytes"),
            PageColumn("received", "bytes", "broker_bytes"),
            PageColumn("requests (est.)", "count", "estimated_requests", is_optional=True),
            PageColumn(
                *("response time p50 (est.)", "ns", "estimated_response_time_p50_ns"),
                is_optional=True,
            ),
        ),
        "connections",
        is_optional=True,
    ),
    Table(
        "lag",
        "Lag of consumer groups",
        "At the end of the capture, whatever is selected: records that were written and not "
        "committed, and how long ago the log grew beyond the committed offset.",
        (
            PageColumn("group", "text", "group_id"),
            PageColumn("topic", "text", "topic"),
            PageColumn("partitions", "count", "partitions"),
            PageColumn("assigned", "count", "assigned"),
            PageColumn("not known", "failed", "unknown", is_optional=True),
            PageColumn("lag", "count", "lag"),
            PageColumn("highest", "count", "highest_lag"),
            PageColumn("behind", "ns", "lag_ns"),
            PageColumn("as of", "time", "last_time_ns"),
        ),
        "lag",
        is_optional=True,
    ),
    Table(
        "flows",
        "Flows of records",
        "Of the whole capture, whatever is selected; brokers' own copies are left out.",
        (
            PageColumn("from", "text", "from"),
            PageColumn("to", "text", "to"),
            PageColumn("records", "count", "records"),
            PageColumn("bytes", "bytes", "bytes"),
        ),
        "bytes",
        is_optional=True,
    ),
    Table(
        "changes",
        "Changes",
        "What clients asked brokers to create, change or delete in the whole capture, whatever is "
        "selected. What it was before is known if the capture has the change before.",
        (
            PageColumn("at", "time", "time_ns"),
            PageColumn("user", "text", "principal", is_optional=True),
            PageColumn("client", "text", "client_id"),
            PageColumn("action", "text", "action"),
            PageColumn("what", "text", "resource_type"),
            PageColumn("name", "text", "resource"),
            PageColumn("setting", "text", "setting"),
            PageColumn("before", "text", "before", is_optional=True),
            PageColumn("to", "text", "value", is_optional=True),
            PageColumn("refused", "text", "refused", is_optional=True),
            PageColumn("packet", "count", "request_packet"),
        ),
        "time_ns",
        is_optional=True,
    ),
)


def table_specs() -> list[dict[str, Any]]:
    """Return the tables as plain values, for scripts."""
    return [
        {**table._asdict(), "columns": [column._asdict() for column in table.columns]}
        for table in TABLES
    ]
