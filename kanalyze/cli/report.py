"""``kanalyze report``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kanalyze.cli.analyze import (
    names_in,
    opened_tables_of,
    query_folders,
    report_unnamed_topics,
    rows_of,
    zone_named_in,
)
from kanalyze.cli.console import plain_width, show_lines
from kanalyze.cli.progress import progress_of
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.open import format_of
from kanalyze.queries.report_names import with_names
from kanalyze.render.report_tables import TableOrder
from kanalyze.render.terminal import brief_lines, report_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from kanalyze.queries.findings import FindingKind
    from kanalyze.render.lines import Line

_ENDINGS = {".txt": "text", ".json": "json", ".md": "md", ".html": "html"}
_ORDERED = ("text", "md")
"""Formats for which --sort and --limit work."""


class ReportLayout(NamedTuple):
    """What a report for people shows."""

    order: TableOrder = TableOrder()
    is_brief: bool = False
    """Whether it is a few lines, without tables."""

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> ReportLayout:
        """Return the layout that arguments ask for."""
        order = TableOrder(
            arguments.sort,
            arguments.limit,
            arguments.sections,
            zone_named_in(arguments),
            arguments.captures,
        )
        return cls(order, arguments.brief)

    def lines(
        self, summary: dict[str, Any], width: int, *, is_shown: bool = False
    ) -> Iterator[Line]:
        """Yield the lines; for a terminal, where ``is_shown``, also the verdict at the end."""
        summary = with_names(summary)
        if self.is_brief:
            return brief_lines(summary, width, self.order.zone)
        return report_lines(summary, width, self.order, repeats_verdict=is_shown)


def report(arguments: argparse.Namespace) -> None:
    """Summarize captures in one of the formats, and also as JSON or an HTML page.

    Raises KanalyzeError and OSError.
    """
    from kanalyze.api.reports import names_of, page_of, report_on, tables_of
    from kanalyze.cli.pyarrow_alone import import_pyarrow
    from kanalyze.queries.database import REPORT_MEMORY_BYTES

    import_pyarrow(arguments)
    report_format = _format(arguments)
    layout = ReportLayout.of(arguments)
    kinds, thresholds = finding_settings(arguments)
    has_page = arguments.html is not None or report_format == "html"
    with ExitStack() as stack:

        def opened(destination: str | None) -> OutputFile | None:
            return None if destination is None else stack.enter_context(OutputFile(destination))

        # Opened first, so that an error is reported before the work.
        page = opened(arguments.html)
        to_terminal = report_format == "text" and arguments.output == STANDARD_OUTPUT
        output = None if to_terminal else opened(arguments.output)
        analysis = rows_of(arguments)
        uses_stdout = STANDARD_OUTPUT in (arguments.output, arguments.json)
        progress = progress_of(arguments, STANDARD_OUTPUT if uses_stdout else None)
        names = names_of(kinds, has_page=has_page)
        tables = opened_tables_of(
            *(arguments, analysis, progress, tables_of(kinds), names),
            usual_memory_bytes=REPORT_MEMORY_BYTES,
            session_lists=not has_page,
        )

        def summarize() -> dict[str, Any]:
            with progress.shown():
                filled = stack.enter_context(tables)
                progress.begin("summarizing")
                summary = report_on(
                    *(filled, kinds, thresholds),
                    most_slowest=most_slowest(arguments),
                    names=names_in(arguments),
                )
                page_bytes = (
                    page_of(filled.database, summary, layout.order.zone, layout.order.inputs)
                    if has_page
                    else b""
                )
            if page is not None:
                page.file.write(page_bytes)
            if output is not None and report_format == "html":
                output.file.write(page_bytes)
            return summary

        def show(summary: dict[str, Any]) -> None:
            if output is None:
                _show(summary, layout)
            elif report_format != "html":
                output.file.write(_bytes(summary, report_format, layout))

        write_report(arguments.json, summarize, show if _is_shown(arguments) else None)
    report_unnamed_topics(analysis)


def finding_settings(arguments: argparse.Namespace) -> tuple[list[FindingKind], dict[str, float]]:
    """Return the kinds of findings to search for, and thresholds; raises UsageError."""
    from kanalyze.queries.findings import finding_kinds, with_thresholds

    kinds, thresholds = finding_kinds(*query_folders(arguments)), dict(arguments.threshold)
    with_thresholds(kinds, thresholds)  # raises UsageError for an unknown threshold
    return kinds, thresholds


def _format(arguments: argparse.Namespace) -> str:
    """Return the format of the report; raises UsageError for contradicting arguments."""
    output_format = arguments.format or _default_format(arguments.output)
    check_order(arguments, output_format)
    if arguments.format and not _is_shown(arguments):
        raise UsageError(
            f"--json - and --format {output_format} would both use standard output: use -o FILE"
        )
    return output_format


def check_order(arguments: argparse.Namespace, report_format: str) -> None:
    """Raise UsageError for --sort or --limit in a format where they do not work."""
    given = [f"--{name}" for name in ("sort", "limit", "sections") if getattr(arguments, name)]
    if report_format not in _ORDERED and given:
        raise UsageError(
            f"{given[0]} works for text and md only: {report_format} has all sections and lines, "
            "in its own order"
        )
    if arguments.brief and report_format != "text":
        raise UsageError("--brief works for text only")
    if arguments.brief and given:
        raise UsageError(f"--brief has no tables, so {given[0]} has no effect")


def most_slowest(arguments: argparse.Namespace) -> int:
    """Return the number of the slowest requests that a report has to list."""
    from kanalyze.queries.report import MAX_SLOWEST

    is_all = arguments.limit == sys.maxsize  # of the other tables: requests may be millions
    return MAX_SLOWEST if is_all else max(MAX_SLOWEST, arguments.limit or 0)


def _default_format(destination: str) -> str:
    if destination == STANDARD_OUTPUT:
        return "text"
    return format_of(destination, _ENDINGS)


def _is_shown(arguments: argparse.Namespace) -> bool:
    """Return whether to write a report in addition to that of --json."""
    return (arguments.json, arguments.output) != (STANDARD_OUTPUT, STANDARD_OUTPUT)


def write_report(
    json_file: str | None,
    summarize: Callable[[], dict[str, Any]],
    show: Callable[[dict[str, Any]], None] | None = None,
    layout: ReportLayout | None = None,
) -> None:
    """Write a report as JSON to ``json_file``, if given, and show it with ``show``.

    By default it is shown on the terminal, with ``layout``, except if ``json_file`` is standard
    output. Raises OSError and what ``summarize`` raises; then no JSON is written.
    """
    if show is None and json_file != STANDARD_OUTPUT:
        show = partial(_show, layout=layout)
    if json_file is None:
        summary = summarize()
    else:
        from kanalyze.render.json import summary_json

        # Opened first, so that an error is reported before the work.
        with OutputFile(json_file) as output:
            summary = summarize()
            output.file.write(summary_json(summary).encode("ascii"))
    if show is not None:
        show(summary)


def show_report(summary: dict[str, Any], report_format: str, layout: ReportLayout) -> None:
    """Write a report to standard output as text, JSON or Markdown."""
    if report_format == "text":
        _show(summary, layout)
    else:
        sys.stdout.write(_bytes(summary, report_format, layout).decode("utf-8"))


def _show(summary: dict[str, Any], layout: ReportLayout | None = None) -> None:
    layout = layout or ReportLayout()
    show_lines(partial(layout.lines, summary, is_shown=sys.stdout.isatty()))


def _text(summary: dict[str, Any], layout: ReportLayout) -> str:
    return "".join(f"{line.plain}\n" for line in layout.lines(summary, plain_width()))


def _bytes(summary: dict[str, Any], report_format: str, layout: ReportLayout) -> bytes:
    """Return a report in text, JSON or Markdown as the contents of a file."""
    if report_format == "json":
        from kanalyze.render.json import summary_json

        return summary_json(summary).encode("ascii")
    if report_format == "md":
        from kanalyze.render.report_markdown import report_markdown

        return report_markdown(with_names(summary), layout.order).encode("utf-8")
    return _text(summary, layout).encode("utf-8")
