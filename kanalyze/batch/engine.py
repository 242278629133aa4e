"""The interface of what runs the tasks of a batch, Spark or processes; the report on its tables.

In: a job, captures, folders. Out: rows in staged files, what tasks reported, a report.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kanalyze.api.reports import names_of
from kanalyze.api.tables import create_tables, insert_quality
from kanalyze.batch.archive.table_files import ARCHIVE_TABLES, columns_of
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.batch.sums import insert_rows
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.queries.database import DEFAULT_MEMORY_BYTES, Database
from kanalyze.queries.engine import QueryError
from kanalyze.queries.findings import finding_kinds, with_thresholds
from kanalyze.queries.report import MAX_SLOWEST, report_with_findings
from kanalyze.spec.rows.anomalies import QUALITY
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kanalyze.batch.archive.planning import ReadSummary, RebuildSummary
    from kanalyze.batch.archive.tasks import Job
    from kanalyze.batch.commit import Folder
    from kanalyze.capture.splits import Split
    from kanalyze.queries.engine import QueryEngine
    from kanalyze.queries.findings import FindingKind
    from kanalyze.spec.rows.anomalies import AnomalyRow

__all__ = [
    "ArchiveRows",
    "Engine",
    "MakePage",
    "OpenedCaptures",
    "Past",
    "ReportOptions",
    "SavedConnections",
    "StagedFile",
    "TableFolders",
    "check_queries",
    "report_by",
    "report_on_files",
]

MakePage: TypeAlias = "Callable[[dict[str, Any], QueryEngine], None]"
"""Makes something from a report, with an engine for queries on the same tables."""


class Past(NamedTuple):
    """What is known of rows that a report does not read."""

    sums: QueryEngine
    """What the tables of the report are made of, of all rows."""
    findings: Sequence[Mapping[str, Any]]
    """Findings as in a report, which earlier runs found."""


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


def report_by(
    engine: QueryEngine,
    quality: CaptureQuality,
    conditions: Mapping[str, Any] | None,
    options: ReportOptions,
    has_tables: Callable[[FindingKind], bool],
    past: Past | None = None,
) -> dict[str, Any]:
    """Return the report on the tables of an engine.

    Findings that need a missing table are left out, and named in ``findings_left_out``.

    Args:
        engine: has the tables.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        options: which findings to search for, and what else to make of the report.
        has_tables: returns whether the tables of a finding's query exist.
        past: what is known of other rows; None if the engine has all.

    Raises:
        UsageError: a threshold is unknown.
    """
    kinds = options.chosen_kinds
    searched = [kind for kind in kinds if has_tables(kind)]
    sums, earlier = (None, ()) if past is None else past
    report = report_with_findings(
        *(engine, quality, conditions, searched),
        most_slowest=options.most_slowest,
        sums=sums,
        earlier=earlier,
    )
    left_out = {kind.query.name for kind in kinds if kind not in searched}
    if left_out:
        already_left_out = report.get("findings_left_out", [])
        report["findings_left_out"] = sorted(left_out.union(already_left_out))
    if options.make_page is not None:
        options.make_page(report, engine)
    return report


def check_queries(options: ReportOptions) -> None:
    """Raise UsageError if the query of a finding fails on tables without rows."""
    folder = SharedFolder("")
    files: dict[str, list[str]] = {table: [] for table in ARCHIVE_TABLES}
    options = options._replace(make_page=None)
    report = report_on_files(folder, files, CaptureQuality(), None, options)
    for line in report.get("failed_queries", ()):
        raise QueryError(line["reason"], line["name"])


def report_on_files(
    folder: SharedFolder,
    files: Mapping[str, Sequence[str]],
    quality: CaptureQuality,
    conditions: Mapping[str, Any] | None,
    options: ReportOptions,
    past: Past | None = None,
    *,
    threads: int = 1,
    max_memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> dict[str, Any]:
    """Return the report on tables in Parquet files, which are read into a database.

    Args:
        folder: where the files are.
        files: their names, by table.
        quality: the quality of the captures.
        conditions: the filter of the rows.
        options: which findings to search for, and what else to make of the report.
        past: see :func:`report_by`.
        threads: number of threads of a query.
        max_memory_bytes: memory in bytes for tables and queries; more goes to files.

    Raises:
        UsageError: as :func:`report_by`; or a file cannot be read.
    """
    names = names_of(options.chosen_kinds, has_page=options.make_page is not None)
    with Database(max_memory_bytes=max_memory_bytes, threads=threads) as database:
        columns = {table: columns_of(table) for table in (*files, QUALITY)}
        makers = create_tables(database, columns, names and names | {REQUEST_ID.name})
        for table in files:
            insert_rows(database, table, folder, files[table], makers[table].schema)
        insert_quality(database, makers[QUALITY], quality)
        has_tables = partial(_has_tables, database.tables)
        return report_by(database, quality, conditions, options, has_tables, past)


def _has_tables(tables: frozenset[str], kind: FindingKind) -> bool:
    return kind.tables <= tables


class StagedFile(NamedTuple):
    """A file with rows in the staging folder."""

    table: str
    name: str
    """Relative to the staging folder."""


class SavedConnections(NamedTuple):
    """The connections that the last run left open."""

    states_url: str
    """See :meth:`kanalyze.batch.checkpoint.CheckpointFolder.states_url`."""
    names: Mapping[bytes, str]
    """Names of topics by id."""


class TableFolders(NamedTuple):
    """The files of the tables of an archive, as they will be when a run is committed."""

    out: Folder
    files: Mapping[str, Sequence[str]]
    """Names relative to ``out``, by table."""


class ArchiveRows(Protocol):
    """The rows of an archive: the rebuilt connections of all buckets."""

    @property
    def summary(self) -> RebuildSummary:
        """The reports of all buckets, combined."""

    def stage(self, out: Folder, more_anomalies: Sequence[AnomalyRow]) -> list[StagedFile]:
        """Write all rows, and more anomalies, to the staging folder below ``out``.

        Returns the files with these rows; other files in the folder are of tasks that failed.
        """

    def write_states(self, url: str) -> None:
        """Write the states of open connections, as Parquet files below a URL."""


class OpenedCaptures(Protocol):
    """Captures that were read, divided by connection."""

    @property
    def read_summary(self) -> ReadSummary:
        """The reports of all captures, combined."""

    def rebuilt(
        self, job: Job, saved: SavedConnections | None
    ) -> AbstractContextManager[ArchiveRows]:
        """Rebuild all connections; their rows exist inside a ``with`` block."""


class Engine(Protocol):
    """Runs the tasks of a batch."""

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time."""

    def advice(self, total_bytes: int) -> str | None:
        """Return a warning if another engine takes less time for captures of this size, or None."""

    def folder(self, location: str) -> Folder:
        """Open a folder by its path or URL; raises UsageError."""

    def task_location(self, out: Folder, name: str) -> str | None:
        """Return where tasks write files for a folder below ``out``; None if they cannot."""

    def read(
        self, job: Job, tasks: Sequence[Sequence[Split]]
    ) -> AbstractContextManager[OpenedCaptures]:
        """Read captures; each task reads a few parts of them."""

    def report(
        self,
        tables: TableFolders,
        quality: CaptureQuality,
        conditions: Mapping[str, Any],
        options: ReportOptions,
        past: Past | None,
    ) -> dict[str, Any]:
        """Return the report on tables; for ``past`` see :func:`report_by`."""

    def sum_up(self, location: str, groups: Sequence[Mapping[str, Sequence[str]]]) -> list[bytes]:
        """Return what :func:`kanalyze.batch.sums.sums_of` returns for each group of files."""
