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
    CONTROL_FIELDS,
    READ_SCHEMA,
    control_row,
    dump_report,
    files_row,
    from_arrow_stream,
    load_report,
    to_arrow_stream,
    with_control_columns,
)
from kanalyze.batch.archive.planning import ReadSummary, RebuildSummary, read_in_tasks
from kanalyze.batch.archive.row_sink import (
    OPEN_CONNECTIONS,
    anomalies_of_packets,
    numbered,
    write_anomalies,
)
from kanalyze.batch.archive.tasks import (
    partition_packets,
    read_splits,
    rebuilding,
    with_keys,
)
from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError
from kanalyze.export.arrow import BatchMaker, arrays_of
from kanalyze.spark.failures import Work
from kanalyze.spark.schema import arrow_schema, as_spark, spark_schema
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from kanalyze.batch.archive.blocks import BlockGroup, CaptureReport, ReadRow
    from kanalyze.batch.archive.row_sink import PacketAnomalies
    from kanalyze.batch.archive.table_files import WrittenFile
    from kanalyze.batch.archive.tasks import Job, RebuildBuckets
    from kanalyze.capture.splits import Split
    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.filters import RowFilter

__all__ = [
    "ArchiveSegments",
    "RebuiltConnections",
    "YieldedRows",
    "anomaly_table",
    "frame_of_anomalies",
    "new_block_folder",
    "read_captures",
    "read_packets",
    "results_of_tasks",
    "write_anomalies_of_packets",
]

_PENDING_BYTES: Final = 1 << 20
"""Size at which rows of another table are sent, in one control row."""


