"""An archive of captures to tables and a report, in runs that count as a whole or not at all.

In: a session, which rows, and where from and to. Out: files, and the report. Must not know:
arguments, terminals.

Below the folder of the archive::

    requests/day=2026-01-31/hour=09/run-000001-00000.zstd.parquet   by the hour a request began
    anomalies/run-000001-00000.zstd.parquet
    report.json                                      as ``kanalyze report --json`` writes it
    .kanalyze/                                       of this program: the record of the last run

Without a checkpoint each run is by itself: it reads all captures, and its rows replace those that
are there. With one the archive grows: a run reads the captures that are new, and goes on with
connections where the last one stopped. The order of runs is then the order in which bytes count.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import Stores
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.render.json import summary_json
from kanalyze.spark.archive.anomaly_table import anomaly_table
from kanalyze.spark.archive.archive import read_captures
from kanalyze.spark.archive.division import buckets_for, tasks_for
from kanalyze.spark.archive.tasks import Job
from kanalyze.spark.batch.checkpoint import Checkpoint
from kanalyze.spark.batch.commit import STAGING, Commit, Commits
from kanalyze.spark.batch.hadoop_folder import HadoopFolder
from kanalyze.spark.batch.run_plan import TABLES, counted, options_of, plan_run
from kanalyze.spark.failures import failures_in_one_line
from kanalyze.statistics.summary import Statistics
from kanalyze.tables.anomalies import anomaly_row
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.spark.archive.archive import Captured, Found
    from kanalyze.spark.batch.inventory import InputFile
    from kanalyze.spark.batch.run_plan import RunPlan, Settings
    from kanalyze.spark.source.readers import Plan
    from kanalyze.tables.anomalies import AnomalyRow

__all__ = ["REPORT", "run_batch"]

REPORT: Final = "report.json"

_DAY_NS: Final = 86_400_000_000_000
_HOUR_NS: Final = 3_600_000_000_000


def run_batch(
    spark: SparkSession,
    plan: Plan,
    settings: Settings,
    *,
    warn: Callable[[str], None],
    tell_phase: Callable[[str], None],
) -> dict[str, Any]:
    """Run a batch, and return the report over the archive as it is then.

    Args:
        spark: the session.
        plan: which rows; its captures are those of the settings.
        settings: where from and to.
        warn: is told, in one line each, what whoever runs it should know.
        tell_phase: is told, in a few words, what comes next.

    Raises:
        KanalyzeError: nothing was changed then, or the next run completes what was.
    """
    with failures_in_one_line():
        out = HadoopFolder(spark, settings.out)
        commits = Commits(out)
        if commits.completed and commits.last is not None:
            warn(f"{out.shown}: run {commits.last.run} had been interrupted, and is complete now")
        run = plan_run(spark, plan, settings, out, commits, warn)
        if not run.is_needed:
            warn("no new captures")
            conditions = plan.row_filter.conditions
            if run.before is None:
                return Statistics().summary(CaptureQuality(), conditions)
            return run.before.summary(conditions)
        return _Run(spark, plan, settings, run, out, warn, tell_phase).done(commits)


class _Sums(NamedTuple):
    """What a report is made of."""

    statistics: Statistics
    quality: CaptureQuality
    open_quality: CaptureQuality
    """Of what is left open."""

    def summary(self, conditions: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the report over rows that meet conditions."""
        quality = CaptureQuality()
        quality.merge(self.quality)
        quality.merge(self.open_quality)
        return self.statistics.summary(quality, conditions)


