"""The tables of a report for people: their titles, their columns, and the order of their lines.

In: a summary (see :mod:`kanalyze.queries.report`), and the figure by which lines are sorted. Out:
cells as texts with styles. It escapes text from the wire.

Every figure is copied from the summary. A table that would repeat another is left out: with a
single client there is no table of clients by API.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.tcp import Endpoint
from kanalyze.render.latency_parts import PARTS
from kanalyze.render.layout import TableColumn
from kanalyze.render.phrases import api_text, listed, packets_text, status_text
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text, is_dated, moment_text
from kanalyze.render.units import (
    bytes_text,
    count_text,
    duration_text,
    per_mille_text,
    records_text,
)
from kanalyze.render.wireshark import filter_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["SORTS", "ReportTable", "TableOrder", "report_tables"]

_Item: TypeAlias = dict[str, Any]

SORTS = ("requests", "errors", "bytes", "p50", "p90", "p99", "max")
"""The figures by which lines can be sorted, in descending order."""

_WIDE = 100
_SECONDS = 19
"""Number of characters of a time without the fraction of its second."""
_MANY, _SOME, _FEW = 40, 10, 5
"""Numbers of lines that a table shows: the table of APIs, the main tables, the other tables."""


class TableOrder(NamedTuple):
    """How the lines of a table are sorted, and how many are shown."""

    sort: str | None = None
    """One of :data:`SORTS`; None for the order in the summary."""
    limit: int | None = None
    """Number of lines; None for the default of each table."""


class ReportTable(NamedTuple):
    """A titled table, independent of the output format."""

    title: str
    columns: tuple[TableColumn, ...]
    rows: list[list[tuple[str, str]]]
    """Rows of cells, each cell with its style."""
    more: int
    """Number of lines that are not shown."""
    notes: Sequence[str] = ()
    """Lines below the table."""


class _Shown(NamedTuple):
    """A column of a table in the report."""

    column: TableColumn
    cell: Callable[[_Item], str]
    style: Callable[[_Item], str] | str = ""


class _Content(NamedTuple):
    """All lines and columns of a table, before lines are sorted and cut."""

    title: str
    items: Sequence[_Item]
    columns: Sequence[_Shown]
    most: int = _SOME
    sorted_title: str = ""
    """The title if lines are sorted by ``--sort``; empty for a table that keeps its own order."""
    notes: Callable[[Sequence[_Item]], Sequence[str]] = lambda _: ()
    """Lines below the table, for the items shown."""


def report_tables(
    summary: _Item, order: TableOrder, width: int | None = None
) -> tuple[list[ReportTable], list[ReportTable]]:
    """Return the tables to show before the charts, and those to show after them.

    Tables without lines are left out. For a ``width`` below 100 there are fewer columns.
    """
    before = (
        _apis(summary, order, is_wide=width is None or width >= _WIDE),
        _parts(summary),
        _errors(summary),
        _client_errors(summary),
        _clients(summary),
        _client_apis(summary),
        _topics(summary),
        _topic_latency(summary),
        _partitions(summary),
        _groups(summary),
        _brokers(summary),
        _tls(summary),
        _tls_certificates(summary),
    )
    after = (_worst_times(summary, order), _versions(summary), _codecs(summary), _slowest(summary))
    return _tables(before, order), _tables(after, order)


def _tables(contents: Iterable[_Content], order: TableOrder) -> list[ReportTable]:
    return [_table(content, order) for content in contents if content.items]


def _table(content: _Content, order: TableOrder) -> ReportTable:
    items, title = content.items, content.title
    if content.sorted_title and order.sort and _has_figure(items, order.sort):
        items = _ordered(items, order.sort)
        title = f"{content.sorted_title}, by {order.sort}"
    most = order.limit or content.most
    rows = [
        [(column.cell(item), _style(column, item)) for column in content.columns]
        for item in items[:most]
    ]
    columns = tuple(shown_column.column for shown_column in content.columns)
    notes = content.notes(items[:most])
    return ReportTable(title, columns, rows, max(len(items) - most, 0), notes)


def _style(shown_column: _Shown, item: _Item) -> str:
    style = shown_column.style
    return style if isinstance(style, str) else style(item)


# -- the order of lines ---------------------------------------------------------------------------

_FIGURES = {
    "requests": ("requests", "produce_requests", "fetch_requests"),
    "errors": ("errors",),
    "bytes": ("request_bytes", "response_bytes", "produced_bytes", "fetched_bytes", "bytes"),
}
"""By figure: the fields of a line that are added up, as far as the line has them."""


def _figure(item: _Item, sort: str) -> int | None:
    """Return the figure that a line is sorted by; None if it has no such figure."""
    if sort in _FIGURES:
        amounts = [item[name] for name in _FIGURES[sort] if item.get(name) is not None]
        return sum(amounts) if amounts else None
    figure: int | None = item.get("latency_ns", item).get(sort)
    return figure


def _has_figure(items: Iterable[_Item], sort: str) -> bool:
    return any(_figure(item, sort) is not None for item in items)


def _ordered(items: Iterable[_Item], sort: str) -> list[_Item]:
    """Return lines in descending order, then lines without a figure, then the sum of others."""

    def sort_key(item: _Item) -> tuple[bool, bool, int]:
        figure = _figure(item, sort)
        return item.get("other", False), figure is None, -(figure or 0)

    return sorted(items, key=sort_key)


# -- columns that several tables have -------------------------------------------------------------


def _red_if(name: str) -> Callable[[_Item], str]:
    return lambda item: "red" if item[name] else "dim"


def _text(title: str, name: str, least: int, style: str = "", *, rank: int = 0) -> _Shown:
    return _Shown(TableColumn(title, least=least, rank=rank), lambda item: shown(item[name]), style)


def _name(title: str, name: str, name_of_others: str) -> _Shown:
    def cell(item: _Item) -> str:
        return name_of_others if item["other"] else shown(item[name])

    return _Shown(TableColumn(title, least=24), cell, "bold")


def _number(title: str, cell: Callable[[_Item], str], rank: int = 0) -> _Shown:
    return _Shown(TableColumn(title, right=True, rank=rank), cell)


def _count(title: str, name: str, rank: int = 0) -> _Shown:
    return _number(title, lambda item: count_text(item[name]), rank)


def _size(title: str, name: str) -> _Shown:
    return _number(title, lambda item: bytes_text(item[name]))


def _duration(title: str, name: str, rank: int = 0) -> _Shown:
    return _number(title, lambda item: duration_text(item[name]), rank)


def _latency(quantile: str, rank: int = 0) -> _Shown:
    return _number(quantile, lambda item: duration_text(item["latency_ns"][quantile]), rank)


def _moment(title: str, name: str, *, dated: bool, rank: int = 0) -> _Shown:
    return _number(title, lambda item: clock_text(item[name], dated=dated), rank)


_REQUESTS = _count("requests", "requests")
_ERRORS = _Shown(
    TableColumn("errors", right=True),
    lambda item: count_text(item["errors"]),
    _red_if("errors"),
)
_UNANSWERED = _Shown(
    TableColumn("unanswered", right=True, rank=3),
    lambda item: count_text(item["unanswered"]),
    _red_if("unanswered"),
)
_UNREAD = _Shown(
    TableColumn("not read", right=True),
    lambda item: count_text(item["unread"]),
    _red_if("unread"),
)


def _errors_of(lines: Iterable[_Item]) -> tuple[_Shown, ...]:
    """Return the column of errors, and of responses that may have some, if there are such."""
    return (_ERRORS, _UNREAD) if any(line["unread"] for line in lines) else (_ERRORS,)


_BYTES = _number("bytes", lambda item: bytes_text(item["request_bytes"] + item["response_bytes"]))
_SENT = _size("sent", "request_bytes")
_RECEIVED = _size("received", "response_bytes")
_API = _text("API", "api_name", 15)
_CLIENT = _text("client", "client_id", 16, "bold")


def _topic_name(item: _Item) -> str:
    if item.get("other"):
        return "(other topics)"
    return shown(item["topic"]) if item["topic"] is not None else f"id {shown(item['topic_id'])}"


_TOPIC = _Shown(TableColumn("topic", least=16, may_have_ids=True), _topic_name, "bold")


def _texts(item: _Item, name: str) -> str:
    return listed([shown(text) for text in item[name]], more=item[f"more_{name}"])


# -- tables ---------------------------------------------------------------------------------------


def _apis(summary: _Item, order: TableOrder, *, is_wide: bool) -> _Content:
    apis, title = summary["apis"], "Requests by API, with latency"
    if order.sort:
        # APIs are sorted by their whole figures, so that the two lines of an API stay together.
        apis, title = _ordered(apis, order.sort), f"{title}, by {order.sort}"
    columns = (
        _Shown(TableColumn("API", least=20), lambda item: item["label"], "bold"),
        _REQUESTS,
        *_errors_of(apis),
        *((_SENT, _RECEIVED) if is_wide else (_BYTES,)),
        _number("records", _records, rank=3),
        _latency("p50"),
        _latency("p90", rank=2),
        _latency("p99"),
        _latency("max", rank=1),
    )
    return _Content(title, list(chain.from_iterable(map(_api_lines, apis))), columns, _MANY)


def _api_lines(api: _Item) -> Iterator[_Item]:
    """Yield the line of an API, and a line for its requests that waited on purpose."""
    waited = api["waited"]
    label = _api_label(api)
    if not waited["requests"]:
        yield {**api, "label": label}
        return
    if api["requests"] > waited["requests"]:
        not_waited = {
            name: None if api[name] is None else api[name] - (waited[name] or 0)
            for name in _SEPARATE_SUMS
        }
        yield {**api, **not_waited, "label": label}
    # A response that was not read shows no wait.
    yield {**api, **waited, "unread": 0, "label": f"{label} (waited)"}


_SEPARATE_SUMS = ("requests", "errors", "request_bytes", "response_bytes", "record_count")


def _api_label(api: _Item) -> str:
    if api["other"]:
        return "(other APIs)"
    if api["api_key"] is None:
        return "(response alone)"
    name = api_text(api["api_name"], api["api_key"])
    return name if api["wire"] == "kafka" else f"{name} {shown(api['wire'])}"


def _records(item: _Item) -> str:
    if item["record_count"] is None:
        return MISSING
    return records_text(item["record_count"], known=item["record_count_known"])


def _parts(summary: _Item) -> _Content:
    lines = sorted(summary["latency_parts"], key=lambda line: -_whole_time(line))
    columns = (
        _text("API", "api_name", 15, "bold"),
        *((_BROKER,) if len(set(map(_broker_address, lines))) > 1 else ()),
        _Shown(TableColumn("captured at", rank=1), lambda item: shown(item["capture_point"])),
        _REQUESTS,
        _number("mean", lambda item: duration_text(item["total_time_ns"]["mean"])),
        *(
            _share(title, name)
            for name, title, _ in PARTS
            if any(line[name]["per_mille"] != 0 for line in lines)
        ),
    )
    return _Content(
        "Where the time went (requests that waited on purpose left out)",
        lines,
        columns,
        sorted_title="Where the time went",
    )


def _whole_time(line: _Item) -> int:
    """Return the approximate total time of all requests of a line in ns."""
    return int(line["requests"]) * int(line["total_time_ns"]["mean"])


def _broker_address(item: _Item) -> str:
    return str(Endpoint(item["broker_ip"], item["broker_port"]))


_BROKER = _Shown(TableColumn("broker address", least=14), _broker_address)


def _share(title: str, name: str) -> _Shown:
    def style(item: _Item) -> str:
        per_mille = item[name]["per_mille"]
        return "bold" if per_mille is not None and per_mille >= _LARGE_PER_MILLE else ""

    return _Shown(
        TableColumn(title, right=True),
        lambda item: per_mille_text(item[name]["per_mille"]),
        style,
    )


_LARGE_PER_MILLE = 500


def _errors(summary: _Item) -> _Content:
    dated = is_dated(summary["capture"])
    columns = (
        _Shown(TableColumn("error", least=34), _error_name, "red"),
        _API,
        _Shown(
            TableColumn("topic", least=16, may_have_ids=True), lambda item: shown(item["topic"])
        ),
        _count("count", "count"),
        _moment("first", "first_time_ns", dated=dated, rank=1),
        _moment("last", "last_time_ns", dated=dated, rank=2),
    )
    return _Content("Errors by code and topic", summary["errors"], columns)


def _error_name(item: _Item) -> str:
    if item.get("other"):
        return "(other errors)"
    return f"{shown(item['error_name'])} {item['error_code']}"


def _client_errors(summary: _Item) -> _Content:
    dated = is_dated(summary["capture"])
    columns = (
        _CLIENT,
        _Shown(TableColumn("error", least=24), _error_name, "red"),
        _API,
        _count("count", "count"),
        _moment("first", "first_time_ns", dated=dated, rank=1),
        _moment("last", "last_time_ns", dated=dated, rank=2),
    )
    return _Content("Errors by client", summary["client_errors"], columns, _FEW)


def _clients(summary: _Item) -> _Content:
    columns: tuple[_Shown, ...] = (
        _name("client", "client_id", "(other clients)"),
        _Shown(TableColumn("software", least=14, rank=1), lambda item: _texts(item, "software")),
        _Shown(TableColumn("from", least=13, rank=2), lambda item: _texts(item, "client_ips")),
        _Shown(TableColumn("user", least=6, rank=3), lambda item: _texts(item, "principals")),
        _REQUESTS,
        *_errors_of(summary["clients"]),
        _BYTES,
        _latency("p99"),
    )
    if not any(item["principals"] for item in summary["clients"]):
        columns = columns[:3] + columns[4:]
    return _Content("Busiest clients", summary["clients"], columns, sorted_title="Clients")


def _client_apis(summary: _Item) -> _Content:
    lines = summary["client_apis"]
    columns = (
        _CLIENT,
        _API,
        _REQUESTS,
        *_errors_of(lines),
        *((_UNANSWERED,) if any(line["unanswered"] for line in lines) else ()),
        _BYTES,
        _latency("p50", rank=1),
        _latency("p99"),
        _latency("max", rank=2),
    )
    if len({line["client_id"] for line in lines}) < 2:
        lines = []
    return _Content("Clients by API", lines, columns, sorted_title="Clients by API")


def _topics(summary: _Item) -> _Content:
    columns = (
        _TOPIC,
        _count("produces", "produce_requests", rank=1),
        _number("records", lambda item: _record_cell(item, "produced")),
        _number("acked", _acknowledged_cell, rank=2),
        _size("bytes in", "produced_bytes"),
        _count("fetches", "fetch_requests", rank=1),
        _number("records", lambda item: _record_cell(item, "fetched")),
        _size("bytes out", "fetched_bytes"),
        _ERRORS,
    )
    return _Content("Busiest topics", summary["topics"], columns, sorted_title="Topics")


def _record_cell(item: _Item, direction: str) -> str:
    return records_text(item[f"{direction}_records"], known=item[f"{direction}_records_known"])


def _acknowledged_cell(item: _Item) -> str:
    return records_text(item["acknowledged_records"], known=item["produced_records_known"])


def _topic_latency(summary: _Item) -> _Content:
    columns = (
        _TOPIC,
        _API,
        _number("answered", lambda item: count_text(item["latency_ns"]["count"])),
        _latency("p50"),
        _latency("p90", rank=1),
        _latency("p99"),
        _latency("max"),
    )
    title = "Latency by topic"
    return _Content(title, summary["topic_latency"], columns, _FEW, title)


def _partitions(summary: _Item) -> _Content:
    columns = (
        _TOPIC,
        _count("partition", "partition"),
        _count("produces", "produce_requests", rank=1),
        _count("records", "produced_records"),
        _size("bytes in", "produced_bytes"),
        _count("fetches", "fetch_requests", rank=1),
        _count("records", "fetched_records"),
        _size("bytes out", "fetched_bytes"),
        _count("high watermark", "high_watermark", rank=2),
    )
    lines = summary["partitions"]
    if len(lines) == len({(line["topic"], line["topic_id"]) for line in lines}):
        lines = []  # each topic has one partition: the lines would repeat the table of topics
    return _Content("Busiest partitions", lines, columns, _FEW, "Partitions")


def _groups(summary: _Item) -> _Content:
    columns = (
        _name("group", "group_id", "(other groups)"),
        _REQUESTS,
        _count("joins", "joins"),
        _count("syncs", "syncs", rank=2),
        _duration("rebalancing", "rebalance_time_ns"),
        _duration("longest join", "longest_join_ns", rank=1),
        _duration("longest sync", "longest_sync_ns", rank=3),
        *_errors_of(summary["groups"]),
    )
    return _Content("Consumer groups", summary["groups"], columns, sorted_title="Consumer groups")


def _brokers(summary: _Item) -> _Content:
    columns = (
        _name("broker", "broker", "(other brokers)"),
        _REQUESTS,
        *_errors_of(summary["brokers"]),
        _SENT,
        _RECEIVED,
        _latency("p50", rank=1),
        _latency("p99"),
    )
    return _Content("Brokers", summary["brokers"], columns, sorted_title="Brokers")


def _tls(summary: _Item) -> _Content:
    columns = (
        _text("broker", "broker", 20, "bold"),
        _text("version", "tls_version", 7),
        _text("cipher suite", "tls_cipher_suite", 20),
        _count("connections", "connections"),
        _count("decrypted", "decrypted"),
        _Shown(
            TableColumn("failed", right=True),
            lambda item: count_text(item["failed"]),
            _red_if("failed"),
        ),
        _count("resumed", "resumed", rank=2),
        _count("mutual", "mutual", rank=2),
        _duration("handshake p50", "handshake_p50_ns", rank=1),
        _count("requests (est.)", "estimated_requests", rank=3),
        _duration("response time p50 (est.)", "estimated_response_time_p50_ns", rank=4),
    )
    return _Content("TLS", summary["tls"], columns)


def _tls_certificates(summary: _Item) -> _Content:
    columns = (
        _text("certificate of", "sent_by", 6),
        _text("subject", "subject", 16, "bold"),
        _text("issuer", "issuer", 12),
        _Shown(
            TableColumn("valid until", right=True),
            lambda item: moment_text(item["not_after_ns"])[:_SECONDS],
            _red_if("expired"),
        ),
        _count("connections", "connections"),
    )
    return _Content("TLS certificates", summary["tls_certificates"], columns)


def _worst_times(summary: _Item, order: TableOrder) -> _Content:
    """Return the worst spans of time, by p99 unless ``--sort`` names another figure."""
    spans = _spans(summary)
    sort = order.sort or "p99"
    columns = (
        _moment("from", "start_ns", dated=is_dated(summary["capture"])),
        _REQUESTS,
        _ERRORS,
        _BYTES,
        *(_duration(name, name) for name in ("p50", "p90", "p99", "max")),
    )
    if len(spans) < 2:
        spans = []
    width = duration_text(summary["throughput"]["bucket_ns"])
    title = f"Worst times, {width} each, by {sort}"
    worst = [span for span in _ordered(spans, sort) if _figure(span, sort)]
    return _Content(title, worst[: order.limit or _FEW], columns)


def _spans(summary: _Item) -> list[_Item]:
    """Return the spans of time that have requests, each as a line."""
    amounts, latency = summary["throughput"], summary["latency"]
    names = [name for name in amounts if name not in ("start_ns", "bucket_ns")]
    quantiles = [name for name in latency if name not in ("start_ns", "bucket_ns")]
    lines = [
        {
            "start_ns": amounts["start_ns"] + number * amounts["bucket_ns"],
            **{name: amounts[name][number] for name in names},
            **{name: latency[name][number] for name in quantiles},
        }
        for number in range(len(amounts["requests"]))
    ]
    return [line for line in lines if any(line[name] for name in names)]


def _versions(summary: _Item) -> _Content:
    columns = (
        _Shown(TableColumn("API", least=20), _api_label, "bold"),
        _Shown(TableColumn("requests by version", least=20), _version_counts),
    )
    apis = [api for api in summary["apis"] if api["versions"]]
    return _Content("Versions in use", apis, columns)


def _version_counts(api: _Item) -> str:
    """Return the versions of an API, the most frequent first."""
    counts = sorted(api["versions"].items(), key=lambda item: -item[1])
    return ", ".join(
        f"{'v' if version.isdigit() else ''}{version}: {count_text(count)}"
        for version, count in counts
    )


def _codecs(summary: _Item) -> _Content:
    columns = (
        _CLIENT,
        _text("codec", "codec", 6),
        _REQUESTS,
        _count("batches", "batches"),
        _count("records", "records"),
        _size("bytes", "bytes"),
        _count("records p50", "records_p50", rank=1),
        _size("bytes p50", "bytes_p50"),
    )
    title = "What producers send: codecs and batch sizes"
    return _Content(title, summary["codecs"], columns, _FEW, title)


def _slowest(summary: _Item) -> _Content:
    columns = (
        _Shown(
            TableColumn("latency", right=True),
            lambda item: duration_text(item["latency_ns"]),
            "bold",
        ),
        _Shown(TableColumn("mostly"), lambda item: ", ".join(_large_parts(item)[:1]) or MISSING),
        _Shown(
            TableColumn("and", least=12, rank=4),
            lambda item: ", ".join(_large_parts(item)[1:]) or MISSING,
        ),
        _Shown(TableColumn("API", least=12), _api_and_version),
        _text("client", "client_id", 12),
        _Shown(TableColumn("topics", least=10, rank=2), lambda item: _texts(item, "topics")),
        _Shown(
            TableColumn("status", least=10, rank=1),
            lambda item: status_text(item["status"], item["error_name"]),
        ),
        _moment("at", "request_start_ns", dated=is_dated(summary["capture"]), rank=3),
        _number(
            "packets",
            lambda item: packets_text(item["request_packet"], item["response_packet"]),
        ),
        _text("connection", "connection", 20, rank=5),
    )
    title = "Slowest requests (those that waited on purpose left out)"
    return _Content(title, summary["slowest"], columns, notes=_display_filters)


def _display_filters(items: Sequence[_Item]) -> list[str]:
    """Return the display filters of the packets of requests, for Wireshark."""
    sides = ("request_packet", "response_packet")
    packets = [(item["capture"], item[side]) for item in items for side in sides]
    return [f"Wireshark: {line}" for line in filter_lines(packets)]


def _large_parts(item: _Item) -> list[str]:
    """Return the parts of a request's time, the largest first, without those below 1 %."""
    total_ns = item["total_time_ns"]
    parts = [(item[name], title) for name, title, _ in PARTS if item[name] and total_ns]
    percents = [(round(100 * duration_ns / total_ns), title) for duration_ns, title in parts]
    ordered = sorted(percents, key=lambda part: -part[0])
    return [f"{title} {percent} %" for percent, title in ordered if percent]


def _api_and_version(item: _Item) -> str:
    return f"{api_text(item['api_name'], item['api_key'])} v{item['api_version']}"
