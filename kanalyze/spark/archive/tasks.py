"""What tasks do: read a part of a capture, and rebuild the connections of a bucket.

In: parts of captures, or packets; then blocks. Out: blocks; then rows. Must not know: pyspark, nor
which task runs where. The same input gives the same output, byte for byte, so that a task may run
again.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.io.urls import is_url
from kanalyze.capture.reader import NotACaptureError
from kanalyze.capture.splits import open_split
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError
from kanalyze.export.arrow import BatchMaker
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packet_arrays import PacketArrays
from kanalyze.runtime.settings import broker_side
from kanalyze.spark.archive.partitioner import Cutter
from kanalyze.spark.archive.payload_pruning import Trimmer
from kanalyze.spark.archive.shuffle_reader import Arrival, ArrivedSegments
from kanalyze.spark.archive.shuffle_schema import (
    ANOMALY_BUCKET,
    FIRST_KEY_NS,
    REPORT_BUCKET,
    BucketReport,
    CaptureReport,
    Sent,
    beside_rows,
    joined,
    parted,
    read_sent,
    reported,
    rows_found,
    sent_batch,
    to_stream,
)
from kanalyze.spark.schema import arrow_schema, as_spark
from kanalyze.spark.source.readers import Part, read_part
from kanalyze.statistics.summary import Statistics
from kanalyze.tables.anomalies import ANOMALY_COLUMNS, anomaly_row
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.requests.extract import Extractors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kanalyze.capture.splits import Split, SplitEnds
    from kanalyze.model.packets import PacketBatch
    from kanalyze.spark.archive.partitioner import Block
    from kanalyze.spark.source.readers import Plan
    from kanalyze.tables.anomalies import AnomalyRow
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["Job", "cut_packets", "read_splits", "rebuild"]


class Job(NamedTuple):
    """What every task is to know; can be pickled.

    What has ``with_`` in its name, and ``carries``, is for the table of requests alone.
    """

    plan: Plan
    buckets: int
    """Into how many parts connections are divided."""
    is_trimmed: bool
    """Leave out the payload that no row needs."""
    with_statistics: bool = False
    """For a report over all rows."""
    with_anomalies: bool = False
    """Give the anomalies of connections too."""
    carries: bool = False
    """Keep connections open at the end, for a job that goes on from there."""
    folder: str = ""
    """Where paths that are not absolute begin; tasks run in folders of their own."""

    def trimmer(self) -> Trimmer | None:
        """Return what tells which payload need not travel; None where all of it does."""
        if not self.is_trimmed:
            return None
        plan = self.plan
        return Trimmer(
            plan.catalog,
            Decoders(plan.catalog),
            Extractors(plan.catalog).wanted_fields,
            broker_side(plan.options.ports, plan.options.filters.get("brokers", ())),
        )

    def cutter(self, trimmer: Trimmer | None) -> Cutter:
        """Return what divides one capture."""
        if trimmer is not None:
            trimmer.next_capture()
        return Cutter(self.buckets, trimmer)

    def knowing(self, topic_ids: Mapping[bytes, str]) -> Plan:
        """Return the plan with more names of topics; those that a user gave come first."""
        return replace(self.plan, topic_ids={**topic_ids, **(self.plan.topic_ids or {})})


# -- captures -------------------------------------------------------------------------------------


def read_splits(job: Job, parts: Iterable[tuple[int, Split]]) -> Iterator[pa.RecordBatch]:
    """Read captures, or parts of them, one after another; give their segments, and reports.

    What a capture holds of messages that began in the one before need not travel as a whole, where
    both are read here: so parts should be given in the order of their times.

    A capture that cannot be opened, or read on, is not the end of the job: its report says why, and
    what was read of it is not to be used.
    """
    trimmer = job.trimmer()
    for part, split in parts:
        yield from _read_split(job, trimmer, part, split)


def _read_split(
    job: Job, trimmer: Trimmer | None, part: int, split: Split
) -> Iterator[pa.RecordBatch]:
    name = capture_name(split.path)
    capture = _Capture(job, trimmer, part, name)
    try:
        with open_split(_absolute(split, job.folder), stores=Stores()) as reader:
            for batch in reader.batches():
                yield from capture.take(batch)
            told = reader.anomalies
            capture.cutter.quality.dropped_packets = reader.dropped_packets
            ends = reader.ends._replace(split=split)
    except CaptureError as error:
        yield capture.unreadable(str(error), is_foreign=isinstance(error, NotACaptureError))
        return
    yield from capture.end(ends, told)


def _absolute(split: Split, folder: str) -> Split:
    """Return a split of the same file that can be opened from any folder."""
    if is_url(split.path):
        return split
    return split._replace(path=os.path.join(folder, split.path))  # noqa: PTH118 - may be no path


def cut_packets(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take packets of a table, sorted by capture and number; otherwise as :func:`read_splits`.

    Columns as in :data:`kanalyze.spark.source.packets.PACKET_COLUMNS`.
    """
    capture: _Capture | None = None
    trimmer = job.trimmer()
    for batch in batches:
        names = batch.column("capture")
        first = 0
        while first < len(batch):
            name = names[first].as_py()
            last = _end_of_run(names, first)
            if capture is None or capture.name != name:
                if capture is not None:
                    yield from capture.end(None, ())
                capture = _Capture(job, trimmer, 0, name)
            yield from capture.take(_packets(batch.slice(first, last - first)))
            first = last
    if capture is not None:
        yield from capture.end(None, ())


