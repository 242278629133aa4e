"""The report for people, on a terminal or in a file.

In: a summary (see :mod:`kanalyze.queries.report`). Out: lines, or output on a rich console. It
escapes text from the wire.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.render.findings import finding_lines, left_out_text, no_findings_text
from kanalyze.render.header import header_lines
from kanalyze.render.layout import bar_lines, columns_for, largest, padded, resampled
from kanalyze.render.lines import Line, fitted_table
from kanalyze.render.missing import without_nulls
from kanalyze.render.report_tables import TableOrder, report_tables
from kanalyze.render.units import clock_text, count_text, duration_text, is_dated, rate_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from kanalyze.render.report_tables import ReportTable

__all__ = ["chart_lines", "print_lines", "render_report", "report_lines"]

_Item: TypeAlias = dict[str, Any]

_CHART_HEIGHT = 3
_LOW_CHART_HEIGHT = 2
_CHART_LABEL = 10


def render_report(summary: _Item, console: Console) -> None:
    """Print a summary on a rich console."""
    print_lines(report_lines(summary, console.width), console)


def print_lines(lines: Iterable[Line], console: Console) -> None:
    """Print lines, with their styles, on a rich console."""
    from rich.text import Text

    for line in lines:
        console.print(Text.assemble(*line.parts), highlight=False, soft_wrap=True)


def report_lines(summary: _Item, width: int, order: TableOrder | None = None) -> Iterator[Line]:
    """Yield the lines of a summary. From ``width`` 60 on, no line is longer than ``width``."""
    summary = without_nulls(summary)
    before, after = report_tables(summary, order or TableOrder(), width)
    lines = chain(
        header_lines(summary),
        _findings(summary),
        *(_table(table, width) for table in before),
        _charts(summary, width),
        *(_table(table, width) for table in after),
    )
    for line in lines:
        yield from line.fitted(width)


def _findings(summary: _Item) -> Iterator[Line]:
    if "findings" in summary:
        captures = summary["capture"]["captures"]
        nothing = no_findings_text(summary)
        yield from finding_lines(summary["findings"], captures, left_out_text(summary), nothing)


def _table(table: ReportTable, width: int) -> Iterator[Line]:
    """Yield the title and the lines of a table."""
    yield Line()
    yield Line(table.title, style="bold cyan")
    yield from fitted_table(table.columns, table.rows, width)
    if table.more:
        yield Line(f"and {count_text(table.more)} more", style="dim")
    for note in table.notes:
        yield Line(note, style="dim")


def _charts(summary: _Item, width: int) -> Iterator[Line]:
    for number, line in enumerate(chart_lines(summary, width)):
        if not number:
            yield Line()
        yield line


# -- over time ------------------------------------------------------------------------------------


def chart_lines(summary: _Item, width: int) -> Iterator[Line]:
    """Yield a title and charts of amounts over time; nothing if there are no requests."""
    series = summary["throughput"]
    buckets = len(series["requests"])
    if not buckets:
        return
    together, repeat = columns_for(buckets, max(width - _CHART_LABEL - 2, 10))
    bucket_ns = series["bucket_ns"] * together
    yield Line(f"Over time, by {duration_text(bucket_ns)}", style="bold cyan")

    def chart(title: str, bars: list[int], top: str, height: int, colour: str) -> Iterator[Line]:
        return _chart(title, top, bar_lines(bars, height, repeat), colour)

    sizes = [
        sum(pair) for pair in zip(series["request_bytes"], series["response_bytes"], strict=True)
    ]
    for title, amounts, unit, colour in (
        ("requests", series["requests"], "", "green"),
        ("bytes", sizes, "B", "blue"),
    ):
        bars = resampled(amounts, together)
        top = rate_text(max(bars), bucket_ns, unit)
        yield from chart(title, bars, top, _CHART_HEIGHT, colour)
    errors = resampled(series["errors"], together)
    if any(errors):
        top = rate_text(max(errors), bucket_ns)
        yield from chart("errors", errors, top, _LOW_CHART_HEIGHT, "red")
    slowest = largest(summary["latency"]["max"], together)
    if any(slowest):
        top = duration_text(max(slowest))
        yield from chart("slowest", slowest, top, _LOW_CHART_HEIGHT, "magenta")
    yield _time_axis(series, len(resampled(sizes, together)) * repeat, is_dated(summary["capture"]))


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
