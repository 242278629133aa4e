"""What the tables of the live view are: each column, and the order of the lines.

In: nothing. Out: :data:`LIVE_TABLES`, in the order of their tabs, and :data:`OPENED_REQUESTS`.
"""

from __future__ import annotations

from typing import NamedTuple

from kanalyze.spec.report import DeclaredColumn


class DeclaredLiveTable(NamedTuple):
    """A table of the live view; forms of its columns are named in ``live/view/tables.py``."""

    name: str
    """The word on its tab."""
    title: str
    entries: str
    """Where a snapshot has the lines, as a path."""
    key: tuple[str, ...]
    """The fields that identify a line, by which it is found in the next snapshot."""
    texts: tuple[str, ...]
    """The fields that a filter searches."""
    sorted_by: int
    """Index of the column that the table is sorted by at first."""
    columns: tuple[DeclaredColumn, ...]
    others: str = ""
    """What stands in the first column of the line that sums up all that have no line."""
    names_items: bool = False
    """True if a request may belong to several lines, for example to several topics."""
    finds: bool = False
    """True if the lines are findings."""


_ERRORS = DeclaredColumn("errors", "errors", "rate", style="alarm")
_TRAFFIC = (
    DeclaredColumn("requests", "requests", "rate"),
    _ERRORS,
    DeclaredColumn("sent", "request_bytes", "rate of bytes", rank=3),
    DeclaredColumn("received", "response_bytes", "rate of bytes", rank=2),
    DeclaredColumn("p50", "p50_ns", "duration", rank=1),
    DeclaredColumn("p99", "p99_ns", "duration"),
)
_LATENCY = DeclaredColumn("latency", "latency_ns", "duration")
_VERSIONED_API = DeclaredColumn("API", "api_name", "api and version", least=12, style="bold")
_STATUS = DeclaredColumn("status", "status", "status", least=10)