class SparkYields(NamedTuple):
    """A :class:`~kanalyze.batch.archive.row_sink.YieldsRows` for Spark."""

    def sink(self, columns: Sequence[Column], others: frozenset[str], bucket: int) -> YieldedRows:
        """Return the sink for the rows of a bucket: columns of requests, and other tables."""
        return YieldedRows(columns, others, bucket)

    def rows(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        """Yield rows of one table."""
        return map(with_control_columns, as_spark(batch, columns))


class YieldedRows:
    """A :class:`~kanalyze.batch.archive.row_sink.BucketSink` that yields all rows."""

    def __init__(
        self,
        columns: Sequence[Column],
        others: Collection[str],
        bucket: int,
    ) -> None:
        """Buffer nothing yet.

        Args:
            columns: the columns of requests.
            others: the other tables to yield; if there are any, requests have their numbers.
            bucket: the bucket's number.
        """
        self._columns = columns
        self._maker = BatchMaker(columns)
        self._schema = arrow_schema(columns)
        self._bucket = bucket
        self._makers = {name: BatchMaker(TABLES[name].columns) for name in sorted(others)}
        self._pending: dict[str, list[pa.RecordBatch]] = {name: [] for name in self._makers}

    def control(self, kind: str, data: bytes) -> pa.RecordBatch:
        """Return a control row."""
        return control_row(self._schema, kind, self._bucket, data)

    def add(self, rows: TableRows) -> Iterator[pa.RecordBatch]:
        """Yield requests, and rows of each other table when enough of them are pending."""
        for block in rows.requests:
            selected = numbered(block, rows.first_id) if self._makers else block
            for batch in as_spark(self._maker.of_block(selected), self._columns):
                yield with_control_columns(batch)
        for name, block in rows.blocks():
            if name in self._makers:
                self._pending[name] += self._batches(name, block)
                if sum(batch.nbytes for batch in self._pending[name]) >= _PENDING_BYTES:
                    yield self._flush(name)

    def open_connections(self, rows: list[ConnectionRow]) -> Iterator[pa.RecordBatch]:
        """Yield the pending rows of other tables, then these."""
        for name, batches in self._pending.items():
            if batches:
                yield self._flush(name)
        if rows and "connections" in self._makers:
            block = RowBlock.of_rows(rows, TABLES["connections"].columns)
            batches = list(self._batches("connections", block))
            yield self.control(OPEN_CONNECTIONS, to_arrow_stream(batches))

    def _batches(self, name: str, block: RowBlock) -> Iterator[pa.RecordBatch]:
        return as_spark(self._makers[name].of_block(block), TABLES[name].columns)

    def _flush(self, name: str) -> pa.RecordBatch:
        batches, self._pending[name] = self._pending[name], []
        return self.control(name, to_arrow_stream(batches))


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_STORAGE_LEVEL: Final = StorageLevel.MEMORY_AND_DISK


class ArchiveSegments:
    """Captures that were read; what tasks told of them is cached until :meth:`close`."""

    def __init__(
        self, spark: SparkSession, job: Job, told: list[DataFrame], reports: _Reports
    ) -> None:
        """Combine what the tasks that read captures told: rows of :data:`READ_SCHEMA`, cached."""
        self._spark = spark
        self._told = told
        self._groups = reports.groups
        self.job = job
        self.read_summary = ReadSummary(reports.captures, job.buckets, job.taken_before)
        """The reports of all captures, combined."""

    def anomaly_streams(self) -> DataFrame:
        """Return the anomalies of packets: columns ``capture``, ``part``, and Arrow streams."""
        rows = reduce(DataFrame.unionAll, self._told)
        return rows.where("kind = 'anomalies'").select("capture", "part", "data")

    def rebuild(
        self,
        job: Job | None = None,
        states: DataFrame | None = None,
        names: Mapping[bytes, str] | None = None,
        *,
        most_tasks: int | None = None,
    ) -> RebuiltConnections:
        """Rebuild all connections.

        Args:
            job: which rows; None for those that the captures were read for.
            states: :attr:`RebuiltConnections.states` of a job that kept connections open, over the
                captures before these.
            names: names of topics by id, known from captures before these.
            most_tasks: the number of tasks among which buckets are divided; None for one each.
        """
        job = with_keys(self.job if job is None else job, self.read_summary.keyed)
        if job.staging is None:
            job = job._replace(yields=SparkYields())
        names = {**self.read_summary.topic_names, **(names or {})}
        folder = self.job.block_folder or ""
        rebuild = rebuilding(job, self.read_summary, folder, self._groups)
        tasks = min(job.buckets, most_tasks or job.buckets)
        buckets = _buckets(self._spark, job.buckets, tasks, states)
        return RebuiltConnections(buckets, rebuild, job, names)

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
        buckets: DataFrame,
        rebuild: RebuildBuckets,
        job: Job,
        names: Mapping[bytes, str],
    ) -> None:
        """Rebuild all connections now.

        Args:
            buckets: see :func:`_buckets`.
            rebuild: rebuilds some of them, given names of topics.
            job: which rows.
            names: names of topics by id.
        """
        self.job = job
        self._names = dict(names)
        while True:
            schema = _nullable(pa.schema([*arrow_schema(job.columns), *CONTROL_FIELDS]))
            run = partial(_rebuild_buckets, rebuild, self._names)
            rows = buckets.mapInArrow(Work(run), from_arrow_schema(schema))
            self._rows_and_reports = rows.persist(_STORAGE_LEVEL)
            # In one query, so that reports and files are of the same attempts of tasks.
            reports_and_files = self._rows_and_reports.where("_kind in ('report', 'files')")
            collected = reports_and_files.select("_kind", "_data").collect()
            self.summary = RebuildSummary(
                [load_report(data) for kind, data in collected if kind == "report"]
            )
            """The reports of all buckets, combined."""
            self.files: list[WrittenFile] = sorted(
                file for kind, data in collected if kind == "files" for file in load_report(data)
            )
            """The files that tasks wrote, if the job has a staging folder."""
            missing = self.summary.missing_names(self._names)
            if not missing:
                break
            self._names.update(missing)
            self._rows_and_reports.unpersist()

    @property
    def states(self) -> DataFrame:
        """The saved state of each bucket, if the job keeps connections open.

        Columns ``bucket`` and ``data``.
        """
        states = self._rows_and_reports.where("_kind = 'state'")
        return states.select(F.col("_bucket").alias("bucket"), F.col("_data").alias("data"))

    @property
    def rows(self) -> DataFrame:
        """The rows; with their numbers, ``request_id``, if the job makes other tables too."""
        names = [column.name for column in self.job.columns]
        return self._rows_and_reports.where(F.col("_kind").isNull()).select(*names)

    def table(self, name: str, kind: str | None = None) -> DataFrame:
        """Return the rows of another table that the job makes.

        Only for a job without a staging folder. ``kind`` is the kind of the table's control rows;
        None if that is ``name``.
        """
        columns = TABLES[name].columns
        streams = self._rows_and_reports.where(F.col("_kind") == (kind or name)).select("_data")
        return streams.mapInArrow(Work(partial(_from_streams, columns)), spark_schema(columns))

    def others(self) -> dict[str, DataFrame]:
        """Return the rows of the other tables that the job makes, without anomalies, by name."""
        return {name: self.table(name) for name in sorted(self.job.others - {"anomalies"})}

    def close(self) -> None:
        """Remove the rows from Spark's cache."""
        self._rows_and_reports.unpersist()


