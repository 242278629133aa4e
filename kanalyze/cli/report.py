"""``kanalyze report``."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanalyze.cli.analyze import progress_bar, rows_of, worker_count
from kanalyze.cli.console import is_plain, plain_width
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.render.terminal import render_report, report_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from kanalyze.queries.database import Database

__all__ = ["report", "write_report"]


def report(arguments: argparse.Namespace) -> None:
    """Summarize captures on the terminal, and as JSON or a page; raises KanalyzeError, OSError."""
    from kanalyze.api.reports import report_on
    from kanalyze.queries.database import REPORT_MEMORY_BYTES, Database
    from kanalyze.queries.findings import finding_kinds

    folders = [] if arguments.queries is None else [Path(arguments.queries)]
    kinds = finding_kinds(*folders)
    memory_bytes = arguments.max_memory or REPORT_MEMORY_BYTES
    with ExitStack() as stack:
        # Opened first, so that an error comes before the work.
        page = None if arguments.html is None else stack.enter_context(OutputFile(arguments.html))
        analysis = stack.enter_context(closing(rows_of(arguments)))
        threads = worker_count(arguments)
        database = stack.enter_context(Database(max_memory_bytes=memory_bytes, threads=threads))

        def summarize() -> dict[str, Any]:
            with progress_bar(analysis):
                summary = report_on(analysis, database, kinds, dict(arguments.threshold))
                if page is not None:
                    page.file.write(_page(database, summary))
                return summary

        write_report(arguments.json, summarize)


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


def _page(database: Database, summary: dict[str, Any]) -> bytes:
    from kanalyze.queries.page import cube_of
    from kanalyze.render.html import html_page

    return html_page(summary, cube_of(database, summary)).encode("utf-8")
