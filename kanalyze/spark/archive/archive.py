"""An archive of captures on Spark: read once, divided by connection, rebuilt.

In: a session, and captures or a table of packets. Out: DataFrames, and what a report is made of.
Must not know: what tasks do with packets (:mod:`kanalyze.spark.archive.tasks`), nor where rows go.

Every capture (a large one in parts) is read by a task. Its segments go to the bucket of their
connection by a shuffle, sorted by time, and each bucket is rebuilt as a stream. What one task
cannot know, the driver puts right between the two: where the parts of a file meet, IP datagrams
whose fragments are in several captures, and after them the names of topics that were told on
another connection. So it is not lazy: packets are read when an archive is opened, and connections
rebuilt when their rows are asked for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it
from pyspark.sql.pandas.types import from_arrow_schema

from kanalyze.errors import CaptureError
from kanalyze.spark.archive.planning import Readings, parts_to_read_again, without_parts
from kanalyze.spark.archive.shuffle_schema import (
    FIRST_KEY_NS,
    FOUND_FIELDS,
    REPORT_BUCKET,
    SENT_SCHEMA,
    report_of,
    sent_batch,
)
from kanalyze.spark.archive.tasks import cut_packets, read_splits, rebuild
from kanalyze.spark.schema import arrow_schema
from kanalyze.statistics.summary import Statistics
from kanalyze.tables.quality import CaptureQuality

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kanalyze.capture.splits import Split
    from kanalyze.spark.archive.shuffle_schema import BucketReport, CaptureReport
    from kanalyze.spark.archive.tasks import Job

__all__ = ["Captured", "Found", "read_captures", "read_packets"]

_ORDER: Final = ("bucket", "first_key_ns", "file_time_ns", "capture", "part", "first_packet")
_STORED: Final = StorageLevel.MEMORY_AND_DISK


class Captured:
    """Segments of all captures, by bucket; kept by Spark until :meth:`close`."""

    def __init__(
        self, spark: SparkSession, job: Job, blocks: list[DataFrame], reports: list[CaptureReport]
    ) -> None:
        """Put together what the readers of captures said."""
        self._spark = spark
        self._stored = blocks
        self.job = job
        self.readings = Readings(reports, job.buckets)
        """What captures were like, and what counts of them."""

    def blocks(self) -> DataFrame:
        """Return all blocks, control rows too, in no order."""
        parts = list(self._stored)
        if self.readings.joined:
            table = pa.Table.from_batches([sent_batch(self.readings.joined)])
            parts.append(self._spark.createDataFrame(table, from_arrow_schema(SENT_SCHEMA)))
        union = parts[0]
        for part in parts[1:]:
            union = union.unionAll(part)
        return union

    def rebuild(
        self,
        job: Job | None = None,
        states: DataFrame | None = None,
        names: Mapping[bytes, str] | None = None,
    ) -> Found:
        """Rebuild all connections.

        Args:
            job: what is wanted; None for what the captures were read for.
            states: what was left open by a job that carries, of captures before these: columns
                ``bucket`` and ``data``, as :attr:`Found.states`.
            names: of topics, by id, told before.
        """
        job = self.job if job is None else job
        segments = self.blocks().where(F.col("bucket") >= 0)
        if states is not None:
            segments = segments.unionAll(_as_sent(states))
        segments = segments.repartitionById(job.buckets, F.col("bucket"))
        return Found(segments.sortWithinPartitions(*_ORDER), job, self.readings.before, names or {})

    def close(self) -> None:
        """Let Spark forget the segments."""
        for part in self._stored:
            part.unpersist()
        self._stored = []


class Found:
    """What came of all connections; kept by Spark until :meth:`close`.

    Names of topics hold for the whole archive. Where a bucket has rows with an id that only
    another one has a name for, buckets are rebuilt once more, knowing all names.
    """

    def __init__(
        self,
        segments: DataFrame,
        job: Job,
        before: Mapping[tuple[str, int], int],
        names: Mapping[bytes, str],
    ) -> None:
        """Rebuild them, now."""
        self._job = job
        self._names = dict(names)
        while True:
            run = partial(rebuild, job, before, self._names)
            schema = _nullable(pa.schema([*arrow_schema(job.plan.columns), *FOUND_FIELDS]))
            self._found = segments.mapInArrow(run, from_arrow_schema(schema)).persist(_STORED)
            self.reports: list[BucketReport] = [
                report_of(row[0])
                for row in self._found.where("_kind = 'report'").select("_data").collect()
            ]
            if not self._learn():
                break
            self._found.unpersist()

    @property
    def told(self) -> dict[bytes, str]:
        """Names of topics by id, those known before too."""
        told: dict[bytes, str] = {}
        for report in sorted(self.reports, key=lambda report: report.bucket):
            told.update(report.told)
        return told

    @property
    def states(self) -> DataFrame:
        """What is left open of each bucket, where the job carries: ``bucket`` and ``data``."""
        states = self._found.where("_kind = 'state'")
        return states.select(F.col("_bucket").alias("bucket"), F.col("_data").alias("data"))

    def _learn(self) -> bool:
        """Learn names; tell whether any row lacks one of them."""
        told = self.told
        unnamed: set[bytes] = set()
        for report in self.reports:
            unnamed |= report.unnamed
        needed = {topic_id: told[topic_id] for topic_id in unnamed if topic_id in told}
        self._names.update(needed)
        return bool(needed)

    @property
    def rows(self) -> DataFrame:
        """The rows."""
        names = [column.name for column in self._job.plan.columns]
        return self._found.where(F.col("_kind").isNull()).select(*names)

    @property
    def anomalies(self) -> DataFrame:
        """Column ``_data``: rows of anomalies of connections, as Arrow streams."""
        return self._found.where("_kind = 'anomalies'").select("_data")

    @property
    def quality(self) -> CaptureQuality:
        """Of all connections."""
        quality = CaptureQuality()
        for report in self.reports:
            quality.merge(report.quality)
        return quality

    @property
    def open_quality(self) -> CaptureQuality:
        """What would be added to it if all that stays open ended now."""
        quality = CaptureQuality()
        for report in self.reports:
            quality.merge(report.open_quality)
        return quality

    @property
    def statistics(self) -> Statistics:
        """Over all rows, where the job asks for them."""
        statistics = Statistics()
        for report in sorted(self.reports, key=lambda report: report.bucket):
            if report.statistics is not None:
                statistics.merge(report.statistics)
        return statistics

    def close(self) -> None:
        """Let Spark forget the rows."""
        self._found.unpersist()


def _as_sent(states: DataFrame) -> DataFrame:
    """Return what was left open as what comes before all blocks of its bucket."""
    return states.select(
        F.col("bucket").cast("int").alias("bucket"),
        F.lit(FIRST_KEY_NS).cast("long").alias("first_key_ns"),
        F.lit(0).cast("long").alias("file_time_ns"),
        F.lit("").alias("capture"),
        F.lit(-1).alias("part"),
        F.lit(0).cast("long").alias("first_packet"),
        F.col("data"),
    )


def read_captures(spark: SparkSession, job: Job, tasks: Sequence[Sequence[Split]]) -> Captured:
    """Read captures; each task gives a few parts of them.

    Raises:
        CaptureError: where unreadable captures are not to be left out, and one is.
    """
    parts: list[Split] = []
    groups = []
    for task in tasks:
        groups.append([(len(parts) + index, split) for index, split in enumerate(task)])
        parts += task
    blocks = [_read(spark, job, groups)]
    reports = _reports(blocks[0])
    # A part that began at a wrong place is read once more, from the right one.
    while again := parts_to_read_again(reports):
        groups = [[(len(parts) + index, split)] for index, split in enumerate(again)]
        parts += again
        blocks.append(_read(spark, job, groups))
        reports = [*without_parts(reports, again), *_reports(blocks[-1])]
    unreadable = [report.unreadable for report in reports if report.unreadable is not None]
    if unreadable and not job.plan.options.leave_out_unreadable:
        for part in blocks:
            part.unpersist()
        raise CaptureError(unreadable[0])
    return Captured(spark, job, blocks, reports)


def read_packets(spark: SparkSession, job: Job, packets: DataFrame) -> Captured:
    """Take packets of a table, with the columns of ``packets.PACKET_COLUMNS``."""
    sorted_packets = packets.repartition("capture").sortWithinPartitions("capture", "packet")
    blocks = sorted_packets.mapInArrow(
        partial(cut_packets, job), from_arrow_schema(SENT_SCHEMA)
    ).persist(_STORED)
    return Captured(spark, job, [blocks], _reports(blocks))


def _read(
    spark: SparkSession, job: Job, groups: Sequence[Sequence[tuple[int, Split]]]
) -> DataFrame:
    """Read groups of parts, a task each."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read_splits(job, groups[index])

    count = len(groups)
    tasks = spark.range(0, count, 1, max(count, 1))
    return tasks.mapInArrow(read, from_arrow_schema(SENT_SCHEMA)).persist(_STORED)


def _reports(blocks: DataFrame) -> list[CaptureReport]:
    rows = blocks.where(F.col("bucket") == REPORT_BUCKET).select("data").collect()
    return [report_of(row[0]) for row in rows]


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
