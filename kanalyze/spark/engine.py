"""Runs the tasks of a batch on Spark.

In: a session. Out: see :mod:`kanalyze.batch.engine`.

Tasks write rows themselves, with pyarrow. To send a row through the JVM takes several times as long
as to make it. Where pyarrow cannot write, Spark does.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it

from kanalyze.batch.archive.planning import TASKS_A_CORE
from kanalyze.batch.archive.row_sink import StagedFile, staged
from kanalyze.batch.archive.table_files import (
    OPEN_ANOMALIES,
    OPEN_CONNECTIONS,
    columns_of,
    merge_files,
)
from kanalyze.batch.commit import STAGING
from kanalyze.batch.engine import report_on_files
from kanalyze.batch.shared_folder import SharedFolder, location_of
from kanalyze.batch.sums import sums_of
from kanalyze.capture.io.stores import arrow_url, is_url
from kanalyze.errors import UsageError
from kanalyze.render.units import bytes_text
from kanalyze.spark.answers import driver_cores, report_on
from kanalyze.spark.archive import (
    anomaly_table,
    frame_of_anomalies,
    new_block_folder,
    read_captures,
    results_of_tasks,
    write_anomalies_of_packets,
)
from kanalyze.spark.failures import failures_in_one_line
from kanalyze.spark.hadoop_folder import HadoopFolder
from kanalyze.spark.schema import spark_schema
from kanalyze.spec.columns import with_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.batch.archive.planning import ReadSummary, RebuildSummary
    from kanalyze.batch.archive.tasks import Job
    from kanalyze.batch.commit import Folder
    from kanalyze.batch.engine import Past, ReportOptions, SavedConnections, TableFolders
    from kanalyze.capture.splits import Split
    from kanalyze.spark.archive import ArchiveSegments, RebuiltConnections
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["SparkEngine"]

_DAY_NS: Final = 86_400_000_000_000
_HOUR_NS: Final = 3_600_000_000_000
_SMALL_BYTES: Final = 4_000_000_000
"""One machine reads this much in the time that Spark takes to start and to plan (docs/spark.md)."""
_SMALL_LOCAL_BYTES: Final = 100_000_000_000
"""On one machine processes are faster at any size; up to this size users are advised so."""
_BLOCKS: Final = "blocks"
"""Where segments are, in the staging folder, which is removed at the end of the run."""
_STATES_SCHEMA: Final = "bucket int, data binary"
_MAX_STATE_FILES: Final = 16
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"


class SparkEngine:
    """An :class:`~kanalyze.batch.engine.Engine` on a session."""

    def __init__(
        self, spark: SparkSession, warn: Callable[[str], None], scratch: str | None = None
    ) -> None:
        """Use a session.

        Args:
            spark: the session.
            warn: is called with warnings of one line.
            scratch: a folder for segments, which all tasks can write; None for one below that of
                the archive.
        """
        self._spark = spark
        self._scratch = scratch
        self._warn = warn
        self._master = str(spark.sparkContext.master)
        self._locations: dict[str, str | None] = {}
        self.cores: int = spark.sparkContext.defaultParallelism
        self._most_tasks = most_tasks(self.cores, spark.sparkContext.getConf().get(_DYNAMIC))

    def tasks_done(self) -> tuple[int, int] | None:
        """Return how many tasks of all running stages are done, and how many there are.

        None if no stage runs, or Spark does not answer, for example because it is stopping.
        """
        try:
            tracker = self._spark.sparkContext.statusTracker()
            infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except (Py4JError, OSError):
            return None
        running = [stage for stage in infos if stage is not None]
        if not running:
            return None
        done = sum(info.numCompletedTasks for info in running)
        return done, sum(info.numTasks for info in running)

    def advice(self, total_bytes: int) -> str | None:
        """Return a warning if processes take less time for captures of this size, or None."""
        return advice_for(self._master, total_bytes)

    def folder(self, location: str) -> HadoopFolder:
        """Open a folder with Spark's own file systems and credentials; raises UsageError."""
        return HadoopFolder(self._spark, location)

    def task_location(self, out: Folder, name: str) -> str | None:
        """Return where tasks write files for a folder; None if pyarrow cannot write there.

        For a store, a file is written once to find out: pyarrow may have other credentials than
        Spark.
        """
        if out.url not in self._locations:
            self._locations[out.url] = self._writable(out)
        location = self._locations[out.url]
        return None if location is None else f"{location}/{name}".rstrip("/")

    def _writable(self, out: Folder) -> str | None:
        if not is_url(out.url):
            return location_of(out.url)
        location = arrow_url(out.url)
        probe = f"{STAGING}/probe-{uuid.uuid4().hex}"
        try:
            SharedFolder(location).write(probe, b"probe")
            if out.read(probe) == b"probe":
                return location
            reason = f"{out.shown}: what pyarrow writes is not there"
        except UsageError as error:
            reason = str(error)
        self._warn(f"Spark writes the rows, which takes longer, as its tasks cannot: {reason}")
        return None

    @contextmanager
    def read(self, job: Job, tasks: Sequence[Sequence[Split]]) -> Iterator[_SparkCaptures]:
        """Read captures; while the block runs, segments that are sent are in files.

        Raises:
            UsageError: segments have to be sent, and there is no folder that tasks can write.
        """
        if self._scratch is not None:
            job = job._replace(block_folder=new_block_folder(self._scratch))
        elif job.staging is not None:
            job = job._replace(block_folder=f"{job.staging}/{_BLOCKS}")
        elif job.sends:
            raise UsageError(
                f"{job.buckets} buckets need a folder that tasks can write, for segments between "
                "them: name one with --scratch, or use fewer --buckets"
            )
        with failures_in_one_line():
            captured = read_captures(self._spark, job, tasks)
            try:
                yield _SparkCaptures(self._spark, captured, self._most_tasks)
            finally:
                captured.close()

    def report(
        self,
        tables: TableFolders,
        quality: CaptureQuality,
        conditions: Mapping[str, Any],
        options: ReportOptions,
        past: Past | None,
    ) -> dict[str, Any]:
        """Return the report on tables; tasks hand over the rows that are only Spark's to read."""
        url = tables.out.url
        location = self.task_location(tables.out, "")
        if location is not None:
            return report_on_files(
                *(SharedFolder(location), tables.files, quality, conditions, options, past),
                threads=min(self.cores, driver_cores()),
            )
        frames = {table: self._table(table, url, names) for table, names in tables.files.items()}
        return report_on(frames, quality, conditions, options, past)

    def sum_up(self, location: str, groups: Sequence[Mapping[str, Sequence[str]]]) -> list[bytes]:
        """Sum up the rows of each group of files: one here, several in tasks."""
        if len(groups) == 1:
            return [sums_of(location, groups[0])]
        return results_of_tasks(self._spark, partial(sums_of, location), groups)

    def _table(self, table: str, url: str, names: Sequence[str]) -> DataFrame:
        schema = spark_schema(columns_of(table))
        if not names:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*(f"{url}/{name}" for name in names))