LIVE_TABLES = (
    DeclaredLiveTable(
        "APIs",
        "Requests by API",
        "apis",
        ("wire", "api_key", "api_name", "waited", "other"),
        ("api_name",),
        1,
        (DeclaredColumn("API", "api_name", "api", least=20, style="bold"), *_TRAFFIC),
        "(other APIs)",
    ),
    DeclaredLiveTable(
        "clients",
        "Busiest clients",
        "clients",
        ("client_id", "client_ip", "other"),
        ("client_id", "client_ip"),
        2,
        (
            DeclaredColumn("client", "client_id", "name", least=16, style="bold"),
            DeclaredColumn("from", "client_ip", least=13, rank=2),
            *_TRAFFIC,
        ),
        "(other clients)",
    ),
    DeclaredLiveTable(
        "topics",
        "Busiest topics",
        "topics",
        ("topic", "topic_id", "other"),
        ("topic", "topic_id"),
        1,
        (
            DeclaredColumn("topic", "topic", "topic", least=16, style="bold"),
            DeclaredColumn("bytes in", "produced_bytes", "rate of bytes"),
            DeclaredColumn("bytes out", "fetched_bytes", "rate of bytes"),
            DeclaredColumn("records in", "produced_records", "rate of records", rank=1),
            DeclaredColumn("records out", "fetched_records", "rate of records", rank=2),
            _ERRORS,
        ),
        "(other topics)",
        names_items=True,
    ),
    DeclaredLiveTable(
        "slow",
        "Slowest requests of the last minute",
        "slowest",
        ("connection", "request_start_ns", "request_packet"),
        ("api_name", "client_id", "connection", "topics"),
        0,
        (
            _LATENCY,
            _VERSIONED_API,
            DeclaredColumn("client", "client_id", least=12),
            DeclaredColumn("topics", "topics", "topics", least=10),
            _STATUS._replace(rank=2),
            DeclaredColumn("at (UTC)", "request_start_ns", "time", rank=1),
            DeclaredColumn("connection", "connection", least=24, rank=3),
        ),
    ),
    DeclaredLiveTable(
        "groups",
        "Groups that rebalanced in the last minute",
        "groups",
        ("group_id", "other"),
        ("group_id", "last_error_name"),
        10,
        (
            DeclaredColumn("group", "group_id", "name", least=14, style="bold"),
            DeclaredColumn("protocol", "protocol", least=8, rank=4),
            DeclaredColumn("members", "members", "members", rank=3),
            DeclaredColumn("rebalances", "rebalances", "count"),
            DeclaredColumn("longest wait", "longest_join_ns", "longest wait"),
            DeclaredColumn("errors", "errors", "count", style="alarm"),
            DeclaredColumn("last error", "last_error_name", least=10, rank=1),
            DeclaredColumn("joins", "joins", "count of classic groups", rank=6),
            DeclaredColumn("leaves", "leaves", "count of classic groups", rank=7),
            DeclaredColumn("told to rejoin", "told", "count of classic groups", rank=5),
            DeclaredColumn("last (UTC)", "last_time_ns", "time", rank=2),
        ),
        "(other groups)",
    ),
    DeclaredLiveTable(
        "errors",
        "Errors by code and topic",
        "errors",
        ("api_name", "error_code", "error_name", "topic", "other"),
        ("api_name", "topic", "error_name"),
        3,
        (
            DeclaredColumn("error", "error_name", "error", least=20, style="red"),
            DeclaredColumn("API", "api_name", least=10),
            DeclaredColumn("topic", "topic", least=10),
            DeclaredColumn("rate", "occurrences", "rate"),
            DeclaredColumn("last (UTC)", "last_time_ns", "time", rank=1),
        ),
        "(other errors)",
        names_items=True,
    ),
    DeclaredLiveTable(
        "brokers",
        "Requests by broker",
        "brokers",
        ("broker", "other"),
        ("broker",),
        1,
        (DeclaredColumn("broker", "broker", least=16, style="bold"), *_TRAFFIC),
        "(other brokers)",
    ),
    DeclaredLiveTable(
        "findings",
        "Findings",
        "findings.findings",
        ("name", "concerns"),
        ("title", "what", "concerns"),
        0,
        (
            DeclaredColumn("severity", "severity", "count", rank=3),
            DeclaredColumn("finding", "title", "as it is", least=14, rank=2, style="bold"),
            DeclaredColumn("whom", "concerns", "whom", least=10),
            DeclaredColumn("what", "what", "sentence", least=16),
            DeclaredColumn("last (UTC)", "last_time_ns", "time", rank=1),
        ),
        finds=True,
    ),
    DeclaredLiveTable(
        "lag",
        "Lag of consumer groups",
        "findings.lag",
        ("group_id", "topic"),
        ("group_id", "topic"),
        4,
        (
            DeclaredColumn("group", "group_id", "name", least=14, style="bold"),
            DeclaredColumn("topic", "topic", "name", least=14),
            DeclaredColumn("partitions", "partitions", "count", rank=3),
            DeclaredColumn("not known", "unknown", "count", rank=2),
            DeclaredColumn("lag", "lag", "count"),
            DeclaredColumn("behind", "lag_ns", "duration"),
            DeclaredColumn("as of (UTC)", "last_time_ns", "time", rank=1),
        ),
    ),
)
OPENED_REQUESTS = DeclaredLiveTable(
    "requests",
    "Requests",
    "opened.rows",
    (),
    ("api_name", "client_id"),
    0,
    (
        _LATENCY,
        _VERSIONED_API,
        _STATUS,
        DeclaredColumn("at (UTC)", "began_ns", "time"),
        DeclaredColumn("client", "client_id", least=10, rank=1),
        DeclaredColumn("broker", "broker_ip", "endpoint", least=14, rank=2),
        DeclaredColumn("topics", "partitions", "topics of a row", least=10, rank=3),
        DeclaredColumn("group", "group_id", least=10, rank=6),
        DeclaredColumn("sent", "request_bytes", "bytes", rank=5),
        DeclaredColumn("received", "response_bytes", "bytes", rank=4),
    ),
)
"""The table of the requests of an opened line."""
