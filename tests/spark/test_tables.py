"""Every query gives the same on Spark as on one machine, for captures and for made-up faults."""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.api.tables import fill
from kanalyze.export.arrow import BatchMaker
from kanalyze.queries.database import Database
from kanalyze.queries.files import Query, built_in, derived
from kanalyze.queries.findings import finding_kinds, kind_of_finding
from kanalyze.queries.report import report_of
from kanalyze.runtime.pipeline import Analysis
from kanalyze.spark import report as spark_tables
from kanalyze.spark.dialect import (
    QUANTILE_ERROR,
    referenced_names,
    referenced_tables,
    spark_sql,
)
from kanalyze.spark.report import SparkTables
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.quality import CaptureQuality
from tests.queries.test_findings import FAULTS, Made
from tests.support.captures import CHOSEN, NAMES, path
from tests.support.pages import whole_cube
from tests.support.rows import row
from tests.support.spark_tables import tables_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from kanalyze.spec.rows.requests import Row

LOOSE = ", loose thresholds"
FIND_NOTHING = (
    *(
        "broker_away",
        "broker_restarted",
        "capture_lost_packets",
        "capture_one_way",
        "capture_twice",
    ),
    *("closed_after_produce", "closed_at_api_versions", "delayed_acknowledgment", "fenced"),
    *("group_behind", "reads_across_zones", "sends_no_rack", "sent_into_nothing", "slow_follower"),
    *("written_twice", "wrong_crc", "wrong_listener"),
)
"""Queries that find nothing in the rows of several captures together, with any thresholds."""
CONNECTION = "10.0.0.7:51812>10.0.0.2:9092"
KINDS = ("report", "questions")
"""Kinds of queries other than findings."""
PARAMETERS = {"most_keys": 20, "most": 10, "bucket_ns": 10**9, "connection": CONNECTION}
"""Parameters of these queries."""


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with database_of(CHOSEN) as made:
        yield made


@contextmanager
def database_of(captures: Iterable[str]) -> Iterator[Database]:
    """A database with the rows of captures, and with rows for every kind of fault."""
    with Database(max_memory_bytes=1 << 29, threads=1) as made:
        kinds = finding_kinds()
        with closing(Analysis([str(path(name)) for name in captures])) as analysis:
            fill(made, analysis, {"changes", *(table for kind in kinds for table in kind.tables)})
        for number, (make, _) in enumerate(FAULTS.values()):
            rows = Made(*make())
            # Each fault has its own clients, so that one fault does not hide another.
            own = [
                request._replace(client_id=f"{request.client_id}-{number}")
                for request in rows.requests
            ]
            rows = rows._replace(requests=[*own, unknown_response(number)])
            for name, some in rows._asdict().items():
                made.insert(name, BatchMaker(TABLES[name].columns, coded=True).of_rows(some))
        yield made


def unknown_response(number: int) -> Row:
    """A response without a known request or API."""
    return row(
        connection=CONNECTION,
        client_id=None,
        api_key=None,
        api_name=None,
        api_version=None,
        correlation_id=number,
        status="orphan_response",
        request_start_ns=None,
        latency_ns=None,
        response_bytes=number,
    )


