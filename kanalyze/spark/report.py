"""Makes a report of tables on Spark, with the same queries as on one machine.

In: DataFrames of requests and of other tables, and the quality of the captures. Out: the report,
with findings.

Spark takes a second to plan a query, and there are dozens. So small tables are collected in the
driver, where DuckDB answers all queries in that time.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it
from pyspark.sql.types import ArrayType, StringType

from kanalyze.batch.engine import ReportOptions, report_by
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.engine import QueryError
from kanalyze.queries.files import built_in
from kanalyze.spark.dialect import (
    referenced_derived_tables,
    referenced_names,
    referenced_tables,
    spark_sql,
)
from kanalyze.spark.failures import SparkFailure, failures_in_one_line
from kanalyze.spark.schema import spark_schema
from kanalyze.spec.rows.anomalies import QUALITY, QUALITY_COLUMNS
from kanalyze.tables.quality import quality_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from kanalyze.batch.engine import Past
    from kanalyze.queries.engine import QueryEngine
    from kanalyze.queries.files import Query
    from kanalyze.queries.findings import FindingKind
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["MAX_EXACT_ROWS", "SparkTables", "report_on"]

MAX_EXACT_ROWS = 2_000_000
"""Quantiles of more requests are not exact: a task would hold all values of a group in memory."""


class SparkTables(ClosedAtEnd):
    """A :class:`~kanalyze.queries.engine.QueryEngine`: tables as views with unique names.

    A context manager; closing it removes the views, and their rows from Spark's cache.
    """

    def __init__(self, spark: SparkSession, tables: Mapping[str, DataFrame]) -> None:
        """Create views of the tables, which must include ``requests``.

        If ``requests`` has no column ``request_id``, its rows are numbered in arbitrary order. Then
        it must have the same order each time it is read, as files and cached DataFrames do.
        """
        self._spark = spark
        self._view_prefix = f"kanalyze_{uuid.uuid4().hex}"
        self._views: dict[str, str] = {}
        self._cached: dict[str, DataFrame] = {}
        self._table_names = frozenset(tables)
        numbered = tables["requests"]
        if "request_id" not in numbered.columns:
            numbered = numbered.withColumn("request_id", F.monotonically_increasing_id())
        for name, table in {**tables, "requests": numbered}.items():
            self._create_view(name, self._cache(name, table))
        self.has_exact_quantiles = numbered.count() <= MAX_EXACT_ROWS

    def close(self) -> None:
        """Remove all tables; a second call does nothing."""
        # The latest first: when a table is removed, Spark plans the tables made from it again.
        for name in reversed(list(self._views)):
            self.forget(name)

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables, without views."""
        return self._table_names

    def answer(
        self, query: Query, parameters: Mapping[str, object], most: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of a query's result: the first ``most`` of them, or all if it is None.

        ``parameters`` may have more names than the query.
        """
        with _query_errors(query):
            result = self._run(query, parameters)
            rows = result.collect() if most is None else result.take(most)
        return [row.asDict(recursive=True) for row in rows]

    def keep(self, table: str, query: Query, parameters: Mapping[str, object]) -> None:
        """Store the result of a query as a table; it replaces a table of that name."""
        with _query_errors(query):
            result = self._run(query, parameters)
        if table in self._views:
            self.forget(table)
        self._create_view(table, self._cache(table, result))

    def forget(self, table: str) -> None:
        """Remove a table."""
        self._spark.catalog.dropTempView(self._views.pop(table))
        if table in self._cached:
            self._cached.pop(table).unpersist()

    def _run(self, query: Query, parameters: Mapping[str, object]) -> DataFrame:
        arguments = {name: parameters[name] for name in query.parameters}
        for name in referenced_derived_tables(query):
            if name not in self._views:
                self.keep(name, built_in("tables")[name], {})
        text = spark_sql(query, self._views, has_exact_quantiles=self.has_exact_quantiles)
        return self._spark.sql(text, args=arguments or None)

    def _cache(self, name: str, table: DataFrame) -> DataFrame:
        self._cached[name] = table.persist(StorageLevel.MEMORY_AND_DISK)
        return table

    def _create_view(self, name: str, table: DataFrame) -> None:
        self._views[name] = f"{self._view_prefix}_{name}"
        table.createOrReplaceTempView(self._views[name])


@contextmanager
def _query_errors(query: Query) -> Iterator[None]:
    """Raise QueryError for an error of Spark in a query, but not if Spark itself has failed."""
    try:
        with failures_in_one_line():
            yield
    except SparkFailure as error:
        if not isinstance(error.__cause__, PySparkException):
            raise
        raise QueryError(str(error), query.name) from error


MAX_ROWS_HERE = 1_000_000
"""Limit of the rows of all tables together that are collected in the driver."""
MAX_BYTES_HERE = 400 << 20
"""Limit of their approximate size in bytes: names from the wire may be long."""

_NUMBERS_BYTES = 400
"""Estimated bytes of a row, without its texts and lists."""

_QUERY_KINDS = ("tables", "report", "findings", "page")


def report_on(
    spark: SparkSession,
    tables: Mapping[str, DataFrame],
    quality: CaptureQuality,
    conditions: Mapping[str, Any] | None = None,
    options: ReportOptions | None = None,
    past: Past | None = None,
) -> dict[str, Any]:
    """Return the report on tables, which must include ``requests``; see :func:`.report_by`.

    Args:
        spark: the session.
        tables: the tables by name.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        options: findings to search for; None for the built-in ones.
        past: see :func:`.report_by`.

    Raises:
        UsageError: a threshold is unknown.
    """
    options = ReportOptions() if options is None else options
    kinds = options.chosen_kinds
    tables = {**_needed(tables, kinds), QUALITY: _quality_table(spark, quality)}

    def has_tables(kind: FindingKind) -> bool:
        return referenced_tables(kind.query) <= tables.keys()

    with _engine(spark, tables) as engine:
        return report_by(engine, quality, conditions, options, has_tables, past)


@contextmanager
def _engine(spark: SparkSession, tables: Mapping[str, DataFrame]) -> Iterator[QueryEngine]:
    """Provide an engine for queries on tables."""
    if not _is_small(tables.values()):
        with SparkTables(spark, tables) as engine:
            yield engine
        return
    with Database(max_memory_bytes=DEFAULT_MEMORY_BYTES, threads=1) as database:
        for name, table in tables.items():
            rows = table.toArrow()
            database.create(name, rows.schema)
            for batch in rows.to_batches():
                database.insert(name, batch)
        yield database


def _quality_table(spark: SparkSession, quality: CaptureQuality) -> DataFrame:
    """Return the quality of the captures as a table."""
    schema = spark_schema(QUALITY_COLUMNS)
    return spark.createDataFrame(list(map(tuple, quality_facts(quality))), schema)


def _is_small(tables: Collection[DataFrame]) -> bool:
    """Return true if the tables can be collected in the driver."""
    # One query for all tables: planning takes longer than reading. Parquet files give their
    # numbers of rows without being read.
    if _all_rows(table.select(F.lit(0)) for table in tables).count() > MAX_ROWS_HERE:
        return False
    sizes = _all_rows(
        table.select(_row_bytes(table).cast("long").alias("size")) for table in tables
    )
    (total,) = sizes.agg(F.sum("size")).collect()
    return (total[0] or 0) <= MAX_BYTES_HERE


def _all_rows(tables: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of tables with the same columns as one table."""
    return reduce(lambda first, second: first.unionAll(second), tables)


def _row_bytes(table: DataFrame) -> Column:
    """Return the approximate size of a row in bytes; texts and lists are measured."""
    sizes = (
        F.octet_length(F.col(field.name).cast("string"))
        for field in table.schema
        if isinstance(field.dataType, ArrayType | StringType)
    )
    return sum((F.coalesce(size, F.lit(0)) for size in sizes), F.lit(_NUMBERS_BYTES))


def _needed(tables: Mapping[str, DataFrame], kinds: Sequence[FindingKind]) -> dict[str, DataFrame]:
    """Return tables with only the columns that the queries name.

    Tables in a user's query keep all columns, because it may name them by ``*``.
    """
    queries = [query for kind in _QUERY_KINDS for query in built_in(kind).values()]
    used_names = frozenset[str]().union(*map(referenced_names, queries))
    user_queries = (kind.query for kind in kinds if kind.query not in queries)
    whole_tables = frozenset[str]().union(*map(referenced_tables, user_queries))
    return {
        name: table
        if name in whole_tables
        else table.select(*(column for column in table.columns if column in used_names))
        for name, table in tables.items()
    }
