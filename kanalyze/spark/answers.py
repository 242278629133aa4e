"""Answers about tables on Spark: reports, and queries of users.

In: DataFrames by the names of our tables, and a query. Out: a report, an Arrow table.

DuckDB answers in the driver, as on one machine: Spark takes a second to plan a query, and a report
has dozens. Rows come a partition at a time, and DuckDB writes to temporary files what it has no
memory for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kanalyze.api.name_files import read_names
from kanalyze.api.tables import create_tables, name_tables_of, tables_for
from kanalyze.batch.archive.blocks import from_arrow_stream, to_arrow_stream
from kanalyze.batch.engine import ReportOptions, report_on_rows
from kanalyze.errors import UsageError
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.files import questions, words_below
from kanalyze.spark.failures import Work, failures_in_one_line
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.tables import TABLES, stored_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kanalyze.spec.columns import Column
    from kanalyze.tables.quality import CaptureQuality

_STREAM = "data binary"


def sql(
    tables: Mapping[str, DataFrame],
    query: str,
    parameters: Mapping[str, object] | None = None,
    *,
    names: Iterable[str] = (),
) -> pa.Table:
    """Return the answer to an SQL query over tables, as :func:`kanalyze.sql` does over captures.

    The rows of the tables that the query reads come to the driver: filter large DataFrames first,
    and select columns of them. ``spark.createDataFrame`` makes a DataFrame of the answer.

    Args:
        tables: DataFrames by the names of their tables, such as those of :meth:`.Archive.tables`,
            or ``{"requests": spark.read.parquet("/tables/kafka/requests")}``.
        query: SQL in DuckDB's dialect, or the name of a query of ``kanalyze sql --list``.
        parameters: values by name, for parameters that are written ``$name``.
        names: files with names of addresses, as of :func:`kanalyze.sql`; tables have columns of
            them, if ``connections`` is among ``tables``.

    Raises:
        UsageError: a table is unknown; the query is invalid, or fails; a file of names is wrong.
        SparkFailure: Spark cannot make the rows.
    """
    for name in tables:
        if name not in TABLES:
            raise UsageError(f"unknown table {name!r}; there are {', '.join(TABLES)}")
    known = questions()
    text = known[query].sql if query in known else query
    # What a user writes may have columns that it does not name, by a star or without one.
    needed = words_below(text) | {REQUEST_ID.name} if query in known and not names else None
    addresses = read_names(names) if names else None
    ends = set() if addresses is None else {"connections"}
    read = {"requests", *ends, *tables_for(text, addresses)} & tables.keys()
    columns = {name: _columns(name, tables[name], needed or ()) for name in sorted(read)}
    with Database(max_memory_bytes=DEFAULT_MEMORY_BYTES, threads=driver_cores()) as database:
        for name, maker in create_tables(database, columns, needed).items():
            _insert(database, name, tables[name], maker.schema)
        if addresses is not None:
            name_tables_of(database, addresses)
        return database.ask(text, parameters)


def report_on(
    tables: Mapping[str, DataFrame],
    quality: CaptureQuality,
    conditions: Mapping[str, Any] | None = None,
    options: ReportOptions | None = None,
) -> dict[str, Any]:
    """Return the report on tables, which must include ``requests``.

    For the other arguments see :func:`.report_on_rows`, and for what is raised.
    """

    def insert(database: Database, table: str, schema: pa.Schema) -> None:
        _insert(database, table, tables[table], schema)

    columns = {name: _columns(name, frame, ()) for name, frame in tables.items()}
    options = ReportOptions() if options is None else options
    return report_on_rows(*(columns, insert, quality, conditions, options), threads=driver_cores())


def driver_cores() -> int:
    """Return the number of cores that the driver may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _columns(table: str, frame: DataFrame, needed: Collection[str]) -> list[Column]:
    """Return the columns of a table that a DataFrame has, and those that are needed.

    Files of an earlier kanalyze lack some. Requests without numbers get them.
    """
    names = {*frame.columns, *needed} - ({REQUEST_ID.name} - {*frame.columns})
    return [column for column in stored_columns(table) if column.name in names]


def _insert(database: Database, table: str, frame: DataFrame, schema: pa.Schema) -> None:
    """Insert the columns of a schema into a table of a database; missing ones are null."""
    found = [name for name in schema.names if name in frame.columns]
    streams = frame.select(*found).mapInArrow(Work(_as_streams), _STREAM)
    with failures_in_one_line():
        for (data,) in streams.toLocalIterator():
            for batch in from_arrow_stream(data):
                database.insert(table, _whole(batch, schema).cast(schema))


def _whole(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema; those that a batch lacks are null."""
    import pyarrow as pa

    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    missing = {field.name: pa.nulls(batch.num_rows, field.type) for field in schema}
    return pa.RecordBatch.from_pydict({name: {**missing, **arrays}[name] for name in schema.names})


def _as_streams(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch as an Arrow stream in one row."""
    import pyarrow as pa

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"data": [to_arrow_stream([batch])]})
