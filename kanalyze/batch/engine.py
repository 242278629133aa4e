"""The interface of what runs the tasks of a batch, Spark or processes; the report on its tables.

In: tasks and their arguments; tables. Out: results; a report.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from kanalyze.api.reports import names_of
from kanalyze.api.tables import create_tables, insert_quality, tables_to_save
from kanalyze.batch.archive.table_files import ARCHIVE_TABLES, columns_of
from kanalyze.batch.sums import insert_rows
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.engine import QueryError
from kanalyze.queries.findings import finding_kinds, with_thresholds
from kanalyze.queries.report import MAX_SLOWEST, report_with_findings
from kanalyze.spec.rows.anomalies import QUALITY
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.tables import ALWAYS
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from kanalyze.batch.shared_folder import SharedFolder
    from kanalyze.queries.findings import FindingKind
    from kanalyze.spec.columns import Column

Result = TypeVar("Result")
MakePage: TypeAlias = "Callable[[dict[str, Any], Database], None]"
"""Makes something from a report, with an engine for queries on the same tables."""
InsertRows: TypeAlias = "Callable[[Database, str, pa.Schema], None]"
"""Inserts the rows of a table into a database, where it has the columns of a schema."""


class Past(NamedTuple):
    """What is known of rows that a report does not read."""

    sums: Database
    """What the tables of the report are made of, of all rows."""
    findings: Sequence[Mapping[str, Any]] | None
    """Findings as in a report, which earlier runs found; None if all rows are searched again."""


class ReportOptions(NamedTuple):
    """Which findings a report searches for, and what else is made of it."""

    kinds: Sequence[FindingKind] | None = None
    """Findings to search for; None for the built-in ones."""
    thresholds: Mapping[str, float] = MappingProxyType({})
    """See :func:`kanalyze.queries.findings.findings_of`."""
    most_slowest: int = MAX_SLOWEST
    """Number of the slowest requests to list."""
    make_page: MakePage | None = None
    """Called with the report, and with an engine for queries on the tables."""

    @property
    def chosen_kinds(self) -> Sequence[FindingKind]:
        """The findings to search for, with thresholds; raises UsageError for an unknown one."""
        kinds = finding_kinds() if self.kinds is None else self.kinds
        return with_thresholds(kinds, self.thresholds)


def other_tables() -> frozenset[str]:
    """Return the tables that are made in the same pass as requests, with the packages here."""
    made = {*ALWAYS, *tables_to_save(records=False)} - {"requests"}
    return frozenset(made.intersection(ARCHIVE_TABLES))


def check_queries(options: ReportOptions) -> None:
    """Raise UsageError if the query of a finding fails on tables without rows."""
    options = options._replace(make_page=None)
    columns = {table: columns_of(table) for table in ARCHIVE_TABLES}
    report = report_on_rows(columns, lambda *_: None, CaptureQuality(), None, options)
    for line in report.get("failed_queries", ()):
        raise QueryError(line["reason"], line["name"])


def report_on_files(
    engine: Engine,
    folder: SharedFolder,
    files: Mapping[str, Sequence[str]],
    quality: CaptureQuality,
    conditions: Mapping[str, Any],
    options: ReportOptions,
    past: Past | None,
) -> dict[str, Any]:
    """Return the report on tables in Parquet files, by DuckDB in this process.

    Args:
        engine: what runs tasks, which are done.
        folder: where the files are.
        files: their names, by table.
        quality: see :func:`report_on_rows`, as for the others.
        conditions: the filter of the rows.
        options: which findings to search for, and what else to make of the report.
        past: what is known of other rows.
    """

    def insert(database: Database, table: str, schema: pa.Schema) -> None:
        insert_rows(database, table, folder, files[table], schema)

    columns = {table: columns_of(table) for table in files}
    threads = engine.release()
    return report_on_rows(columns, insert, quality, conditions, options, past, threads=threads)


def report_on_rows(
    columns: Mapping[str, Sequence[Column]],
    insert: InsertRows,
    quality: CaptureQuality,
    conditions: Mapping[str, Any] | None,
    options: ReportOptions,
    past: Past | None = None,
    *,
    threads: int = 1,
) -> dict[str, Any]:
    """Return the report on tables, which are read into a database.

    Findings that need a missing table are left out, and named in ``findings_left_out``.

    Args:
        columns: the columns of each table.
        insert: inserts the rows of a table.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        options: which findings to search for, and what else to make of the report.
        past: what is known of other rows; None if the tables have all.
        threads: number of threads of a query.

    Raises:
        UsageError: a threshold is unknown.
        KanalyzeError: rows cannot be read.
    """
    kinds = options.chosen_kinds
    names = names_of(kinds, has_page=options.make_page is not None)
    with Database(max_memory_bytes=DEFAULT_MEMORY_BYTES, threads=threads) as database:
        makers = create_tables(
            database,
            {**columns, QUALITY: columns_of(QUALITY)},
            names and names | {REQUEST_ID.name},
        )
        for table in columns:
            insert(database, table, makers[table].schema)
        insert_quality(database, makers[QUALITY], quality)
        searched = [kind for kind in kinds if kind.tables <= database.tables]
        sums, earlier = (None, None) if past is None else past
        report = report_with_findings(
            *(database, quality, conditions, searched),
            most_slowest=options.most_slowest,
            sums=sums,
            earlier=earlier or (),
        )
        if earlier is not None:
            report.update(_span_of(database))
        left_out = {kind.query.name for kind in kinds if kind not in searched}
        if left_out:
            already_left_out = report.get("findings_left_out", [])
            report["findings_left_out"] = sorted(left_out.union(already_left_out))
        if options.make_page is not None:
            options.make_page(report, database)
        return report


def _span_of(database: Database) -> dict[str, Any]:
    """Return what a report says of the requests that findings were searched in."""
    (extent,) = database.ask("FROM time_extent").to_pylist()
    if extent["first_ns"] is None:
        return {}
    return {
        "findings_span": {"first_time_ns": extent["first_ns"], "last_time_ns": extent["last_ns"]}
    }


class Engine(Protocol):
    """Runs the tasks of a batch."""

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time."""

    @property
    def most_tasks(self) -> int | None:
        """Among how many tasks buckets are divided at most; None for one each."""

    def advice(self, total_bytes: int) -> str | None:
        """Return a warning if another engine takes less time for captures of this size, or None."""

    def scratch(self, staging: str) -> AbstractContextManager[str]:
        """Provide a folder that all tasks can write, inside a ``with`` block.

        ``staging`` is such a folder, which is removed when the run ends.
        """

    def run(
        self, task: Callable[..., Result], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Result]:
        """Run a task for each of the arguments; return the results in their order.

        Raises KanalyzeError: an error of a task, or what became of its process.
        """

    def release(self) -> int:
        """Free memory for work in this process; return how many threads that may have."""
