"""Incremental sums by key, as tables declare them: for windows and for metrics.

In: rows, or items of their lists, as arrays. Out: sums with ``merge``, which is associative, and
commutative below the limit on keys.

A measure says where its values are, how those of a key are combined, and which figures they give.
All keys of a batch of rows are grouped at once, by sorting (:class:`GroupedRows`). Quantiles are
exact for small counts and within 0.4 % for large ones (:class:`LatencySketch`).
"""

from __future__ import annotations

import math
import operator
from array import array
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from kanalyze.common.known import of_known
from kanalyze.common.texts import bounded_text
from kanalyze.tables.columns.numpy_arrays import IntArray, WordArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

Mask: TypeAlias = "NDArray[np.bool_]"
Column: TypeAlias = "IntArray | WordArray | Mask"

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


def key_of(column: Column) -> NDArray[np.int64]:
    """Return a column as numbers from 0 on, which are equal for equal values; null is 0."""
    if isinstance(column, WordArray):
        return column.codes.astype(np.int64) + 1
    if isinstance(column, np.ndarray):
        return column.astype(np.int64)
    values, valid = column
    if not len(values):
        return values
    numbers = values - (values.min() - 1)
    return numbers if valid is None else np.where(valid, numbers, 0)


def values_at(column: Column, rows: Sequence[int]) -> list[str | int | None]:
    """Return the values of a column in some rows; None for null."""
    if isinstance(column, WordArray):
        words = [*column.words, None]  # code -1, null, is the last index
        return [words[code] for code in column.codes[rows].tolist()]
    if isinstance(column, np.ndarray):
        truths: list[str | int | None] = column[rows].tolist()
        return truths
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


EXACT_LIMIT = 512
"""Quantiles of up to this number of values are exact."""

RELATIVE_ERROR = 1 / 256
"""The maximum relative error of a quantile, compared to the value of that rank."""

_SIGNIFICANT_BITS = 8
_PENDING_LIMIT = 2048
_NOTHING: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


class LatencySketch:
    """Counts of int64 values; beyond :data:`EXACT_LIMIT` values they are rounded.

    Memory: 16 kB for values that are not rounded yet, and 16 bytes for each rounded value: 2 kB for
    each power of two that the values span.
    """

    __slots__ = ("_bounds", "_counts", "_pending", "_values", "count")

    def __init__(self, values: array[int] | None = None) -> None:
        """Begin with ``values`` (type code ``q``), an array that is used from now on."""
        self._pending = array("q") if values is None else values
        """All values, up to EXACT_LIMIT; beyond, those that are not rounded yet."""
        self.count = len(self._pending)
        self._values = self._counts = _NOTHING
        """Rounded values, each once, ascending; and how many of each there are."""
        self._bounds = _INT64_MAX, _INT64_MIN
        """The lowest and the highest of the values that were rounded."""

    def add(self, values: Iterable[int]) -> None:
        """Add values."""
        before = len(self._pending)
        self._pending.extend(values)
        self.count += len(self._pending) - before
        if self.count > EXACT_LIMIT and len(self._pending) > _PENDING_LIMIT:
            self._round_pending()

    def merge(self, other: LatencySketch) -> None:
        """Add the values of another sketch; associative and commutative."""
        if len(other._values):
            self.count += other.count - len(other._pending)
            self._count(other._values, other._counts, *other._bounds)
        self.add(other._pending)

    def quantile(self, q: float) -> int | None:
        """Return the value of rank ``max(1, ceil(q * count))``; None without values.

        ``q`` is from 0 to 1, and counts as its shortest decimal (0.07 is 7/100). Up to
        ``EXACT_LIMIT`` values the result is exact; beyond it is rounded, but within the lowest and
        the highest value.
        """
        if not self.count:
            return None
        rank = max(1, _ceiling_of_share(q, self.count))
        if self.count <= EXACT_LIMIT:
            return sorted(self._pending)[rank - 1]
        self._round_pending()
        value = int(self._values[np.searchsorted(np.cumsum(self._counts), rank)])
        lowest, highest = self._bounds
        return highest if rank >= self.count else min(max(value, lowest), highest)

    def _round_pending(self) -> None:
        if self._pending:
            values = np.frombuffer(self._pending, dtype=np.int64)
            bounds = int(values.min()), int(values.max())
            self._count(_rounded(values), np.ones_like(values), *bounds)
            self._pending = array("q")

    def _count(
        self, values: NDArray[np.int64], counts: NDArray[np.int64], lowest: int, highest: int
    ) -> None:
        """Add to the counts of rounded values."""
        self._bounds = min(lowest, self._bounds[0]), max(highest, self._bounds[1])
        self._values, places = np.unique(np.append(self._values, values), return_inverse=True)
        weights = np.append(self._counts, counts)
        self._counts = np.bincount(places, weights=weights).astype(np.int64)


