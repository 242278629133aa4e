"""Reports, cubes and pages of rows."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from kanalyze.queries.database import Database
from kanalyze.queries.engine import FailedQueries
from kanalyze.queries.findings import finding_kinds
from kanalyze.queries.page import cube_of
from kanalyze.queries.report import report_with_findings
from kanalyze.tables.quality import CaptureQuality
from tests.support.captures import analysis
from tests.support.filled import report_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.spec.rows.requests import Row

ROWS_AT_ONCE = 1_000


def report_and_cube(
    rows: Sequence[Row],
    quality: CaptureQuality | None = None,
    connections: Sequence[Row] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the report on rows, with findings, and the cube that its page is made of."""
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        makers = report_tables(database, "requests", "connections", "anomalies")
        for first in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[first : first + ROWS_AT_ONCE]
            database.insert("requests", makers["requests"].of_rows(some))
        if connections:
            database.insert("connections", makers["connections"].of_rows(connections))
        report = report_with_findings(database, quality or CaptureQuality(), None, finding_kinds())
        return report, whole_cube(database, report)


def whole_cube(database: Database, report: dict[str, Any]) -> dict[str, Any]:
    """Return the cube of a page, none of whose queries fails."""
    failed = FailedQueries()
    cube = cube_of(database, report, failed)
    assert failed.lines == []
    assert cube is not None
    return cube


@functools.cache
def report_and_cube_of(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return report and cube of a capture."""
    return report_and_cube(*analysis(name))
