"""The tables of the page: their columns, and their first lines as HTML.

In: the model of a page and its sums. Out: HTML, and the columns as plain values, from which
``page.js`` writes the same lines.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.render.html.sums import kind_of
from kanalyze.render.phrases import listed
from kanalyze.render.text import MISSING
from kanalyze.render.times import clock_text
from kanalyze.render.units import bytes_text, count_text, duration_text, records_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["TABLES", "Table", "label_of", "table_html", "table_specs", "tables_of"]

_Line: TypeAlias = "Mapping[str, Any]"
_NUMBERS = ("count", "failed", "bytes", "ns", "records", "time")


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
            PageColumn("taken at", "key", "", "", 2),
            _REQUESTS,
            PageColumn("resent", "failed", "resent", is_optional=True),
            PageColumn("closed", "failed", "closed", is_optional=True),
            PageColumn("in all", "ns", "whole"),
            PageColumn("each", "ns", "total"),
            PageColumn("sending", "ns", "request_send_ns"),
            PageColumn("network", "ns", "broker_network_ns"),
            PageColumn("sent again", "ns", "retransmission_wait_ns"),
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
            PageColumn("version", "text", "version"),
            PageColumn("cipher suite", "text", "suite"),
            PageColumn("connections", "count", "connections"),
            PageColumn("decrypted", "count", "decrypted"),
            PageColumn("failed", "failed", "failed"),
            PageColumn("resumed", "count", "resumed"),
            PageColumn("mutual", "count", "mutual", is_optional=True),
            PageColumn("handshake p50", "ns", "handshake_p50"),
            PageColumn("sent", "bytes", "client_bytes"),
            PageColumn("received", "bytes", "broker_bytes"),
            PageColumn("requests (est.)", "count", "estimated_requests", is_optional=True),
            PageColumn(
                "response time p50 (est.)", "ns", "estimated_response_p50", is_optional=True
            ),
        ),
        "connections",
    ),
)
_WITHOUT_SUMS = ("slowest", "tls")
"""Tables whose lines are in the model."""
_ONLY_WITH_LINES = ("tls",)


def tables_of(model: _Line, sums: _Line) -> list[tuple[Table, list[_Line]]]:
    """Return the tables with their lines.

    Optional columns that are empty in every line are left out, and so is an empty table of TLS.
    """
    tables = []
    for table in TABLES:
        lines = _lines(table, model, sums)
        if not lines and table.name in _ONLY_WITH_LINES:
            continue
        columns = (
            column
            for column in table.columns
            if not column.is_optional or _has_values(column, lines, model)
        )
        tables.append((table._replace(columns=tuple(columns)), lines))
    return tables


def _has_values(column: PageColumn, lines: Iterable[_Line], model: _Line) -> bool:
    return any(_cell_text(column, line, model) not in (MISSING, "0") for line in lines)


def table_specs(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """Return tables as plain values, for scripts."""
    return [
        {
            "name": table.name,
            "sort": table.sort,
            "columns": [column._asdict() for column in table.columns],
        }
        for table in tables
    ]


def _lines(table: Table, model: _Line, sums: _Line) -> list[_Line]:
    """Return the lines of a table in their initial order."""
    if table.name in _WITHOUT_SUMS:
        return [{**line, "key": []} for line in model[table.name]]
    lines: list[_Line] = sums[table.name]
    by_key = sorted(lines, key=lambda line: [_sortable(part) for part in line["key"]])
    # The line that sums up the others is last.
    return sorted(by_key, key=lambda line: (-1 in line["key"], -(line[table.sort] or 0)))


def _sortable(part: int | str) -> tuple[bool, int, str]:
    """Return the sort key of a part of a line's key; -1 (others) and -2 (no name) are last."""
    return (False, 0, part) if isinstance(part, str) else (part < 0, part, "")


def table_html(table: Table, lines: Sequence[_Line], model: _Line, most: int) -> str:
    """Return the head and the first ``most`` lines of a table as HTML."""
    heads = "".join(
        f'<th scope="col"{_class(column.kind)}>{escape(column.title)}</th>'
        for column in table.columns
    )
    rows = "".join(_row_html(table.columns, line, model) for line in lines[:most])
    return f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"


def _row_html(columns: Iterable[PageColumn], line: _Line, model: _Line) -> str:
    cells = [(column, _cell_text(column, line, model)) for column in columns]
    first, *other_cells = (
        (f"{_class(column.kind, is_bad=_is_bad(column, line))}", escape(text))
        for column, text in cells
    )
    return (
        f'<tr><th scope="row"{first[0]}>{first[1]}</th>'
        + "".join(f"<td{cls}>{text}</td>" for cls, text in other_cells)
        + "</tr>"
    )


def _is_bad(column: PageColumn, line: _Line) -> bool:
    return column.kind == "failed" and bool(line[column.field])


def _class(kind: str, *, is_bad: bool = False) -> str:
    names = ("n" if kind in _NUMBERS else "info" if kind == "info" else "") + (
        " bad" if is_bad else ""
    )
    return f' class="{names.strip()}"' if names else ""


def label_of(model: _Line, dimension: str, number: int) -> str:
    """Return the name with this number of a dimension; -1 stands for all others."""
    if number >= 0:
        return str(model["names"][dimension][number]["label"])
    return str(model["others"][dimension]) if number == -1 else MISSING


def _cell_text(column: PageColumn, line: _Line, model: _Line) -> str:
    """Return the text of a cell."""
    kind, field = column.kind, column.field
    if kind == "name":
        return label_of(model, column.dimension, line["key"][column.key_index])
    if kind == "info":
        number = line["key"][column.key_index]
        return str(model["names"][column.dimension][number][field]) if number >= 0 else MISSING
    if kind == "api":
        return _api_text(line, model)
    if kind == "versions":
        return _versions_text(line, model)
    if kind == "key":
        return str(line["key"][column.key_index])
    if kind == "records":
        return _records(line, model)
    if field == "topics_label":
        return _topics_text(line, model)
    value = line[field]
    return str(value) if kind == "text" else _number_text(kind, value, model)


def _number_text(kind: str, value: float | None, model: _Line) -> str:
    if value is None:
        return MISSING
    if kind == "bytes":
        return bytes_text(int(value))
    if kind == "ns":
        return duration_text(math.floor(value))
    if kind == "time":
        return clock_text(int(value) * 1000, dated=model["dated"])
    return count_text(int(value))


def _api_text(line: _Line, model: _Line) -> str:
    api, waited = line["key"]
    return label_of(model, "api", api) + (" (waited)" if waited else "")


def _versions_text(line: _Line, model: _Line) -> str:
    names = [label_of(model, "version", number) for number in line["versions"] if number >= 0]
    return " ".join(sorted(names, key=lambda name: (len(name), name))) or MISSING


def _topics_text(line: _Line, model: _Line) -> str:
    names = [label_of(model, "topic", number) for number in line["topics"] if number != -2]
    return listed(names, 3)


def _records(line: _Line, model: _Line) -> str:
    if kind_of(model, line["key"][0]) not in ("produce", "fetch"):
        return MISSING
    return records_text(line["records"], known=not line["uncounted"])
