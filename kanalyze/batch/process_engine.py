"""Runs the tasks of a batch on this machine, without Spark: the same tasks, in a few processes.

In: a number of processes. Out: see :mod:`kanalyze.batch.engine`.

What tasks hand on to each other is in files of a temporary folder: blocks of segments, anomalies of
packets, and states of connections.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, connection, get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from kanalyze.batch.archive.blocks import load_report
from kanalyze.batch.archive.planning import TASKS_A_CORE, ReadSummary, RebuildSummary, read_in_tasks
from kanalyze.batch.archive.row_sink import staged, write_anomalies
from kanalyze.batch.archive.table_files import merge_files
from kanalyze.batch.archive.tasks import read_splits, rebuilding, with_keys
from kanalyze.batch.engine import report_on_files
from kanalyze.batch.shared_folder import SharedFolder, location_of
from kanalyze.batch.sums import sums_of
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError, reason_of
from kanalyze.export.arrow import arrays_of
from kanalyze.queries.database import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.process import BaseProcess

    from kanalyze.batch.archive.blocks import BlockGroup, CaptureReport
    from kanalyze.batch.archive.row_sink import StagedFile
    from kanalyze.batch.archive.table_files import WrittenFile
    from kanalyze.batch.archive.tasks import Job, RebuildBuckets
    from kanalyze.batch.commit import Folder
    from kanalyze.batch.engine import Past, ReportOptions, SavedConnections, TableFolders
    from kanalyze.capture.splits import Split
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.tables.quality import CaptureQuality

__all__ = ["ProcessEngine"]

_Result = TypeVar("_Result")
_PRELOADED: Final = [__name__]
_STATES_SCHEMA: Final = pa.schema([("bucket", pa.int32()), ("data", pa.binary())])
_BLOBS: Final[dict[str, Any]] = {
    "use_dictionary": False,
    "write_statistics": False,
    "compression": "none",
}
"""States are compressed, may have hundreds of MB each, and are never compared."""


class _Stored(NamedTuple):
    """Data in a file."""

    path: str
    offset: int
    length: int

    def read(self) -> bytes:
        """Return the data."""
        with Path(self.path).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), self.length, self.offset)


class _State(NamedTuple):
    """The saved state of a bucket."""

    bucket: int
    stored: _Stored


class _Anomalies(NamedTuple):
    """Anomalies of packets of a part of a capture, as an Arrow stream."""

    capture: str
    part: int
    stored: _Stored


class _ReadResult(NamedTuple):
    """The result of a task that reads captures."""

    reports: list[CaptureReport]
    groups: list[BlockGroup]
    anomalies: list[_Anomalies]


class _RebuildResult(NamedTuple):
    """The result of a task that rebuilds buckets."""

    reports: list[Any]
    files: list[WrittenFile]
    states: list[_State]


class ProcessEngine(ClosedAtEnd):
    """An :class:`~kanalyze.batch.engine.Engine` of processes; with one core, of this one.

    They are started for the first tasks, and stay until a report is made or the engine is closed.
    """

    def __init__(self, cores: int) -> None:
        """Use ``cores`` processes at a time, at least one."""
        self.cores = cores
        self._done = self._tasks = 0
        self._pool: ProcessPoolExecutor | None = None
        self._other_children: set[BaseProcess] = set()
        """The child processes of this one that are not of the pool."""

    def close(self) -> None:
        """End the processes; the next tasks start others."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def tasks_done(self) -> tuple[int, int] | None:
        """Return how many tasks of the present phase are done, and how many there are in all.

        None if no phase has begun.
        """
        return (self._done, self._tasks) if self._tasks else None

    def advice(self, total_bytes: int) -> None:
        """Return None: no other engine takes less time on one machine."""

    def folder(self, location: str) -> SharedFolder:
        """Open a folder with pyarrow; raises UsageError."""
        return SharedFolder(location)

    def task_location(self, out: Folder, name: str) -> str:
        """Return where tasks write files for a folder."""
        return f"{location_of(out.url)}/{name}".rstrip("/")

    @contextmanager
    def read(self, job: Job, tasks: Sequence[Sequence[Split]]) -> Iterator[_ScratchCaptures]:
        """Read captures; their segments are in temporary files while the block runs."""
        scratch = ScratchFolder()
        try:
            yield _ScratchCaptures(self, scratch.path, job, tasks)
        finally:
            scratch.close()

    def report(
        self,
        tables: TableFolders,
        quality: CaptureQuality,
        conditions: Mapping[str, Any],
        options: ReportOptions,
        past: Past | None,
    ) -> dict[str, Any]:
        """Return the report on tables, by DuckDB; the processes end, whose memory it can use."""
        self.close()
        folder = SharedFolder(self.task_location(tables.out, ""))
        return report_on_files(
            folder, tables.files, quality, conditions, options, past, threads=self.cores
        )

    def sum_up(self, location: str, groups: Sequence[Mapping[str, Sequence[str]]]) -> list[bytes]:
        """Sum up the rows of each group of files."""
        return self.run(sums_of, [(location, group) for group in groups])

    def run(
        self, task: Callable[..., _Result], arguments: Sequence[tuple[Any, ...]]
    ) -> list[_Result]:
        """Run a task for each of the arguments, and return the results in their order.

        Raises:
            KanalyzeError: an error of a task; or the process of one died.
        """
        self._done, self._tasks = 0, len(arguments)
        if min(self.cores, len(arguments)) <= 1:
            return list(map(self._count_done, itertools.starmap(task, arguments)))
        if self._pool is None:
            context = get_context("forkserver")
            context.set_forkserver_preload(_PRELOADED)
            self._other_children = set(active_children())
            self._pool = ProcessPoolExecutor(self.cores, context, _end_with_parent)
        try:
            futures = [self._pool.submit(task, *task_arguments) for task_arguments in arguments]
            for future in as_completed(futures):
                self._count_done(future.result())
        except BrokenProcessPool:
            # A process that was started while the pool broke is not ended by the pool.
            self._terminate()
            raise KanalyzeError("a process of the batch died") from None
        except BaseException:
            self._terminate()
            raise
        return [future.result() for future in futures]

    def _terminate(self) -> None:
        """End the processes at once: results of running tasks are not needed, and take minutes."""
        for process in set(active_children()) - self._other_children:
            process.terminate()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _count_done(self, result: _Result) -> _Result:
        self._done += 1
        return result


