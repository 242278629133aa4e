"""Two captures, or reports of them, compared.

In: what is to be compared, and what makes an analysis of captures. Out: the comparison as plain
values. This module must not know who asks, or how a comparison is shown.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, nullcontext
from typing import TYPE_CHECKING, Any

from kanalyze.api.tables import fill
from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.queries.compare.chance import slices_of
from kanalyze.queries.compare.comparison import Thresholds, compare_sides
from kanalyze.queries.compare.report_side import (
    checked_report,
    is_report,
    parse_report,
    side_of_report,
)
from kanalyze.queries.compare.rows_side import active_seconds, side_of_rows
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from kanalyze.queries.compare.side import Side
    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["compare_inputs", "report_in"]

_MOST_REPORT_BYTES = 256 << 20


class _Rows(NamedTuple):
    """Rows that are to be compared."""

    database: Database
    quality: CaptureQuality
    conditions: Mapping[str, Any]


def report_in(given: object) -> dict[str, Any] | None:
    """Return the report that was given, as a value or as a file; None where it is something else.

    Raises UsageError for JSON that is no report, and OSError.
    """
    if isinstance(given, dict):
        return checked_report("report", given)
    if not isinstance(given, str | os.PathLike) or not paths.is_file(given):
        return None
    with paths.opened(given) as file:
        first = file.read(64)
        if not is_report(first):
            return None
        text = first + file.read(_MOST_REPORT_BYTES)
    if len(text) > _MOST_REPORT_BYTES:
        raise UsageError(f"{given}: larger than 256 MiB")
    return parse_report(os.fspath(given), text)


def compare_inputs(
    a: object,
    b: object,
    analysis_of: Callable[[Any], Analysis],
    thresholds: Thresholds,
    *,
    max_memory_bytes: int | None = None,
    threads: int = 1,
    watched: Callable[[Analysis], AbstractContextManager[None]] | None = None,
) -> dict[str, Any]:
    """Return what differs between A and B.

    Args:
        a: before: captures, or a report (a file, or a dict).
        b: after, likewise.
        analysis_of: makes an analysis of captures that were given.
        thresholds: the least difference that matters.
        max_memory_bytes: what the tables of both together may take of memory.
        threads: how many a query may use.
        watched: gives what an analysis runs within.

    Raises:
        KanalyzeError: an input is missing or is neither a capture nor a report.
    """
    reports = [report_in(each) for each in (a, b)]
    memory_bytes = (max_memory_bytes or DEFAULT_MEMORY_BYTES) // 2
    with ExitStack() as stack:
        rows: list[_Rows | None] = []
        for given, report in zip((a, b), reports, strict=True):
            if report is not None:
                rows.append(None)
                continue
            database = stack.enter_context(Database(max_memory_bytes=memory_bytes, threads=threads))
            analysis = stack.enter_context(closing(analysis_of(given)))
            with watched(analysis) if watched else nullcontext():
                fill(database, analysis)
            rows.append(_Rows(database, analysis.quality, analysis.row_filter.conditions))
        slices = _slices(rows)
        names = ("A", "B")
        sides: list[Side] = []
        for name, given, report, of_side, many in zip(
            names, (a, b), reports, rows, slices, strict=True
        ):
            if of_side is not None:
                sides.append(side_of_rows(*of_side, many))
            elif report is not None:
                sides.append(side_of_report(given if isinstance(given, str) else name, report))
    return compare_sides(sides[0], sides[1], thresholds)


def _slices(rows: list[_Rows | None]) -> tuple[int | None, int | None]:
    """Return into how many slices the time of each side is cut; None where nothing is tested."""
    seconds = [active_seconds(each.database) for each in rows if each is not None]
    found = slices_of(*seconds) if len(seconds) == len(rows) else None
    return found or (None, None)
