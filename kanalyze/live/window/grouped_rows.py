"""Values grouped by keys, all groups at once, by sorting.

In: columns of :mod:`kanalyze.tables.columns.numpy_arrays`. Out: sums and values per group.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from kanalyze.live.window.latency_sketch import Latencies
from kanalyze.tables.columns.numpy_arrays import WordArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kanalyze.tables.columns.numpy_arrays import IntArray

__all__ = ["GroupedRows", "key_of", "value_at"]

_INT64_MAX = 2**63 - 1
_LARGEST_KEY = 2**62


class GroupedRows:
    """Indices of arrays, grouped by keys; the groups are in order of first appearance."""

    __slots__ = ("_by_first", "_order", "_starts", "firsts")

    def __init__(self, *keys: NDArray[np.int64]) -> None:
        """Group by keys of equal length: numbers from 0 on, such as :func:`key_of` returns."""
        key = _narrow(_combined(keys))
        self._order = np.argsort(key, kind="stable")
        ordered = key[self._order]
        is_first = np.ones(len(key), dtype=np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        self._starts = np.flatnonzero(is_first)
        firsts = self._order[self._starts]
        self._by_first = np.argsort(firsts)
        self.firsts: list[int] = firsts[self._by_first].tolist()
        """The first index of each group."""

    def sums(self, *columns: NDArray[np.int64]) -> list[list[int]]:
        """Return, for each group, the exact sum of each column."""
        if not self.firsts:
            return []
        table = np.stack(columns)[:, self._order]
        return list(map(list, zip(*self._totals(table), strict=True)))

    def highest(self, values: NDArray[np.int64]) -> list[int]:
        """Return, for each group, the maximum of a column."""
        if not self.firsts:
            return []
        maxima = np.maximum.reduceat(values[self._order], self._starts)[self._by_first]
        highest: list[int] = maxima.tolist()
        return highest

    def changes(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return 1 for each index whose value differs from the one before it in its group, else 0.

        The first index of each group has 1.
        """
        ordered = values[self._order]
        differs = np.ones(len(values), dtype=np.int64)
        differs[1:] = ordered[1:] != ordered[:-1]
        differs[self._starts] = 1
        changes = np.empty_like(differs)
        changes[self._order] = differs
        return changes

    def values(
        self, values: NDArray[np.int64], where: NDArray[np.bool_] | None = None
    ) -> list[Latencies]:
        """Return the values of each group; only those where ``where`` is true, None for all."""
        if not self.firsts:
            return []
        ordered = values[self._order]
        if where is None:
            counts = np.diff(self._starts, append=len(ordered))
        else:
            is_selected = where[self._order]
            counts = np.add.reduceat(is_selected, self._starts, dtype=np.int64)
            ordered = ordered[is_selected]
        latencies = _runs(ordered, counts)
        return [latencies[group] for group in self._by_first.tolist()]

    def _totals(self, table: NDArray[np.int64]) -> list[list[int]]:
        """Return the sums of all groups for each row of a table, whose columns are in key order."""
        if _fits(table):
            sums = np.add.reduceat(table, self._starts, axis=1)
            totals: list[list[int]] = sums[:, self._by_first].tolist()
            return totals
        # The sum of 2^31 halves of 32 bits cannot overflow.
        upper = np.add.reduceat(table >> 32, self._starts, axis=1)[:, self._by_first].tolist()
        lower = np.add.reduceat(table & 0xFFFFFFFF, self._starts, axis=1)[:, self._by_first]
        return [
            [(high << 32) + low for high, low in zip(*halves, strict=True)]
            for halves in zip(upper, lower.tolist(), strict=True)
        ]


def key_of(column: IntArray | WordArray) -> NDArray[np.int64]:
    """Return a column as numbers from 0 on, which are equal for equal values; null is 0."""
    if isinstance(column, WordArray):
        return column.codes.astype(np.int64) + 1
    values, valid = column
    if not len(values):
        return values
    numbers = values - (values.min() - 1)
    return numbers if valid is None else np.where(valid, numbers, 0)


def value_at(column: IntArray | WordArray, row: int) -> str | int | None:
    """Return the value of a column in a row; None for null."""
    if isinstance(column, WordArray):
        code = column.codes[row]
        return None if code < 0 else column.words[code]
    values, valid = column
    return None if valid is not None and not valid[row] else int(values[row])


def _combined(keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return one key, which is equal where all keys are equal."""
    combined, combined_span = keys[0], _span(keys[0])
    for key in keys[1:]:
        span = _span(key)
        if combined_span * span > _LARGEST_KEY:
            combined = np.unique(combined, return_inverse=True)[1].astype(np.int64)
            combined_span = _span(combined)
        combined = combined * span + key
        combined_span *= span
    return combined


def _span(key: NDArray[np.int64]) -> int:
    """Return the size of the range of a key: its maximum plus 1."""
    return int(key.max(initial=0)) + 1


def _narrow(key: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.uint16]:
    """Return a key in 16 bits if it fits: NumPy sorts 16-bit numbers faster, by radix sort."""
    return key.astype(np.uint16) if _span(key) <= 1 << 16 else key


def _fits(values: NDArray[np.int64]) -> bool:
    """Return true if every sum of a subset of the values fits into int64."""
    largest = max(-int(values.min(initial=0)), int(values.max(initial=0)))
    count: int = values.shape[-1]
    return largest * count <= _INT64_MAX


def _runs(values: NDArray[np.int64], counts: NDArray[np.int64]) -> list[Latencies]:
    """Return consecutive runs of the values; ``counts`` are their lengths."""
    ends = np.cumsum(counts)
    filled = np.flatnonzero(counts)
    runs = [Latencies.of(())] * len(counts)
    if not len(filled):
        return runs
    starts = (ends - counts)[filled]
    lows = np.minimum.reduceat(values, starts).tolist()
    highs = np.maximum.reduceat(values, starts).tolist()
    sums = np.add.reduceat(values, starts).tolist() if _fits(values) else None
    data = values.tobytes()
    spans = zip(filled.tolist(), starts.tolist(), ends[filled].tolist(), strict=True)
    for number, (group, start, end) in enumerate(spans):
        items = array("q", data[8 * start : 8 * end])
        total = sum(items) if sums is None else sums[number]
        runs[group] = Latencies(items, total, lows[number], highs[number])
    return runs
