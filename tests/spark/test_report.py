"""The report on Spark is the same as on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.api.reports import report_on as report_of_one
from kanalyze.api.reports import tables_of as asked_of
from kanalyze.api.tables import opened_tables
from kanalyze.batch import engine as batch_engine
from kanalyze.batch.engine import ReportOptions
from kanalyze.queries.findings import finding_kinds, findings_of
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spark import report as spark_report
from kanalyze.spark.report import SparkTables, report_on
from tests.support.captures import NAMES, path
from tests.support.findings import kinds_of
from tests.support.packets import pcap_file
from tests.support.pages import whole_cube
from tests.support.spark_tables import tables_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kanalyze.queries.engine import QueryEngine
    from kanalyze.queries.findings import FindingKind

BY_DEFAULT = "errors"


def always_use_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Spark answer queries, even on few rows."""
    monkeypatch.setattr(spark_report, "MAX_ROWS_HERE", -1)


@pytest.fixture(params=[pytest.param("spark", marks=pytest.mark.long), "driver"])
def _where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer queries on Spark, even on few rows, or on the driver.

    The driver answers as one machine does, so a few of the findings are enough.
    """
    if request.param == "spark":
        always_use_spark(monkeypatch)
    else:
        request.getfixturevalue("few_findings")


def assert_same_report(spark: SparkSession, capture: Path) -> dict[str, Any]:
    """Compare reports and pages; return the report."""
    cubes = []

    def make_page(report: dict[str, Any], engine: QueryEngine) -> None:
        cubes.append(whole_cube(engine, report))

    kinds = finding_kinds()
    with opened_tables(Analysis([str(capture)]), asked_of(kinds)) as opened:
        database, quality, _ = opened
        conditions = {"client_ip": ["0.0.0.0/0"]}
        expected = report_of_one(opened._replace(conditions=conditions), kinds)
        tables = tables_of(spark, database)
        found = report_on(spark, tables, quality, conditions, ReportOptions(make_page=make_page))
        assert found == expected
        assert cubes == [whole_cube(database, expected)]
    return found


@pytest.mark.usefixtures("_where")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == BY_DEFAULT else pytest.mark.long)
        for name in (BY_DEFAULT, *(name for name in NAMES if name != BY_DEFAULT))
    ],
)
def test_a_report_is_the_same_as_on_one_machine(name: str, spark: SparkSession) -> None:
    assert_same_report(spark, path(name))


@pytest.mark.long
def test_many_rows_are_queried_on_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the choice of Spark is tested here: `test_tables.py` runs every query on Spark."""
    always_use_spark(monkeypatch)

    def findings_alone(
        engine: QueryEngine,
        quality: object,
        conditions: object,
        kinds: Sequence[FindingKind],
        *,
        most_slowest: int,
    ) -> dict[str, Any]:
        assert isinstance(engine, SparkTables)
        return {"findings": findings_of(engine, kinds)}

    monkeypatch.setattr(batch_engine, "report_with_findings", findings_alone)
    kinds = kinds_of("too_large")
    with opened_tables(Analysis([str(path(BY_DEFAULT))]), asked_of(kinds)) as opened:
        database, quality, _ = opened
        found = report_on(
            spark, tables_of(spark, database), quality, options=ReportOptions(kinds=kinds)
        )
        assert found["findings"] == findings_of(database, kinds) != []


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
def test_the_report_of_an_empty_capture_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "empty.pcap"
    file.write_bytes(pcap_file([]))
    assert assert_same_report(spark, file)["totals"]["rows"] == 0


@pytest.mark.long
def test_the_report_of_an_empty_capture_is_the_same_on_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    always_use_spark(monkeypatch)
    test_the_report_of_an_empty_capture_is_the_same(spark, tmp_path)


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
def test_findings_that_need_a_missing_table_are_listed(spark: SparkSession) -> None:
    with opened_tables(Analysis([str(path(BY_DEFAULT))])) as (database, quality, _):
        tables = tables_of(spark, database)
    del tables["connections"]
    found = report_on(spark, tables, quality)
    assert "unanswered" in found["findings_left_out"]
    assert "too_large" not in found["findings_left_out"]
    assert {finding["name"] for finding in found["findings"]} == {"too_large"}


def test_few_rows_with_many_bytes_are_not_small(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [spark.createDataFrame([("x" * 500, ["y" * 500])], "one string, many array<string>")]
    monkeypatch.setattr(spark_report, "MAX_ROWS_HERE", 1)
    assert spark_report._is_small(tables)
    monkeypatch.setattr(spark_report, "MAX_BYTES_HERE", 1000)
    assert not spark_report._is_small(tables)
