"""Whatever is asked of a DataFrame of the data source, later questions to it have right answers."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import pytest

import kanalyze
from kanalyze.spark import register
from tests.support.captures import path
from tests.support.spark import own_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Users set it for other data sources."""
KEY = ("capture", "connection", "request_packet", "response_packet", "correlation_id")
COLUMNS = (
    *KEY,
    "api_name",
    "api_key",
    "status",
    "client_id",
    "latency_ns",
    "error_code",
    "waited",
    "acks",
)
PREDICATES = (
    "latency_ns > 50000000 and api_name = 'Produce'",
    "latency_ns > 200000",
    "not latency_ns > 200000 or latency_ns is null",
    "api_name in ('Produce', 'Fetch')",
    "api_key not in (0, 1) or status <> 'ok'",
    "client_id like 'r%'",
    "client_id is null",
    "waited",
    "not waited",
    "error_code <> 0",
    "acks is not distinct from -1",
    "status = 'nothing has this'",
    "latency_ns >= -9223372036854775808",
    "request_packet between 20 and 400",
)
"""Of the meaning that Spark and DuckDB share."""


class Asked(NamedTuple):
    """The same rows in Spark and in DuckDB."""

    frame: DataFrame
    rows: duckdb.DuckDBPyRelation
    names: tuple[str, ...]


@pytest.fixture(scope="module", params=["false", "true"], ids=["not_pushing", "pushing"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    session = own_session(spark)
    session.conf.set(PUSHDOWN, request.param)
    register(session)
    return session


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    return kanalyze.requests(str(path("basics"))).to_arrow().select(COLUMNS)


def load(session: SparkSession, *captures: str, **options: str) -> DataFrame:
    reader = session.read.format("kanalyze").options(**options)
    return reader.load([str(path(name)) for name in captures])


def counted(rows: list[tuple]) -> Counter[tuple]:
    return Counter(map(tuple, rows))


def test_a_filter_stays_out_of_later_questions(session: SparkSession) -> None:
    frame = load(session, "basics")
    all_rows = list(kanalyze.requests(str(path("basics"))))
    slow = [row for row in all_rows if row.api_name == "Produce" and (row.latency_ns or 0) > 50e6]
    filtered = frame.where("latency_ns > 50000000 and api_name = 'Produce'")
    assert [filtered.count(), frame.count()] == [len(slow), len(all_rows)]
    frame = load(session, "basics")
    halves = [frame.where(f"(latency_ns > 1000000) is {word} true") for word in ("", "not")]
    assert halves[0].unionAll(halves[1]).count() == len(all_rows)


def test_options_filter_at_the_source_and_a_filter_of_spark_after_that(
    session: SparkSession,
) -> None:
    frame = load(session, "basics", api="Produce")
    produced = [row for row in kanalyze.requests(str(path("basics"))) if row.api_name == "Produce"]
    slow = [row for row in produced if (row.latency_ns or 0) > 50e6]
    assert 0 < len(slow) < len(produced)
    assert frame.where("latency_ns > 50000000").count() == len(slow)
    assert frame.where("api_name = 'Fetch'").count() == 0
    assert frame.count() == len(produced)


@pytest.mark.parametrize("table", ["connections", "anomalies", "packets", "records"])
def test_every_table_forgets_a_filter(session: SparkSession, table: str) -> None:
    frame = load(session, "any", "mock", table=table)
    before = frame.count()
    one = str(path("any"))
    part = frame.where(f"capture = '{one}'").count()
    other = frame.where(f"capture <> '{one}'").count()
    assert 0 < part < before == part + other == frame.count()


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(16))
def test_any_sequence_of_questions_is_answered_as_by_duckdb(
    session: SparkSession, expected: pa.Table, seed: int
) -> None:
    chance = random.Random(seed)
    with duckdb.connect() as connection:
        base = Asked(load(session, "basics"), connection.from_arrow(expected), COLUMNS)
        known = [base]
        try:
            for _ in range(5):
                asked = one_more(chance, known)
                check(asked)
                known.append(asked)
                check(chance.choice(known))
        finally:
            for asked in known:
                asked.frame.unpersist()
        check(base)


def one_more(chance: random.Random, known: list[Asked]) -> Asked:
    """Return what comes of one operation on one of the known, most often on the first."""
    asked = chance.choice([known[0], *known])
    frame, rows, names = asked
    match chance.randrange(6):
        case 0 | 1:
            test = chance.choice([test for test in PREDICATES if uses_only(test, names)])
            return Asked(frame.where(test), rows.filter(test), names)
        case 2:
            rest = names[len(KEY) :]
            chosen = (*KEY, *chance.sample(rest, chance.randint(0, len(rest))))
            return Asked(frame.select(*chosen), rows.project(", ".join(chosen)), chosen)
        case 3:
            other = chance.choice([one for one in known if set(one.names) >= set(names)])
            more = other.rows.project(", ".join(names))
            both = frame.select(*names).unionAll(other.frame.select(*names))
            return Asked(both, rows.project(", ".join(names)).union(more), names)
        case 4:
            count = chance.choice([0, 1, 7, 100_000])
            order = ", ".join(f"{name} asc nulls first" for name in KEY)
            first = frame.orderBy(*(frame[name].asc_nulls_first() for name in KEY)).limit(count)
            return Asked(first, rows.order(order).limit(count), names)
        case _:
            return Asked(frame.cache(), rows, names)


def uses_only(predicate: str, names: tuple[str, ...]) -> bool:
    return all(name in names or name not in predicate for name in COLUMNS)


def check(asked: Asked) -> None:
    names = ", ".join(asked.names)
    rows = asked.rows.project(names).fetchall()
    assert asked.frame.limit(3).count() == min(3, len(rows))
    assert counted(asked.frame.select(*asked.names).collect()) == counted(rows)
