"""The two kinds of tasks: one reads captures, one rebuilds the connections of a bucket.

In: parts of captures, or packets; then blocks, or captures. Out: reports, and blocks; then rows. A
task's output depends on its input alone, byte for byte, so Spark may run it again.

Segments come to the task of their bucket in one of two ways. In a job that sends them, the task
that reads a capture divides its segments into blocks, and writes them to a file. Otherwise the task
of a bucket reads all captures once more, and keeps the segments of its own connections.
"""

from __future__ import annotations

import hashlib
import zlib
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from kanalyze.batch.archive.blocks import (
    BlockFile,
    BucketReport,
    CaptureReport,
    Told,
    WrittenBlocks,
    dump_report,
    pack_state,
    sent_block,
    to_arrow_stream,
    unpack_state,
)
from kanalyze.batch.archive.partitioner import ConnectionPartitioner
from kanalyze.batch.archive.payload_pruning import PayloadPruner
from kanalyze.batch.archive.row_sink import FileRows, ToldRows
from kanalyze.batch.archive.segment_readers import BlockReader, ShardReader, name_in_rows
from kanalyze.batch.archive.table_files import TableFiles
from kanalyze.batch.archive.topic_name_scan import TopicNameScan
from kanalyze.batch.history import CONNECTION_BITS
from kanalyze.batch.key_sources import keyed_capture, with_captures
from kanalyze.batch.read_plan import TablePartition, table_batches
from kanalyze.capture.io.stores import Stores, absolute_path
from kanalyze.capture.reader import NotACaptureError
from kanalyze.capture.splits import open_split
from kanalyze.common.garbage_collection import collecting_rarely
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.model.packet_arrays import PacketArrays
from kanalyze.net.segment_columns import Shard
from kanalyze.runtime.settings import broker_side
from kanalyze.runtime.table_rows import first_request_id
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.anomalies import anomaly_row
from kanalyze.tables.cluster.reader import CLIENT_METRICS, CLUSTER_TABLES, fields_of
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.requests.extract import Extractors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.batch.archive.blocks import BlockGroup
    from kanalyze.batch.archive.partitioner import SegmentBlock
    from kanalyze.batch.archive.planning import ReadSummary
    from kanalyze.batch.archive.row_sink import BucketSink
    from kanalyze.batch.key_sources import KeyedCapture
    from kanalyze.batch.read_plan import ReadPlan
    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.capture.splits import Split, SplitEnds
    from kanalyze.model.packets import PacketBatch
    from kanalyze.spec.columns import Column

RebuildBuckets: TypeAlias = (
    "Callable[[Mapping[bytes, str], Iterable[tuple[int, bytes | memoryview | None]]],"
    " Iterator[Told]]"
)
"""Rebuilds buckets, given names of topics by id, and the buckets with their saved states."""

_OF_REQUESTS: Final = CLUSTER_TABLES | {CLIENT_METRICS}
"""Tables whose lines belong to requests."""


