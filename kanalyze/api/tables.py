"""Puts the tables of a run into a database, for queries, or into a file read in its place.

In: an analysis. Out: a database, filled; a complete file, or none.
"""

from __future__ import annotations

from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanalyze.api.saved import SavedAnalysis, header_of
from kanalyze.common import unfinished
from kanalyze.common.behind import called_behind
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker
from kanalyze.export.files import OutputFile
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.files import words_below
from kanalyze.queries.name_tables import names_brokers
from kanalyze.runtime.table_rows import RECORDS
from kanalyze.spec.columns import time_name
from kanalyze.spec.rows.anomalies import QUALITY
from kanalyze.spec.rows.requests import SESSION_COLUMNS
from kanalyze.spec.rows.tables import ALWAYS, TABLES, choose_tables
from kanalyze.tables.cluster.reader import CLIENT_METRICS
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import quality_facts
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from kanalyze.runtime.pipeline import Analysis
    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.columns import AnyRow, Column
    from kanalyze.tables.names import AddressNames
    from kanalyze.tables.quality import CaptureQuality

_MAPPED_BYTES = 160 << 20
"""Up to so many bytes, of some 400,000 requests, rows are not compressed before they are queried. A
query has up to two thirds of them in memory."""


class OpenedTables(NamedTuple):
    """The tables of captures or saved files, and facts about them."""

    database: Database
    quality: CaptureQuality
    conditions: dict[str, Any]
    """The active filter."""


@contextmanager
def opened_tables(
    analysis: Analysis | SavedAnalysis,
    tables: Iterable[str] = (),
    names: Container[str] | None = None,
    *,
    max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
    usual_memory_bytes: int | None = None,
    threads: int = 1,
    progress: AbstractContextManager[None] | None = None,
    others: bool = True,
    session_lists: bool = False,
) -> Iterator[OpenedTables]:
    """Run an analysis, and provide its tables in a database inside a ``with`` block.

    Args:
        analysis: an analysis of captures or of saved files.
        tables: see :func:`fill`.
        names: see :func:`fill`.
        max_memory_bytes: memory in bytes for tables and queries.
        usual_memory_bytes: see :class:`~kanalyze.queries.database.Database`.
        threads: number of threads of a query.
        progress: a context manager that is entered while the analysis runs.
        others: see :func:`fill`.
        session_lists: see :func:`fill`.

    Raises what :func:`fill` raises.
    """
    with (
        Database(
            max_memory_bytes=max_memory_bytes,
            usual_memory_bytes=usual_memory_bytes,
            mapped_bytes=_MAPPED_BYTES,
            threads=threads,
        ) as database,
        closing(analysis),
    ):
        with progress or nullcontext():
            fill(database, analysis, tables, names, others=others, session_lists=session_lists)
        yield OpenedTables(database, analysis.quality, analysis.row_filter.conditions)


def fill(
    database: Database,
    analysis: Analysis | SavedAnalysis,
    tables: Iterable[str] = (),
    names: Container[str] | None = None,
    *,
    others: bool = True,
    session_lists: bool = False,
) -> None:
    """Put the rows of an analysis into tables.

    Args:
        database: the database to fill.
        analysis: an analysis of captures or of saved files.
        tables: tables to fill, besides :data:`kanalyze.spec.rows.tables.ALWAYS`.
        names: names of columns that are needed; None for all. Planning a query takes longer with
            each column of its tables, most of all with timestamps. With names, ``groups`` need
            not have the lines of commits, which may be as many as all other rows: queries of
            kanalyze read those in ``partitions``.
        others: whether the rows of connections and anomalies are needed: without them, their tables
            may be empty.
        session_lists: whether ``partitions`` may lack what requests only inherit of their fetch
            sessions, which ``session_lists`` then has: for queries of ``report`` and ``findings``.
            It never lacks them without ``names``, nor if there is a filter.

    Raises:
        KanalyzeError: a capture cannot be read.
        UsageError: a table is unknown.
    """
    chosen = choose_tables(tables)
    if isinstance(analysis, SavedAnalysis):
        chosen = analysis.tables([table.name for table in chosen])
        if analysis.is_whole:
            database.attach(analysis.files, names)
            return
    columns = {table.name: table.columns for table in chosen}
    reads: Callable[..., Iterator[TableRows]] = analysis.table_rows
    is_read_anew = not isinstance(analysis, SavedAnalysis) and analysis.row_filter.passes_all
    if session_lists and names is not None and is_read_anew:
        columns["requests"] += SESSION_COLUMNS
        reads = partial(reads, session_lists=True)
    makers = create_tables(database, columns, names)
    more = set(makers).difference((*ALWAYS, QUALITY))
    waiting = {name: _WaitingRows(name, maker) for name, maker in makers.items()}

    def insert(rows: TableRows) -> None:
        for block in rows.requests:
            waiting["requests"].add_block(block)
        for name, block in rows.lines:
            waiting[name].add_block(block)
        waiting["connections"].add_rows(rows.connections)
        waiting["anomalies"].add_rows(rows.anomalies)
        for each in waiting.values():
            each.insert_into(database, _ROWS_AT_ONCE)

    all_rows = reads(more, others=others, commits=names is None)
    with called_behind(insert, in_thread=analysis.has_workers) as insert_next:
        for rows in all_rows:
            insert_next(rows)
    for each in waiting.values():
        each.insert_into(database, 1)
    if QUALITY in makers:
        insert_quality(database, makers[QUALITY], analysis.quality)


