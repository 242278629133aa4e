"""Sums over those rows of a window that are chosen.

In: the rows that :class:`~kanalyze.live.window.windows.Windows` keep. Out: snapshots. Must not
know: who chose. It begins with the rows that are kept when it is made, and follows from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.live.window.windows import Windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kanalyze.live.window.recent_rows import RecentRows
    from kanalyze.live.window.snapshot import Snapshot
    from kanalyze.tables.columns.block import RowBlock

__all__ = ["FilteredWindows"]


class FilteredWindows:
    """Windows over chosen rows."""

    def __init__(self, rows: RecentRows, chosen: Callable[[RowBlock], NDArray[np.bool_]]) -> None:
        """Sum up the ``rows`` for which ``chosen`` is true."""
        self._rows = rows
        self._chosen = chosen
        self._serial = self._begun = self._first_step = 0
        self._begin()

    def follow(self) -> None:
        """Add what came since; call it before the oldest rows are dropped."""
        if self._begun != self._rows.begun:
            self._begin()
        for serial, step, block, _ in self._rows.after(self._serial):
            self._serial = serial
            if step >= self._first_step:
                numbers = np.flatnonzero(self._chosen(block)).tolist()
                self._windows.add(block.take(numbers), step * self._rows.step_ns)

    def snapshot(self, unfiltered: Snapshot) -> Snapshot:
        """Return a snapshot at the time of that of all rows, with its state of the capture."""
        self.follow()
        filtered = self._windows.snapshot(unfiltered.time_ns)
        rows = self._rows
        followed_ns = max(unfiltered.time_ns - self._first_step * rows.step_ns, rows.step_ns)
        return filtered._replace(
            window_ns=min(unfiltered.window_ns, followed_ns),
            packets=unfiltered.packets,
            wire_bytes=unfiltered.wire_bytes,
            dropped_packets=unfiltered.dropped_packets,
            idle_ns=unfiltered.idle_ns,
            capture=unfiltered.capture,
            findings=unfiltered.findings,
            filters=unfiltered.filters,
            unfiltered=unfiltered,
        )

    def _begin(self) -> None:
        self._windows = Windows()
        self._begun, self._serial = self._rows.begun, 0
        # If some rows of a step are gone, the sums of the step would be too low.
        self._first_step = self._rows.first_step
        steps = [each.step for each in self._rows.after(0) if each.step >= self._first_step]
        if steps:
            self._windows.tick(min(steps) * self._rows.step_ns)