class Job(NamedTuple):
    """The parameters of all tasks; can be pickled.

    ``others``, ``run`` and ``keeps_open`` are only for the table of requests.
    """

    plan: ReadPlan
    buckets: int
    """Into how many parts connections are divided."""
    prunes_payload: bool
    """Do not send payload that no row needs."""
    sends: bool = True
    """Send segments to the task of their bucket; else it reads all captures."""
    others: frozenset[str] = frozenset()
    """Other tables of an archive to make in the same pass. If there are any, requests are
    numbered."""
    run: int = 0
    """Number of the run: no two requests of an archive have the same number."""
    keeps_open: bool = False
    """Save the state of open connections at the end, for a job over later captures."""
    until_ns: int | None = None
    """Take the packets before this time only; None for all."""
    taken_before: dict[str, int] = {}  # noqa: RUF012 - nobody changes it; a mappingproxy is not pickled
    """How many packets of captures earlier jobs have taken, by their names in rows."""
    notes_connections: bool = False
    """Report which connections captures have, for :mod:`kanalyze.batch.history`."""
    folder: str = ""
    """The base of relative paths; tasks run in other folders."""
    staging: str | None = None
    """Where tasks write the rows of all tables; None if they tell them to the driver."""
    block_folder: str | None = None
    """Where tasks write blocks, in a job that sends them."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of the rows of the plan's table."""
        return (REQUEST_ID, *self.plan.columns) if self.others else self.plan.columns

    def pruner(self) -> PayloadPruner | None:
        """Return a pruner of payload that need not be sent; None if nothing is to be pruned."""
        if not self.prunes_payload or not self.sends:
            return None
        plan = self.plan
        return PayloadPruner(
            plan.catalog,
            Decoders(plan.catalog),
            # Keep the fields of all tables: which ones are made is only known later.
            Extractors(plan.catalog, fields_of(_OF_REQUESTS)).needed_fields,
            # TLS must not be taken for Kafka because of its port, if it is to be decrypted.
            None if plan.keys is not None else broker_side(plan.ports, plan.brokers),
        )

    def topic_names(self) -> TopicNameScan:
        """Return a scan of captures for names of topics."""
        return TopicNameScan(self.plan.catalog, Decoders(self.plan.catalog))

    def sink(self, bucket: int, files: TableFiles | None) -> BucketSink:
        """Return the sink for the rows of a bucket: ``files``, or None to tell them."""
        if files is not None:
            return FileRows(files)
        others = {name: TABLES[name].columns for name in sorted(self.others)}
        return ToldRows({"requests": self.columns, **others}, bucket)


def with_keys(job: Job, keyed: Sequence[KeyedCapture]) -> Job:
    """Return a job that also decrypts with the secrets inside of captures."""
    return job._replace(plan=replace(job.plan, keys=with_captures(job.plan.keys, keyed)))


# -- captures -------------------------------------------------------------------------------------


def read_splits(job: Job, parts: Iterable[tuple[int, Split]]) -> Iterator[Told]:
    """Partition captures, or parts of them, one after another; yield their anomalies and reports.

    A job that sends segments has them written to its folder for blocks, and their groups are
    yielded at the end.

    Parts should be sorted by time: then a message that begins in one and ends in the next can be
    pruned too.

    A capture that cannot be opened or read does not end the job: its report says why, and its
    blocks are ignored.

    Raises:
        UsageError: blocks cannot be written.
    """
    with _task(job) as task:
        for part, split in parts:
            yield from _read_split(job, task, part, split)
        yield from task.groups()


