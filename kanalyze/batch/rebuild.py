"""Reads captures and rebuilds connections by the tasks of an engine.

In: an engine, a job, parts of captures. Out: what tasks reported, files with rows in the staging
folder, and the states of open connections.

What tasks hand on to each other is in files of the job's scratch folder: blocks of segments, and
anomalies of packets. Rows and states are where they stay. Only the files that the result of a task
names count: an engine may run a task twice.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kanalyze.batch.archive.blocks import load_report
from kanalyze.batch.archive.planning import ReadSummary, RebuildSummary, read_in_tasks
from kanalyze.batch.archive.row_sink import anomalies_of_packets
from kanalyze.batch.archive.table_files import (
    OPEN_ANOMALIES,
    TableFiles,
    merge_files,
    with_small_merged,
)
from kanalyze.batch.archive.tasks import read_splits, rebuilding, with_keys
from kanalyze.batch.shared_folder import FileEntry, SharedFolder
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.arrow import arrays_of
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.batch.archive.blocks import BlockGroup, CaptureReport, Told
    from kanalyze.batch.archive.row_sink import PacketAnomalies
    from kanalyze.batch.archive.table_files import WrittenFile
    from kanalyze.batch.archive.tasks import Job, RebuildBuckets
    from kanalyze.batch.engine import Engine
    from kanalyze.capture.splits import Split
    from kanalyze.spec.rows.anomalies import AnomalyRow

_FILES_A_TASK: Final = 16
"""Files with anomalies that one task rewrites."""
_STATES_SCHEMA: Final = pa.schema([("bucket", pa.int32()), ("data", pa.binary())])
_ANOMALIES_SCHEMA: Final = pa.schema(
    [("capture", pa.string()), ("part", pa.int64()), ("data", pa.binary())]
)
_BLOBS: Final[dict[str, Any]] = {
    "use_dictionary": False,
    "write_statistics": False,
    "compression": "none",
}
"""The data is compressed, may have hundreds of MB each, and is never compared."""


class SavedState(NamedTuple):
    """Where the saved state of a bucket is."""

    location: str
    name: str
    row_group: int
    row: int
    """Index in the row group."""

    def read(self) -> bytes:
        """Return the state; raises UsageError if the file cannot be read."""
        folder = SharedFolder(self.location)
        with folder.open_file(self.name) as file, folder.errors():
            rows = pq.ParquetFile(file).iter_batches(1, [self.row_group], ["data"])
            data: bytes = next(islice(rows, self.row, None)).column(0)[0].as_py()
            return data


def saved_states(location: str, names: Sequence[str]) -> dict[int, SavedState]:
    """Return where the state of each bucket is in files; raises UsageError if one is damaged."""
    folder, states = SharedFolder(location), {}
    for name in names:
        with folder.open_file(name) as file, folder.errors():
            parquet = pq.ParquetFile(file)
            for group in range(parquet.num_row_groups):
                buckets = parquet.read_row_group(group, ["bucket"]).column(0).to_pylist()
                for row, bucket in enumerate(buckets):
                    states[bucket] = SavedState(location, name, group, row)
    return states


class Rebuilt(NamedTuple):
    """All connections of a job, rebuilt."""

    summary: RebuildSummary
    """The reports of all buckets, combined."""
    files: list[WrittenFile]
    """All rows, in the staging folder."""
    states: list[FileEntry]
    """The files with states of open connections, in the folder of states."""


class CapturesRead:
    """Captures that were read, and divided by connection."""

    def __init__(self, engine: Engine, job: Job, tasks: Sequence[Sequence[Split]]) -> None:
        """Read captures; each task reads a few parts of them.

        Raises CaptureError as :func:`.read_in_tasks`.
        """
        self._engine = engine
        self._groups: list[BlockGroup] = []
        self._anomalies: list[str] = []

        def read(groups: Sequence[Sequence[tuple[int, Split]]]) -> list[CaptureReport]:
            results = engine.run(_read_task, [(job, parts) for parts in groups])
            self._groups += [group for result in results for group in result.listed]
            self._anomalies += [result.data.name for result in results if result.data]
            return [report for result in results for report in result.reports]

        leaves_out = job.plan.leave_out_unreadable
        reports = read_in_tasks(tasks, read, leaves_out_unreadable=leaves_out)
        self.read_summary = ReadSummary(reports, job.buckets, job.taken_before)
        """The reports of all captures, combined."""
        self._job = with_keys(job, self.read_summary.keyed)

    def rebuild(
        self,
        saved: Mapping[int, SavedState],
        names: Mapping[bytes, str],
        states_location: str,
        more_anomalies: Sequence[AnomalyRow],
    ) -> Rebuilt:
        """Rebuild all connections.

        A topic's name is valid in the whole archive. If a bucket has rows with an id whose name
        only another bucket has, all buckets are rebuilt once more with all names.

        Args:
            saved: the states of the connections that the last run left open, by bucket.
            names: names of topics by id, known from earlier runs.
            states_location: the folder for states, if the job keeps connections open.
            more_anomalies: further rows.
        """
        job, engine, read = self._job, self._engine, self.read_summary
        known = {**read.topic_names, **names}
        rebuild = rebuilding(job, read, job.block_folder or "", self._groups)
        # Few tasks make few files.
        count = min(job.buckets, engine.most_tasks or job.buckets)
        tasks = [
            [(bucket, saved.get(bucket)) for bucket in range(first, job.buckets, count)]
            for first in range(count)
        ]
        while True:
            arguments = [(rebuild, known, buckets, states_location) for buckets in tasks]
            results = engine.run(_rebuild_task, arguments)
            summary = RebuildSummary([report for result in results for report in result.reports])
            missing = summary.missing_names(known)
            if not missing:
                break
            known.update(missing)
        assert job.staging is not None, "tasks write rows"
        some = TableFiles(job.staging)
        for table, rows in (
            ("anomalies", [*read.anomaly_rows, *more_anomalies]),
            # The next run tries to read some captures again, and replaces what this one says.
            (OPEN_ANOMALIES if job.keeps_open else "anomalies", read.retryable_rows),
        ):
            some.add(table, RowBlock.of_rows(rows, ANOMALY_COLUMNS))
        names_at_once = [
            self._anomalies[first : first + _FILES_A_TASK]
            for first in range(0, len(self._anomalies), _FILES_A_TASK)
        ]
        packet_anomalies = engine.run(
            _anomalies_task, [(job, read.packets_before, names) for names in names_at_once]
        )
        written = [*some.finish(), *(file for files in packet_anomalies for file in files)]
        written += [file for result in results for file in result.listed]
        files = with_small_merged(
            written,
            lambda groups: engine.run(merge_files, [(job.staging, group) for group in groups]),
        )
        states = [result.data for result in results if result.data is not None]
        return Rebuilt(summary, files, states)


class _Result(NamedTuple):
    """The result of a task."""

    reports: list[Any]
    listed: list[Any]
    """The groups of blocks, or the files with rows, that the task wrote."""
    data: FileEntry | None
    """The file with anomalies of packets, or with states; None if there are none."""


# -- tasks ----------------------------------------------------------------------------------------


def _read_task(job: Job, parts: Sequence[tuple[int, Split]]) -> _Result:
    """Read captures; write anomalies to a new file."""
    assert job.block_folder is not None, "the engine has a folder"
    return _kept(read_splits(job, parts), job.block_folder, _ANOMALIES_SCHEMA)


def _rebuild_task(
    rebuild: RebuildBuckets,
    names: Mapping[bytes, str],
    buckets: Sequence[tuple[int, SavedState | None]],
    states_location: str,
) -> _Result:
    """Rebuild buckets; write their states to a new file. Rows are in staged files already."""
    saved = ((bucket, state and state.read()) for bucket, state in buckets)
    return _kept(rebuild(names, saved), states_location, _STATES_SCHEMA)


def _kept(all_told: Iterable[Told], location: str, schema: pa.Schema) -> _Result:
    """Return what is told, but write anomalies and states to a new file."""
    reports: list[Any] = []
    listed: list[Any] = []
    folder, name = SharedFolder(location), f"{uuid.uuid4().hex}.parquet"
    with ExitStack() as stack:
        stream = writer = None
        for told in all_told:
            if told.kind == "report":
                reports.append(load_report(told.data))
            elif told.kind in ("groups", "files"):
                listed.extend(load_report(told.data))
            else:
                if writer is None:
                    stream = stack.enter_context(folder.new_file(name))
                    writer = pq.ParquetWriter(stream, schema, **_BLOBS)
                values = {"bucket": told.number, "part": told.number, **told._asdict()}
                columns = arrays_of(([values[column]] for column in schema.names), schema)
                with folder.errors():
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        if stream is None or writer is None:
            return _Result(reports, listed, None)
        with folder.errors():
            writer.close()
            return _Result(reports, listed, FileEntry(name, int(stream.tell())))


def _anomalies_task(
    job: Job, packets_before: Mapping[tuple[str, int], int], names: Sequence[str]
) -> list[WrittenFile]:
    """Write the anomalies of packets to staged files."""
    assert job.staging is not None, "tasks write rows"
    assert job.block_folder is not None, "the engine has a folder"
    folder = SharedFolder(job.block_folder)
    parts = (anomalies for name in names for anomalies in _packet_anomalies(folder, name))
    with TableFiles(job.staging) as files:
        for rows in anomalies_of_packets(packets_before, job.plan.row_filter, parts):
            files.add("anomalies", RowBlock.of_rows(rows, ANOMALY_COLUMNS))
        return files.finish()


def _packet_anomalies(folder: SharedFolder, name: str) -> Iterator[PacketAnomalies]:
    with folder.open_file(name) as file, folder.errors():
        for batch in pq.ParquetFile(file).iter_batches(1):
            capture, part, data = (column[0].as_py() for column in batch.columns)
            yield capture, part, data
