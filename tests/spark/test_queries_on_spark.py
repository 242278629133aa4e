"""The SQL of each query gives the same on Spark, on a user's own table `requests`, as on DuckDB.

`test_tables.py` compares Spark with one machine too, over tables that kanalyze makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kanalyze.export.arrow import BatchMaker
from kanalyze.spark.dialect import query
from kanalyze.spark.schema import arrow_schema, as_spark, spark_schema
from kanalyze.spec.rows.requests import COLUMNS
from tests.spark import test_queries
from tests.spark.test_queries import OF_REQUESTS, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.test_queries import Ask

BY_DEFAULT = ("connection_trace", "latency_by_client")
"""A query with parameters, and one with views, counts of requests and quantiles."""


@pytest.fixture(scope="module")
def requests(spark: SparkSession) -> Iterator[DataFrame]:
    batches = as_spark(BatchMaker().of_rows(rows()), COLUMNS)
    table = pa.Table.from_batches(batches, arrow_schema(COLUMNS))
    frame = spark.createDataFrame(table, spark_schema(COLUMNS))
    frame.createOrReplaceTempView("requests")
    yield frame
    spark.catalog.dropTempView("requests")


@pytest.fixture(scope="module")
def ask(spark: SparkSession, requests: DataFrame) -> Ask:
    def run(name: str, **parameters: str) -> list[Any]:
        return spark.sql(query(name), args=parameters or None).collect()

    return run


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in BY_DEFAULT else pytest.mark.long)
        for name in OF_REQUESTS
    ],
)
def test_figures_match_plain_python(name: str, ask: Ask) -> None:
    getattr(test_queries, f"test_{name}")(ask)


def test_spark_can_plan_every_query(spark: SparkSession, requests: DataFrame) -> None:
    for name in OF_REQUESTS:
        arguments = {"connection": "nobody's"} if ":connection" in query(name) else None
        assert spark.sql(query(name), args=arguments).columns, name