def partition_packets(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[Told]:
    """Partition packets of a table, sorted by capture and number; otherwise as :func:`read_splits`.

    Columns as in the data source's table ``packets``.
    """
    capture: _CapturePartitioning | None = None
    with _task(job) as task:
        for batch in batches:
            names = batch.column("capture")
            first = 0
            while first < len(batch):
                name = names[first].as_py()
                last = _end_of_run(names, first)
                if capture is None or capture.name != name:
                    if capture is not None:
                        yield from capture.end(None, ())
                    capture = _CapturePartitioning(job, task, _number_of(name), name)
                yield from capture.feed(_packets(batch.slice(first, last - first)))
                first = last
        if capture is not None:
            yield from capture.end(None, ())
        yield from task.groups()


def _number_of(capture: str) -> int:
    """Return the number of the only part of a capture, which no task numbers."""
    return int.from_bytes(hashlib.blake2b(capture.encode(), digest_size=8).digest(), signed=True)


class _Task(NamedTuple):
    """What a task carries from one capture to the next."""

    pruner: PayloadPruner | None
    names: TopicNameScan
    file: BlockFile | None
    """Where blocks go, in a job that sends them."""

    def groups(self) -> Iterator[Told]:
        """Complete the file, and yield its groups."""
        if self.file is not None:
            yield Told("groups", dump_report(self.file.finish()))


@contextmanager
def _task(job: Job) -> Iterator[_Task]:
    """Provide what a task carries."""
    assert job.block_folder is not None or not job.sends, "the engine has a folder for blocks"
    folder = job.block_folder or ""
    with BlockFile(folder, job.buckets) if job.sends else nullcontext() as file:
        yield _Task(job.pruner(), job.topic_names(), file)


def _read_split(job: Job, task: _Task, part: int, split: Split) -> Iterator[Told]:
    name = name_in_rows(split.path)
    capture = _CapturePartitioning(job, task, part, name)
    absolute = split._replace(path=absolute_path(split.path, job.folder))
    try:
        with open_split(absolute, stores=Stores()) as reader:
            for batch in reader.batches():
                yield from capture.feed(batch)
            anomalies = reader.anomalies
            capture.partitioner.quality.dropped_packets = reader.dropped_packets
            ends = reader.ends._replace(split=split)
            if reader.description is not None:
                capture.partitioner.quality.count_description(reader.description)
            capture.keyed = keyed_capture(absolute.path, reader.description)
    except CaptureError as error:
        yield capture.unreadable(str(error), is_foreign=isinstance(error, NotACaptureError))
        return
    yield from capture.end(ends, anomalies)


class _CapturePartitioning:
    """Partitions one capture: its blocks go to the file of the task."""

    def __init__(self, job: Job, task: _Task, part: int, name: str) -> None:
        self.name = name
        self.part = part
        self._is_begun = name in job.taken_before
        if task.pruner is not None:
            task.pruner.next_capture()
        buckets = job.buckets if job.sends else None
        self._connections = np.zeros(CONNECTION_BITS, np.bool_) if job.notes_connections else None
        self.partitioner = ConnectionPartitioner(
            *(buckets, task.pruner, task.names, self._connections, job.until_ns)
        )
        self._file = task.file
        self._topic_names = task.names.names
        self.keyed: KeyedCapture | None = None
        """Where the capture has secrets of TLS; None if it has none."""
        self._start_ns: int | None = None

    def feed(self, batch: PacketBatch) -> Iterator[Told]:
        """Partition some packets, and yield their anomalies."""
        if self._start_ns is None:
            self._start_ns = int(batch.time_ns[0])
        with collecting_rarely():
            partitioned = self.partitioner.feed(batch)
        self._write(partitioned.blocks)
        yield from self._anomalies(partitioned.anomalies)

    def end(self, ends: SplitEnds | None, anomalies: Iterable[Anomaly]) -> Iterator[Told]:
        """Write the last blocks; yield the last anomalies, and the report."""
        partitioned = self.partitioner.finish()
        self._write(partitioned.blocks)
        quality = self.partitioner.quality
        quality.captures.append(self.name)
        capture_anomalies = [
            anomaly._replace(detail=f"{self.name}: {anomaly.detail}") for anomaly in anomalies
        ]
        for anomaly in capture_anomalies:
            quality.count_anomaly(anomaly.kind, anomaly.length or 0)
        yield from self._anomalies([*partitioned.anomalies, *capture_anomalies])
        start_ns = self._start_ns or 0
        report = CaptureReport(
            *(self.part, self.name, start_ns, quality, partitioned.fragments, ends, None),
            keyed=self.keyed,
            topic_names=dict(self._topic_names),
            packets_in_time=self.partitioner.packets_in_time,
            connections=self._noted(),
        )
        yield self._told("report", dump_report(report))

    def _noted(self) -> bytes | None:
        if self._connections is None:
            return None
        return zlib.compress(np.packbits(self._connections).tobytes(), 1)

    def unreadable(self, reason: str, *, is_foreign: bool) -> Told:
        """Return the report of a capture that is left out."""
        quality = CaptureQuality()
        quality.count_anomaly(AnomalyKind.CAPTURE_UNREADABLE)
        report = CaptureReport(self.part, self.name, 0, quality, [], None, reason, is_foreign)
        return self._told("report", dump_report(report))

    def _write(self, blocks: Iterable[SegmentBlock]) -> None:
        for block in blocks:
            assert self._file is not None, "only a job that sends segments makes blocks"
            self._file.add(sent_block(block, self._start_ns or 0, self.name, self.part))

    def _anomalies(self, anomalies: Iterable[Anomaly]) -> Iterator[Told]:
        rows = [anomaly_row(anomaly, locate=self._locate) for anomaly in anomalies]
        if rows and not self._is_begun:
            yield self._told("anomalies", dump_report(rows))

    def _locate(self, number: int) -> tuple[str, int | None]:
        return self.name, number

    def _told(self, kind: str, data: bytes) -> Told:
        return Told(kind, data, self.part, self.name)


def _end_of_run(names: pa.Array, first: int) -> int:
    """Return the index after ``first`` where the next capture begins; names are sorted."""
    name = names[first]
    if names[len(names) - 1] == name:
        return len(names)
    differs = pa.compute.not_equal(names, name).to_numpy(zero_copy_only=False)
    return first + int(np.argmax(differs[first:]))


def _packets(batch: pa.RecordBatch) -> PacketBatch:
    """Return packets of a table as a batch over the table's memory."""
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


def rebuilding(
    job: Job, read_summary: ReadSummary, folder: str, groups: Iterable[BlockGroup]
) -> RebuildBuckets:
    """Return what rebuilds buckets, given names of topics and the buckets with their saved states.

    Args:
        job: which rows.
        read_summary: the captures that were read.
        folder: where tasks wrote blocks, if the job sends them.
        groups: the groups of these blocks.

    Raises:
        UsageError: the blocks of reassembled segments cannot be written.
    """
    source = read_summary.written_blocks(folder, groups) if job.sends else read_summary.captures
    return partial(rebuild_buckets, job, source)


def rebuild_buckets(
    job: Job,
    source: WrittenBlocks | Sequence[FoundCapture],
    topic_ids: Mapping[bytes, str],
    states: Iterable[tuple[int, bytes | memoryview | None]],
) -> Iterator[Told]:
    """Rebuild the connections of buckets, one after the other; tell their rows, then reports.

    A job with a staging folder has its rows written there, and the files are told at the end.

    Args:
        job: which rows.
        source: blocks of segments in files; or all captures that were read, in the order of their
            first packets.
        topic_ids: names of topics that other buckets have.
        states: buckets, each with its saved state, or None.

    Raises:
        CaptureError: a capture cannot be read any more.
        UsageError, BlockError: blocks cannot be read.
        StateError, BlockError: a saved state cannot be loaded.
    """
    stores = Stores()

    def segments(bucket: int, locations: str | None) -> BlockReader | ShardReader:
        if isinstance(source, WrittenBlocks):
            return BlockReader(source.of_bucket(bucket), locations)
        shard = Shard(bucket, job.buckets)
        return ShardReader(source, shard, stores, locations, job.folder, job.taken_before)

    with nullcontext() if job.staging is None else TableFiles(job.staging) as files:
        with collecting_rarely():
            for bucket, state in states:
                locations, saved = (None, None) if state is None else unpack_state(bytes(state))
                of_bucket = segments(bucket, locations)
                if job.plan.table == "requests":
                    sink = job.sink(bucket, files)
                    yield from _requests(job, bucket, of_bucket, saved, topic_ids, sink)
                else:
                    yield from _other_rows(job, bucket, of_bucket, topic_ids)
        if files is not None:
            yield Told("files", dump_report(files.finish()))


def _requests(
    job: Job,
    bucket: int,
    source: BlockReader | ShardReader,
    saved_state: bytes | None,
    topic_ids: Mapping[bytes, str],
    sink: BucketSink,
) -> Iterator[Told]:
    """Make the rows of a bucket, and yield its control rows."""
    analysis = job.plan.with_names(topic_ids).analysis(TablePartition((), segments=source))
    run = analysis.resumable(
        saved_state,
        keeps_open=job.keeps_open,
        more=job.others & _OF_REQUESTS,
        others=bool(job.others),
        first_id=first_request_id(job.run * job.buckets + bucket),
    )
    for rows in run.rows():
        yield from sink.add(rows)
    if job.keeps_open:
        state = pack_state(source.save_state(), run.saved_state)
        yield Told("state", state, bucket)
    yield from sink.open_connections(run.open_connections)
    report = BucketReport(
        bucket,
        analysis.quality,
        run.closing_quality,
        analysis.names.known,
        frozenset(analysis.names.unnamed),
        run.closed,
    )
    yield Told("report", dump_report(report), bucket)


def _other_rows(
    job: Job, bucket: int, source: BlockReader | ShardReader, topic_ids: Mapping[bytes, str]
) -> Iterator[Told]:
    """Yield the rows of a bucket in another table; names of topics must be known before."""
    plan = job.plan.with_names(topic_ids)
    for batch in table_batches(plan, TablePartition((), segments=source)):
        yield Told(plan.table, to_arrow_stream([batch]), bucket)
