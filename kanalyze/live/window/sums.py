"""Incremental sums by key, as tables declare them: for windows and for metrics.

In: rows, or items of their lists, as arrays. Out: sums with ``merge``, which is associative, and
commutative below the limit on keys.

A measure says where its values are, how those of a key are combined, and which figures they give.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from kanalyze.common.known import of_known
from kanalyze.common.texts import bounded_text
from kanalyze.live.window.grouped_rows import GroupedRows, key_of, values_at
from kanalyze.live.window.latency_sketch import LatencySketch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kanalyze.tables.columns.numpy_arrays import IntArray, WordArray

__all__ = [
    "Column",
    "Key",
    "KeyedSums",
    "Mask",
    "Max",
    "Measure",
    "Quantiles",
    "Source",
    "Sum",
    "add_sources",
]

Column: TypeAlias = "IntArray | WordArray"
Mask: TypeAlias = "NDArray[np.bool_]"
Key: TypeAlias = tuple[str | int | None, ...]
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Measure(Protocol[T_contra]):
    """What is summed up of each key. A value may be changed by :meth:`merged` that has it first."""

    def start(self) -> Any:
        """Return the value of no rows."""
        ...

    def values(self, groups: GroupedRows, items: T_contra) -> Sequence[Any]:
        """Return the value of each group of items."""
        ...

    def merged(self, value: Any, more: Any) -> Any:
        """Return two values of a key as one."""
        ...

    def figures(self, value: Any) -> Mapping[str, Any]:
        """Return the figures of a value, by name."""
        ...


class Sum(Generic[T]):
    """An exact sum; :meth:`figure` makes the figure of it."""

    def __init__(
        self,
        name: str,
        amounts: Callable[[T], NDArray[np.int64] | Mask],
        figure: Callable[[int], object] = int,
    ) -> None:
        self.name = name
        self._amounts = amounts
        self._figure = figure

    def start(self) -> int:
        """Return 0."""
        return 0

    def values(self, groups: GroupedRows, items: T) -> list[int]:
        """Return the sum of each group."""
        return groups.sums(self._amounts(items))

    merged = staticmethod(operator.add)

    def figures(self, value: int) -> dict[str, object]:
        """Return the sum."""
        return {self.name: self._figure(value)}


class Max(Generic[T]):
    """The maximum of the known numbers; None if there is none."""

    def __init__(
        self,
        name: str,
        numbers: Callable[[T], NDArray[np.int64]],
        where: Callable[[T], Mask],
        figure: Callable[[int], object] = int,
    ) -> None:
        """Take numbers where ``where`` is true; ``figure`` makes the figure of the maximum."""
        self.name = name
        self._numbers = numbers
        self._where = where
        self._figure = figure

    def start(self) -> None:
        """Return None."""

    def values(self, groups: GroupedRows, items: T) -> list[int | None]:
        """Return the maximum of each group."""
        return groups.highest(self._numbers(items), self._where(items))

    merged = staticmethod(partial(of_known, max))

    def figures(self, value: int | None) -> dict[str, object]:
        """Return the maximum."""
        return {self.name: None if value is None else self._figure(value)}


class Quantiles(Generic[T]):
    """Quantiles of durations: ``p50_ns`` and ``p99_ns``; None if there are no durations."""

    def __init__(
        self, numbers: Callable[[T], NDArray[np.int64]], where: Callable[[T], Mask]
    ) -> None:
        """Take numbers where ``where`` is true."""
        self._numbers = numbers
        self._where = where

    def start(self) -> LatencySketch:
        """Return an empty sketch."""
        return LatencySketch()

    def values(self, groups: GroupedRows, items: T) -> list[LatencySketch]:
        """Return a sketch of each group."""
        return [
            LatencySketch(values)
            for values in groups.values(self._numbers(items), self._where(items))
        ]

    def merged(self, value: LatencySketch, more: LatencySketch) -> LatencySketch:
        """Add to the first sketch."""
        value.merge(more)
        return value

    def figures(self, value: LatencySketch) -> dict[str, int | None]:
        """Return two quantiles."""
        return {"p50_ns": value.quantile(0.5), "p99_ns": value.quantile(0.99)}


class Source(Generic[T]):
    """Rows, or items of their lists, that measures are of."""

    def __init__(
        self,
        items: Callable[[Any], T | None],
        keys: Callable[[T], Sequence[Column]],
        *measures: Measure[T],
        where: Callable[[T], Mask] | None = None,
    ) -> None:
        """Declare a source.

        Args:
            items: returns the items of rows; None if there are none.
            keys: returns the columns that items are grouped by.
            measures: the measures of each key.
            where: returns which items count; None for all.
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

    def __init__(self, measures: Sequence[Measure[Any]], limit: int | None) -> None:
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
        items: Any,
        *,
        where: Mask | None = None,
        measures: slice = slice(None),
    ) -> None:
        """Add items by their keys.

        Args:
            keys: the columns that items are grouped by, at least one.
            items: passed to measures.
            where: which items count; None for all.
            measures: the measures that these items have.
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


def add_sources(sums: KeyedSums, sources: Sequence[Source[Any]], rows: Any) -> None:
    """Add rows to sums whose measures are those of ``sources``, in their order."""
    first = 0
    for source in sources:
        end = first + len(source.measures)
        items = source.items(rows)
        if items is not None:
            where = None if source.where is None else source.where(items)
            sums.add(source.keys(items), items, where=where, measures=slice(first, end))
        first = end