@dataclass(frozen=True)
class _Run:
    """One run."""

    spark: SparkSession
    plan: Plan
    settings: Settings
    run: RunPlan
    out: HadoopFolder
    warn: Callable[[str], None]
    tell_phase: Callable[[str], None]

    def done(self, commits: Commits) -> dict[str, Any]:
        """Do it; return the report."""
        run = self.run
        job = self._job()
        cores = self.spark.sparkContext.defaultParallelism
        captures = [file.capture for file in run.files]
        tasks = tasks_for(captures, Stores(), self.settings.split_bytes, cores)
        self.tell_phase(f"reading {counted(len(run.files))} in {len(tasks)} tasks")
        captured = read_captures(self.spark, job, tasks)
        try:
            self._tell_unreadable(captured)
            self.tell_phase(f"rebuilding connections in {job.buckets} parts")
            found = self._rebuilt(captured, job)
            try:
                return self._written(captured, found, job, commits)
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
            is_trimmed=True,
            with_statistics=True,
            with_anomalies=True,
            carries=self.run.checkpoint_folder is not None and not is_last,
            folder=str(Path.cwd()),
        )

    def _rebuilt(self, captured: Captured, job: Job) -> Found:
        before, folder = self.run.before, self.run.checkpoint_folder
        if before is None or folder is None or before.is_finished:
            return captured.rebuild(job)
        first_ns, last_ns = captured.readings.quality.first_time_ns, before.quality.last_time_ns
        if first_ns is not None and last_ns is not None and first_ns < last_ns:
            self.warn(
                "new captures begin before the end of those read before: what comes late there "
                "may be told as lost, or as captured twice"
            )
        return captured.rebuild(job, folder.states(self.spark, before.run), before.names)

    def _names(self) -> Mapping[bytes, str]:
        return {} if self.run.before is None else self.run.before.names

    def _tell_unreadable(self, captured: Captured) -> None:
        unreadable = list(captured.readings.unreadable.values())
        if unreadable:
            self.warn(f"left out: {counted(len(unreadable))}, such as {unreadable[0]}")

    def _written(
        self, captured: Captured, found: Found, job: Job, commits: Commits
    ) -> dict[str, Any]:
        self.tell_phase("writing rows")
        changed = [_changed_row(file, self.run) for file in self.run.changed]
        anomalies = anomaly_table(self.spark, captured, found, changed)
        write_by_hour(found.rows, f"{self.out.url}/{STAGING}/requests")
        _write(anomalies.hint("rebalance"), f"{self.out.url}/{STAGING}/anomalies")
        sums = self._sums(captured, found)
        summary = sums.summary(self.plan.row_filter.conditions)
        self.out.write(f"{STAGING}/{REPORT}", summary_json(summary).encode("ascii"))
        self._leave_checkpoint(captured, found, job, sums)
        commits.commit(self._commit())
        if self.run.checkpoint_folder is not None:
            self.run.checkpoint_folder.keep_only(self.run.run)
        return summary

    def _sums(self, captured: Captured, found: Found) -> _Sums:
        """Add what this run brought to what was there."""
        statistics, quality = Statistics(), CaptureQuality()
        if self.run.before is not None:
            statistics.merge(self.run.before.statistics)
            quality.merge(self.run.before.quality)
        statistics.merge(found.statistics)
        quality.merge(captured.readings.quality)
        quality.merge(found.quality)
        if self.run.changed:
            quality.count_anomaly(AnomalyKind.CAPTURE_UNREADABLE, count=len(self.run.changed))
        return _Sums(statistics, quality, found.open_quality)

    def _leave_checkpoint(self, captured: Captured, found: Found, job: Job, sums: _Sums) -> None:
        folder = self.run.checkpoint_folder
        if folder is None:
            return
        # A store that fails for a while is no reason to leave a capture out for good.
        again = {
            file.identity
            for file in self.run.files
            if capture_name(file.path) in captured.readings.to_try_again
        }
        checkpoint = Checkpoint(
            run=self.run.run,
            archive=self.run.archive,
            buckets=job.buckets,
            is_finished=not job.carries,
            options=options_of(self.plan),
            read={name: size for name, size in self.run.read.items() if name not in again},
            names={**self._names(), **found.told},
            statistics=sums.statistics,
            quality=sums.quality,
            open_quality=sums.open_quality,
        )
        folder.own(self.run.archive, self.out.url)
        folder.write(checkpoint, found.states if job.carries else None)

    def _commit(self) -> Commit:
        moved = []
        for table in TABLES:
            staged = [entry.name for entry in self.out.files(f"{STAGING}/{table}")]
            rows = [name for name in staged if name.endswith(".parquet")]
            for index, name in enumerate(rows):
                folder = name.removeprefix(f"{STAGING}/").rpartition("/")[0]
                placed = f"{folder}/run-{self.run.run:06}-{index:05}.zstd.parquet"
                moved.append((name, placed))
        moved.append((f"{STAGING}/{REPORT}", REPORT))
        has_checkpoint = self.run.checkpoint_folder is not None
        about = {
            "archive": self.run.archive,
            "has_checkpoint": has_checkpoint,
            "captures": [] if has_checkpoint else [file.identity for file in self.run.files],
        }
        return Commit(self.run.run, moved, self.run.removed, about)


def write_by_hour(rows: DataFrame, url: str) -> None:
    """Write rows of requests to a folder for each day and hour of UTC in which one began.

    Orphan responses go by their own beginning. Within a file rows are sorted by it.
    """
    time_ns = F.coalesce(F.col("request_start_ns"), F.col("response_start_ns"))
    # In integers: a float holds no nanosecond, and the session may be in any time zone.
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
