"""Several processes over the same captures, each with its share of the connections.

In: how one of them reads (a :class:`Task`), and how many there are to be. Out: the rows of all of
them put together, in the same order as those of one. This module must not know what is in a row,
but for the names of topics.

Every worker reads all packets and their headers, which is the smaller part of the work, and then
goes on with the connections of its share alone, up to their rows: what passes between processes are
columns. A topic's name may be told on a connection of another share: who puts rows together names
what no worker could.

Workers are forked: they begin with all that is loaded. Where there is no fork there are none (see
:func:`usable_workers`).
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
from kanalyze.net.shard import Share
from kanalyze.runtime.one_pass import read_steps
from kanalyze.tables.columns.block import RowBlock
from kanalyze.tables.quality import CaptureQuality
from kanalyze.tables.requests.row_assembler import with_names
from kanalyze.tables.requests.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.merge import MergeInput
    from kanalyze.runtime.stages import Stages
    from kanalyze.tables.requests.row_assembler import RowBuilder

__all__ = ["Task", "Workers", "usable_workers"]

_PIPE_BYTES = 1 << 20
"""What may lie in a pipe: a worker goes on while the others are waited for."""
_LEAST_BYTES = 64 << 20
"""Smaller captures gain nothing: a worker reads all packets, and starting it takes time."""


def usable_workers(wanted: int, total_bytes: int | None) -> int:
    """Return how many workers are of use for captures of so many bytes.

    None for captures that can be read but once: one worker reads those. One is what reads in this
    process.
    """
    if total_bytes is None or total_bytes < _LEAST_BYTES or not hasattr(os, "fork"):
        return 1
    return max(1, wanted)


class Task(NamedTuple):
    """What a worker does."""

    inputs: Sequence[MergeInput]
    """Captures, all of which can be read more than once."""
    stores: Stores
    stages: Callable[[Share], Stages]
    """Makes the stages of a share."""
    builder: Callable[[Callable[[int], tuple[str, int | None]], TopicNames], RowBuilder]
    """Makes what writes rows: with places of packets, and names of topics that it learns."""
    names: Mapping[bytes, str]
    """Of topics, that are known before."""


class _Rows(NamedTuple):
    """Some of the rows of a batch of packets."""

    block: RowBlock
    latest: array[int]
    """Of each row the packet by which its exchange counts as ended. Rises."""
    names: list[tuple[bytes, str]]
    """Of topics, that were learned with them."""


class _BatchEnd(NamedTuple):
    """Says that all rows of a batch of packets were sent."""

    progress: tuple[int, int | None]


_Sent: TypeAlias = "_Rows | _BatchEnd | CaptureQuality"


class Workers:
    """The workers of one pass; whoever made them closes them, or reads to the end."""

    def __init__(self, task: Task, count: int) -> None:
        """Start them.

        Raises:
            OSError: the system does not give as many processes.
        """
        self.quality = CaptureQuality()
        """Complete once all steps were given."""
        self.progress: tuple[int, int | None] = (0, None)
        """Bytes read so far, and bytes in all."""
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        # What was loaded stays: a worker that looked through it for garbage would copy all of it.
        is_frozen = gc.get_freeze_count() > 0
        gc.freeze()
        try:
            for index in range(count):
                self._start(task, Share(index, count))
        except OSError:
            self.close()
            raise
        finally:
            if not is_frozen:
                gc.unfreeze()

    def _start(self, task: Task, share: Share) -> None:
        from multiprocessing import get_context

        context = get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        _enlarge(theirs.fileno())
        process = context.Process(
            target=_work, args=(task, share, theirs, [*self._pipes, ours]), daemon=True
        )
        with warnings.catch_warnings():
            # NumPy's threads are idle while it is loaded and unused, which is when we fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        self._pipes.append(ours)
        self._processes.append(process)

    def blocks(self, names: TopicNames) -> Iterator[RowBlock]:
        """Give the rows of all workers together; no block is empty.

        Args:
            names: learns all that workers learned of topics, and names what they could not.

        Raises:
            KanalyzeError: what a worker raised; or one of them came to an end by itself.
            MemoryError: a worker had not enough.
        """
        try:
            while True:
                batch = _Batch(len(self._pipes), self._next)
                yield from batch.blocks(names)
                if batch.qualities:
                    break
                self.progress = batch.progress
            for quality in batch.qualities:
                self.quality.merge(quality)
        finally:
            self.close()

    def _next(self, index: int) -> _Sent:
        return self._receive(self._pipes[index])

    def close(self) -> None:
        """End the workers, wherever they are."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
            process.join()

    @staticmethod
    def _receive(pipe: Connection) -> _Sent:
        try:
            import pickle  # not for one process

            found = pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own worker wrote it
        except EOFError as error:
            raise KanalyzeError("a worker came to an end by itself; try --jobs 1") from error
        if isinstance(found, KanalyzeError | OSError | MemoryError):
            raise found
        assert isinstance(found, _Rows | _BatchEnd | CaptureQuality)
        return found


