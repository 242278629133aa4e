"""Several processes that read the same captures, each for its shard of the connections.

In: the task of a worker (:class:`WorkerTask`), and the number of workers. Out: the rows of all
workers, merged into the order in which one process would yield them.

Every worker reads all packets and their headers, which is the smaller part of the work. It follows
only the connections of its shard, and sends their rows as columns. The name of a topic may be on a
connection of another shard; the process that merges the rows fills in such names.

Workers are forked, so they begin with all modules loaded. If the system has no fork there are no
workers (see :func:`usable_workers`).
"""

from __future__ import annotations

import gc
import os
import warnings
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.capture.merge import MergedCaptures
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.net.segment_columns import Shard
from kanalyze.runtime.one_pass import OnePass
from kanalyze.runtime.table_rows import TableRows
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.requests.row_assembler import with_names
from kanalyze.tables.requests.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.merge import MergeInput
    from kanalyze.runtime.settings import AnalysisSettings
    from kanalyze.runtime.table_rows import Tables
    from kanalyze.spec.rows.anomalies import AnomalyRow
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.cluster.reader import ClusterFacts

__all__ = ["WorkerTask", "Workers", "usable_workers"]

_PIPE_BYTES = 1 << 20
"""Size of a pipe's buffer in bytes: a worker continues while the others are read."""
_MIN_BYTES = 64 << 20
"""Workers do not pay off for smaller captures: each takes time to start, and reads all packets."""


def usable_workers(requested: int, total_bytes: int | None) -> int:
    """Return the number of workers that is fastest for captures of a size; 1 means no workers.

    ``total_bytes`` is None for captures that can be read only once.
    """
    if total_bytes is None or total_bytes < _MIN_BYTES or not hasattr(os, "fork"):
        return 1
    return max(1, requested)


class WorkerTask(NamedTuple):
    """The task of a worker."""

    inputs: Sequence[MergeInput]
    """The captures, all of which can be read more than once."""
    stores: Stores
    settings: AnalysisSettings
    tables: Tables


class _RowsSent(NamedTuple):
    """Some of the rows of a batch of packets."""

    block: RowBlock
    latest: array[int]
    """For each row, the packet that completed its exchange; ascending."""
    names: list[tuple[bytes, str]]
    """Ids and names of topics that were learned together with the rows."""
    facts: Sequence[ClusterFacts]
    """The facts in the messages of the requests, by row."""


class _BatchEnd(NamedTuple):
    """Marks that all rows of a batch of packets were sent."""

    progress: tuple[int, int | None]
    connections: list[ConnectionRow]
    anomalies: list[AnomalyRow]


_Sent: TypeAlias = "_RowsSent | _BatchEnd | CaptureQuality"


