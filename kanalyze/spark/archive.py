"""An archive of captures on Spark: read once, divided by connection, rebuilt.

In: a session, and captures or a table of packets. Out: DataFrames, and summaries for the report.

Every capture (a large one in parts) is read by a task. In a job that sends segments, they go to the
bucket of their connection through files that tasks write, and each bucket is rebuilt as a stream.
Otherwise the task of a bucket reads all captures once more (:mod:`kanalyze.batch.archive.tasks`).
Spark's own shuffle takes several times as long as either. In between, the driver does what no task
can: it checks where the parts of a file meet, reassembles IP datagrams whose fragments are in
several captures, and resolves names of topics that only another connection has. So this is not
lazy: packets are read when an archive is opened, and connections are rebuilt when their rows are
requested.
"""

from __future__ import annotations

import uuid
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it
from pyspark.sql.pandas.types import from_arrow_schema

from kanalyze.batch.archive.blocks import (
    TOLD_SCHEMA,
    from_arrow_stream,
    load_report,
    told_batch,
)
from kanalyze.batch.archive.planning import ReadSummary, RebuildSummary, read_in_tasks
from kanalyze.batch.archive.row_sink import anomalies_of_packets
from kanalyze.batch.archive.tasks import (
    partition_packets,
    read_splits,
    rebuilding,
    with_keys,
)
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError
from kanalyze.export.arrow import BatchMaker
from kanalyze.spark.failures import Work
from kanalyze.spark.schema import as_spark, spark_schema
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.spec.rows.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from kanalyze.batch.archive.blocks import BlockGroup, CaptureReport, Told
    from kanalyze.batch.archive.tasks import Job, RebuildBuckets
    from kanalyze.capture.splits import Split
    from kanalyze.spec.columns import Column
    from kanalyze.tables.filters import RowFilter

_Item = TypeVar("_Item")
_STORAGE_LEVEL: Final = StorageLevel.MEMORY_AND_DISK


class ArchiveSegments:
    """Captures that were read; what tasks told of them is cached until :meth:`close`."""

    def __init__(
        self, spark: SparkSession, job: Job, told: list[DataFrame], reports: _Reports
    ) -> None:
        """Combine what the tasks that read captures told: rows of :data:`TOLD_SCHEMA`, cached."""
        self._spark = spark
        self._told = told
        self._groups = reports.groups
        self.job = job
        self.read_summary = ReadSummary(reports.captures, job.buckets, job.taken_before)
        """The reports of all captures, combined."""

    def anomaly_streams(self) -> DataFrame:
        """Return the anomalies of packets, as tasks told them, with the parts of captures."""
        rows = reduce(DataFrame.unionAll, self._told)
        return rows.where("kind = 'anomalies'").select("capture", "number", "data")

    def rebuild(
        self,
        job: Job | None = None,
        names: Mapping[bytes, str] | None = None,
    ) -> RebuiltConnections:
        """Rebuild all connections, each bucket in a task.

        Args:
            job: which rows; None for those that the captures were read for.
            names: further names of topics by id.
        """
        job = with_keys(self.job if job is None else job, self.read_summary.keyed)
        names = {**self.read_summary.topic_names, **(names or {})}
        folder = self.job.block_folder or ""
        rebuild = rebuilding(job, self.read_summary, folder, self._groups)
        return RebuiltConnections(self._spark, rebuild, job, names)

    def close(self) -> None:
        """Remove the rows from Spark's cache, and the segments that tasks wrote."""
        for rows in self._told:
            rows.unpersist()
        self._told = []
        _remove_blocks(self.job)


def new_block_folder(scratch: str) -> str:
    """Return a new name below a folder that all tasks can write, for the blocks of one job."""
    return f"{scratch.rstrip('/')}/kanalyze-{uuid.uuid4().hex}"


def _remove_blocks(job: Job) -> None:
    if job.sends and job.block_folder is not None:
        SharedFolder(job.block_folder).remove("")


class RebuiltConnections:
    """The rows and reports of all connections; Spark caches them until :meth:`close`.

    A topic's name is valid in the whole archive. If a bucket has rows with an id whose name only
    another bucket has, and reading the captures did not find it, all buckets are rebuilt once more
    with all names.
    """

    def __init__(
        self,
        spark: SparkSession,
        rebuild: RebuildBuckets,
        job: Job,
        names: Mapping[bytes, str],
    ) -> None:
        """Rebuild all connections now.

        Args:
            spark: the session.
            rebuild: rebuilds some buckets, given names of topics.
            job: which rows.
            names: names of topics by id.
        """
        self.job = job
        self._names = dict(names)
        while True:
            work = partial(_rebuild_bucket, rebuild, self._names)
            told = each_in_a_task(spark, work, range(job.buckets))
            self._told = told.persist(_STORAGE_LEVEL)
            reports = self._told.where("kind = 'report'").select("data").collect()
            self.summary = RebuildSummary([load_report(data) for (data,) in reports])
            """The reports of all buckets, combined."""
            missing = self.summary.missing_names(self._names)
            if not missing:
                break
            self._names.update(missing)
            self._told.unpersist()
        self._rows: DataFrame | None = None

    @property
    def rows(self) -> DataFrame:
        """The rows of the plan's table, which Spark caches when they are first used.

        Requests have their numbers, ``request_id``, if the job makes other tables too.
        """
        if self._rows is None:
            self._rows = self._of_streams(self.job.plan.table, self.job.columns)
            self._rows = self._rows.persist(_STORAGE_LEVEL)
        return self._rows

    def table(self, name: str) -> DataFrame:
        """Return the rows of another table that the job makes."""
        return self._of_streams(name, TABLES[name].columns)

    def _of_streams(self, kind: str, columns: Sequence[Column]) -> DataFrame:
        streams = self._told.where(F.col("kind") == kind).select("data")
        return streams.mapInArrow(Work(partial(_from_streams, columns)), spark_schema(columns))

    def others(self) -> dict[str, DataFrame]:
        """Return the rows of the other tables that the job makes, without anomalies, by name."""
        return {name: self.table(name) for name in sorted(self.job.others - {"anomalies"})}

    def close(self) -> None:
        """Remove the rows from Spark's cache."""
        self._told.unpersist()
        if self._rows is not None:
            self._rows.unpersist()