class _Batch:
    """What one batch of packets brought to all workers, as it comes in."""

    def __init__(self, count: int, receive: Callable[[int], _Sent]) -> None:
        """Begin; ``receive`` waits for what one of the workers sends next."""
        self._receive = receive
        self._count = count
        self._rows: dict[int, _Rows] = {}
        """Rows that came and are not put together yet, by the number of the worker."""
        self.progress: tuple[int, int | None] = (0, None)
        self.qualities: list[CaptureQuality] = []
        """Those that came instead of a batch: there are no more."""

    def blocks(self, names: TopicNames) -> Iterator[RowBlock]:
        """Give its rows in the order of the packets that they ended with, with topics named."""
        for index in range(self._count):
            self._take_in(index, names)
        while self._rows:
            # Nothing that is still to come ended before what a worker sent last.
            until = min(rows.latest[-1] for rows in self._rows.values())
            parts = []
            for index, rows in list(self._rows.items()):
                count = bisect_right(rows.latest, until)
                if count:
                    parts.append(_part(rows, 0, count))
                if count < len(rows.latest):
                    self._rows[index] = _part(rows, count, len(rows.latest))
                else:
                    del self._rows[index]
                    self._take_in(index, names)
            yield with_names(_in_order(parts), names)

    def _take_in(self, index: int, names: TopicNames) -> None:
        sent = self._receive(index)
        if isinstance(sent, _Rows):
            self._rows[index] = sent
            for topic_id, name in sent.names:
                names.learn(topic_id, name)
        elif isinstance(sent, _BatchEnd):
            if index == 0:
                self.progress = sent.progress
        else:
            self.qualities.append(sent)


def _part(rows: _Rows, first: int, end: int) -> _Rows:
    if (first, end) == (0, len(rows.latest)):
        return rows
    return _Rows(rows.block.part(first, end), rows.latest[first:end], [])


def _in_order(parts: list[_Rows]) -> RowBlock:
    """Put rows of several workers together, in the order of the packets that they ended with."""
    block = RowBlock.joined([part.block for part in parts])
    if len(parts) == 1:
        return block
    latest = [packet for part in parts for packet in part.latest]
    # What ended by one packet is of one connection, and so of one worker.
    return block.take(sorted(range(len(latest)), key=latest.__getitem__))


def _enlarge(descriptor: int) -> None:
    """Let a pipe hold more, where the system has that."""
    try:
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        return  # it is slower without, and no different


# -- what a worker does ---------------------------------------------------------------------------


class _ToldNames(TopicNames):
    """Keeps what it learns, for the one who puts rows together; searches for nothing."""

    def __init__(self, known: Mapping[bytes, str]) -> None:
        super().__init__()
        for topic_id, name in known.items():
            self.learn(topic_id, name)
        self.learned: list[tuple[bytes, str]] = []

    def learn(self, topic_id: bytes, name: str) -> None:
        before = self.changes
        super().learn(topic_id, name)
        if self.changes != before:
            self.learned.append((topic_id, name))

    def take(self) -> list[tuple[bytes, str]]:
        learned, self.learned = self.learned, []
        return learned


def _work(task: Task, share: Share, pipe: Connection, others: list[Connection]) -> None:
    """Be a worker: read everything, tell of one share."""
    import signal  # not for one process

    # An interrupt is for the one who started us: it ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in others:
        other.close()
    try:
        _tell_all(task, share, pipe)
    except BrokenPipeError:
        return  # nobody listens any more
    except (KanalyzeError, OSError, MemoryError) as error:
        _send(pipe, error)


def _tell_all(task: Task, share: Share, pipe: Connection) -> None:
    names, quality = _ToldNames(task.names), CaptureQuality()
    # With the buffer that one process has: the order of some rows depends on where batches end.
    captures = MergedCaptures(task.inputs, stores=task.stores)
    builder = task.builder(captures.place, names)
    for step in read_steps(task.stages(share), captures, quality, share):
        first = 0
        while first < len(step.exchanges):
            last = builder.add_until_full(step.exchanges, first)
            latest = array("q", step.completion_packets[first:last])
            _send(pipe, _Rows(builder.take(with_ids=True), latest, names.take()))
            first = last
        _send(pipe, _BatchEnd(captures.progress))
    _send(pipe, quality)


def _send(pipe: Connection, value: object) -> None:
    import pickle  # not for one process

    pipe.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
