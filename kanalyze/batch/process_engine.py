"""Runs the tasks of a batch on this machine, without Spark: the same tasks, in a few processes.

In: a number of processes. Out: see :class:`kanalyze.batch.engine.Engine`.
"""

from __future__ import annotations

import itertools
import os
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, connection, get_context, parent_process
from typing import TYPE_CHECKING, Any, Final

from kanalyze.batch.archive.planning import TASKS_A_CORE
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.errors import KanalyzeError
from kanalyze.queries.database import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.process import BaseProcess

    from kanalyze.batch.engine import Result

# What tasks import: it is there when a process starts.
_PRELOADED: Final = ["kanalyze.batch.run"]


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

    @property
    def most_tasks(self) -> int:
        """More than cores, as buckets differ in size."""
        return TASKS_A_CORE * self.cores

    @contextmanager
    def scratch(self, staging: str) -> Iterator[str]:  # noqa: ARG002 - as in Engine
        """Provide a folder for temporary files while the block runs."""
        folder = ScratchFolder()
        try:
            yield str(folder.path)
        finally:
            folder.close()

    def release(self) -> int:
        """End the processes, whose memory this one can use then; return their number."""
        self.close()
        return self.cores

    def run(
        self, task: Callable[..., Result], arguments: Sequence[tuple[Any, ...]]
    ) -> list[Result]:
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

    def _count_done(self, result: Result) -> Result:
        self._done += 1
        return result


def _end_with_parent() -> None:
    """End this process when the one that runs the batch has ended, even if that was killed."""
    parent = parent_process()
    assert parent is not None, "it was started by the engine"

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
