"""The progress of ``kanalyze batch`` on standard error.

In: the phases of a run, and how many tasks of a phase are done. Out: on a terminal a bar below the
phases; otherwise a line every ten seconds. This module must not know Spark.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.cli.console import print_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BatchProgress"]

TasksDone: TypeAlias = "Callable[[], tuple[int, int] | None]"
"""Returns how many tasks are done, and how many there are; None if nothing runs."""

_REFRESH_S = 0.5
_LINE_S = 10.0


class TaskRate:
    """How many tasks of the present stage were done in a second, as far as that was watched."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first_s = 0.0
        self._first = self._last = self._total = -1

    def of(self, done: int, total: int) -> str:
        """Return the rate as text, from the numbers of now; empty if it is not known yet."""
        now_s = self._clock()
        if total != self._total or done < self._last:  # another stage
            self._first_s, self._first, self._total = now_s, done, total
        self._last = done
        if done == self._first or now_s <= self._first_s:
            return ""
        return f"{(done - self._first) / (now_s - self._first_s):.3g} tasks/s"


class BatchProgress:
    """The phase of a run and its tasks, shown as long as :meth:`shown` is open."""

    def __init__(
        self,
        *,
        line_s: float = _LINE_S,
        refresh_s: float = _REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write lines every ``line_s`` seconds, and redraw a bar every ``refresh_s``."""
        self._line_s = line_s
        self._refresh_s = refresh_s
        self._phase = ""
        self._rate = TaskRate(clock)

    def begin(self, phase: str) -> None:
        """Begin a phase; on a terminal, it is a line of its own."""
        self._phase = phase
        if sys.stderr.isatty():
            print_message(phase)

    @contextmanager
    def shown(self, tasks_done: TasksDone) -> Iterator[None]:
        """Show the progress, in a thread of its own, while the block runs."""
        ended = threading.Event()
        show = self._show_bar if sys.stderr.isatty() else self._write_lines
        thread = threading.Thread(target=show, args=(tasks_done, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _write_lines(self, tasks_done: TasksDone, ended: threading.Event) -> None:
        while not ended.wait(self._line_s):
            found = tasks_done()
            if found is None:
                print_message(self._phase)
                continue
            rate = self._rate.of(*found)
            done, total = found
            print_message(f"{self._phase}: {done:,} of {total:,} tasks{rate and f', {rate}'}")

    def _show_bar(self, tasks_done: TasksDone, ended: threading.Event) -> None:
        from rich.console import Console  # imported late: slow, and only needed on a terminal
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        with Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks  {task.description}"),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
        ) as progress:
            task = progress.add_task("", total=None)
            while not ended.wait(self._refresh_s):
                found = tasks_done()
                if found is not None:
                    done, total = found
                    rate = self._rate.of(done, total)
                    progress.update(task, completed=done, total=total, description=rate)
