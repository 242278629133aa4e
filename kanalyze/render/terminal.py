"""The report for people, on a terminal or not.

In: a summary (see :mod:`kanalyze.queries.report`). Out: lines, also on a rich console. This
module must not know where the summary comes from; whatever text in it came over the wire is
escaped.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.render.chart import bar_lines, columns_for, resampled
from kanalyze.render.findings import finding_lines
from kanalyze.render.header import header_lines
from kanalyze.render.layout import TableColumn, fitted, natural_widths, padded
from kanalyze.render.lines import Line, table_line
from kanalyze.render.text import MISSING, shown
from kanalyze.render.times import clock_text
from kanalyze.render.units import (
    bytes_text,
    count_text,
    duration_text,
    rate_text,
    records_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

__all__ = ["render_report", "report_lines"]

_Item: TypeAlias = dict[str, Any]

_WIDE = 100
_MOST_API_LINES = 40
_MOST_LINES = 10
_CHART_HEIGHT = 4
_CHART_LABEL = 10


class _Shown(NamedTuple):
    """A column of a table in the report."""

    column: TableColumn
    cell: Callable[[_Item], str]
    style: Callable[[_Item], str] | str = ""


def render_report(summary: dict[str, Any], console: Console) -> None:
    """Show a summary on a rich console."""
    from rich.text import Text

    for line in report_lines(summary, console.width):
        console.print(Text.assemble(*line.parts), highlight=False, soft_wrap=True)


def report_lines(summary: dict[str, Any], width: int) -> Iterator[Line]:
    """Give the lines of a summary; none takes more than ``width``, from 60 columns on."""
    sections = (
        _apis(summary, width),
        _errors(summary, width),
        _clients(summary, width),
        _topics(summary, width),
        _groups(summary, width),
        _brokers(summary, width),
        _throughput(summary, width),
        _slowest(summary, width),
    )
    findings = finding_lines(summary["findings"]) if "findings" in summary else ()
    for line in chain(header_lines(summary), findings, *sections):
        yield from line.fitted(width)


# -- tables ---------------------------------------------------------------------------------------


def _table(
    title: str, shown_columns: Sequence[_Shown], items: Sequence[_Item], width: int, most: int
) -> Iterator[Line]:
    """Give the lines of a titled table of the first ``most`` items; nothing without items."""
    if not items:
        return
    yield Line()
    yield Line(title, style="bold cyan")
    columns = [item.column for item in shown_columns]
    cells = [[column.cell(item) for column in shown_columns] for item in items[:most]]
    widths = fitted(columns, natural_widths(columns, cells), width)
    titles = [(column.title, "bold") for column in columns]
    yield table_line(columns, widths, titles)
    for item, row in zip(items, cells, strict=False):
        styles = [_style(column, item) for column in shown_columns]
        yield table_line(columns, widths, list(zip(row, styles, strict=True)))
    if len(items) > most:
        yield Line(f"and {count_text(len(items) - most)} more", style="dim")


def _style(shown_column: _Shown, item: _Item) -> str:
    style = shown_column.style
    return style if isinstance(style, str) else style(item)


def _red_if(name: str) -> Callable[[_Item], str]:
    return lambda item: "red" if item[name] else "dim"


def _name(item: _Item, name: str, others: str) -> str:
    return others if item["other"] else shown(item[name])


def _number(title: str, cell: Callable[[_Item], str], rank: int = 0) -> _Shown:
    return _Shown(TableColumn(title, right=True, rank=rank), cell)


def _latency(title: str, quantile: str, rank: int = 0) -> _Shown:
    return _number(title, lambda item: duration_text(item["latency_ns"][quantile]), rank)


_REQUESTS = _number("requests", lambda item: count_text(item["requests"]))
_ERRORS = _Shown(
    TableColumn("errors", right=True),
    lambda item: count_text(item["errors"]),
    _red_if("errors"),
)
_BYTES = _number("bytes", lambda item: bytes_text(item["request_bytes"] + item["response_bytes"]))
_SENT = _number("sent", lambda item: bytes_text(item["request_bytes"]))
_RECEIVED = _number("received", lambda item: bytes_text(item["response_bytes"]))


def _apis(summary: _Item, width: int) -> Iterator[Line]:
    sizes = (_SENT, _RECEIVED) if width >= _WIDE else (_BYTES,)
    columns = (
        _Shown(TableColumn("API", least=20), lambda item: item["label"], "bold"),
        _Shown(TableColumn("versions", least=8, rank=4), _versions),
        _REQUESTS,
        _ERRORS,
        *sizes,
        _number("records", _records, rank=3),
        _latency("p50", "p50"),
        _latency("p90", "p90", rank=2),
        _latency("p99", "p99"),
        _latency("max", "max", rank=1),
    )
    items = list(chain.from_iterable(map(_api_lines, summary["apis"])))
    yield from _table("Requests by API, with latency", columns, items, width, _MOST_API_LINES)


def _api_lines(api: _Item) -> Iterator[_Item]:
    """Give the line of an API, and one for its requests that waited on purpose."""
    waited = api["waited"]
    label = _api_label(api)
    if not waited["requests"]:
        yield {**api, "label": label}
        return
    if api["requests"] > waited["requests"]:
        rest = {
            name: None if api[name] is None else api[name] - (waited[name] or 0)
            for name in _SEPARATE_SUMS
        }
        yield {**api, **rest, "label": label}
    yield {**api, **waited, "label": f"{label} (waited)"}


_SEPARATE_SUMS = ("requests", "errors", "request_bytes", "response_bytes", "record_count")


def _api_label(api: _Item) -> str:
    if api["other"]:
        return "(other APIs)"
    if api["api_key"] is None:
        return "(response alone)"
    name = shown(api["api_name"]) if api["api_name"] else f"(key {api['api_key']})"
    return name if api["wire"] == "kafka" else f"{name} {shown(api['wire'])}"


def _versions(item: _Item) -> str:
    return " ".join(shown(version) for version in item["versions"])


def _records(item: _Item) -> str:
    if item["record_count"] is None:
        return MISSING
    return records_text(item["record_count"], known=item["record_count_known"])


def _errors(summary: _Item, width: int) -> Iterator[Line]:
    dated = _dated(summary)
    columns = (
        _Shown(TableColumn("error", least=34), _error_name, "red"),
        _Shown(TableColumn("API", least=15), lambda item: shown(item["api_name"])),
        _Shown(TableColumn("topic", least=16), lambda item: shown(item["topic"])),
        _number("count", lambda item: count_text(item["count"])),
        _number("first", lambda item: clock_text(item["first_time_ns"], dated=dated), rank=1),
        _number("last", lambda item: clock_text(item["last_time_ns"], dated=dated), rank=2),
    )
    yield from _table("Errors by code and topic", columns, summary["errors"], width, _MOST_LINES)


def _error_name(item: _Item) -> str:
    return (
        "(other errors)" if item["other"] else f"{shown(item['error_name'])} {item['error_code']}"
    )


def _clients(summary: _Item, width: int) -> Iterator[Line]:
    columns: tuple[_Shown, ...] = (
        _Shown(
            TableColumn("client", least=24),
            lambda item: _name(item, "client_id", "(other clients)"),
            "bold",
        ),
        _Shown(TableColumn("software", least=14, rank=1), lambda item: _texts(item, "software")),
        _Shown(TableColumn("from", least=13, rank=2), lambda item: _texts(item, "client_ips")),
        _Shown(TableColumn("user", least=6, rank=3), lambda item: _texts(item, "principals")),
        _REQUESTS,
        _ERRORS,
        _BYTES,
        _latency("p99", "p99"),
    )
    if not any(item["principals"] for item in summary["clients"]):
        columns = columns[:3] + columns[4:]
    yield from _table("Busiest clients", columns, summary["clients"], width, _MOST_LINES)


def _texts(item: _Item, name: str) -> str:
    texts = [shown(text) for text in item[name]]
    if item[f"more_{name}"]:
        texts.append("\u2026")
    return ", ".join(texts) or MISSING


def _topics(summary: _Item, width: int) -> Iterator[Line]:
    columns = (
        _Shown(TableColumn("topic", least=16), _topic_name, "bold"),
        _number("produces", lambda item: count_text(item["produce_requests"]), rank=1),
        _number("records", lambda item: _record_cell(item, "produced")),
        _number("acked", _acknowledged_cell, rank=2),
        _number("bytes in", lambda item: bytes_text(item["produced_bytes"])),
        _number("fetches", lambda item: count_text(item["fetch_requests"]), rank=1),
        _number("records", lambda item: _record_cell(item, "fetched")),
        _number("bytes out", lambda item: bytes_text(item["fetched_bytes"])),
        _ERRORS,
    )
    yield from _table("Busiest topics", columns, summary["topics"], width, _MOST_LINES)


def _topic_name(item: _Item) -> str:
    if item["other"]:
        return "(other topics)"
    return shown(item["topic"]) if item["topic"] is not None else f"id {shown(item['topic_id'])}"


def _record_cell(item: _Item, which: str) -> str:
    return records_text(item[f"{which}_records"], known=item[f"{which}_records_known"])


def _acknowledged_cell(item: _Item) -> str:
    return records_text(item["acknowledged_records"], known=item["produced_records_known"])


def _groups(summary: _Item, width: int) -> Iterator[Line]:
    columns = (
        _Shown(
            TableColumn("group", least=24),
            lambda item: _name(item, "group_id", "(other groups)"),
            "bold",
        ),
        _REQUESTS,
        _number("joins", lambda item: count_text(item["joins"])),
        _ERRORS,
    )
    yield from _table("Consumer groups", columns, summary["groups"], width, _MOST_LINES)


def _brokers(summary: _Item, width: int) -> Iterator[Line]:
    columns = (
        _Shown(
            TableColumn("broker", least=24),
            lambda item: _name(item, "broker", "(other brokers)"),
            "bold",
        ),
        _REQUESTS,
        _ERRORS,
        _SENT,
        _RECEIVED,
        _latency("p50", "p50", rank=1),
        _latency("p99", "p99"),
    )
    yield from _table("Brokers", columns, summary["brokers"], width, _MOST_LINES)


def _slowest(summary: _Item, width: int) -> Iterator[Line]:
    dated = _dated(summary)
    columns = (
        _Shown(
            TableColumn("latency", right=True),
            lambda item: duration_text(item["latency_ns"]),
            "bold",
        ),
        _Shown(TableColumn("API", least=16), _api_and_version),
        _Shown(TableColumn("client", least=16), lambda item: shown(item["client_id"])),
        _Shown(TableColumn("topics", least=12), lambda item: _texts(item, "topics")),
        _Shown(TableColumn("status", least=12, rank=1), _status),
        _number("at", lambda item: clock_text(item["request_start_ns"], dated=dated), rank=2),
        _number("packets", _packets),
        _Shown(TableColumn("connection", rank=3), lambda item: shown(item["connection"])),
    )
    title = "Slowest requests (those that waited on purpose left out)"
    yield from _table(title, columns, summary["slowest"], width, _MOST_LINES)


def _api_and_version(item: _Item) -> str:
    name = shown(item["api_name"]) if item["api_name"] else f"(key {item['api_key']})"
    return f"{name} v{item['api_version']}"


def _status(item: _Item) -> str:
    return shown(item["error_name"]) if item["status"] == "error" else shown(item["status"])


def _packets(item: _Item) -> str:
    numbers = (item["request_packet"], item["response_packet"])
    return " \u2192 ".join(MISSING if number is None else str(number) for number in numbers)


def _dated(summary: _Item) -> bool:
    """Return whether times of day are not enough."""
    first, last = summary["capture"]["first_time"], summary["capture"]["last_time"]
    return bool(first and last and first[:10] != last[:10])


# -- throughput -----------------------------------------------------------------------------------


def _throughput(summary: _Item, width: int) -> Iterator[Line]:
    series = summary["throughput"]
    buckets = len(series["requests"])
    if not buckets:
        return
    together, repeat = columns_for(buckets, max(width - _CHART_LABEL - 2, 10))
    sizes = [
        sum(pair) for pair in zip(series["request_bytes"], series["response_bytes"], strict=True)
    ]
    bucket_ns = series["bucket_ns"] * together
    yield Line()
    yield Line(f"Throughput, by {duration_text(bucket_ns)}", style="bold cyan")
    for title, amounts, unit, colour in (
        ("requests", series["requests"], "", "green"),
        ("bytes", sizes, "B", "blue"),
    ):
        bars = resampled(amounts, together)
        top = rate_text(max(bars), bucket_ns, unit)
        yield from _chart(title, top, bar_lines(bars, _CHART_HEIGHT, repeat), colour)
    yield _time_axis(series, len(resampled(sizes, together)) * repeat, _dated(summary))


def _chart(title: str, top: str, lines: list[str], colour: str) -> Iterator[Line]:
    labels = [top, *[""] * (len(lines) - 2), title]
    for label, bars in zip(labels, lines, strict=True):
        line = Line()
        line.append(padded(label, _CHART_LABEL, right=True), "dim")
        line.append(" \u2502", "dim")
        line.append(bars.rstrip(), colour)
        yield line


def _time_axis(series: _Item, columns: int, dated: bool) -> Line:
    start_ns = series["start_ns"]
    end_ns = start_ns + len(series["requests"]) * series["bucket_ns"]
    first = clock_text(start_ns, dated=dated)
    last = clock_text(end_ns, dated=dated)
    between = max(columns - len(first) - len(last), 1)
    indent = " " * (_CHART_LABEL + 2)
    return Line(f"{indent}{first}{' ' * between}{last}", style="dim")
