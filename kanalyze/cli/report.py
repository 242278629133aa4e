"""``kanalyze report``."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kanalyze.cli.analyze import progress_bar, rows_of
from kanalyze.cli.console import is_plain, plain_width
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.render.terminal import render_report, report_lines
from kanalyze.statistics.summary import Statistics

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.runtime.pipeline import Analysis

__all__ = ["report", "write_report"]


def report(arguments: argparse.Namespace) -> None:
    """Summarize captures on the terminal, and as JSON; raises KanalyzeError and OSError."""
    analysis = rows_of(arguments)
    if arguments.html is None:
        write_report(arguments.json, lambda: _summary(analysis))
    else:
        write_report(arguments.json, lambda: _summary_and_page(analysis, arguments))


def write_report(json_file: str | None, summarize: Callable[[], dict[str, Any]]) -> None:
    """Write a report to the terminal, and as JSON to a file if one is given.

    If the file is standard output, only JSON is written. Raises OSError and what ``summarize``
    raises; then no JSON is written.
    """
    if json_file is None:
        _show(summarize())
        return
    from kanalyze.render.json import summary_json

    # Opened first, so that an error comes before the work.
    with OutputFile(json_file) as output:
        summary = summarize()
        output.file.write(summary_json(summary).encode("ascii"))
    if json_file != STANDARD_OUTPUT:
        _show(summary)


def _show(summary: dict[str, Any]) -> None:
    if is_plain():
        lines = report_lines(summary, plain_width())
        sys.stdout.write("".join(f"{line.plain}\n" for line in lines))
        return
    from rich.console import Console

    render_report(summary, Console(markup=False, emoji=False, highlight=False))


def _summary(analysis: Analysis | SavedAnalysis) -> dict[str, Any]:
    statistics = Statistics()
    with closing(analysis):
        analysis.start()
        with progress_bar(analysis):
            for block in analysis.batches():
                statistics.add_block(block)
    return statistics.summary(analysis.quality, analysis.row_filter.conditions)


def _summary_and_page(
    analysis: Analysis | SavedAnalysis, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Write the page of a report; return the report with its findings, by queries."""
    from kanalyze.api.tables import fill
    from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
    from kanalyze.queries.files import built_in
    from kanalyze.queries.findings import findings_of, kind_of_finding
    from kanalyze.queries.page import cube_of
    from kanalyze.queries.report import report_of
    from kanalyze.render.html import html_page

    kinds = map(kind_of_finding, built_in("findings").values())
    memory_bytes = arguments.max_memory or DEFAULT_MEMORY_BYTES
    with (
        OutputFile(arguments.html) as output,
        Database(max_memory_bytes=memory_bytes, threads=arguments.jobs or 1) as database,
        closing(analysis),
        progress_bar(analysis),
    ):
        fill(database, analysis)
        summary = report_of(database, analysis.quality, analysis.row_filter.conditions)
        summary["findings"] = [found.to_dict() for found in findings_of(database, kinds)]
        output.file.write(html_page(summary, cube_of(database, summary)).encode("utf-8"))
        return summary
