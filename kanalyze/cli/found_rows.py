"""Searches for the findings that ``--finding`` names, before rows are read.

In: parsed arguments. Out: the rows that the findings are about.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanalyze.cli.progress import progress_of
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.filters import FoundRows

_STANDARD_INPUT = "-"


def found_rows_of(
    arguments: argparse.Namespace,
    analysis_of: Callable[[argparse.Namespace], Analysis | SavedAnalysis],
    jobs: int | None,
) -> FoundRows:
    """Return the rows of the findings of ``--finding``.

    Args:
        arguments: the arguments of a command.
        analysis_of: makes the analysis that arguments ask for.
        jobs: number of threads of a query; None for one.

    Raises UsageError for a finding that does not exist or has no rows, and for standard input; and
    what the analysis raises.
    """
    from kanalyze.api.reports import found_rows, tables_of
    from kanalyze.api.tables import opened_tables
    from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, REPORT_MEMORY_BYTES
    from kanalyze.queries.findings import finding_kinds
    from kanalyze.queries.named_findings import named_findings, parse_name

    kinds, thresholds = finding_kinds(), dict(arguments.threshold)
    names = [parse_name(text, kinds) for text in arguments.finding]
    if _STANDARD_INPUT in arguments.captures:
        raise UsageError("--finding reads captures twice: save what comes through a pipe to a file")
    named = {name.kind for name in names}
    searched = [kind for kind in kinds if None in named or kind.query.name in named]
    analysis = analysis_of(argparse.Namespace(**{**vars(arguments), "finding": None}))
    progress = progress_of(arguments, arguments.output)
    tables = opened_tables(
        analysis,
        tables_of(searched),
        max_memory_bytes=arguments.max_memory or DEFAULT_MEMORY_BYTES,
        usual_memory_bytes=REPORT_MEMORY_BYTES,
        threads=jobs or 1,
        progress=progress.reading(analysis),
    )
    with progress.shown(), tables as filled:
        progress.begin("searching for findings")
        findings = named_findings(filled.database, names, kinds, thresholds, filled.conditions)
        return found_rows(filled, findings)