def _buckets(spark: SparkSession, count: int, tasks: int, states: DataFrame | None) -> DataFrame:
    """Return all buckets with null, and those with saved states once more, divided among tasks."""
    bucket = F.col("id").cast("int").alias("bucket")
    data = F.lit(None).cast("binary").alias("data")
    buckets = spark.range(0, count, 1, tasks).select(bucket, data)
    if states is None:
        return buckets
    # No join: states may be larger than what Spark broadcasts or sorts in memory.
    saved = states.select(F.col("bucket").cast("int").alias("bucket"), "data")
    return saved.unionAll(buckets).repartitionById(tasks, F.pmod("bucket", F.lit(tasks)))


def _rebuild_buckets(
    rebuild: RebuildBuckets,
    names: Mapping[bytes, str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Rebuild the buckets of a partition of :func:`_buckets`."""
    yield from rebuild(names, _with_states(batches))


def _with_states(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, memoryview | None]]:
    """Yield each bucket once, with its saved state or None; those with a state come first.

    Only the states of one batch are in memory.
    """
    buckets: list[int] = []
    with_state: set[int] = set()
    for batch in batches:
        for bucket, data in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            if data.is_valid:
                with_state.add(bucket)
                yield bucket, memoryview(data.as_buffer())
            else:
                buckets.append(bucket)
    for bucket in buckets:
        if bucket not in with_state:
            yield bucket, None


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
        def read_group(group: Sequence[tuple[int, Split]]) -> Iterator[pa.RecordBatch]:
            return _as_batches(read_splits(job, group))

        rows = _each_in_a_task(spark, read_group, groups, READ_SCHEMA)
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
        return _as_batches(partition_packets(job, batches))

    sorted_packets = packets.repartition("capture").sortWithinPartitions("capture", "packet")
    told = sorted_packets.mapInArrow(Work(partition), from_arrow_schema(READ_SCHEMA))
    told = told.persist(_STORAGE_LEVEL)
    return ArchiveSegments(spark, job, [told], _reports(told))


def _as_batches(rows: Iterable[ReadRow]) -> Iterator[pa.RecordBatch]:
    for row in rows:
        columns = arrays_of(([value] for value in row), READ_SCHEMA)
        yield pa.RecordBatch.from_arrays(columns, schema=READ_SCHEMA)


def _each_in_a_task(
    spark: SparkSession,
    work: Callable[[_Item], Iterator[pa.RecordBatch]],
    items: Sequence[_Item],
    schema: pa.Schema,
) -> DataFrame:
    """Return the rows that ``work`` makes of each item, in a task for each."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from work(items[index])

    count = len(items)
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(Work(run), from_arrow_schema(schema))


def results_of_tasks(
    spark: SparkSession, work: Callable[[_Item], _Result], items: Sequence[_Item]
) -> list[_Result]:
    """Return what ``work`` returns for each item, in a task for each."""

    def run(item: _Item) -> Iterator[pa.RecordBatch]:
        yield control_row(pa.schema([]), "result", -1, dump_report(work(item)))

    if not items:
        return []
    rows = _each_in_a_task(spark, run, items, pa.schema(CONTROL_FIELDS))
    return [load_report(row[0]) for row in rows.select("_data").collect()]


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


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


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
    return table.unionAll(frame_of_anomalies(spark, rows)) if rows else table


def frame_of_anomalies(spark: SparkSession, rows: Sequence[AnomalyRow]) -> DataFrame:
    """Return rows, at least one, as a table."""
    batches = as_spark(BatchMaker(ANOMALY_COLUMNS).of_rows(rows), ANOMALY_COLUMNS)
    return spark.createDataFrame(pa.Table.from_batches(batches), spark_schema(ANOMALY_COLUMNS))


def write_anomalies_of_packets(captured: ArchiveSegments, staging: str) -> list[WrittenFile]:
    """Have tasks write the anomalies of packets to files, and return the files."""
    if not captured.read_summary.quality.anomalies:
        return []
    row_filter = captured.job.plan.row_filter
    packets_before = captured.read_summary.packets_before

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        streams = _packet_anomalies(batches)
        yield files_row(write_anomalies(packets_before, row_filter, staging, streams))

    schema = from_arrow_schema(pa.schema(CONTROL_FIELDS))
    collected = captured.anomaly_streams().mapInArrow(Work(write), schema).select("_data").collect()
    return [file for row in collected for file in load_report(row[0])]


def _as_spark_rows(
    packets_before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for rows in anomalies_of_packets(packets_before, row_filter, _packet_anomalies(batches)):
        yield from as_spark(rows, ANOMALY_COLUMNS)


def _packet_anomalies(batches: Iterable[pa.RecordBatch]) -> Iterator[PacketAnomalies]:
    for batch in batches:
        for capture, part, data in zip(*batch.columns, strict=True):
            yield capture.as_py(), part.as_py(), data.as_buffer()