@pytest.fixture(scope="module")
def tables(spark: SparkSession, database: Database) -> Iterator[SparkTables]:
    settings = {
        # Answers are small: each query is planned once, as a single job with one task.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    with SparkTables(spark, tables_of(spark, database)) as made:
        yield made
    for name, value in before.items():
        spark.conf.set(name, value)


def other_queries() -> list[Query]:
    """Return every query of a report, every question, and a query for every view."""
    built_in_queries = [query for kind in KINDS for query in built_in(kind).values()]
    views = [Query(view, "", "", (), f"SELECT * FROM {view}") for view in derived()]
    return [*built_in_queries, *views]


@cache
def sql_features(query: Query) -> frozenset[str]:
    """Return the functions, keywords and views of a query, also those that its views use."""
    sql = re.sub(r"--.*|'[^']*'", "", query.sql)
    views = set(re.findall(r"\w+", sql)) & derived().keys() - {query.name}
    below = (sql_features(derived()[name]) & derived().keys() for name in views)
    return frozenset(re.findall(r"\b[a-z_]+(?=\()|\b[A-Z]{2,}\b", sql)).union(views, *below)


def covering_queries() -> set[Query]:
    """Return few queries that together use every function, keyword and view.

    Spark takes up to a second to plan a query. The others are ``long``.
    """
    findings = built_in("findings").values()
    empty_queries = [query for query in findings if query.name in FIND_NOTHING]
    others = [*(query for query in findings if query not in empty_queries), *other_queries()]
    found: set[Query] = set()
    left = set[str]().union(*map(sql_features, [*others, *empty_queries]))
    while left:
        # A query that finds nothing is chosen only for features that no other query has.
        best = max(others, key=lambda query: len(sql_features(query) & left))
        if not sql_features(best) & left:
            best = max(empty_queries, key=lambda query: len(sql_features(query) & left))
        found.add(best)
        left -= sql_features(best)
    return found


def query_cases() -> Iterator[Any]:
    """Yield every query that reads nothing but tables, with values for its parameters."""
    by_default = covering_queries()
    for query in built_in("findings").values():
        marks = () if query in by_default else pytest.mark.long
        thresholds = kind_of_finding(query).thresholds
        if query.name in FIND_NOTHING:
            yield pytest.param(query, thresholds, id=query.name, marks=marks)
            continue
        # Thresholds that almost every row passes compare more rows.
        yield pytest.param(query, thresholds, id=query.name, marks=pytest.mark.long)
        yield pytest.param(
            query, loose_thresholds(thresholds), id=f"{query.name}{LOOSE}", marks=marks
        )
    for query in other_queries():
        marks = () if query in by_default else pytest.mark.long
        yield pytest.param(query, PARAMETERS, id=f"other: {query.name}", marks=marks)


def loose_thresholds(thresholds: dict[str, float]) -> dict[str, float]:
    """Return thresholds that almost every row passes."""
    return {
        name: value * (1e-6 if name.startswith("least_") else 1e3)
        for name, value in thresholds.items()
    }


# -- tables ---------------------------------------------------------------------------------------
# These tests come first: once Spark's cache holds all tables below, each takes seconds.


def test_request_ids_are_kept(spark: SparkSession) -> None:
    requests = spark.createDataFrame([(7, 1), (5, 2)], "request_id bigint, latency_ns bigint")
    query = Query("", "", "", (), "SELECT request_id, latency_ns FROM requests ORDER BY 2")
    with SparkTables(spark, {"requests": requests}) as tables:
        found = tables.answer(query, {})
    assert [line["request_id"] for line in found] == [7, 5]


def test_views_and_cached_tables_are_removed_on_close(spark: SparkSession) -> None:
    before = views_and_cache(spark)
    requests = spark.createDataFrame([(1,)], "latency_ns bigint")
    tables = SparkTables(spark, {"requests": requests})
    tables.keep("one", Query("one", "", "", (), "SELECT 1 AS number"), {})
    tables.keep("one", Query("one", "", "", (), "SELECT latency_ns AS number FROM requests"), {})
    assert tables.answer(Query("", "", "", (), "SELECT * FROM one"), {}) == [{"number": 1}]
    tables.close()
    tables.close()
    assert views_and_cache(spark) == before


def views_and_cache(spark: SparkSession) -> tuple[set[str], set[int]]:
    """Return the views of a session, and the RDDs in its cache."""
    views = {view.viewName for view in spark.sql("SHOW VIEWS").collect()}
    return views, set(spark.sparkContext._jsc.getPersistentRDDs())


@pytest.mark.long
def test_quantiles_of_many_rows_are_within_a_stated_error(
    spark: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_tables, "MAX_EXACT_ROWS", 100)
    quantiles = [(0.5, "latency_ns"), (0.99, "latency_ns"), (0.9, "latency_ns DESC")]
    quantiles.append((0.25, "latency_ns / 1e6"))
    sql = ", ".join(
        f"percentile_disc({share}) WITHIN GROUP (ORDER BY {value}) AS p{number}"
        for number, (share, value) in enumerate(quantiles)
    )
    query = Query("", "", "", (), f"SELECT client_id, {sql} FROM measured GROUP BY ALL ORDER BY 1")
    rows = tables_of(spark, database, "requests")["requests"]
    # Planning unused columns would take most of the time.
    rows = rows.select(*(name for name in rows.columns if name in referenced_names(query)))
    with SparkTables(spark, {"requests": rows}) as tables:
        assert not tables.has_exact_quantiles
        expected, found = database.answer(query, {}), tables.answer(query, {})
    differing = 0
    for one, other in zip(found, expected, strict=True):
        assert one.pop("client_id") == other.pop("client_id")
        for name, value in one.items():
            if other[name] is None:
                assert value is None
            else:
                assert abs(value - other[name]) <= QUANTILE_ERROR * other[name]
                differing += value != other[name]
    assert differing > 30


# -- answers --------------------------------------------------------------------------------------


@pytest.mark.few(5)
@pytest.mark.parametrize(("query", "parameters"), list(query_cases()))
def test_an_answer_is_the_same_as_on_one_machine(
    query: Query,
    parameters: dict[str, Any],
    database: Database,
    tables: SparkTables,
    request: pytest.FixtureRequest,
) -> None:
    found = assert_same_answer(query, parameters, database, tables)
    if request.node.name.endswith(f"{LOOSE}]"):
        assert found


def assert_same_answer(
    query: Query, parameters: dict[str, Any], database: Database, tables: SparkTables
) -> list[dict[str, Any]]:
    """Return Spark's answer, which has to be the same as that of one machine."""
    expected, found = database.answer(query, parameters), tables.answer(query, parameters)
    if query.name in derived():
        expected, found = sorted_lines(expected), sorted_lines(found)
    # Types have to be the same too: 1 is not 1.0, nor a decimal.
    assert list(map(repr, found)) == list(map(repr, expected)), query.name
    return found


@pytest.mark.long
def test_answers_about_all_captures_are_the_same(spark: SparkSession) -> None:
    with database_of(NAMES) as database, SparkTables(spark, tables_of(spark, database)) as tables:
        for query, parameters in (case.values for case in query_cases()):
            assert_same_answer(query, parameters, database, tables)


@pytest.fixture(scope="module")
def empty_views(spark: SparkSession, tables: SparkTables) -> Iterator[dict[str, str]]:
    """Views of empty tables: Spark would plan again, for each query, how full ones were made."""
    views = {name: f"empty_{name}" for name in tables._views}
    for name, view in views.items():
        schema = spark.table(tables._views[name]).schema
        spark.createDataFrame([], schema).createOrReplaceTempView(view)
    yield views
    for view in views.values():
        spark.catalog.dropTempView(view)


def with_parameters() -> Iterator[Any]:
    """Yield every query that is no view, with values for its parameters."""
    for query in built_in("findings").values():
        yield pytest.param(query, kind_of_finding(query).thresholds, id=query.name)
    for kind in KINDS:
        for query in built_in(kind).values():
            yield pytest.param(query, PARAMETERS, id=f"{kind}: {query.name}")


@pytest.mark.few(3)
@pytest.mark.parametrize(("query", "parameters"), list(with_parameters()))
def test_spark_can_plan_a_query(
    query: Query,
    parameters: dict[str, Any],
    spark: SparkSession,
    database: Database,
    empty_views: dict[str, str],
) -> None:
    given = {name: parameters[name] for name in query.parameters}
    expected = database.ask(query.sql, given).column_names
    assert spark.sql(spark_sql(query, empty_views), args=given or None).columns == expected


def sorted_lines(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of a view sorted, without request ids, which differ."""
    alike = ({**line, "request_id": None} for line in lines)
    return sorted((dict(sorted(line.items())) for line in alike), key=repr)


@pytest.mark.long
def test_the_cube_of_the_page_is_the_same_as_on_one_machine(
    database: Database, tables: SparkTables
) -> None:
    report = report_of(database, CaptureQuality())
    assert whole_cube(tables, report) == whole_cube(database, report)


# -- rules of the dialect -------------------------------------------------------------------------


def test_a_common_table_expression_may_have_the_name_of_a_view() -> None:
    query = Query("", "", "", (), "WITH carried AS (SELECT 1 AS x) SELECT * FROM carried")
    assert referenced_tables(query) == frozenset()
    assert "LEFT JOIN" not in spark_sql(query)


def test_calls_of_macros_are_what_they_stand_for() -> None:
    query = Query("", "", "", (), "SELECT bin_amount(amount_bin(n - 1)) AS n FROM amounts")
    of_bin = "CAST(SIGN((n - 1)) * FLOOR(LN(ABS(CAST((n - 1) AS DOUBLE)) + 1) * 252) AS INT)"
    expected = (
        f"SELECT SIGN({of_bin}) * ROUND(EXP((ABS({of_bin}) + 0.5D) / 252) - 1) AS n FROM amounts"
    )
    assert "".join(spark_sql(query).split()) == expected.replace(" ", "")


def test_views_are_resolved_to_their_tables() -> None:
    sql = "SELECT * FROM carried JOIN connections USING (connection)"
    assert referenced_tables(Query("", "", "", (), sql)) == {"requests", "connections"}


def test_a_query_is_translated_the_same_each_time() -> None:
    """Parsed queries are cached; translating one does not change it."""
    query = Query("", "", "", (), "WITH own AS (SELECT * FROM carried) SELECT * FROM own")
    names, sql = referenced_names(query), spark_sql(query)
    sources = {"requests": "rows", "carried": "stored"}
    assert spark_sql(query, sources) == spark_sql(query, sources) != sql
    assert spark_sql(query) == sql
    assert referenced_names(query) == names


@pytest.mark.parametrize(
    "expressions",
    [
        (
            "7 // 2",
            "-7 // 2",
            "9007199254740993 // 1",
            "round(2.5e0)",
            "round(-2.5e0)",
            "round(0.15e0 * 10) / 10",
            "round(1.45e0 * 10) / 10",
            "CAST(round(1e15 + 0.5) AS BIGINT)",
            "concat(NULL, 'x', 1, true)",
            "concat(nullif(x, 2), ' v', nullif(y, 1))",
            "concat(round(12345678.95e0 * 10) / 10, ' s')",
            "concat(round(-0.05e0 * 10) / 10)",
            "100.0 * 1 / 3",
            "1 / 3",
        ),
        (
            "histogram(x)",
            "list(x ORDER BY y)",
            "list_sort(list(DISTINCT x))",
            "array_to_string(list_sort(list(DISTINCT x)), ', ')",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)",
            "percentile_disc(0.95) WITHIN GROUP (ORDER BY x) FILTER (WHERE y > 2)",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FILTER (WHERE y > 9)",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY x + 0.5e0)",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY y DESC)",
            "arg_min(x, y)",
            "arg_max(x, y)",
            "sum(9007199254740993)",
            "avg(x)",
            "bool_or(x > 1)",
            "count(*) FILTER (WHERE x > 1)",
        ),
    ],
    ids=["of a row", "of a group"],
)
def test_functions_give_the_same_in_both_dialects(
    expressions: tuple[str, ...], spark: SparkSession
) -> None:
    columns = ", ".join(
        f"{expression} AS f{number}" for number, expression in enumerate(expressions)
    )
    rows = "FROM (VALUES (1, 3), (2, 1), (2, 2), (5, 4)) AS t (x, y)"
    query = Query("", "", "", (), f"SELECT {columns} {rows}")
    found = [line.asDict() for line in spark.sql(spark_sql(query)).collect()]
    with Database(max_memory_bytes=1 << 28, threads=1) as database:
        expected = database.answer(query, {})
    assert len(found) == len(expected)
    for number, expression in enumerate(expressions):
        of_one, of_spark = ([line[f"f{number}"] for line in lines] for lines in (expected, found))
        # Types may differ here: DuckDB reads 100.0 as a decimal.
        assert of_spark == of_one, expression
