"""Several processes over the same captures, each with its share of the connections.

In: how one of them reads (a :class:`Task`), and how many there are to be. Out: the steps of all of
them put together, in the same order as those of one. This module must not know rows.

Every worker reads all packets and their headers, which is the smaller part of the work, and then
goes on with the connections of its share alone: no payload passes between processes. What passes
is what was read of exchanges.

Workers are forked: they begin with all that is loaded. Where there is no fork there are none (see
:func:`usable_workers`).
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kanalyze.analysis.quality import CaptureQuality
from kanalyze.capture.merge import MergedCaptures
from kanalyze.capture.places import Places
from kanalyze.errors import KanalyzeError
from kanalyze.net.share import Share
from kanalyze.reading import read_steps
from kanalyze.stages import Step

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from kanalyze.capture.merge import MergeInput
    from kanalyze.capture.stores import Stores
    from kanalyze.stages import Stages

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


_Runs: TypeAlias = "tuple[str, tuple[Any, ...]]"


class _Part(NamedTuple):
    """What a worker tells of a batch."""

    step: Step
    places: list[_Runs]
    """Of the first worker: what places were told."""
    names: list[str]
    """Of the first worker: the captures opened so far, where there are new ones."""
    progress: tuple[int, int | None]


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
        self._names: list[str] = []
        self._places = Places()
        self._is_alone = len(task.inputs) == 1
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

    def place(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet and its number there, as ``MergedCaptures.place``."""
        return self._places.name(number, self._names, is_alone=self._is_alone)

    def steps(self) -> Iterator[Step]:
        """Give what each batch of packets brought to all workers together.

        Raises:
            KanalyzeError: what a worker raised; or one of them came to an end by itself.
            MemoryError: a worker had not enough.
        """
        try:
            while True:
                parts = [self._receive(pipe) for pipe in self._pipes]
                steps = [part.step for part in parts if isinstance(part, _Part)]
                if not steps:
                    break
                self._take_in(parts[0])
                yield _together(steps)
            for part in parts:
                if isinstance(part, CaptureQuality):
                    self.quality.merge(part)
        finally:
            self.close()

    def close(self) -> None:
        """End the workers, wherever they are."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
            process.join()

    def _take_in(self, part: _Part | CaptureQuality) -> None:
        assert isinstance(part, _Part)
        self.progress = part.progress
        self._names += part.names
        for method, arguments in part.places:
            getattr(self._places, method)(*arguments)

    @staticmethod
    def _receive(pipe: Connection) -> _Part | CaptureQuality:
        try:
            found = pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own worker wrote it
        except EOFError as error:
            raise KanalyzeError("a worker came to an end by itself; try --jobs 1") from error
        if isinstance(found, KanalyzeError | OSError | MemoryError):
            raise found
        assert isinstance(found, _Part | CaptureQuality)
        return found


def _enlarge(descriptor: int) -> None:
    """Let a pipe hold more, where the system has that."""
    try:
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        return  # it is slower without, and no different


# -- what a worker does ---------------------------------------------------------------------------


class _ToldPlaces(Places):
    """Keeps what it is told, for the one who puts rows together."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[_Runs] = []

    def add(self, capture: int, within: int, count: int) -> None:
        self.told.append(("add", (capture, within, count)))

    def add_runs(
        self,
        starts: array[int],
        captures: array[int],
        within: array[int],
        count: int,
    ) -> None:
        self.told.append(("add_runs", (starts, captures, within, count)))

    def take(self) -> list[_Runs]:
        told, self.told = self.told, []
        return told


def _work(task: Task, share: Share, pipe: Connection, others: list[Connection]) -> None:
    """Be a worker: read everything, tell of one share."""
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
    places, quality = _ToldPlaces(), CaptureQuality()
    # With the buffer that one process has: the order of some rows depends on where batches end.
    captures = MergedCaptures(task.inputs, stores=task.stores, places=places)
    known = 0
    for step in read_steps(task.stages(share), captures, quality, share):
        # Of no use to others, and not small.
        step.anomalies, step.closed, step.ended = [], [], []
        told, names = (places.take(), captures.names[known:]) if share.is_first else ([], [])
        known = len(captures.names)
        _send(pipe, _Part(step, told, names, captures.progress))
    _send(pipe, quality)


def _send(pipe: Connection, value: object) -> None:
    pipe.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def _together(steps: list[Step]) -> Step:
    """Put together what one batch brought to several workers, in the order of its packets."""
    if len(steps) == 1:
        return steps[0]
    # What ended by one packet is of one connection, and so of one worker.
    latest = [packet for step in steps for packet in step.latest]
    exchanges = [exchange for step in steps for exchange in step.exchanges]
    order = sorted(range(len(latest)), key=latest.__getitem__)
    return Step([exchanges[index] for index in order], [latest[index] for index in order])
