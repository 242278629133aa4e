"""The tables of a database on Spark, with the same rows in the same order; tables as on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kanalyze.export.arrow import BatchMaker
from kanalyze.spark.schema import arrow_schema, as_spark, spark_schema
from kanalyze.spec.rows.records import WHOLE_CAPTURE_COLUMNS
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.queries.database import Database
    from kanalyze.spec.rows.requests import Row

_TABLES = "SELECT table_name AS name FROM duckdb_tables() WHERE NOT internal AND NOT temporary"


def tables_of(spark: SparkSession, database: Database, *some: str) -> dict[str, DataFrame]:
    """Return some tables, or all; requests without numbers, which only a database has."""
    names = some or database.ask(_TABLES).column("name").to_pylist()
    found = {name: _frame(spark, database.ask(f"FROM {name}")) for name in names}
    found["requests"] = found["requests"].drop("request_id")
    return found


def frame_of_rows(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """Return requests as a table with the types that Spark's tables have."""
    batches = as_spark(BatchMaker().of_rows(rows), COLUMNS)
    table = pa.Table.from_batches(batches, arrow_schema(COLUMNS))
    return spark.createDataFrame(table, spark_schema(COLUMNS))


def as_on_spark(rows: pa.Table) -> pa.Table:
    """Return rows with the columns that Spark's tables have.

    Timestamps have no nanoseconds there, and some columns of records need the whole capture.
    """
    return rows.select(
        [
            each.name
            for each in rows.schema
            if not pa.types.is_timestamp(each.type) and each.name not in WHOLE_CAPTURE_COLUMNS
        ]
    )


def _frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    if not rows.num_rows:
        return spark.createDataFrame([], from_arrow_schema(rows.schema))
    return spark.createDataFrame(rows)