def _rebuild_bucket(
    rebuild: RebuildBuckets, names: Mapping[bytes, str], bucket: int
) -> Iterator[Told]:
    yield from rebuild(names, [(bucket, None)])


def _from_streams(
    columns: Sequence[Column], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of Arrow streams, which are in the first column."""
    for batch in batches:
        for data in batch.column(0):
            for rows in from_arrow_stream(data.as_buffer()):
                yield from as_spark(rows, columns)


def read_captures(
    spark: SparkSession, job: Job, tasks: Sequence[Sequence[Split]]
) -> ArchiveSegments:
    """Read captures; each task reads a few parts of them.

    Raises:
        CaptureError: a capture is unreadable, and the plan does not leave such captures out.
    """
    told: list[DataFrame] = []
    reports = _Reports([], [])

    def read(groups: Sequence[Sequence[tuple[int, Split]]]) -> list[CaptureReport]:
        rows = each_in_a_task(spark, partial(read_splits, job), groups)
        told.append(rows.persist(_STORAGE_LEVEL))
        new = _reports(told[-1])
        reports.groups.extend(new.groups)
        return new.captures

    leaves_out = job.plan.leave_out_unreadable
    try:
        captures = read_in_tasks(tasks, read, leaves_out_unreadable=leaves_out)
    except CaptureError:
        for rows in told:
            rows.unpersist()
        _remove_blocks(job)
        raise
    return ArchiveSegments(spark, job, told, reports._replace(captures=captures))


def read_packets(spark: SparkSession, job: Job, packets: DataFrame) -> ArchiveSegments:
    """Partition the packets of a table, with the columns of ``packets.PACKET_COLUMNS``."""

    def partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(told_batch, partition_packets(job, batches))

    sorted_packets = packets.repartition("capture").sortWithinPartitions("capture", "packet")
    told = sorted_packets.mapInArrow(Work(partition), from_arrow_schema(TOLD_SCHEMA))
    told = told.persist(_STORAGE_LEVEL)
    return ArchiveSegments(spark, job, [told], _reports(told))


def each_in_a_task(
    spark: SparkSession, work: Callable[[_Item], Iterable[Told]], items: Sequence[_Item]
) -> DataFrame:
    """Return what ``work`` tells of each item, in a task for each: rows of :data:`TOLD_SCHEMA`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from map(told_batch, work(items[index]))

    count, schema = len(items), from_arrow_schema(TOLD_SCHEMA)
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(Work(run), schema)


class _Reports(NamedTuple):
    captures: list[CaptureReport]
    groups: list[BlockGroup]
    """The blocks that tasks wrote to files."""


def _reports(told: DataFrame) -> _Reports:
    """Return the reports of tasks that read captures."""
    # In one query, so that reports and files are of the same attempts of tasks.
    rows = told.where("kind in ('report', 'groups')").select("kind", "data").collect()
    return _Reports(
        [load_report(data) for kind, data in rows if kind == "report"],
        [group for kind, data in rows if kind == "groups" for group in load_report(data)],
    )


def anomaly_table(
    spark: SparkSession,
    captured: ArchiveSegments,
    rebuilt: RebuiltConnections,
    row_filter: RowFilter,
    more_rows: Sequence[AnomalyRow] = (),
) -> DataFrame:
    """Return all anomalies, in no order.

    Args:
        spark: the session.
        captured: the archive.
        rebuilt: its connections, rebuilt with anomalies.
        row_filter: applied to the anomalies of packets.
        more_rows: further rows.
    """
    schema = spark_schema(ANOMALY_COLUMNS)
    of_packets = partial(_as_spark_rows, captured.read_summary.packets_before, row_filter)
    table = captured.anomaly_streams().mapInArrow(Work(of_packets), schema)
    table = table.unionAll(rebuilt.table("anomalies"))
    rows = [*captured.read_summary.anomaly_rows, *more_rows]
    if not rows:
        return table
    batches = as_spark(BatchMaker(ANOMALY_COLUMNS).of_rows(rows), ANOMALY_COLUMNS)
    return table.unionAll(spark.createDataFrame(pa.Table.from_batches(batches), schema))


def _as_spark_rows(
    packets_before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    parts = (
        (capture.as_py(), part.as_py(), data.as_py())
        for batch in batches
        for capture, part, data in zip(*batch.columns, strict=True)
    )
    for rows in anomalies_of_packets(packets_before, row_filter, parts):
        yield from as_spark(BatchMaker(ANOMALY_COLUMNS).of_rows(rows), ANOMALY_COLUMNS)
