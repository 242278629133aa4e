"""The report as Markdown, with the same content as on a terminal, for tickets.

In: a summary (see :mod:`kanalyze.queries.report`). Out: text. Names from the wire are escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.render.findings import (
    confidence_text,
    finding_groups,
    left_out_text,
    no_findings_text,
)
from kanalyze.render.header import header_lines
from kanalyze.render.lines import markdown_code, markdown_table, markdown_text
from kanalyze.render.missing import without_nulls
from kanalyze.render.report_tables import TableOrder, report_tables
from kanalyze.render.terminal import chart_lines
from kanalyze.render.units import ReportClock, count_text
from kanalyze.render.verdict import verdict_of
from kanalyze.spec.report import OVER_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.render.lines import Line
    from kanalyze.render.report_tables import ReportTable

_CHART_WIDTH = 100


def report_markdown(summary: dict[str, Any], order: TableOrder | None = None) -> str:
    """Return a report as GitHub-flavoured Markdown."""
    return "".join(f"{line}\n" for line in _lines(summary, order or TableOrder()))


def _lines(summary: dict[str, Any], order: TableOrder) -> Iterator[str]:
    summary = without_nulls(summary)
    title, *head = header_lines(summary, order.zone)
    yield f"# {markdown_text(title.plain)}"
    yield ""
    yield f"- **verdict**: {markdown_text(verdict_of(summary, order.zone).text)}"
    yield from (f"- {markdown_text(line.plain)}" for line in head)
    if "findings" in summary:
        yield from _findings(summary, order)
        left_out = left_out_text(summary)
        yield from () if left_out is None else ("", markdown_text(left_out))
    before, after = report_tables(summary, order)
    for table in before:
        yield from _table(table)
    if order.sections is None or OVER_TIME in order.sections:
        yield from _charts(chart_lines(summary, _CHART_WIDTH, order.zone))
    for table in after:
        yield from _table(table)


def _findings(summary: dict[str, Any], order: TableOrder) -> Iterator[str]:
    """Yield a heading for each kind of finding, with its texts and findings as a list."""
    yield "\n## Findings"
    if not summary["findings"]:
        yield f"\n{no_findings_text(summary)}"
    captures = summary["capture"]["captures"]
    inputs = captures if order.inputs is None else order.inputs
    clock, has_files = ReportClock.of(summary, order.zone), len(captures) > 1
    for group in finding_groups(summary["findings"], inputs, clock, has_files=has_files):
        level = "#" * min(3 + group.depth, 6)
        yield f"\n{level} {markdown_text(group.title)}\n"
        for figures, command in group.examples:
            yield f"- {markdown_text(figures)}<br>{markdown_code(command)}"
        if group.more:
            yield f"- and {count_text(group.more)} more"
        for name, text in (
            ("why", group.why),
            ("confidence", confidence_text(group.sure)),
            ("repair", group.repair),
        ):
            yield f"- **{name}**: {markdown_text(text)}"


def _table(table: ReportTable) -> Iterator[str]:
    yield f"\n## {markdown_text(table.title)}\n"
    yield from markdown_table(table.columns, [[text for text, _ in row] for row in table.rows])
    if table.more:
        yield f"\nand {count_text(table.more)} more"
    for note in table.notes:
        yield f"\n{markdown_code(note)}"


def _charts(lines: Iterable[Line]) -> Iterator[str]:
    title, *bars = [line.plain for line in lines] or [""]
    if bars:
        yield f"\n## {markdown_text(title)}\n"
        yield "```text"
        yield from bars
        yield "```"