class _SparkCaptures:
    """Captures in Spark's cache."""

    def __init__(
        self, spark: SparkSession, captured: ArchiveSegments, most_tasks: int | None
    ) -> None:
        self._spark = spark
        self._captured = captured
        self._most_tasks = most_tasks

    @property
    def read_summary(self) -> ReadSummary:
        return self._captured.read_summary

    @contextmanager
    def rebuilt(self, job: Job, saved: SavedConnections | None) -> Iterator[_SparkRows]:
        """Rebuild all connections; Spark caches their rows and reports while the block runs."""
        if saved is None:
            rebuilt = self._captured.rebuild(job, most_tasks=self._most_tasks)
        else:
            states = self._spark.read.schema(_STATES_SCHEMA).parquet(saved.states_url)
            rebuilt = self._captured.rebuild(job, states, saved.names, most_tasks=self._most_tasks)
        try:
            yield _SparkRows(self._spark, self._captured, rebuilt, job)
        finally:
            rebuilt.close()


class _SparkRows:
    """The rows of an archive, in files already or in Spark's cache."""

    def __init__(
        self,
        spark: SparkSession,
        captured: ArchiveSegments,
        rebuilt: RebuiltConnections,
        job: Job,
    ) -> None:
        self._spark = spark
        self._captured = captured
        self._rebuilt = rebuilt
        self._job = job

    @property
    def summary(self) -> RebuildSummary:
        return self._rebuilt.summary

    def write_states(self, url: str) -> None:
        states = self._rebuilt.states.coalesce(_MAX_STATE_FILES)
        states.write.mode("overwrite").parquet(url)

    def stage(self, out: Folder, more_anomalies: Sequence[AnomalyRow]) -> list[StagedFile]:
        if self._job.staging is None:
            return self._staged_by_spark(out, more_anomalies)
        written = [
            *write_anomalies_of_packets(self._captured, self._job.staging),
            *self._rebuilt.files,
        ]
        merge = partial(results_of_tasks, self._spark, partial(merge_files, self._job.staging))
        return staged(self._job, self._captured.read_summary, more_anomalies, written, merge)

    def _staged_by_spark(
        self, out: Folder, more_anomalies: Sequence[AnomalyRow]
    ) -> list[StagedFile]:
        """Have Spark write all rows; it leaves only files of successful tasks."""
        rebuilt = self._rebuilt
        row_filter = self._job.plan.row_filter
        retryable = self._captured.read_summary.retryable_rows
        final = more_anomalies if self._job.keeps_open else [*more_anomalies, *retryable]
        tables = {
            "anomalies": anomaly_table(self._spark, self._captured, rebuilt, row_filter, final),
            **rebuilt.others(),
        }
        if self._job.keeps_open:
            tables[OPEN_CONNECTIONS] = rebuilt.table("connections", OPEN_CONNECTIONS)
            if retryable:
                tables[OPEN_ANOMALIES] = frame_of_anomalies(self._spark, retryable)
        staging = HadoopFolder(self._spark, f"{out.url}/{STAGING}")
        rows = _with_times(rebuilt.rows, columns_of("requests"))
        _write_by_hour(rows, f"{staging.url}/requests")
        for name, table in tables.items():
            timed = _with_times(table, columns_of(name))
            _write(timed.hint("rebalance"), f"{staging.url}/{name}")
        return [
            StagedFile(table, entry.name)
            for table in ("requests", *tables)
            for entry in staging.files(table)
            if entry.name.endswith(".parquet")
        ]


