"""A report over tables on Spark, by the queries that make it on one machine.

In: DataFrames of requests and of other tables, and the quality of the captures. Out: the report,
its findings too. This module must not know where the tables come from.

Spark takes a second to plan each of the queries, of which there are dozens: what is small goes to
the driver, where DuckDB answers them all in that time.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it
from pyspark.sql.types import ArrayType, StringType

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.files import built_in
from kanalyze.queries.findings import finding_kinds, with_thresholds
from kanalyze.queries.report import report_with_findings
from kanalyze.spark.dialect import asked_names, asked_tables
from kanalyze.spark.schema import spark_schema
from kanalyze.spark.tables import SparkTables
from kanalyze.tables.quality_facts import QUALITY, QUALITY_COLUMNS, quality_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.queries.engine import QueryEngine
    from kanalyze.queries.findings import FindingKind
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["MakePage", "ReportOptions", "report_on"]

MOST_ROWS_HERE = 1_000_000
"""Of all tables together, which are brought to the driver."""
MOST_BYTES_HERE = 400 << 20
"""That they may take, about: names from the wire are as long as somebody makes them."""

_NUMBERS_BYTES = 400
"""Of a row."""

_KINDS = ("tables", "report", "findings", "page")
MakePage: TypeAlias = "Callable[[dict[str, Any], QueryEngine], None]"
"""Makes something of a report, and of what answers queries on the same tables."""


class ReportOptions(NamedTuple):
    """What a report looks for, and what else is made of it."""

    kinds: Sequence[FindingKind] | None = None
    """Findings to look for; None for the built-in ones."""
    thresholds: Mapping[str, float] = MappingProxyType({})
    """As :func:`kanalyze.queries.findings.findings_of` takes them."""
    make_page: MakePage | None = None
    """Is called with the report, and with what answers queries on the tables."""


def report_on(
    spark: SparkSession,
    tables: Mapping[str, DataFrame],
    quality: CaptureQuality,
    conditions: Mapping[str, Any] | None = None,
    options: ReportOptions | None = None,
) -> dict[str, Any]:
    """Return the report on tables, of which ``requests`` is one.

    Findings that ask for a table which is not there are left out, and named in
    ``findings_left_out``.

    Args:
        spark: the session.
        tables: the tables by name.
        quality: that of the captures.
        conditions: what rows were filtered by.
        options: what is looked for; None for the built-in findings.

    Raises:
        UsageError: a finding of a user cannot be answered, or there is no such threshold.
    """
    options = ReportOptions() if options is None else options
    kinds = with_thresholds(
        finding_kinds() if options.kinds is None else options.kinds, options.thresholds
    )
    tables = {**_needed(tables, kinds), QUALITY: _quality_table(spark, quality)}
    left_out = [kind for kind in kinds if not asked_tables(kind.query) <= tables.keys()]
    asked = [kind for kind in kinds if kind not in left_out]
    with _engine(spark, tables) as database:
        report = report_with_findings(database, quality, conditions, asked)
        if left_out:
            more = report.get("findings_left_out", [])
            report["findings_left_out"] = sorted({kind.query.name for kind in left_out}.union(more))
        if options.make_page is not None:
            options.make_page(report, database)
    return report


@contextmanager
def _engine(spark: SparkSession, tables: Mapping[str, DataFrame]) -> Iterator[QueryEngine]:
    """Give what answers queries on tables."""
    if not _is_small(tables.values()):
        with SparkTables(spark, tables) as many:
            yield many
        return
    with Database(max_memory_bytes=DEFAULT_MEMORY_BYTES, threads=1) as database:
        for name, table in tables.items():
            rows = table.toArrow()
            database.create(name, rows.schema)
            for batch in rows.to_batches():
                database.insert(name, batch)
        yield database


def _quality_table(spark: SparkSession, quality: CaptureQuality) -> DataFrame:
    """Return what a capture holds and lacks as a table."""
    schema = spark_schema(QUALITY_COLUMNS)
    return spark.createDataFrame(list(map(tuple, quality_facts(quality))), schema)


def _is_small(tables: Collection[DataFrame]) -> bool:
    """Return whether tables may be brought to the driver."""
    # Files tell of rows without being read.
    if sum(table.count() for table in tables) > MOST_ROWS_HERE:
        return False
    return sum(map(_bytes, tables)) <= MOST_BYTES_HERE


def _bytes(table: DataFrame) -> int:
    """Return about how much a table takes: texts and lists have no bounds."""
    unbounded = (
        F.octet_length(F.col(field.name).cast("string"))
        for field in table.schema
        if isinstance(field.dataType, ArrayType | StringType)
    )
    size = sum((F.coalesce(each, F.lit(0)) for each in unbounded), F.lit(_NUMBERS_BYTES))
    (found,) = table.agg(F.sum(size)).collect()
    return found[0] or 0


def _needed(tables: Mapping[str, DataFrame], kinds: Sequence[FindingKind]) -> dict[str, DataFrame]:
    """Return tables with the columns that are named anywhere in the queries.

    Those that a user's query asks have all columns: it may name them by a ``*``.
    """
    queries = [query for kind in _KINDS for query in built_in(kind).values()]
    named = frozenset[str]().union(*map(asked_names, queries))
    of_users = (kind.query for kind in kinds if kind.query not in queries)
    whole = frozenset[str]().union(*map(asked_tables, of_users))
    return {
        name: table
        if name in whole
        else table.select(*(each for each in table.columns if each in named))
        for name, table in tables.items()
    }