class _ScratchCaptures:
    """Captures that were read, in temporary files."""

    def __init__(
        self, engine: ProcessEngine, folder: Path, job: Job, tasks: Sequence[Sequence[Split]]
    ) -> None:
        """Read them; raises CaptureError as :func:`.archive.read_captures`."""
        self._engine = engine
        self._folder = folder
        self._job = job._replace(block_folder=str(folder))
        self._groups: list[BlockGroup] = []
        self._anomalies: list[_Anomalies] = []
        leaves_out = job.plan.leave_out_unreadable
        reports = read_in_tasks(tasks, self._read, leaves_out_unreadable=leaves_out)
        self.read_summary = ReadSummary(reports, job.buckets, job.taken_before)

    def _read(self, groups: Sequence[Sequence[tuple[int, Split]]]) -> list[CaptureReport]:
        paths = [str(self._folder / f"anomalies-{parts[0][0]}") for parts in groups]
        arguments = [(self._job, *task) for task in zip(groups, paths, strict=True)]
        results = self._engine.run(_read_task, arguments)
        self._groups += [group for result in results for group in result.groups]
        self._anomalies += [one for result in results for one in result.anomalies]
        return [report for result in results for report in result.reports]

    @contextmanager
    def rebuilt(self, job: Job, saved: SavedConnections | None) -> Iterator[_ScratchRows]:
        """Rebuild all connections; their rows are in staged files."""
        names = {**self.read_summary.topic_names, **(saved.names if saved else {})}
        states = [] if saved is None else self._states(saved.states_url)
        job = with_keys(job, self.read_summary.keyed)
        state_of = {state.bucket: state for state in states}
        rebuild = rebuilding(job, self.read_summary, str(self._folder), self._groups)
        tasks = [
            [(bucket, state_of.get(bucket)) for bucket in buckets]
            for buckets in self._buckets(job)
            if buckets
        ]
        folder = str(self._folder)
        while True:
            arguments = [(rebuild, names, folder, buckets) for buckets in tasks]
            rebuilt = self._engine.run(_rebuild_task, arguments)
            summary = RebuildSummary([report for result in rebuilt for report in result.reports])
            missing = summary.missing_names(names)
            if not missing:
                break
            names.update(missing)
        yield _ScratchRows(self._engine, job, self.read_summary, summary, rebuilt, self._anomalies)

    def _buckets(self, job: Job) -> list[range]:
        """Return the buckets of each task that rebuilds some."""
        # Few tasks make few files. There are more tasks than cores, as buckets differ in size.
        count = TASKS_A_CORE * self._engine.cores if job.sends else job.buckets
        return [range(first, job.buckets, count) for first in range(count)]

    def _states(self, url: str) -> list[_State]:
        """Copy saved states to a temporary file."""
        folder = SharedFolder(location_of(url))
        path = self._folder / "states"
        states = []
        with path.open("ab") as target:
            for name in folder.names(""):
                if not name.endswith(".parquet"):
                    continue
                with folder.open_file(name) as file:
                    for batch in pq.ParquetFile(file).iter_batches(batch_size=1):
                        for bucket, data in zip(*batch.columns, strict=True):
                            state = data.as_buffer()
                            stored = _Stored(str(path), target.tell(), state.size)
                            states.append(_State(bucket.as_py(), stored))
                            target.write(state)
        return states