def advice_for(master: str, total_bytes: int) -> str | None:
    """Return a warning if Spark on this master takes more time than processes, or None."""
    is_local = master.startswith("local")
    if total_bytes >= (_SMALL_LOCAL_BYTES if is_local else _SMALL_BYTES):
        return None
    machine = " on one machine" if is_local else ""
    return (
        f"{bytes_text(total_bytes)} of captures{machine}: --engine process does the same in less "
        "time"
    )


def most_tasks(cores: int, dynamic: str | None) -> int | None:
    """Return among how many tasks buckets are divided at most; None for one each.

    Few tasks make few files, and the small files of an hour have to be merged. There are more tasks
    than cores, as buckets differ in size.

    Args:
        cores: of the cluster at its start.
        dynamic: Spark's setting whether more may come.
    """
    return None if dynamic == "true" else TASKS_A_CORE * cores


def _with_times(table: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return rows with the timestamps that files have."""
    return table.select(
        *(
            F.timestamp_micros(F.call_function("div", F.col(column.source), F.lit(1000))).alias(
                column.name
            )
            if column.source
            else F.col(column.name)
            for column in with_times(columns)
        )
    )


def _write_by_hour(rows: DataFrame, url: str) -> None:
    """Write requests to a folder for each day and hour (UTC) that they began in.

    For an orphan response, the response's time decides. Rows of a file are sorted by time.
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
