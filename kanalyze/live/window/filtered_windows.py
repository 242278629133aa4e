"""Sums over the rows of a window that a condition selects.

In: the rows that :class:`~kanalyze.live.window.windows.Windows` keep; a condition. Out: snapshots.
The sums begin with the rows that are already kept, and new rows are added as they come.
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
    """Windows over selected rows."""

    def __init__(self, rows: RecentRows, chosen: Callable[[RowBlock], NDArray[np.bool_]]) -> None:
        """Sum up ``rows``; ``chosen`` returns for each row of a block whether it is selected."""
        self._rows = rows
        self._chosen = chosen
        self._serial = self._begun = self._first_step = 0
        self._begin()

    def follow(self) -> None:
        """Add the rows since the last call; call this before the oldest rows are dropped."""
        if self._begun != self._rows.begun:
            self._begin()
        for serial, step, block, _ in self._rows.after(self._serial):
            self._serial = serial
            if step >= self._first_step:
                numbers = np.flatnonzero(self._chosen(block)).tolist()
                self._windows.add(block.take(numbers), step * self._rows.step_ns)

    def snapshot(self, unfiltered: Snapshot) -> Snapshot:
        """Return a snapshot of the selected rows.

        Its time and the state of the capture are those of ``unfiltered``, that of all rows.
        """
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
        # If some rows of a step were dropped, its sums would be too low, so it is left out.
        self._first_step = self._rows.first_step
        steps = [block.step for block in self._rows.after(0) if block.step >= self._first_step]
        if steps:
            self._windows.tick(min(steps) * self._rows.step_ns)
