"""Sums by key, for a bounded number of keys.

In: keys as they come off the wire. Out: one sum per key. This module must not know what is
summed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BoundedCounters", "Key", "SmallestTexts", "bounded_text"]

Key: TypeAlias = tuple[str | int | None, ...]

_TEXT_LIMIT = 256


class Mergeable(Protocol):
    """A sum that another sum of its kind can be added to."""

    def merge(self, other: Self) -> None: ...


T = TypeVar("T", bound=Mergeable)


class BoundedCounters(Generic[T]):
    """A sum for each of the first ``limit`` keys, and one for all others together.

    While there are no more keys than the limit, adding parts in any order gives the same sums.
    Beyond it the order decides which keys stand alone; the sum over everything stays exact.
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
        """Yield each key that stands alone, with its sum."""
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
    """The first few, in sorted order, of all texts seen, and whether there were more.

    What it holds does not depend on the order in which texts or parts come.
    """

    __slots__ = ("_limit", "_texts", "more")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._texts: set[str] = set()
        self.more = False
        """Whether there were more different texts than are held."""

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

    def to_list(self) -> list[str]:
        """Return the texts held, sorted."""
        return sorted(self._texts)


def bounded_text(text: str) -> str:
    """Return a text, or its beginning and its length when it has over 256 characters."""
    if len(text) <= _TEXT_LIMIT:
        return text
    return f"{text[:_TEXT_LIMIT]}... ({len(text)} characters)"
