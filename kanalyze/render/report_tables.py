"""The tables of a report for people: which lines they have, and in which order.

In: a summary (see :mod:`kanalyze.queries.report`), and the figure by which lines are sorted. Out:
cells as texts with styles. What a table's columns are is declared in :mod:`kanalyze.spec.report`.

Every figure is copied from the summary. A table that would repeat another is left out: with a
single client there is no table of clients by API.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.render.report_cells import cells_of
from kanalyze.render.times import is_dated
from kanalyze.render.units import duration_text
from kanalyze.render.wireshark import filter_lines
from kanalyze.spec.report import AFTER_CHARTS, BEFORE_CHARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.render.layout import TableColumn
    from kanalyze.render.report_cells import Item
    from kanalyze.spec.report import DeclaredTable

__all__ = ["ReportTable", "TableOrder", "report_tables"]

_WIDE = 100


class TableOrder(NamedTuple):
    """How the lines of a table are sorted, and how many are shown."""

    sort: str | None = None
    """One of :data:`~kanalyze.spec.options.SORTS`; None for the order in the summary."""
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


def report_tables(
    summary: Item, order: TableOrder, width: int | None = None
) -> tuple[list[ReportTable], list[ReportTable]]:
    """Return the tables to show before the charts, and those to show after them.

    Tables without lines are left out. For a ``width`` below 100 there are fewer columns.
    """
    is_wide = width is None or width >= _WIDE

    def filled(tables: Iterable[DeclaredTable]) -> list[ReportTable]:
        lines_of = ((table, _lines(table, summary, order)) for table in tables)
        return [
            _table(table, lines, summary, order, is_wide=is_wide)
            for table, lines in lines_of
            if lines
        ]

    return filled(BEFORE_CHARTS), filled(AFTER_CHARTS)


def _table(
    table: DeclaredTable, lines: Sequence[Item], summary: Item, order: TableOrder, *, is_wide: bool
) -> ReportTable:
    title = table.title or f"Worst times, {_span_text(summary)} each, by {_worst_by(order)}"
    if table.sorted_title and order.sort and _has_figure(lines, order.sort):
        lines = _ordered(lines, order.sort)
        title = f"{table.sorted_title}, by {order.sort}"
    if table.name == "apis":
        # APIs are sorted by their whole figures, so that the two lines of an API stay together.
        lines = list(chain.from_iterable(map(_api_lines, lines)))
    most = order.limit or table.most
    cells = cells_of(table, lines, is_dated=is_dated(summary["capture"]), is_wide=is_wide)
    return ReportTable(
        title,
        tuple(cell.column for cell in cells),
        [[(cell.text(line), cell.style(line)) for cell in cells] for line in lines[:most]],
        max(len(lines) - most, 0),
        _display_filters(lines[:most]) if table.name == "slowest" else (),
    )


def _display_filters(lines: Sequence[Item]) -> list[str]:
    """Return the display filters of the packets of requests, for Wireshark."""
    sides = ("request_packet", "response_packet")
    packets = [(line["capture"], line[side]) for line in lines for side in sides]
    return [f"Wireshark: {line}" for line in filter_lines(packets)]


# -- the lines ------------------------------------------------------------------------------------


def _lines(table: DeclaredTable, summary: Item, order: TableOrder) -> list[Item]:
    """Return the lines of a table; none if they would repeat another table."""
    if table.name == "worst_times":
        return _worst_times(summary, order, table.most)
    if table.name == "versions":
        return [api for api in summary["apis"] if api["versions"]]
    lines: list[Item] = summary[table.name]
    if table.name == "latency_parts":
        return sorted(lines, key=lambda line: -_whole_time(line))
    if table.name == "client_apis" and len({line["client_id"] for line in lines}) < 2:
        return []
    if table.name == "partitions":
        topics = {(line["topic"], line["topic_id"]) for line in lines}
        return [] if len(topics) == len(lines) else lines
    return lines


def _api_lines(api: Item) -> Iterator[Item]:
    """Yield the line of an API, and a line for its requests that waited on purpose."""
    waited = api["waited"]
    if not waited["requests"]:
        yield api
        return
    if api["requests"] > waited["requests"]:
        not_waited = {
            name: None if api[name] is None else api[name] - (waited[name] or 0)
            for name in _SEPARATE_SUMS
        }
        yield {**api, **not_waited}
    # A response that was not read shows no wait.
    yield {**api, **waited, "unread": 0, "is_waited": True}


_SEPARATE_SUMS = ("requests", "errors", "request_bytes", "response_bytes", "record_count")


def _whole_time(line: Item) -> int:
    """Return the approximate total time of all requests of a line in ns."""
    return int(line["requests"]) * int(line["total_time_ns"]["mean"])


def _worst_times(summary: Item, order: TableOrder, most: int) -> list[Item]:
    """Return the worst spans of time, by p99 unless ``--sort`` names another figure."""
    sort, spans = _worst_by(order), _spans(summary)
    if len(spans) < 2:
        return []
    worst = [span for span in _ordered(spans, sort) if _figure(span, sort)]
    return worst[: order.limit or most]


def _worst_by(order: TableOrder) -> str:
    return order.sort or "p99"


def _span_text(summary: Item) -> str:
    return duration_text(summary["throughput"]["bucket_ns"])


def _spans(summary: Item) -> list[Item]:
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


# -- the order of lines ---------------------------------------------------------------------------

_FIGURES = {
    "requests": ("requests", "produce_requests", "fetch_requests"),
    "errors": ("errors",),
    "bytes": ("request_bytes", "response_bytes", "produced_bytes", "fetched_bytes", "bytes"),
}
"""By figure: the fields of a line that are added up, as far as the line has them."""


def _figure(item: Item, sort: str) -> int | None:
    """Return the figure that a line is sorted by; None if it has no such figure."""
    if sort in _FIGURES:
        amounts = [item[name] for name in _FIGURES[sort] if item.get(name) is not None]
        return sum(amounts) if amounts else None
    figure: int | None = item.get("latency_ns", item).get(sort)
    return figure


def _has_figure(items: Iterable[Item], sort: str) -> bool:
    return any(_figure(item, sort) is not None for item in items)


def _ordered(items: Iterable[Item], sort: str) -> list[Item]:
    """Return lines in descending order, then lines without a figure, then the sum of others."""

    def sort_key(item: Item) -> tuple[bool, bool, int]:
        figure = _figure(item, sort)
        return item.get("other", False), figure is None, -(figure or 0)

    return sorted(items, key=sort_key)
