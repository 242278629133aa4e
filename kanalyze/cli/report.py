"""``kanalyze report``."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kanalyze.analysis.statistics import Statistics
from kanalyze.cli.analyze import analysis_of, progress_bar
from kanalyze.cli.screen import is_plain, plain_width
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.render.json import summary_json
from kanalyze.render.terminal import render_report, report_lines

if TYPE_CHECKING:
    import argparse

    from kanalyze.pipeline import Analysis

__all__ = ["report"]


def report(arguments: argparse.Namespace) -> None:
    """Summarize captures on the terminal, and as JSON; raises KanalyzeError and OSError.

    JSON on standard output stands there alone.
    """
    analysis = analysis_of(arguments)
    if arguments.json is None:
        _show(_summary(analysis))
        return
    # Opened first: that it cannot be written is known before the work is done.
    with OutputFile(arguments.json) as output:
        summary = _summary(analysis)
        output.file.write(summary_json(summary).encode("ascii"))
    if arguments.json != STANDARD_OUTPUT:
        _show(summary)


def _show(summary: dict[str, Any]) -> None:
    if is_plain():
        lines = report_lines(summary, plain_width())
        sys.stdout.write("".join(f"{line.plain}\n" for line in lines))
        return
    from rich.console import Console

    render_report(summary, Console(markup=False, emoji=False, highlight=False))


def _summary(analysis: Analysis) -> dict[str, Any]:
    statistics = Statistics()
    with closing(analysis):
        analysis.start()
        with progress_bar(analysis):
            for batch in analysis.batches():
                statistics.add_batch(batch)
    return statistics.summary(analysis.quality)
