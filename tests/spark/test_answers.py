"""Reports and queries on tables of Spark are the same as on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.api.reports import report_on as report_of_one
from kanalyze.api.reports import tables_of as asked_of
from kanalyze.api.tables import opened_tables
from kanalyze.batch.engine import ReportOptions
from kanalyze.errors import UsageError
from kanalyze.queries.files import find_query, questions
from kanalyze.queries.findings import finding_kinds
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spark.answers import report_on, sql
from tests.queries import test_questions
from tests.queries.test_questions import OF_REQUESTS, rows
from tests.support.captures import NAMES, path
from tests.support.packets import pcap_file
from tests.support.pages import whole_cube
from tests.support.spark_tables import frame_of_rows, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.api.tables import OpenedTables
    from kanalyze.queries.database import Database
    from tests.queries.test_questions import Ask

BY_DEFAULT = "errors"
CONNECTION = "10.0.0.7:51812>10.0.0.2:9092"
ASKED_FOR = {"groups", "metadata", "changes", "records"}


# -- reports --------------------------------------------------------------------------------------


def assert_same_report(spark: SparkSession, capture: Path) -> dict[str, Any]:
    """Compare reports and pages; return the report."""
    cubes = []

    def make_page(report: dict[str, Any], engine: Database) -> None:
        cubes.append(whole_cube(engine, report))

    kinds = finding_kinds()
    with opened_tables(Analysis([str(capture)]), asked_of(kinds)) as opened:
        database, quality, _ = opened
        conditions = {"client_ip": ["0.0.0.0/0"]}
        expected = report_of_one(opened._replace(conditions=conditions), kinds)
        options = ReportOptions(make_page=make_page)
        found = report_on(tables_of(spark, database), quality, conditions, options)
        assert found == expected
        assert cubes == [whole_cube(database, expected)]
    return found


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
def test_the_report_of_an_empty_capture_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "empty.pcap"
    file.write_bytes(pcap_file([]))
    assert assert_same_report(spark, file)["totals"]["rows"] == 0


@pytest.mark.long
def test_findings_that_need_a_missing_table_are_listed(spark: SparkSession) -> None:
    with opened_tables(Analysis([str(path(BY_DEFAULT))])) as (database, quality, _):
        tables = tables_of(spark, database)
    del tables["connections"]
    found = report_on(tables, quality)
    assert "unanswered" in found["findings_left_out"]
    assert "too_large" not in found["findings_left_out"]
    assert {finding["name"] for finding in found["findings"]} == {"too_large"}


# -- queries --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def requests(spark: SparkSession) -> DataFrame:
    return frame_of_rows(spark, rows())


@pytest.fixture(scope="module")
def ask(requests: DataFrame) -> Ask:
    return test_questions.asking(
        lambda name, parameters: sql({"requests": requests}, name, parameters)
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "connection_trace" else pytest.mark.long)
        for name in OF_REQUESTS
    ],
)
def test_figures_match_plain_python(name: str, ask: Ask) -> None:
    getattr(test_questions, f"test_{name}")(ask)


@pytest.fixture(scope="module")
def opened() -> Iterator[OpenedTables]:
    with opened_tables(Analysis([str(path("waits"))]), ASKED_FOR) as opened:
        yield opened


@pytest.fixture(scope="module")
def tables(spark: SparkSession, opened: OpenedTables) -> dict[str, DataFrame]:
    return tables_of(spark, opened.database)


@pytest.mark.parametrize("name", sorted(questions()))
def test_a_question_has_the_answer_of_one_machine(
    name: str, opened: OpenedTables, tables: dict[str, DataFrame]
) -> None:
    """With all that a question reads: only the columns that it names come from Spark."""
    query = find_query(name)
    parameters = {"connection": CONNECTION} if query.parameters else {}
    assert sql(tables, name, parameters) == opened.database.ask(query.sql, parameters)


def test_a_query_may_read_all_columns_and_views(
    opened: OpenedTables, tables: dict[str, DataFrame]
) -> None:
    for query in (
        "FROM requests ORDER BY request_start_time, connection, correlation_id",
        "SELECT topic, count(*) AS many FROM partitions GROUP BY ALL ORDER BY ALL",
        "SELECT event, count(*) FROM groups JOIN requests USING (request_id) GROUP BY 1 ORDER BY 1",
    ):
        found = sql(tables, query)
        assert found == opened.database.ask(query)
        assert found.num_rows
    chosen = {"requests": tables["requests"].select("client_id", "latency_ns")}
    assert sql(chosen, "FROM requests").column_names == ["request_id", "client_id", "latency_ns"]


def test_a_question_reads_tables_that_lack_columns(tables: dict[str, DataFrame]) -> None:
    """Those that an earlier kanalyze wrote; what is not known is null."""
    old = {**tables, "requests": tables["requests"].drop("client_software_name")}
    found = sql(old, "clients")
    assert found.num_rows == sql(tables, "clients").num_rows > 0
    assert set(found["client_software_name"].to_pylist()) == {None}


def test_tables_have_names_of_addresses(tables: dict[str, DataFrame], tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 here\n")
    query = "SELECT client_name, broker_id, count(*) AS many FROM requests GROUP BY ALL"
    found = sql(tables, query, names=[str(tmp_path / "hosts")])
    assert found.sort_by("broker_id") == kanalyze.sql(
        str(path("waits")), query, names=str(tmp_path / "hosts")
    ).sort_by("broker_id")
    assert set(found["client_name"].to_pylist()) == {"here"}


def test_what_is_wrong_with_a_query_is_said_in_one_line(tables: dict[str, DataFrame]) -> None:
    with pytest.raises(UsageError, match=r"^unknown table 'rows'; there are requests, "):
        sql({"rows": tables["requests"]}, "FROM rows")
    with pytest.raises(UsageError, match=r"^Binder Error: .*nothing[^\n]*$"):
        sql(tables, "SELECT nothing FROM requests")
    with pytest.raises(UsageError, match="use a single query"):
        sql(tables, "DROP TABLE requests")
