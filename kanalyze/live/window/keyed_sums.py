"""Sums by key, for a bounded number of keys.

In: keys with values from the wire. Out: one sum per key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeAlias, TypeVar

from kanalyze.common.texts import bounded_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Key", "KeyedSums"]

Key: TypeAlias = tuple[str | int | None, ...]


class Addable(Protocol):
    """A sum that another sum of its kind can be added to."""

    def merge(self, other: Self) -> None: ...


T = TypeVar("T", bound=Addable)


class KeyedSums(Generic[T]):
    """A sum for each of the first ``limit`` keys, and one for all others together.

    Up to the limit, adding and merging in any order gives the same sums. Beyond it, the order
    decides which keys have a sum of their own; the total stays exact.
    """

    __slots__ = ("_items", "_limit", "_make", "others")

    def __init__(self, make: Callable[[], T], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._items: dict[Key, T] = {}
        self.others: T | None = None
        """The sum of all keys beyond the limit; None if there are none."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[tuple[Key, T]]:
        """Yield each key that has a sum of its own, and that sum."""
        return iter(self._items.items())

    def sums(self) -> Iterator[T]:
        """Yield every sum, including the sum of the others."""
        yield from self._items.values()
        if self.others is not None:
            yield self.others

    def of(self, key: Key) -> T:
        """Return the sum of a key, to add to it: its own, or the sum of the others."""
        item = self._items.get(key)
        return self._new(key) if item is None else item

    def merge(self, other: KeyedSums[T]) -> None:
        """Add the sums of ``other``."""
        for key, item in other:
            self.of(key).merge(item)
        if other.others is not None:
            self._others_or_new().merge(other.others)

    def _new(self, key: Key) -> T:
        short = tuple(bounded_text(part) if isinstance(part, str) else part for part in key)
        item = self._items.get(short)
        if item is not None:
            return item
        if len(self._items) >= self._limit:
            return self._others_or_new()
        item = self._items[short] = self._make()
        return item

    def _others_or_new(self) -> T:
        if self.others is None:
            self.others = self._make()
        return self.others