class _Capture:
    """A capture being read, and how it is told of."""

    def __init__(self, job: Job, trimmer: Trimmer | None, part: int, name: str) -> None:
        self.name = name
        self.part = part
        self.cutter = job.cutter(trimmer)
        self._began_ns: int | None = None

    def take(self, batch: PacketBatch) -> Iterator[pa.RecordBatch]:
        """Give the segments of a batch, and what is wrong with its packets."""
        if self._began_ns is None:
            self._began_ns = int(batch.time_ns[0])
        blocks = self.cutter.feed(batch)
        if blocks:
            yield sent_batch([self._sent(block) for block in blocks])
        yield from self._anomalies(self.cutter.take_anomalies())

    def end(self, ends: SplitEnds | None, anomalies: Iterable[Anomaly]) -> Iterator[pa.RecordBatch]:
        """Give what is left, and the report."""
        blocks, loose = self.cutter.finish()
        if blocks:
            yield sent_batch([self._sent(block) for block in blocks])
        quality = self.cutter.quality
        quality.captures.append(self.name)
        told = [anomaly._replace(detail=f"{self.name}: {anomaly.detail}") for anomaly in anomalies]
        for anomaly in told:
            quality.count_anomaly(anomaly.kind, anomaly.length or 0)
        yield from self._anomalies([*self.cutter.take_anomalies(), *told])
        report = CaptureReport(
            self.part, self.name, self._began_ns or 0, quality, loose, ends, None
        )
        yield self._control(REPORT_BUCKET, reported(report))

    def unreadable(self, reason: str, *, is_foreign: bool) -> pa.RecordBatch:
        """Return a report that says that the capture is left out."""
        quality = CaptureQuality()
        quality.count_anomaly(AnomalyKind.CAPTURE_UNREADABLE)
        report = CaptureReport(self.part, self.name, 0, quality, [], None, reason, is_foreign)
        return self._control(REPORT_BUCKET, reported(report))

    def _anomalies(self, anomalies: Iterable[Anomaly]) -> Iterator[pa.RecordBatch]:
        rows = [anomaly_row(anomaly, place=self._place) for anomaly in anomalies]
        if rows:
            yield self._control(ANOMALY_BUCKET, _anomaly_stream(rows))

    def _place(self, number: int) -> tuple[str, int | None]:
        return self.name, number

    def _sent(self, block: Block) -> Sent:
        return Sent(
            block.bucket,
            block.first_key_ns,
            self._began_ns or 0,
            self.name,
            self.part,
            block.first_packet,
            block.data,
        )

    def _control(self, bucket: int, data: bytes) -> pa.RecordBatch:
        return sent_batch([Sent(bucket, 0, self._began_ns or 0, self.name, self.part, 0, data)])


def _anomaly_stream(rows: list[AnomalyRow]) -> bytes:
    return to_stream(BatchMaker(ANOMALY_COLUMNS).of_rows(rows))


