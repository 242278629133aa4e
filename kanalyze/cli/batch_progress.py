"""The progress of ``kanalyze batch`` on standard error.

In: the phases of a run, and how many tasks of a phase are done. Out: as of every command; on a
terminal, each phase is a line of its own besides. This module must not know Spark.
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
    """The phase of a run and its tasks, shown as long as :meth:`shown` is open."""

    def __init__(self, progress: Progress | None = None) -> None:
        """Show the phases with ``progress``; None makes one."""
        self._progress = Progress() if progress is None else progress
        self._phase = ""
        self._tasks_done: TasksDone = lambda: None

    def begin(self, phase: str) -> None:
        """Begin a phase; on a terminal, it is a line of its own."""
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
        """Return the tasks of now: phases begin before Spark can be asked."""
        return self._tasks_done()
