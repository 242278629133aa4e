"""Compares two captures, saved files or reports.

In: the two inputs, and a function that makes an analysis of captures or saved files. Out: the
comparison as plain values.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kanalyze.api.tables import opened_tables
from kanalyze.common import paths
from kanalyze.common.paths import is_database
from kanalyze.errors import UsageError
from kanalyze.queries.compare.chance import slices_of
from kanalyze.queries.compare.comparison import Thresholds, compare_sides
from kanalyze.queries.compare.sides import (
    active_seconds,
    checked_report,
    is_report,
    parse_report,
    side_of_report,
    side_of_rows,
)
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from kanalyze.api.saved import SavedAnalysis
    from kanalyze.api.tables import OpenedTables
    from kanalyze.queries.compare.sides import Side
    from kanalyze.runtime.pipeline import Analysis

__all__ = ["compare_inputs", "report_in"]

_MAX_REPORT_BYTES = 256 << 20


def report_in(source: object) -> dict[str, Any] | None:
    """Return the report in a dict or a JSON file; None if it is something else.

    Raises UsageError for JSON that is not a report, and OSError.
    """
    if isinstance(source, dict):
        return checked_report("report", source)
    if not isinstance(source, str | os.PathLike) or not paths.is_file(source):
        return None
    with paths.opened(source) as file:
        first = file.read(64)
        if is_database(first) or not is_report(first):
            return None
        text = first + file.read(_MAX_REPORT_BYTES)
    if len(text) > _MAX_REPORT_BYTES:
        raise UsageError(f"{source}: a report may have at most 256 MiB")
    return parse_report(os.fspath(source), text)


def compare_inputs(
    a: object,
    b: object,
    analysis_of: Callable[[Any], Analysis | SavedAnalysis],
    thresholds: Thresholds,
    *,
    max_memory_bytes: int | None = None,
    threads: int = 1,
    watched: Callable[[Analysis | SavedAnalysis, str], AbstractContextManager[None]] | None = None,
) -> dict[str, Any]:
    """Return the differences between A and B.

    Args:
        a: before: captures, saved files, or a report (a JSON file or a dict).
        b: after: the same.
        analysis_of: makes an analysis of captures or saved files.
        thresholds: the smallest differences to list.
        max_memory_bytes: memory in bytes for the tables of both sides together.
        threads: number of threads of a query.
        watched: returns a context manager, which is entered while an analysis runs; its arguments
            are the analysis and the name of the side, ``A`` or ``B``.

    Raises:
        KanalyzeError: an input is missing, or is not a capture, saved file or report.
    """
    memory_bytes = (max_memory_bytes or DEFAULT_MEMORY_BYTES) // 2
    reports = [report_in(source) for source in (a, b)]
    with ExitStack() as stack:

        def opened(source: object, name: str) -> OpenedTables:
            analysis = analysis_of(source)
            tables = opened_tables(
                analysis,
                max_memory_bytes=memory_bytes,
                threads=threads,
                progress=watched(analysis, name) if watched else None,
            )
            return stack.enter_context(tables)

        tables_of_sides = [
            None if report is not None else opened(source, name)
            for name, source, report in zip(("A", "B"), (a, b), reports, strict=True)
        ]
        sides: list[Side] = []
        for name, source, report, tables, slices in zip(
            ("A", "B"), (a, b), reports, tables_of_sides, _slices(tables_of_sides), strict=True
        ):
            if tables is not None:
                sides.append(side_of_rows(*tables, slices))
            elif report is not None:
                sides.append(side_of_report(source if isinstance(source, str) else name, report))
    return compare_sides(sides[0], sides[1], thresholds)


def _slices(sides: list[OpenedTables | None]) -> tuple[int | None, int | None]:
    """Return the number of slices of time for each side; None if differences are not tested."""
    seconds = [active_seconds(tables.database) for tables in sides if tables is not None]
    slices = slices_of(*seconds) if len(seconds) == len(sides) else None
    return slices or (None, None)