class _ScratchRows:
    """The rows of an archive, in staged files."""

    def __init__(
        self,
        engine: ProcessEngine,
        job: Job,
        read_summary: ReadSummary,
        summary: RebuildSummary,
        rebuilt: Sequence[_RebuildResult],
        anomalies: Sequence[_Anomalies],
    ) -> None:
        self.summary = summary
        self._engine = engine
        self._job = job
        self._read = read_summary
        self._rebuilt = rebuilt
        self._anomalies = anomalies

    def stage(self, out: Folder, more_anomalies: Sequence[AnomalyRow]) -> list[StagedFile]:  # noqa: ARG002 - as in Engine
        assert self._job.staging is not None, "tasks write rows"
        streams = ((capture, part, stored.read()) for capture, part, stored in self._anomalies)
        row_filter, packets_before = self._job.plan.row_filter, self._read.packets_before
        written = [
            *write_anomalies(packets_before, row_filter, self._job.staging, streams),
            *(file for result in self._rebuilt for file in result.files),
        ]
        return staged(self._job, self._read, more_anomalies, written, self._merged)

    def _merged(self, groups: Sequence[Sequence[WrittenFile]]) -> list[WrittenFile]:
        return self._engine.run(merge_files, [(self._job.staging, group) for group in groups])

    def write_states(self, url: str) -> None:
        folder = SharedFolder(location_of(url))
        with (
            folder.new_file("part-00000.parquet") as file,
            pq.ParquetWriter(file, _STATES_SCHEMA, **_BLOBS) as writer,
        ):
            for result in self._rebuilt:
                for state in result.states:
                    values = (state.bucket, state.stored.read())
                    columns = arrays_of(([value] for value in values), _STATES_SCHEMA)
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_STATES_SCHEMA))


def _end_with_parent() -> None:
    """End this process when the one that runs the batch has ended, even if that was killed."""
    parent = parent_process()
    assert parent is not None, "it was started by the engine"

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _scratch_errors() -> Iterator[None]:
    """Raise KanalyzeError for an OSError of temporary files."""
    try:
        yield
    except OSError as error:
        raise KanalyzeError(
            f"temporary files in {tempfile.gettempdir()}: {reason_of(error)}"
        ) from None


# -- tasks, each in a process ---------------------------------------------------------------------


def _read_task(job: Job, parts: Sequence[tuple[int, Split]], path: str) -> _ReadResult:
    """Read captures; write anomalies to a new file."""
    result = _ReadResult([], [], [])
    with _scratch_errors(), Path(path).open("xb") as file:
        for row in read_splits(job, parts):
            if row.kind == "report":
                result.reports.append(load_report(row.data))
            elif row.kind == "groups":
                result.groups.extend(load_report(row.data))
            else:
                stored = _Stored(path, file.tell(), len(row.data))
                result.anomalies.append(_Anomalies(row.capture, row.part, stored))
                file.write(row.data)
    return result


def _rebuild_task(
    rebuild: RebuildBuckets,
    names: Mapping[bytes, str],
    folder: str,
    buckets: Sequence[tuple[int, _State | None]],
) -> _RebuildResult:
    """Rebuild buckets; write their states to a new file. Rows are in staged files already."""
    rebuilt = _RebuildResult([], [], [])
    path = Path(folder) / f"states-{buckets[0][0]}-{os.getpid()}"
    saved = ((bucket, state and state.stored.read()) for bucket, state in buckets)
    with _scratch_errors(), path.open("wb") as states:
        for batch in rebuild(names, saved):
            kind, bucket, data = (batch.column(name)[0].as_py() for name in batch.schema.names)
            if kind == "report":
                rebuilt.reports.append(load_report(data))
            elif kind == "files":
                rebuilt.files.extend(load_report(data))
            else:
                stored = _Stored(str(path), states.tell(), len(data))
                rebuilt.states.append(_State(bucket, stored))
                states.write(data)
    return rebuilt
