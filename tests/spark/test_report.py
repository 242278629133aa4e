"""The report on Spark is that of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kanalyze.export.arrow import record_batch
from kanalyze.queries.page import cube_of
from kanalyze.spark import report as spark_report
from kanalyze.spark import tables as spark_tables
from kanalyze.spark.dialect import QUANTILE_ERROR
from kanalyze.spark.report import report_on
from kanalyze.spark.schema import arrow_schema, as_spark, spark_schema
from kanalyze.tables.connections import CONNECTION_COLUMNS
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.row import COLUMNS
from tests.support.captures import NAMES, analysis
from tests.support.pages import report_and_cube, report_and_cube_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.queries.engine import QueryEngine
    from kanalyze.tables.row import Row

BY_DEFAULT = "errors"


def tables_of(spark: SparkSession, rows: Sequence[Row]) -> dict[str, DataFrame]:
    return {
        "requests": frame(spark, rows),
        "connections": spark.createDataFrame([], spark_schema(CONNECTION_COLUMNS)),
    }


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    if not rows:
        return spark.createDataFrame([], spark_schema(COLUMNS))
    batches = as_spark(record_batch(rows), COLUMNS)
    table = pa.Table.from_batches(batches, arrow_schema(COLUMNS))
    return spark.createDataFrame(table, spark_schema(COLUMNS))


@pytest.fixture(params=["spark", "driver"])
def _where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer queries on Spark, however few rows there are, or where the driver is."""
    if request.param == "spark":
        on_spark(monkeypatch)


def on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_report, "MOST_ROWS_HERE", -1)


@pytest.mark.usefixtures("_where")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == BY_DEFAULT else pytest.mark.long)
        for name in (BY_DEFAULT, *(name for name in NAMES if name != BY_DEFAULT))
    ],
)
def test_a_report_is_that_of_one_machine(name: str, spark: SparkSession) -> None:
    rows, quality = analysis(name)
    assert report_on(spark, tables_of(spark, rows), quality) == report_and_cube_of(name)[0]


@pytest.mark.usefixtures("_where")
def test_of_nothing_there_are_no_lines_and_no_figures(spark: SparkSession) -> None:
    cubes = []

    def make_page(report: dict[str, Any], engine: QueryEngine) -> None:
        cubes.append(cube_of(engine, report))

    found = report_on(spark, tables_of(spark, []), CaptureQuality(), {"errors": True}, make_page)
    expected, cube = report_and_cube([])
    assert found == {**expected, "filter": {"errors": True}}
    assert cubes == [cube]


def test_what_is_not_asked_or_not_exact_is_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, quality = analysis(BY_DEFAULT)
    # Few rows may be large.
    monkeypatch.setattr(spark_report, "MOST_BYTES_HERE", 400 * len(rows) + 1)
    monkeypatch.setattr(spark_tables, "MOST_EXACT_ROWS", 10)
    tables = tables_of(spark, rows)
    del tables["connections"]
    found = report_on(spark, tables, quality)
    expected = report_and_cube_of(BY_DEFAULT)[0]
    assert "unanswered" in found.pop("findings_left_out")
    assert found.pop("quantile_error") == QUANTILE_ERROR
    assert found.keys() == expected.keys()
    assert found["totals"] == expected["totals"]
    assert found["latency"] != expected["latency"]
