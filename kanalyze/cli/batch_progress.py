"""The progress of ``kanalyze batch`` on standard error.

In: the phases of a run, and how many tasks of a phase are done. Out: the same progress as of every
command; on a terminal, also a line for each phase. This module must not know Spark.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.cli.console import print_message
from kanalyze.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BatchProgress"]

TasksDone: TypeAlias = "Callable[[], tuple[int, int] | None]"
"""Returns how many tasks are done, and how many there are; None if nothing runs."""

_TASKS = "tasks"


class BatchProgress:
    """The phase of a run and its tasks, shown inside the ``with`` block of :meth:`shown`."""

    def __init__(self, progress: Progress | None = None) -> None:
        """Show the phases with ``progress``; None makes one."""
        self._progress = Progress() if progress is None else progress
        self._phase = ""
        self._tasks_done: TasksDone = lambda: None

    def begin(self, phase: str) -> None:
        """Begin a phase; on a terminal, print its name in a line of its own."""
        self._phase = phase
        self._progress.count(phase, self._tasks, _TASKS)
        if self._progress.is_wanted and sys.stderr.isatty():
            print_message(phase)

    @contextmanager
    def shown(self, tasks_done: TasksDone) -> Iterator[None]:
        """Show the progress, in a thread of its own, while the block runs."""
        self._tasks_done = tasks_done
        with self._progress.shown():
            yield

    def _tasks(self) -> tuple[int, int] | None:
        """Return the current counts of tasks.

        ``_tasks_done`` is read at each call, because the first phase begins before Spark runs.
        """
        return self._tasks_done()
