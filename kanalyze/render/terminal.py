"""The report for people, on a terminal or in a file: the verdict first, then what shows it.

In: a summary (see :mod:`kanalyze.queries.report`). Out: lines, or output on a rich console. It
escapes text from the wire.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.times import round_width_ns
from kanalyze.common.zones import UTC, Zone
from kanalyze.render.findings import (
    finding_lines,
    left_out_text,
    no_findings_text,
    story_lines,
)
from kanalyze.render.header import brief_header_lines, header_lines
from kanalyze.render.layout import bar_lines, largest, padded, resampled
from kanalyze.render.lines import Line, fitted_table
from kanalyze.render.missing import without_nulls
from kanalyze.render.report_tables import TableOrder, report_tables, sections_of
from kanalyze.render.sections import lines_within, sections_that_matter
from kanalyze.render.units import (
    ReportClock,
    count_text,
    counted,
    duration_text,
    rate_text,
)
from kanalyze.render.verdict import verdict_of
from kanalyze.spec.report import OVER_TIME, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import Console

    from kanalyze.render.report_tables import ReportTable

_Item: TypeAlias = dict[str, Any]

_CHART_HEIGHT = 3
_LOW_CHART_HEIGHT = 2
_CHART_LABEL = 10


def render_report(summary: _Item, console: Console, order: TableOrder | None = None) -> None:
    """Print a summary on a rich console."""
    print_lines(report_lines(summary, console.width, order), console)


def print_lines(lines: Iterable[Line], console: Console) -> None:
    """Print lines, with their styles, on a rich console."""
    from rich.text import Text

    for line in lines:
        console.print(Text.assemble(*line.parts), highlight=False, soft_wrap=True)


def report_lines(
    summary: _Item,
    width: int,
    order: TableOrder | None = None,
    *,
    repeats_verdict: bool = False,
) -> Iterator[Line]:
    """Yield the lines of a summary. From ``width`` 60 on, no line is longer than ``width``.

    Unless ``order`` names sections, those are shown that matter for what was found, with so many
    lines that they fit on a page. With ``repeats_verdict`` the verdict is also the last line.
    """
    summary, order = without_nulls(summary), order or TableOrder()
    verdict = _verdict(summary, order.zone)
    start = _fitted([verdict, *header_lines(summary, order.zone)], width)
    end = _fitted([Line(), verdict], width) if repeats_verdict else []
    if order.sections is not None:
        findings = _fitted(_findings(summary, order), width)
        yield from (*start, *findings, *_sections(summary, width, order), *end)
        return
    filled = sections_of(summary, order)
    chosen = sections_that_matter(summary.get("findings", []), filled)
    order = order._replace(sections=chosen)
    start += _fitted(_findings(summary, order, _MOST_STORIES), width)
    others = [name for name in filled if name not in chosen]
    end = _fitted(_not_shown(others), width) + end
    room = _PAGE - len(start) - len(end)
    lines = {name: filled[name] for name in chosen if name != OVER_TIME}
    most = None if order.limit else _most_lines(room, summary, width, order, lines)
    yield from (*start, *_sections(summary, width, order, most), *end)


_PAGE = 60
"""Number of lines of a report without findings."""
_MOST_STORIES = 3
_STYLES = {
    "bad": "bold red",
    "warning": "bold yellow",
    "good": "bold green",
    "unknown": "bold yellow",
}


def brief_lines(summary: _Item, width: int, zone: Zone = UTC) -> Iterator[Line]:
    """Yield a report of at most ten lines: the verdict, what was captured, other findings."""
    summary = without_nulls(summary)
    verdict = list(_verdict(summary, zone).fitted(width))[:_MOST_OF_VERDICT]
    head = [*verdict, *brief_header_lines(summary, zone)]
    stories = list(story_lines(summary.get("findings", []), ReportClock.of(summary, zone)))
    room = _BRIEF - len(head)
    if len(stories) > room:
        left_out = len(stories) - room + 1
        stories[room - 1 :] = [Line(f"and {counted(left_out, 'other finding')}", style="dim")]
    lines = [*head, *stories]
    whole = _fitted(lines, width)
    if len(whole) <= _BRIEF:
        yield from whole
        return
    for line in lines:
        cut = line.cut(width)
        cut.rstrip()
        yield cut


_BRIEF = 10
_MOST_OF_VERDICT = 3


def _verdict(summary: _Item, zone: Zone) -> Line:
    verdict = verdict_of(summary, zone)
    return Line(f"verdict: {verdict.text}", style=_STYLES[verdict.level])


def _fitted(lines: Iterable[Line], width: int) -> list[Line]:
    return [piece for line in lines for piece in line.fitted(width)]


def _not_shown(names: Sequence[str]) -> Iterator[Line]:
    """Yield a line that names the sections that are not shown."""
    if names:
        yield Line()
        yield Line(f"also in the report (--sections all, or some): {', '.join(names)}", style="dim")


def _most_lines(
    room: int, summary: _Item, width: int, order: TableOrder, lines: Mapping[str, int]
) -> dict[str, int]:
    """Return how many lines of each table to show, so that all sections take ``room`` lines.

    ``lines`` are the lines that each table has.
    """
    least = _sections(summary, width, order, dict.fromkeys(lines, 1))
    around = len(least) - sum(1 + (count > 1) for count in lines.values())
    return lines_within(room - around, lines)


def _sections(
    summary: _Item, width: int, order: TableOrder, most: Mapping[str, int] | None = None
) -> list[Line]:
    """Return the lines of the sections that ``order`` names."""
    before, after = report_tables(summary, order, width, most)
    has_charts = OVER_TIME in (order.sections or SECTIONS)
    charts = _charts(summary, width, order.zone) if has_charts else ()
    tables = (
        chain.from_iterable(_table(table, width) for table in part) for part in (before, after)
    )
    return _fitted(chain(next(tables), charts, next(tables)), width)


def _findings(summary: _Item, order: TableOrder, most_stories: int | None = None) -> Iterator[Line]:
    if "findings" in summary:
        captures = summary["capture"]["captures"]
        yield from finding_lines(
            summary["findings"],
            captures if order.inputs is None else order.inputs,
            left_out_text(summary),
            no_findings_text(summary),
            most_stories,
            ReportClock.of(summary, order.zone),
            has_files=len(captures) > 1,
        )


def _table(table: ReportTable, width: int) -> Iterator[Line]:
    """Yield the title and the lines of a table."""
    yield Line()
    yield Line(table.title, style="bold cyan")
    yield from fitted_table(table.columns, table.rows, width)
    if table.more:
        yield Line(f"and {count_text(table.more)} more", style="dim")
    for note in table.notes:
        yield Line(note, style="dim")


def _charts(summary: _Item, width: int, zone: Zone) -> Iterator[Line]:
    for number, line in enumerate(chart_lines(summary, width, zone)):
        if not number:
            yield Line()
        yield line


# -- over time ------------------------------------------------------------------------------------


def chart_lines(summary: _Item, width: int, zone: Zone = UTC) -> Iterator[Line]:
    """Yield a title and charts of amounts over time; nothing if there are no requests."""
    series = summary["throughput"]
    if not series["requests"]:
        return
    spans = chart_spans(series, max(width - _CHART_LABEL - 2, 10))
    yield Line(f"Over time, by {duration_text(spans.width_ns)}", style="bold cyan")

    def chart(title: str, bars: list[int], top: str, height: int, colour: str) -> Iterator[Line]:
        return _chart(title, top, bar_lines(bars, height, spans.repeat), colour)

    sizes = [
        sum(pair) for pair in zip(series["request_bytes"], series["response_bytes"], strict=True)
    ]
    for title, amounts, unit, colour in (
        ("requests", series["requests"], "", "green"),
        ("bytes", sizes, "B", "blue"),
    ):
        bars = spans.sums(amounts)
        top = rate_text(max(bars), spans.width_ns, unit)
        yield from chart(title, bars, top, _CHART_HEIGHT, colour)
    errors = spans.sums(series["errors"])
    if any(errors):
        top = rate_text(max(errors), spans.width_ns)
        yield from chart("errors", errors, top, _LOW_CHART_HEIGHT, "red")
    slowest = spans.largest(summary["latency"]["max"])
    if any(slowest):
        top = duration_text(max(slowest))
        yield from chart("slowest", slowest, top, _LOW_CHART_HEIGHT, "magenta")
    yield _time_axis(spans, ReportClock.of(summary, zone))


class ChartSpans(NamedTuple):
    """The spans of time of a chart: each several buckets of a series."""

    start_ns: int
    width_ns: int
    number: int
    together: int
    """Buckets in a span."""
    missing: int
    """Buckets of the first span that are before the series."""
    repeat: int
    """Columns of text for each span."""

    def sums(self, amounts: Sequence[int]) -> list[int]:
        """Return the sum in each span."""
        return resampled([*[0] * self.missing, *amounts], self.together)

    def largest(self, amounts: Sequence[int | None]) -> list[int]:
        """Return the maximum in each span; 0 for a span of only nulls."""
        return largest([*[None] * self.missing, *amounts], self.together)


def chart_spans(series: _Item, columns: int) -> ChartSpans:
    """Return spans of a round width, which begin at its multiples, of which ``columns`` fit."""
    unit_ns, first_ns = series["bucket_ns"], series["start_ns"]
    last_ns = first_ns + len(series["requests"]) * unit_ns - 1
    width_ns = unit_ns
    while (count := last_ns // width_ns - first_ns // width_ns + 1) > columns:
        width_ns = round_width_ns(width_ns + 1, unit_ns)
    start_ns = first_ns // width_ns * width_ns
    together, missing = width_ns // unit_ns, (first_ns - start_ns) // unit_ns
    return ChartSpans(start_ns, width_ns, count, together, missing, columns // count)


def _chart(title: str, top: str, lines: list[str], colour: str) -> Iterator[Line]:
    labels = [top, *[""] * (len(lines) - 2), title]
    for label, bars in zip(labels, lines, strict=True):
        line = Line()
        line.append(padded(label, _CHART_LABEL, right=True), "dim")
        line.append(" \u2502", "dim")
        line.append(bars.rstrip(), colour)
        yield line


def _time_axis(spans: ChartSpans, clock: ReportClock) -> Line:
    first = clock.text(spans.start_ns)
    last = clock.text(spans.start_ns + spans.number * spans.width_ns)
    between = max(spans.number * spans.repeat - len(first) - len(last), 1)
    indent = " " * (_CHART_LABEL + 2)
    return Line(f"{indent}{first}{' ' * between}{last}", style="dim")
