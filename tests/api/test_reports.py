"""A report and its page need only the columns that their queries name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.api.reports import names_of, report_on, tables_of
from kanalyze.api.saved import SavedAnalysis
from kanalyze.api.tables import opened_tables
from kanalyze.queries.findings import finding_kinds
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import path
from tests.support.pages import whole_cube

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path


def report_cube_and_columns(
    analysis: Analysis | SavedAnalysis, names: Container[str] | None
) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    """Return the report, the cube of its page, and the columns of connections."""
    kinds = finding_kinds()
    with opened_tables(analysis, tables_of(kinds), names) as opened:
        report = report_on(opened, kinds)
        columns = opened.database.ask("FROM connections LIMIT 0").column_names
        return report, whole_cube(opened.database, report), set(columns)


@pytest.mark.long
def test_unused_columns_are_not_needed_for_the_same_report(tmp_path: Path) -> None:
    capture, target = str(path("errors")), str(tmp_path / "errors.duckdb")
    kanalyze.save(capture, output=target)
    report, cube, columns = report_cube_and_columns(Analysis([capture]), None)
    names = names_of(finding_kinds(), has_page=True)
    for analysis in (Analysis([capture]), SavedAnalysis([target])):
        found = report_cube_and_columns(analysis, names)
        assert found[:2] == (report, cube)
        assert {"client_tls_records", "start_time"} <= columns - found[2]


def test_a_query_of_a_user_may_use_any_column(tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text(
        "-- A finding.\n--\n-- severity: 1\n-- sure: a\n-- why: b\n-- repair: c\n"
        "SELECT 'x' AS what, 1 AS weight FROM (SELECT * FROM connections)\n"
    )
    assert names_of(finding_kinds(tmp_path), has_page=False) is None