def _ceiling_of_share(share: float, count: int) -> int:
    """Return ``ceil(share * count)`` for the shortest decimal of ``share``, from 0 to 1."""
    return math.ceil(Fraction(str(share)) * count)


def _rounded(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return values rounded to 8 significant bits: to the middle of those with the same bits.

    A negative value is rounded as its complement is.
    """
    size = np.where(values < 0, ~values, values)
    # frexp of a number above 2**53 may round up to the next power of two: the exponent is then 1
    # too high.
    bits = np.frexp(size.astype(np.float64))[1].astype(np.int64)
    exponent: NDArray[np.int64] = np.maximum(bits - _SIGNIFICANT_BITS, 0)
    exponent -= (exponent > 0) & (size >> exponent < 1 << (_SIGNIFICANT_BITS - 1))
    middle = (size >> exponent << exponent) + (((1 << exponent) - 1) >> 1)
    return np.where(values < 0, ~middle, middle)


Key: TypeAlias = tuple[str | int | None, ...]


class Items(Protocol):
    """Rows, or items of their lists: columns and masks of one length, by name."""

    def __getitem__(self, name: str) -> Any:
        """Return a column (:data:`Column`), or an array of numbers or of booleans."""
        ...


class Measure(Protocol):
    """What is summed up of each key. A value may be changed by ``merged`` if it comes first."""

    def start(self) -> Any:
        """Return the value of no items."""
        ...

    def values(self, groups: GroupedRows, items: Any) -> Sequence[Any]:
        """Return the value of each group of items."""
        ...

    @property
    def merged(self) -> Callable[[Any, Any], Any]:
        """The function that returns two values of a key as one."""
        ...

    def figures(self, value: Any) -> Mapping[str, Any]:
        """Return the figures of a value, by name."""
        ...


class ExactSum:
    """The exact sum of a column; :meth:`figures` may make another figure of it."""

    merged = staticmethod(operator.add)

    def __init__(self, name: str, column: str, figure: Callable[[int], object] = int) -> None:
        self.name = name
        self._column = column
        self._figure = figure
        self.is_amount = figure is int
        """True if the figure is the sum itself."""

    def start(self) -> int:
        """Return 0."""
        return 0

    def values(self, groups: GroupedRows, items: Items) -> list[int]:
        """Return the sum of each group."""
        return groups.sums(numbers_of(items, self._column, None)[0])

    def figures(self, value: int) -> dict[str, object]:
        """Return the sum."""
        return {self.name: self._figure(value)}


class Max:
    """The maximum of the known numbers of a column; None if there is none."""

    merged = staticmethod(partial(of_known, max))

    def __init__(self, name: str, column: str, where: str | None = None) -> None:
        """Take items for which the column ``where`` is true; None for all."""
        self.name = name
        self._column = column
        self._where = where

    def start(self) -> None:
        """Return None."""

    def values(self, groups: GroupedRows, items: Items) -> list[int | None]:
        """Return the maximum of each group."""
        return groups.highest(*numbers_of(items, self._column, self._where))

    def figures(self, value: int | None) -> dict[str, int | None]:
        """Return the maximum."""
        return {self.name: value}


class Quantiles:
    """Quantiles of a column of durations: ``p50_ns`` and ``p99_ns``; None if there are none."""

    def __init__(self, column: str, where: str | None = None) -> None:
        """Take items for which the column ``where`` is true; None for all."""
        self._column = column
        self._where = where

    def start(self) -> LatencySketch:
        """Return an empty sketch."""
        return LatencySketch()

    def values(self, groups: GroupedRows, items: Items) -> list[LatencySketch]:
        """Return a sketch of each group."""
        values = groups.values(*numbers_of(items, self._column, self._where))
        return [*map(LatencySketch, values)]

    @staticmethod
    def merged(value: LatencySketch, more: LatencySketch) -> LatencySketch:
        """Add to the first sketch."""
        value.merge(more)
        return value

    def figures(self, value: LatencySketch) -> dict[str, int | None]:
        """Return two quantiles."""
        return {"p50_ns": value.quantile(0.5), "p99_ns": value.quantile(0.99)}


def numbers_of(
    items: Items, column: str, where: str | None
) -> tuple[NDArray[np.int64], Mask | None]:
    """Return numbers, and which of them count: those that are known where ``where`` is true."""
    numbers = items[column]
    mask = None if where is None else items[where]
    if not isinstance(numbers, IntArray):
        return numbers, mask
    if numbers.valid is None or mask is None:
        return numbers.values, numbers.valid if mask is None else mask
    return numbers.values, numbers.valid & mask


class SumSource:
    """Items of rows that measures are of."""

    def __init__(
        self,
        items: Callable[[Any], Items | None],
        keys: Sequence[str],
        *measures: Measure,
        where: str | None = None,
    ) -> None:
        """Declare a source.

        Args:
            items: returns the items of rows; None if there are none.
            keys: the columns that items are grouped by.
            measures: the measures of each key.
            where: the column that says which items count; None for all.
        """
        self.items = items
        self.keys = keys
        self.measures = measures
        self.where = where


class KeyedSums:
    """The measures of each of the first ``limit`` keys, and of all others together.

    Up to the limit, adding and merging in any order gives the same sums. Beyond it, the order
    decides which keys have sums of their own; the totals stay exact.
    """

    __slots__ = ("_items", "_limit", "_measures", "_merged", "others")

    def __init__(self, measures: Sequence[Measure], limit: int | None) -> None:
        """Start without keys; ``limit`` is None for no limit."""
        self._measures = measures
        self._merged = [measure.merged for measure in measures]
        self._limit = limit
        self._items: dict[Key, list[Any]] = {}
        self.others: list[Any] | None = None
        """The values of all keys beyond the limit; None if there are none."""

    def __iter__(self) -> Iterator[tuple[Key, list[Any]]]:
        """Yield each key that has sums of its own, and the value of each measure."""
        return iter(self._items.items())

    def all_values(self) -> Iterator[list[Any]]:
        """Yield the values of every key, then those of the others."""
        yield from self._items.values()
        if self.others is not None:
            yield self.others

    def add(
        self,
        keys: Sequence[Column],
        items: Items,
        where: Mask | None = None,
        measures: slice = slice(None),
    ) -> None:
        """Add items by their keys, at least one column.

        ``where`` says which items count; ``measures`` are those that these items have.
        """
        groups = GroupedRows(*map(key_of, keys), where=where)
        if not groups.firsts:
            return
        numbers = range(len(self._measures))[measures]
        columns = [self._measures[number].values(groups, items) for number in numbers]
        names = zip(*(values_at(key, groups.firsts) for key in keys), strict=True)
        for key, values in zip(names, zip(*columns, strict=True), strict=True):
            sums = self.of(key)
            for number, value in zip(numbers, values, strict=True):
                sums[number] = self._merged[number](sums[number], value)

    def merge(self, other: KeyedSums) -> None:
        """Add the sums of ``other``, which has the same measures."""
        for key, more in other:
            self._merge(self.of(key), more)
        if other.others is not None:
            self._merge(self._others(), other.others)

    def figures(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the figures of a key by name, from its values."""
        figures: dict[str, Any] = {}
        for measure, value in zip(self._measures, values, strict=True):
            figures.update(measure.figures(value))
        return figures

    def of(self, key: Key) -> list[Any]:
        """Return the values of a key, to add to them: its own, or those of the others."""
        values = self._items.get(key)
        if values is not None:
            return values
        short = tuple(bounded_text(part) if isinstance(part, str) else part for part in key)
        values = self._items.get(short)
        if values is None:
            if self._limit is not None and len(self._items) >= self._limit:
                return self._others()
            values = self._items[short] = self._start()
        return values

    def _merge(self, values: list[Any], more: Sequence[Any]) -> None:
        values[:] = [
            merged(value, new)
            for merged, value, new in zip(self._merged, values, more, strict=True)
        ]

    def _others(self) -> list[Any]:
        if self.others is None:
            self.others = self._start()
        return self.others

    def _start(self) -> list[Any]:
        return [measure.start() for measure in self._measures]
