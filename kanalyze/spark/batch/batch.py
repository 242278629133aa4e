"""Turns an archive of captures into tables and a report, in atomic runs.

In: a session, which rows, and where from and to. Out: files, and the report. Must not know:
arguments, terminals.

Below the folder of the archive::

    requests/day=2026-01-31/hour=09/run-000001-00000.zstd.parquet   by the hour a request began
    connections/run-000001-00000.zstd.parquet        likewise anomalies/, groups/, metadata/
    report.json                                      as ``kanalyze report --json`` writes it
    .kanalyze/                                       of this program: the record of the last run

Without a checkpoint each run reads all captures, and its rows replace those of the run before. With
a checkpoint the archive grows: a run reads new captures, and continues the connections that the
last run left open. New captures should be later than those of earlier runs. What is known of the
connections that are still open is in ``connections/open-000001-00000.zstd.parquet``, which the next
run replaces.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import Stores
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.render.json import summary_json
from kanalyze.spark.archive.anomaly_table import anomaly_table
from kanalyze.spark.archive.archive import read_captures
from kanalyze.spark.archive.division import buckets_for, tasks_for
from kanalyze.spark.archive.tasks import OPEN_CONNECTIONS, OTHER_TABLES, Job
from kanalyze.spark.batch.checkpoint import Checkpoint
from kanalyze.spark.batch.commit import STAGING, Commit, Commits
from kanalyze.spark.batch.hadoop_folder import HadoopFolder
from kanalyze.spark.batch.run_plan import (
    OPEN_PREFIX,
    TABLES,
    captures_text,
    options_of,
    plan_run,
)
from kanalyze.spark.failures import failures_in_one_line
from kanalyze.spark.report import ReportOptions, report_on
from kanalyze.spark.schema import spark_schema
from kanalyze.tables.anomalies import anomaly_row
from kanalyze.tables.cluster.carried import REQUEST_ID
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.registry import TABLES as SPECS
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.spark.archive.archive import ArchiveSegments, RebuiltConnections
    from kanalyze.spark.batch.inventory import InputFile
    from kanalyze.spark.batch.run_plan import RunPlan, Settings
    from kanalyze.spark.source.readers import ReadPlan
    from kanalyze.tables.anomalies import AnomalyRow

__all__ = ["REPORT", "run_batch"]

REPORT: Final = "report.json"

_COLUMNS: Final = {
    **{table: SPECS[table].columns for table in TABLES},
    "requests": (REQUEST_ID, *COLUMNS),
}
_DAY_NS: Final = 86_400_000_000_000
_HOUR_NS: Final = 3_600_000_000_000


def run_batch(
    spark: SparkSession,
    plan: ReadPlan,
    settings: Settings,
    *,
    warn: Callable[[str], None],
    report_phase: Callable[[str], None],
    options: ReportOptions | None = None,
) -> dict[str, Any]:
    """Run a batch, and return the report over the whole archive.

    Args:
        spark: the session.
        plan: which rows; its captures are those of the settings.
        settings: where from and to.
        warn: is called with warnings of one line.
        report_phase: is called with a few words when a phase begins.
        options: which findings the report searches for, and what else is made of it.

    Raises:
        KanalyzeError: nothing has changed, or the next run completes this one.
    """
    with failures_in_one_line():
        out = HadoopFolder(spark, settings.out)
        commits = Commits(out)
        if commits.completed and commits.last is not None:
            warn(f"{out.shown}: run {commits.last.run} had been interrupted, and is complete now")
        run = plan_run(spark, plan, settings, out, commits, warn)
        if not run.is_needed:
            warn("no new captures")
        wanted = ReportOptions() if options is None else options
        batch = _BatchRun(spark, plan, settings, run, out, warn, report_phase, wanted)
        return batch.execute(commits) if run.is_needed else batch.last_report()


@dataclass(frozen=True)
class _BatchRun:
    """A run of a batch."""

    spark: SparkSession
    plan: ReadPlan
    settings: Settings
    run: RunPlan
    out: HadoopFolder
    warn: Callable[[str], None]
    report_phase: Callable[[str], None]
    options: ReportOptions

    def last_report(self) -> dict[str, Any]:
        """Return the report of the run before if that is enough, else a new one."""
        before = self.run.before
        is_enough = before is not None and self.options == ReportOptions()
        written = self.out.read(REPORT) if is_enough else None
        if written is None:
            return self._report(CaptureQuality() if before is None else before.whole_quality)
        found: dict[str, Any] = json.loads(written)
        return found

    def execute(self, commits: Commits) -> dict[str, Any]:
        """Read, rebuild, write and commit; return the report."""
        run = self.run
        job = self._job()
        cores = self.spark.sparkContext.defaultParallelism
        captures = [file.capture for file in run.files]
        tasks = tasks_for(captures, Stores(), self.settings.split_bytes, cores)
        self.report_phase(f"reading {captures_text(len(run.files))} in {len(tasks)} tasks")
        captured = read_captures(self.spark, job, tasks)
        try:
            self._warn_unreadable(captured)
            self.report_phase(f"rebuilding connections in {job.buckets} parts")
            found = self._rebuild(captured, job)
            try:
                return self._write_tables_and_commit(captured, found, job, commits)
            finally:
                found.close()
        finally:
            captured.close()

    def _job(self) -> Job:
        before = self.run.before
        is_last = self.settings.finish or (before is not None and before.is_finished)
        if before is None:
            total_bytes = sum(file.total_bytes or 0 for file in self.run.files)
            cores = self.spark.sparkContext.defaultParallelism
            buckets = self.settings.buckets or buckets_for(total_bytes, cores)
        else:
            buckets = before.buckets
        return Job(
            self.plan,
            buckets,
            prunes_payload=True,
            others=OTHER_TABLES,
            run=self.run.run,
            keeps_open=self.run.checkpoint_folder is not None and not is_last,
            folder=str(Path.cwd()),
        )

    def _rebuild(self, captured: ArchiveSegments, job: Job) -> RebuiltConnections:
        before, folder = self.run.before, self.run.checkpoint_folder
        if before is None or folder is None or before.is_finished:
            return captured.rebuild(job)
        first_ns, last_ns = captured.read_summary.quality.first_time_ns, before.quality.last_time_ns
        if first_ns is not None and last_ns is not None and first_ns < last_ns:
            self.warn(
                "new captures begin before the end of those read before: their packets may be "
                "reported as lost or as captured twice"
            )
        return captured.rebuild(job, folder.states(self.spark, before.run), before.names)

    def _warn_unreadable(self, captured: ArchiveSegments) -> None:
        unreadable = list(captured.read_summary.unreadable.values())
        if unreadable:
            self.warn(f"left out: {captures_text(len(unreadable))}, such as {unreadable[0]}")

    def _write_tables_and_commit(
        self, captured: ArchiveSegments, found: RebuiltConnections, job: Job, commits: Commits
    ) -> dict[str, Any]:
        self.report_phase("writing rows")
        changed = [_changed_row(file, self.run) for file in self.run.changed]
        staging = f"{self.out.url}/{STAGING}"
        write_by_hour(found.rows, f"{staging}/requests")
        tables = {
            "anomalies": anomaly_table(self.spark, captured, found, changed),
            **{name: found.table(name) for name in ("connections", "groups", "metadata")},
        }
        if job.keeps_open:
            tables[OPEN_CONNECTIONS] = found.table("connections", OPEN_CONNECTIONS)
        for name, table in tables.items():
            _write(table.hint("rebalance"), f"{staging}/{name}")
        checkpoint = self._checkpoint(captured, found, job)
        self.report_phase("summing up")
        summary = self._report(checkpoint.whole_quality)
        self.out.write(f"{STAGING}/{REPORT}", summary_json(summary).encode("ascii"))
        folder = self.run.checkpoint_folder
        if folder is not None:
            folder.own(self.run.archive, self.out.url)
            folder.write(checkpoint, found.states if job.keeps_open else None)
        commits.commit(self._commit())
        if folder is not None:
            folder.keep_only(self.run.run)
        return summary

    def _checkpoint(
        self, captured: ArchiveSegments, found: RebuiltConnections, job: Job
    ) -> Checkpoint:
        """Return the state of the archive after this run."""
        before = self.run.before
        names, quality = dict(found.topic_names), CaptureQuality()
        if before is not None:
            names = {**before.names, **names}
            quality.merge(before.quality)
        quality.merge(captured.read_summary.quality)
        quality.merge(found.quality)
        if self.run.changed:
            quality.count_anomaly(AnomalyKind.CAPTURE_UNREADABLE, count=len(self.run.changed))
        # Captures that could not be opened now are new again in the next run.
        retryable = {
            file.identity
            for file in self.run.files
            if capture_name(file.path) in captured.read_summary.retryable
        }
        return Checkpoint(
            run=self.run.run,
            archive=self.run.archive,
            buckets=job.buckets,
            is_finished=not job.keeps_open,
            options=options_of(self.plan),
            read={name: size for name, size in self.run.read.items() if name not in retryable},
            names=names,
            quality=quality,
            open_quality=found.open_quality,
        )

    def _report(self, quality: CaptureQuality) -> dict[str, Any]:
        """Return the report on all rows: those of the runs before, and those of this one."""
        staged = self._staged()
        tables = {table: self._rows(table, staged) for table in TABLES}
        conditions = self.plan.row_filter.conditions
        return report_on(self.spark, tables, quality, conditions, self.options)

    def _rows(self, table: str, staged: list[tuple[str, str]]) -> DataFrame:
        """Return a table as it will be when this run is committed."""
        new = (old for old, placed in staged if placed.startswith(f"{table}/"))
        names = {*self._files(table), *new} - {*self.run.removed}
        schema = spark_schema(_COLUMNS[table])
        if not names:
            return self.spark.createDataFrame([], schema)
        urls = [f"{self.out.url}/{name}" for name in sorted(names)]
        return self.spark.read.schema(schema).parquet(*urls)

    def _files(self, folder: str) -> list[str]:
        """Return the names of files with rows."""
        names = (entry.name for entry in self.out.files(folder))
        return [name for name in names if name.endswith(".parquet")]

    def _staged(self) -> list[tuple[str, str]]:
        """Return the files with rows that this run wrote, and the name that each is to have."""
        moved = []
        for table in (*TABLES, OPEN_CONNECTIONS):
            for index, name in enumerate(self._files(f"{STAGING}/{table}")):
                folder = name.removeprefix(f"{STAGING}/").rpartition("/")[0]
                prefix = f"{folder}/run-"
                if table == OPEN_CONNECTIONS:
                    prefix = OPEN_PREFIX
                moved.append((name, f"{prefix}{self.run.run:06}-{index:05}.zstd.parquet"))
        return moved

    def _commit(self) -> Commit:
        moved = [*self._staged(), (f"{STAGING}/{REPORT}", REPORT)]
        has_checkpoint = self.run.checkpoint_folder is not None
        about = {
            "archive": self.run.archive,
            "has_checkpoint": has_checkpoint,
            "captures": [] if has_checkpoint else [file.identity for file in self.run.files],
        }
        return Commit(self.run.run, moved, self.run.removed, about)


def write_by_hour(rows: DataFrame, url: str) -> None:
    """Write requests to a folder for each day and hour, in UTC, of their beginning.

    Of an orphan response its own beginning counts. Rows of a file are sorted by time.
    """
    time_ns = F.coalesce(F.col("request_start_ns"), F.col("response_start_ns"))
    # In integers: a float has no nanoseconds, and the session may be in any time zone.
    in_day_ns = F.pmod(time_ns, F.lit(_DAY_NS))
    days = F.call_function("div", time_ns - in_day_ns, F.lit(_DAY_NS)).cast("int")
    hour = F.call_function("div", in_day_ns, F.lit(_HOUR_NS))
    day = F.date_add(F.lit("1970-01-01").cast("date"), days).cast("string")
    by_hour = (
        rows.withColumn("day", day)
        .withColumn("hour", F.lpad(hour.cast("string"), 2, "0"))
        .hint("rebalance", "day", "hour")
        .sortWithinPartitions("day", "hour", time_ns)
    )
    _write(by_hour, url, "day", "hour")


def _write(table: DataFrame, url: str, *partitions: str) -> None:
    writer = table.write.mode("overwrite").option("compression", "zstd")
    if partitions:
        writer = writer.partitionBy(*partitions)
    writer.parquet(url)


def _changed_row(file: InputFile, run: RunPlan) -> AnomalyRow:
    assert run.before is not None, "it was read before"
    name = capture_name(file.path)
    old = run.before.read[file.identity]
    detail = f"{name}: has changed since it was read ({old} B then, {file.total_bytes} B now)"
    anomaly = Anomaly(AnomalyKind.CAPTURE_UNREADABLE, detail=f"{detail}: left out")
    return anomaly_row(anomaly)._replace(capture=name)
