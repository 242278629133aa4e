"""``kanalyze compare``: before and after.

In: arguments. Out: the comparison on standard output, and as JSON if asked for; whether
``--fail-on`` found something.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from kanalyze.api.reports import compare_inputs, report_in
from kanalyze.cli.analyze import (
    filters_of,
    names_in,
    report_undecrypted,
    rows_of,
    worker_count,
    zone_named_in,
)
from kanalyze.cli.console import print_message, show_lines
from kanalyze.cli.progress import progress_of
from kanalyze.errors import UsageError
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.queries.compare.comparison import Thresholds
from kanalyze.queries.report_names import add_names, with_names
from kanalyze.render.compare import compare_lines, compare_markdown
from kanalyze.render.json import summary_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.cli.progress import Progress
    from kanalyze.common.zones import Zone
    from kanalyze.runtime.pipeline import Analysis

FAILED_ON = 1
NOT_JUDGED = 3
"""The exit status where there is too little to judge; 2 is that of errors."""
_FAIL_ON = {
    "findings": ("new_findings",),
    "slower": ("slower",),
    "errors": ("fails_more",),
    "new": ("new",),
    "gone": ("gone",),
    "any": ("new_findings", "slower", "fails_more", "new", "gone"),
}


def compare(arguments: argparse.Namespace) -> int:
    """Compare; return 1 if --fail-on found something, 3 if it could not judge.

    Raises KanalyzeError and OSError.
    """
    a, b = arguments.a, arguments.b
    thresholds = _thresholds(arguments)
    if arguments.json == STANDARD_OUTPUT and arguments.format == "md":
        raise UsageError("--json - and --format md would both use standard output: use --json FILE")
    if any(filters_of(arguments).values()) and any(map(report_in, (a, b))):
        raise UsageError("filters need captures or saved files: a report has no rows to filter")
    # Opened first, so that an error is reported before the work.
    with OutputFile(arguments.json) if arguments.json else nullcontext() as output:
        progress = progress_of(arguments, STANDARD_OUTPUT)
        progress.begin("comparing")
        read: dict[str, Analysis | SavedAnalysis] = {}
        with progress.shown():
            comparison = compare_inputs(
                a,
                b,
                partial(_rows_of_side, arguments),
                thresholds,
                max_memory_bytes=arguments.max_memory,
                threads=worker_count(arguments),
                watched=partial(_watched, progress, read),
            )
        add_names(comparison, names_in(arguments))
        if output is not None:
            output.file.write(summary_json(comparison).encode("ascii"))
    if arguments.json != STANDARD_OUTPUT:
        _show(comparison, arguments.format, zone_named_in(arguments))
    for name, analysis in read.items():
        report_undecrypted(analysis, f"{name}: ")
    if not _failed(comparison, arguments.fail_on):
        if arguments.fail_on and not comparison["judged"]:
            print_message("--fail-on: nothing certain, because too short to judge")
            return NOT_JUDGED
        return 0
    if not comparison["tested"] and not _failed(comparison, ["findings"]):
        print_message(f"--fail-on: not tested for chance: {comparison['not_tested']}")
    return FAILED_ON


def _thresholds(arguments: argparse.Namespace) -> Thresholds:
    """Return the thresholds of the options; raises UsageError with the name of a wrong one."""
    try:
        return Thresholds.of(arguments.at_least, arguments.least_ms, arguments.least_percent)
    except UsageError as error:
        name, _, problem = str(error).partition(":")
        raise UsageError(f"--{name.replace('_', '-')}:{problem}") from None


@contextmanager
def _watched(
    progress: Progress,
    read: dict[str, Analysis | SavedAnalysis],
    source: Analysis | SavedAnalysis,
    name: str,
) -> Iterator[None]:
    """Show the progress of reading A or B during the block; then begin the phase of comparing.

    Note in ``read`` what was read.
    """
    read[name] = source
    with progress.reading(source, f"reading {name}"):
        yield
    progress.begin("comparing")


def _rows_of_side(arguments: argparse.Namespace, source: str) -> Analysis | SavedAnalysis:
    """Return the analysis of A or B."""
    return rows_of(argparse.Namespace(**{**vars(arguments), "captures": [source]}))


def _failed(comparison: dict[str, Any], fail_on: list[str]) -> bool:
    """Return true if a difference that ``--fail-on`` names was found."""
    sections = {section for word in fail_on for section in _FAIL_ON[word]}
    return any(
        not difference.get("may_be_chance", False)
        for section in sections
        for difference in comparison[section]
    )


def _show(comparison: dict[str, Any], output_format: str, zone: Zone) -> None:
    if output_format == "json":
        sys.stdout.write(summary_json(comparison))
    elif output_format == "md":
        sys.stdout.write(compare_markdown(with_names(comparison), zone))
    else:
        show_lines(partial(compare_lines, with_names(comparison), zone=zone))
