"""Incremental sums by key, as tables declare them: for windows and for metrics.

In: rows, or items of their lists, as arrays. Out: sums with ``merge``, which is associative, and
commutative below the limit on keys.

A measure says where its values are, how those of a key are combined, and which figures they give.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kanalyze.common.known import of_known
from kanalyze.common.texts import bounded_text
from kanalyze.live.window.grouped_rows import GroupedRows, key_of, values_at
from kanalyze.live.window.latency_sketch import LatencySketch
from kanalyze.tables.columns.numpy_arrays import IntArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kanalyze.tables.columns.numpy_arrays import WordArray

__all__ = [
    "ExactSum",
    "Items",
    "KeyedSums",
    "Max",
    "Measure",
    "Quantiles",
    "SumSource",
    "add_sources",
    "numbers_of",
]

Column: TypeAlias = "IntArray | WordArray"
Mask: TypeAlias = "NDArray[np.bool_]"
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


def add_sources(sums: KeyedSums, sources: Sequence[SumSource], rows: Any) -> None:
    """Add rows to sums whose measures are those of ``sources``, in their order."""
    first = 0
    for source in sources:
        end = first + len(source.measures)
        items = source.items(rows)
        if items is not None:
            keys = [items[name] for name in source.keys]
            where = None if source.where is None else items[source.where]
            sums.add(keys, items, where, slice(first, end))
        first = end
