"""Values grouped by keys, all groups at once, by sorting.

In: columns of :mod:`kanalyze.tables.columns.numpy_arrays`. Out: sums and values per group.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from kanalyze.tables.columns.numpy_arrays import WordArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kanalyze.tables.columns.numpy_arrays import IntArray

__all__ = ["GroupedRows", "key_of", "values_at"]

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1
_LARGEST_KEY = 2**62


class GroupedRows:
    """Indices of arrays, grouped by keys; the groups are in order of first appearance."""

    __slots__ = ("_by_first", "_ends", "_order", "_starts", "firsts")

    def __init__(self, *keys: NDArray[np.int64], where: NDArray[np.bool_] | None = None) -> None:
        """Group by keys of equal length: numbers from 0 on, such as :func:`key_of` returns.

        Only the indices where ``where`` is true are grouped; None for all.
        """
        key = _narrow(_combined(keys))
        if where is None:
            self._order = np.argsort(key, kind="stable")
        else:
            indices = np.flatnonzero(where)
            self._order = indices[np.argsort(key[indices], kind="stable")]
        ordered = key[self._order]
        is_first = np.ones(len(ordered), dtype=np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        self._starts = np.flatnonzero(is_first)
        self._ends = np.append(self._starts[1:], len(ordered))
        firsts = self._order[self._starts]
        self._by_first = np.argsort(firsts)
        self.firsts: list[int] = firsts[self._by_first].tolist()
        """The first index of each group."""

    def numbers(self, size: int) -> NDArray[np.int64]:
        """Return the number of the group of each of ``size`` indices; -1 for those left out."""
        of_group = np.empty_like(self._by_first)
        of_group[self._by_first] = np.arange(len(of_group))
        numbers = np.full(size, -1)
        numbers[self._order] = np.repeat(of_group, self._ends - self._starts)
        return numbers

    def sums(self, values: NDArray[np.int64] | NDArray[np.bool_]) -> list[int]:
        """Return the exact sum of each group."""
        if not self.firsts:
            return []
        ordered = values[self._order].astype(np.int64, copy=False)
        if _fits(ordered):
            return self._per_group(np.add, ordered)
        # The sum of 2^31 halves of 32 bits cannot overflow.
        halves = (self._per_group(np.add, half) for half in (ordered >> 32, ordered & 0xFFFFFFFF))
        return [(upper << 32) + lower for upper, lower in zip(*halves, strict=True)]

    def highest(
        self, values: NDArray[np.int64], where: NDArray[np.bool_] | None = None
    ) -> list[int | None]:
        """Return the maximum of each group, of the values where ``where`` is true; None for none.

        None in place of ``where`` for all.
        """
        if not self.firsts:
            return []
        ordered = values[self._order]
        if where is None:
            return [*self._per_group(np.maximum, ordered)]
        is_kept = where[self._order]
        maxima = self._per_group(np.maximum, np.where(is_kept, ordered, _INT64_MIN))
        counts = self._per_group(np.add, is_kept.astype(np.int64))
        return [high if count else None for high, count in zip(maxima, counts, strict=True)]

    def values(
        self, values: NDArray[np.int64], where: NDArray[np.bool_] | None = None
    ) -> list[array[int]]:
        """Return the values of each group; only those where ``where`` is true, None for all."""
        ordered, ends = values[self._order], self._ends
        if where is not None and len(ordered):
            is_kept = where[self._order]
            ordered, ends = ordered[is_kept], np.cumsum(is_kept)[ends - 1]
        data = ordered.tobytes()
        bounds = [0, *(8 * ends).tolist()]
        return [
            array("q", data[bounds[group] : bounds[group + 1]]) for group in self._by_first.tolist()
        ]

    def _per_group(self, combine: np.ufunc, ordered: NDArray[np.int64]) -> list[int]:
        combined: list[int] = combine.reduceat(ordered, self._starts)[self._by_first].tolist()
        return combined


def key_of(column: IntArray | WordArray) -> NDArray[np.int64]:
    """Return a column as numbers from 0 on, which are equal for equal values; null is 0."""
    if isinstance(column, WordArray):
        return column.codes.astype(np.int64) + 1
    values, valid = column
    if not len(values):
        return values
    numbers = values - (values.min() - 1)
    return numbers if valid is None else np.where(valid, numbers, 0)


def values_at(column: IntArray | WordArray, rows: Sequence[int]) -> list[str | int | None]:
    """Return the values of a column in some rows; None for null."""
    if isinstance(column, WordArray):
        words = [*column.words, None]  # code -1, null, is the last index
        return [words[code] for code in column.codes[rows].tolist()]
    values: list[str | int | None] = column.values[rows].tolist()
    if column.valid is None:
        return values
    are_valid = column.valid[rows].tolist()
    return [value if is_valid else None for value, is_valid in zip(values, are_valid, strict=True)]


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
    return largest * len(values) <= _INT64_MAX
