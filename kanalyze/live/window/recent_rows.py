"""The rows of the last minute, to show the requests of a line of a table.

In: blocks of rows, each with the number of its step of time. Out: the rows that a
:class:`~kanalyze.live.window.row_choice.RowChoice` chooses.

Memory is bounded by :data:`MAX_ROWS` and :data:`MAX_BYTES`; the oldest rows are dropped.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.window.row_measures import RowMeasures
from kanalyze.tables.columns.block import Ints, Lists, words_in_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import ColumnValues, RowBlock

__all__ = ["MAX_BYTES", "MAX_ROWS", "RecentBlock", "RecentRows"]

MAX_ROWS = 100_000
MAX_BYTES = 64 << 20

_EARLIEST_NS = -(2**63)


class RecentBlock(NamedTuple):
    """Rows of one step of time."""

    serial: int
    """A number that rises with each block."""
    step: int
    block: RowBlock
    size_bytes: int


class RecentRows:
    """The latest rows, the oldest first."""

    def __init__(self, steps: int, step_ns: int) -> None:
        """Keep the rows of ``steps`` steps."""
        self._steps = steps
        self.step_ns = step_ns
        self._blocks: deque[RecentBlock] = deque()
        self._rows = self._bytes = self._serial = self._newest = 0
        self.begun = 0
        """Number of times that all rows were discarded."""
        self.first_step = 0
        """The first step without dropped rows."""

    def add(self, step: int, block: RowBlock) -> None:
        """Add the rows of a step."""
        self._serial += 1
        self._newest = max(step, self._newest)
        self._blocks.append(RecentBlock(self._serial, step, block, _bytes_of(block)))
        self._rows += len(block)
        self._bytes += self._blocks[-1].size_bytes
        while self._is_too_much():
            old = self._blocks.popleft()
            self.first_step = max(self.first_step, old.step + 1)
            self._rows -= len(old.block)
            self._bytes -= old.size_bytes

    def begin(self) -> None:
        """Drop all rows; steps may be earlier ones."""
        self._blocks.clear()
        self._rows = self._bytes = self._newest = self.first_step = 0
        self.begun += 1

    def after(self, serial: int) -> Iterator[RecentBlock]:
        """Yield the blocks that were added after the one with this number; 0 for all."""
        return (block for block in self._blocks if block.serial > serial)

    def find(
        self,
        chosen: Callable[[RowBlock], NDArray[np.bool_]],
        *,
        since_ns: int,
        most: int,
        slowest: bool,
    ) -> tuple[list[Row], int]:
        """Return up to ``most`` selected rows, and the number of all selected rows.

        Rows are selected by ``chosen``, and if their time is at or after ``since_ns``. They are
        sorted by latency, the slowest first, or by time, the latest first.
        """
        best_rows: list[tuple[int, int, int, RowBlock]] = []
        count = 0
        for number, stored in enumerate(self._blocks):
            times, latencies = _times_and_latencies(stored.block)
            indices = np.flatnonzero(chosen(stored.block) & (times >= since_ns))
            count += len(indices)
            keys, tie_breakers = (latencies, times) if slowest else (times, latencies)
            best = indices[np.lexsort((-tie_breakers[indices], -keys[indices]))[:most]]
            best_rows += [
                (int(keys[index]), -number, index, stored.block) for index in best.tolist()
            ]
        best_rows.sort(key=lambda item: item[:2], reverse=True)
        return [block.take([index]).rows()[0] for _, _, index, block in best_rows[:most]], count

    def _is_too_much(self) -> bool:
        blocks = self._blocks
        if len(blocks) < 2:  # the latest block is never dropped
            return False
        is_old = blocks[0].step <= self._newest - self._steps
        return is_old or self._rows > MAX_ROWS or self._bytes > MAX_BYTES


def _times_and_latencies(block: RowBlock) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the time and the latency of each row in ns; the lowest int64 if unknown."""
    rows = RowMeasures(block.columns)
    latencies = np.where(rows.known("latency_ns"), rows.ints("latency_ns").values, _EARLIEST_NS)
    return rows.times_ns(unknown=_EARLIEST_NS), latencies


def _bytes_of(block: RowBlock) -> int:
    return sum(map(_bytes_of_column, block.columns.values()))


def _bytes_of_column(column: ColumnValues) -> int:
    if isinstance(column, Lists):
        return 8 * len(column.offsets) + sum(map(_bytes_of_column, column.fields.values()))
    if isinstance(column, Ints):
        return 8 * len(column.values) + len(column.valid or b"")
    codes, words = words_in_use(column)
    return 4 * len(codes) + sum(map(len, words))
