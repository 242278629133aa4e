"""Tables that answer queries with Spark, as a database does on one machine.

In: DataFrames, queries. Out: answers. This module must not know where rows come from, nor what is
asked of them.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from kanalyze.queries.files import built_in
from kanalyze.spark.dialect import referenced_derived_tables, spark_sql

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.queries.files import Query

__all__ = ["MOST_EXACT_ROWS", "SparkTables"]

MOST_EXACT_ROWS = 2_000_000
"""Quantiles of more requests are not exact: a task would have all values of a group in memory."""


class SparkTables:
    """A :class:`~kanalyze.queries.engine.QueryEngine`: tables in views of names of their own.

    A context manager; closing it removes views, and from Spark's cache what was put there.
    """

    def __init__(self, spark: SparkSession, tables: Mapping[str, DataFrame]) -> None:
        """Name the tables; ``requests`` is among them.

        Its rows are numbered (``request_id``), in no order, where they are not yet; these must come
        in the same order at each reading, as those of files and of what is cached do.
        """
        self._spark = spark
        self._mark = f"kanalyze_{uuid.uuid4().hex}"
        self._views: dict[str, str] = {}
        self._kept: dict[str, DataFrame] = {}
        self._made = frozenset(tables)
        numbered = tables["requests"]
        if "request_id" not in numbered.columns:
            numbered = numbered.withColumn("request_id", F.monotonically_increasing_id())
        for name, table in {**tables, "requests": numbered}.items():
            self._name(name, self._keep(name, table))
        self.has_exact_quantiles = numbered.count() <= MOST_EXACT_ROWS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget all tables; a second time changes nothing."""
        # The latest first: of a table that others are made of Spark would plan these again.
        for name in reversed(list(self._views)):
            self.forget(name)

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables that were made, without those of views."""
        return self._made

    def answer(
        self, query: Query, parameters: Mapping[str, object], most: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the lines that answer a query, which takes the parameters that it has of these.

        Only the first ``most`` of them, if that is given.
        """
        answer = self._ask(query, parameters)
        rows = answer.collect() if most is None else answer.take(most)
        return [row.asDict(recursive=True) for row in rows]

    def keep(self, table: str, query: Query, parameters: Mapping[str, object]) -> None:
        """Store the answer to a query as a table; it replaces a table of that name."""
        answer = self._ask(query, parameters)
        if table in self._views:
            self.forget(table)
        self._name(table, self._keep(table, answer))

    def forget(self, table: str) -> None:
        """Remove a table."""
        self._spark.catalog.dropTempView(self._views.pop(table))
        if table in self._kept:
            self._kept.pop(table).unpersist()

    def _ask(self, query: Query, parameters: Mapping[str, object]) -> DataFrame:
        taken = {name: parameters[name] for name in query.parameters}
        for name in referenced_derived_tables(query):
            if name not in self._views:
                self.keep(name, built_in("tables")[name], {})
        text = spark_sql(query, self._views, has_exact_quantiles=self.has_exact_quantiles)
        return self._spark.sql(text, args=taken or None)

    def _keep(self, name: str, table: DataFrame) -> DataFrame:
        self._kept[name] = table.persist(StorageLevel.MEMORY_AND_DISK)
        return table

    def _name(self, name: str, table: DataFrame) -> None:
        self._views[name] = f"{self._mark}_{name}"
        table.createOrReplaceTempView(self._views[name])