_ROWS_AT_ONCE = 4096
_BLOCKS_AT_ONCE = 16
"""Rows of a table wait until there are so many of either: a batch of few rows takes as long as one
of a thousand."""


class _WaitingRows:
    """Rows of a table that will go into a database together."""

    def __init__(self, table: str, maker: BatchMaker) -> None:
        self._table = table
        self._maker = maker
        self._blocks: list[RowBlock] = []
        self._block_rows = 0
        self._rows: list[AnyRow] = []

    def add_block(self, block: RowBlock) -> None:
        """Add rows by column."""
        self._blocks.append(block.only(self._maker.names))
        self._block_rows += len(block)

    def add_rows(self, rows: Iterable[AnyRow]) -> None:
        """Add rows as objects, of which only the columns of the table are read."""
        self._rows += rows

    def insert_into(self, database: Database, least: int) -> None:
        """Insert all rows if there are at least ``least`` of them, or many blocks."""
        if self._block_rows >= least or len(self._blocks) >= _BLOCKS_AT_ONCE:
            batch = self._maker.of_block(RowBlock.joined(self._blocks))
            self._blocks, self._block_rows = [], 0
            database.insert(self._table, batch)
        if len(self._rows) >= least:
            batch = self._maker.of_rows(self._rows)
            self._rows = []
            database.insert(self._table, batch)


def tables_for(sql: str, names: AddressNames | None = None) -> set[str]:
    """Return the tables to fill for a query of a user, and for names of addresses."""
    tables = {*words_below(sql)} & TABLES.keys()
    if names is not None and names_brokers(sql):
        tables.add("metadata")
    return tables


def name_tables_of(database: Database, names: AddressNames) -> None:
    """Let tables in users' queries of a filled database have names of addresses."""
    database.names.make(names, database.values, has_metadata="metadata" in database.tables)


def insert_quality(database: Database, maker: BatchMaker, quality: CaptureQuality) -> None:
    """Put the quality of the captures into its table."""
    database.insert(QUALITY, maker.of_rows(list(quality_facts(quality))))


def create_tables(
    database: Database,
    columns: Mapping[str, Iterable[Column]],
    names: Container[str] | None = None,
) -> dict[str, BatchMaker]:
    """Create empty tables; return a maker of Arrow batches for each.

    Args:
        database: the database that gets the tables.
        columns: the columns of each table.
        names: see :func:`fill`.
    """
    # DuckDB reads dictionary-encoded texts in half the time, and pyarrow needs 0.1 s to import what
    # decodes them.
    makers = {
        table: BatchMaker(_named(of_table, names), coded=True)
        for table, of_table in columns.items()
    }
    for table, maker in makers.items():
        database.create(table, maker.schema)
    return makers


def _named(columns: Iterable[Column], names: Container[str] | None) -> tuple[Column, ...]:
    """Return the columns with these names.

    A column of Unix times keeps its column of timestamps only if that is among the names too.
    """
    if names is None:
        return tuple(columns)
    return tuple(
        column._replace(is_time=column.is_time and time_name(column.name) in names)
        for column in columns
        if column.name in names
    )


_SAVED_TABLES = ("groups", "metadata", "changes", "capture_quality")
"""Tables to save in addition to those that every run fills; and records if they are asked for."""


def tables_to_save(*, records: bool) -> tuple[str, ...]:
    """Return the tables to save; metrics of clients only if what reads them is installed."""
    has_otlp = find_spec("opentelemetry") and find_spec("opentelemetry.proto")
    return (*_SAVED_TABLES, *[CLIENT_METRICS] * bool(has_otlp), *[RECORDS] * records)


def save_tables(
    analysis: Analysis,
    destination: str,
    options: Mapping[str, Any],
    *,
    records: bool = False,
    max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> int:
    """Write the tables of an analysis to a file; return the number of requests.

    Args:
        analysis: the analysis to run.
        destination: a path; an existing file is replaced when the new one is complete.
        options: options of the analysis as plain values, for information.
        records: True for a line of each record too; they may take as much room as all else.
        max_memory_bytes: memory in bytes for the tables while they are written.

    Raises:
        KanalyzeError: a capture cannot be read, or the file cannot be written.
        UsageError: the destination is a capture, a pipe or standard output.
        OSError: the file cannot be created.
    """
    with OutputFile(destination) as output:
        partial = output.partial
        if partial is None:
            raise UsageError(f"{destination}: tables are not saved to a stream: use a file")
        mode = partial.stat().st_mode
        partial.unlink()  # DuckDB does not accept an empty file
        limits = {"max_memory_bytes": max_memory_bytes, "threads": 1}
        log = f"{partial}.wal"
        unfinished.begin(log)
        try:
            with Database(file=str(partial.absolute()), **limits) as database:
                partial.chmod(mode)
                fill(database, analysis, tables_to_save(records=records))
                ((requests,),) = database.values("SELECT count(*) FROM requests", {})
                database.finish(header_of(analysis, options, __version__))
        finally:
            with suppress(OSError):
                Path(log).unlink()
            unfinished.end(log)
    return int(requests)