def _end_of_run(names: pa.Array, first: int) -> int:
    """Return where another capture begins; names are sorted."""
    name = names[first]
    if names[len(names) - 1] == name:
        return len(names)
    differs = pa.compute.not_equal(names, name).to_numpy(zero_copy_only=False)
    return first + int(np.argmax(differs[first:]))


def _packets(batch: pa.RecordBatch) -> PacketBatch:
    """Return packets of a table as a batch over the table's own memory."""
    data = batch.column("data")
    offsets = np.frombuffer(data.buffers()[1], np.int32)[data.offset : data.offset + len(data) + 1]
    start = offsets[:-1].astype(np.int64)
    return PacketArrays(
        buffer=memoryview(data.buffers()[2] or b"").cast("B"),
        number=batch.column("packet").to_numpy().astype(np.int64),
        time_ns=batch.column("time_ns").to_numpy().astype(np.int64),
        offset=start,
        captured_bytes=offsets[1:] - start,
        wire_bytes=batch.column("wire_bytes").to_numpy().astype(np.int64),
        link_type=batch.column("link_type").to_numpy().astype(np.int32),
    ).batch()


# -- buckets --------------------------------------------------------------------------------------


def rebuild(
    job: Job,
    before: Mapping[tuple[str, int], int],
    topic_ids: Mapping[bytes, str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Rebuild the connections of buckets; give their rows, and after each bucket a report.

    Args:
        job: what is wanted.
        before: the packets of a capture before a part of it, by both; what is sent of other parts
            is not to be used.
        topic_ids: names that other buckets told.
        batches: blocks, of each bucket all, sorted; before them what was left open there.

    Raises:
        StateError, BlockError: what was left open cannot be taken up.
    """
    for bucket, sent in groupby(read_sent(batches), key=attrgetter("bucket")):
        first = next(sent)
        is_state = first.first_key_ns == FIRST_KEY_NS
        state = parted(bytes(first.data)) if is_state else None
        arrivals = (
            Arrival(
                one.first_key_ns,
                one.file_time_ns,
                one.capture,
                one.first_packet,
                before[one.capture, one.part],
                one.data,
            )
            for one in (sent if is_state else chain((first,), sent))
            if (one.capture, one.part) in before
        )
        places, carried = (None, None) if state is None else state
        source = ArrivedSegments(arrivals, places)
        if job.plan.options.table == "requests":
            yield from _requests(job, bucket, source, carried, topic_ids)
        else:
            yield from _other_rows(job, source, topic_ids)


def _requests(
    job: Job,
    bucket: int,
    source: ArrivedSegments,
    carried: bytes | None,
    topic_ids: Mapping[bytes, str],
) -> Iterator[pa.RecordBatch]:
    """Give the requests of a bucket, and all that is found beside them."""
    columns = job.plan.columns
    schema = arrow_schema(columns)
    maker = BatchMaker(columns)
    analysis = job.knowing(topic_ids).analysis(Part((), arrived=source))
    statistics = Statistics() if job.with_statistics else None
    run = analysis.resumable(carried, keeps_open=job.carries)
    for blocks, anomalies in run.batches():
        for block in blocks:
            if statistics is not None:
                statistics.add_block(block)
            for batch in as_spark(maker.of_block(block), columns):
                yield rows_found(batch)
        if anomalies and job.with_anomalies:
            yield beside_rows(schema, "anomalies", bucket, _anomaly_stream(anomalies))
    if job.carries:
        left = joined(source.carry(), run.saved_state)
        yield beside_rows(schema, "state", bucket, left)
    report = BucketReport(
        bucket,
        analysis.quality,
        run.close_open(),
        statistics,
        analysis.names.known,
        frozenset(analysis.names.unnamed),
    )
    yield beside_rows(schema, "report", bucket, reported(report))


def _other_rows(
    job: Job, source: ArrivedSegments, topic_ids: Mapping[bytes, str]
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a bucket in another table; names have to be known before."""
    plan = job.knowing(topic_ids)
    for batch in read_part(plan, Part((), arrived=source), _all):
        for rows in as_spark(batch, plan.columns):
            yield rows_found(rows)


def _all(block: RowBlock) -> RowBlock:
    return block
