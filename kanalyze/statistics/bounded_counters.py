"""Sums by key, for a bounded number of keys.

In: keys as they come off the wire. Out: one sum per key. This module must not know what is
summed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeAlias, TypeVar

from kanalyze.common.bounded_text import bounded_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BoundedCounters", "Key", "SmallestTexts", "bounded_text"]

Key: TypeAlias = tuple[str | int | None, ...]


class Mergeable(Protocol):
    """A sum that another sum of its kind can be added to."""

    def merge(self, other: Self) -> None: ...


T = TypeVar("T", bound=Mergeable)


class BoundedCounters(Generic[T]):
    """A sum for each of the first ``limit`` keys, and one for all others together.

    While there are no more keys than the limit, adding parts in any order gives the same sums.
    Beyond it the order decides which keys have a sum of their own; the total stays exact.
    """

    __slots__ = ("_items", "_limit", "_make", "others")

    def __init__(self, make: Callable[[], T], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._items: dict[Key, T] = {}
        self.others: T | None = None
        """The sum of all keys beyond the limit; None while there are none."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[tuple[Key, T]]:
        """Yield each of the first keys with its sum."""
        return iter(self._items.items())

    def sums(self) -> Iterator[T]:
        """Yield every sum, that of the others too."""
        yield from self._items.values()
        if self.others is not None:
            yield self.others

    def of(self, key: Key) -> T:
        """Return the sum that a key is counted in, to be added to."""
        item = self._items.get(key)
        return self._new(key) if item is None else item

    def merge(self, other: BoundedCounters[T]) -> None:
        """Add the sums of another."""
        for key, item in other:
            self.of(key).merge(item)
        if other.others is not None:
            self._rest().merge(other.others)

    def save_state(self) -> tuple[dict[Key, T], T | None]:
        """Return the sums by key, and that of the others."""
        return self._items, self.others

    def load_state(self, state: tuple[dict[Key, T], T | None]) -> None:
        """Undo :meth:`save_state`; raises ValueError for more keys than stand alone."""
        items, self.others = state
        if len(items) > self._limit:
            raise ValueError(f"{len(items)} keys")
        self._items = items

    def _new(self, key: Key) -> T:
        short = tuple(bounded_text(part) if isinstance(part, str) else part for part in key)
        item = self._items.get(short)
        if item is not None:
            return item
        if len(self._items) >= self._limit:
            return self._rest()
        item = self._items[short] = self._make()
        return item

    def _rest(self) -> T:
        if self.others is None:
            self.others = self._make()
        return self.others


class SmallestTexts:
    """The first few of all texts seen, in sorted order, and whether there were more.

    The result does not depend on the order in which texts or parts come.
    """

    __slots__ = ("_limit", "_texts", "more")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._texts: set[str] = set()
        self.more = False
        """Whether there were more different texts than the limit."""

    def add(self, text: str) -> None:
        """Add a text; a long one is shortened."""
        if text in self._texts:
            return
        self._texts.add(bounded_text(text))
        if len(self._texts) > self._limit:
            self._texts.remove(max(self._texts))
            self.more = True

    def merge(self, other: SmallestTexts) -> None:
        """Add the texts of another."""
        self.more = self.more or other.more
        for text in other._texts:
            self.add(text)

    def save_state(self) -> tuple[list[str], bool]:
        """Return what :meth:`load_state` takes: the texts held, and whether there were more."""
        return self.to_list(), self.more

    def load_state(self, state: tuple[list[str], bool]) -> None:
        """Undo :meth:`save_state`."""
        texts, self.more = state
        self._texts = set(texts)

    def to_list(self) -> list[str]:
        """Return the texts, sorted."""
        return sorted(self._texts)
