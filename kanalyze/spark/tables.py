"""Tables that answer queries with Spark, as a database does on one machine.

In: DataFrames, queries. Out: rows of their results.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from kanalyze.common.closing import ClosedAtEnd
from kanalyze.queries.engine import QueryError
from kanalyze.queries.files import built_in
from kanalyze.spark.dialect import referenced_derived_tables, spark_sql
from kanalyze.spark.failures import SparkFailure, failures_in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.queries.files import Query

__all__ = ["MAX_EXACT_ROWS", "SparkTables"]

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