class Workers:
    """The workers of one pass. Their creator must close them, or read to the end."""

    def __init__(
        self, task: WorkerTask, count: int, names: TopicNames, quality: CaptureQuality
    ) -> None:
        """Start the workers.

        Args:
            task: the task of each worker, to be done for its shard.
            count: number of workers.
            names: topic names. Names that workers learn are added, and complete rows without name.
            quality: the counts of the workers are added here when all rows were yielded.

        Raises:
            OSError: the system cannot start the processes.
        """
        self.progress: tuple[int, int | None] = (0, None)
        """Bytes read so far, and bytes in all."""
        self._names = names
        self._quality = quality
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        # Garbage collection in a worker would copy every page of loaded objects that it visits.
        was_frozen = gc.get_freeze_count() > 0
        gc.freeze()
        try:
            for index in range(count):
                self._start(task, Shard(index, count))
        except OSError:
            self.close()
            raise
        finally:
            if not was_frozen:
                gc.unfreeze()

    def _start(self, task: WorkerTask, shard: Shard) -> None:
        from multiprocessing import get_context

        context = get_context("fork")
        read_end, write_end = context.Pipe(duplex=False)
        _enlarge(write_end.fileno())
        process = context.Process(
            target=_work, args=(task, shard, write_end, [*self._pipes, read_end]), daemon=True
        )
        with warnings.catch_warnings():
            # The fork is safe: NumPy's threads are idle, because nothing uses NumPy before it.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        write_end.close()
        self._pipes.append(read_end)
        self._processes.append(process)

    def rows(self) -> Iterator[TableRows]:
        """Yield the rows of all tables and workers, merged, once.

        Raises:
            KanalyzeError: an error of a worker; or a worker process died.
            MemoryError: a worker ran out of memory.
        """
        for batch in self._batches():
            for rows in batch.merged():
                yield TableRows((rows.block,), facts=rows.facts)
            if batch.connections or batch.anomalies:
                yield TableRows((), batch.connections, batch.anomalies)

    def _batches(self) -> Iterator[_BatchMerge]:
        """Yield the merge of each batch, which must be read before the next; then close."""
        try:
            while True:
                batch = _BatchMerge(self._pipes, self._names)
                yield batch
                if batch.qualities:
                    break
                self.progress = batch.progress
            for quality in batch.qualities:
                self._quality.merge(quality)
        finally:
            self.close()

    def close(self) -> None:
        """End the workers, even if they are not finished."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
            process.join()


class _BatchMerge:
    """Merges the rows of all workers for one batch of packets."""

    def __init__(self, pipes: Sequence[Connection], names: TopicNames) -> None:
        self._pipes = pipes
        self._names = names
        self._unmerged: dict[int, _RowsSent] = {}
        """Rows that were received but not merged yet, by number of the worker."""
        self.progress: tuple[int, int | None] = (0, None)
        self.connections: list[ConnectionRow] = []
        self.anomalies: list[AnomalyRow] = []
        self.qualities: list[CaptureQuality] = []
        """The qualities that workers sent instead of a batch: there are no more batches."""

    def merged(self) -> Iterator[_RowsSent]:
        """Yield the rows in the order of the packets that completed them, with topics named."""
        for index in range(len(self._pipes)):
            self._receive(index)
        while self._unmerged:
            # The packets of a worker ascend, so nothing before this row will be received.
            until = min(rows.latest[-1] for rows in self._unmerged.values())
            complete = []
            for index, rows in list(self._unmerged.items()):
                count = bisect_right(rows.latest, until)
                if count:
                    complete.append(_slice(rows, 0, count))
                if count < len(rows.latest):
                    self._unmerged[index] = _slice(rows, count, len(rows.latest))
                else:
                    del self._unmerged[index]
                    self._receive(index)
            rows = _merged(complete)
            with_names(rows.block, self._names)
            yield rows

    def _receive(self, index: int) -> None:
        message = _received(self._pipes[index])
        if isinstance(message, _RowsSent):
            self._unmerged[index] = message
            for topic_id, name in message.names:
                self._names.learn(topic_id, name)
        elif isinstance(message, _BatchEnd):
            self.connections += message.connections
            self.anomalies += message.anomalies
            if index == 0:
                self.progress = message.progress
        else:
            self.qualities.append(message)


def _received(pipe: Connection) -> _Sent:
    """Wait for the next message of a worker; raises an error that it sent."""
    import pickle  # imported late: only needed for workers

    try:
        message = pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own worker wrote it
    except EOFError as error:
        raise KanalyzeError("a worker process died; try --jobs 1") from error
    if isinstance(message, KanalyzeError | OSError | MemoryError | ModuleNotFoundError):
        raise message
    assert isinstance(message, _RowsSent | _BatchEnd | CaptureQuality)
    return message


def _slice(rows: _RowsSent, first: int, end: int) -> _RowsSent:
    if (first, end) == (0, len(rows.latest)):
        return rows
    facts = [fact._replace(row=fact.row - first) for fact in rows.facts if first <= fact.row < end]
    return _RowsSent(rows.block.part(first, end), rows.latest[first:end], [], facts)


def _merged(rows: list[_RowsSent]) -> _RowsSent:
    """Return the rows of several workers, in the order of the packets that completed them."""
    if len(rows) == 1:
        return rows[0]
    block = RowBlock.joined([part.block for part in rows])
    latest = [packet for part in rows for packet in part.latest]
    # All exchanges that one packet completed belong to one connection, and so to one worker.
    order = sorted(range(len(latest)), key=latest.__getitem__)
    facts, first = [], 0
    for part in rows:
        facts += [fact._replace(row=first + fact.row) for fact in part.facts]
        first += len(part.latest)
    if facts:
        new_rows = {old_row: new_row for new_row, old_row in enumerate(order)}
        facts = sorted([fact._replace(row=new_rows[fact.row]) for fact in facts], key=_row_of)
    return _RowsSent(block.take(order), array("q", sorted(latest)), [], facts)


def _row_of(facts: ClusterFacts) -> int:
    return facts.row


def _enlarge(descriptor: int) -> None:
    """Enlarge the buffer of a pipe, if the system can."""
    try:
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        return  # the small buffer works too, but more slowly


# -- inside a worker ------------------------------------------------------------------------------


class _LearnedNames(TopicNames):
    """Names of topics, with a list of new ones for the merging process; it never searches."""

    def __init__(self, names_before: Mapping[bytes, str]) -> None:
        super().__init__()
        for topic_id, name in names_before.items():
            self.learn(topic_id, name)
        self._learned: list[tuple[bytes, str]] = []

    def learn(self, topic_id: bytes, name: str) -> None:
        changes_before = self.changes
        super().learn(topic_id, name)
        if self.changes != changes_before:
            self._learned.append((topic_id, name))

    def drain(self) -> list[tuple[bytes, str]]:
        learned, self._learned = self._learned, []
        return learned


def _work(task: WorkerTask, shard: Shard, pipe: Connection, other_pipes: list[Connection]) -> None:
    """Run a worker: read all packets, send the rows of one shard."""
    import signal  # imported late: only needed for workers

    # The parent process handles an interrupt, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other_pipe in other_pipes:
        other_pipe.close()
    try:
        _send_rows(task, shard, pipe)
    except BrokenPipeError:
        return  # the parent process has ended
    except (KanalyzeError, OSError, MemoryError, ModuleNotFoundError) as error:
        _send(pipe, error)


def _send_rows(task: WorkerTask, shard: Shard, pipe: Connection) -> None:
    names, quality = _LearnedNames(task.settings.topic_ids), CaptureQuality()
    # Batches must end where they end in one process: the order of some rows depends on it.
    captures = MergedCaptures(task.inputs, stores=task.stores)
    settings = task.settings._replace(shard=shard)
    run = OnePass(captures, settings, task.tables, names, quality, with_ids=True)
    for step, step_rows in run.steps():
        first = 0
        connections: list[ConnectionRow] = []
        anomalies: list[AnomalyRow] = []
        for rows in step_rows:
            for block in rows.requests:
                latest = array("q", step.completion_packets[first : first + len(block)])
                first += len(block)
                _send(pipe, _RowsSent(block, latest, names.drain(), rows.facts))
            connections += rows.connections
            anomalies += rows.anomalies
        _send(pipe, _BatchEnd(captures.progress, connections, anomalies))
    _send(pipe, quality)


def _send(pipe: Connection, value: object) -> None:
    import pickle  # imported late: only needed for workers

    pipe.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
