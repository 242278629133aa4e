"""The interface of the engine that runs the tasks of a batch: Spark, or processes on this machine.

In: a job, captures, folders. Out: rows in staged files, what tasks reported, a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from kanalyze.batch.archive.planning import ReadSummary, RebuildSummary
    from kanalyze.batch.archive.tasks import Job
    from kanalyze.batch.commit import Folder
    from kanalyze.batch.reporting import ReportOptions
    from kanalyze.capture.splits import Split
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.tables.quality import CaptureQuality

__all__ = [
    "ArchiveRows",
    "Engine",
    "OpenedCaptures",
    "SavedConnections",
    "StagedFile",
    "TableFolders",
]


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
    ) -> dict[str, Any]:
        """Return the report on tables."""
