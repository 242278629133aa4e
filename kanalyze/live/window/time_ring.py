"""A ring buffer of steps of time, with an item for each.

In: numbers of steps. Out: their items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TimeRing"]

T = TypeVar("T")


class TimeRing(Generic[T]):
    """An item for each of the last ``length`` steps; an item is made at its first use."""

    __slots__ = ("_items", "_length", "_make", "_newest")

    def __init__(self, make: Callable[[], T], length: int) -> None:
        self._make = make
        self._length = length
        self._newest = 0
        self._items: dict[int, T] = {}

    @property
    def newest(self) -> int:
        """The number of the newest step."""
        return self._newest

    @property
    def oldest(self) -> int:
        """The number of the oldest step in the ring."""
        return self._newest - self._length + 1

    def begin(self, number: int) -> None:
        """Clear the ring; the newest step becomes ``number``."""
        self._items.clear()
        self._newest = number

    def advance(self, number: int) -> list[tuple[int, T]]:
        """Make step ``number`` the newest; remove and return the steps that are too old.

        Does nothing for a step that is not newer.
        """
        if number <= self._newest:
            return []
        self._newest = number
        too_old = sorted(step for step in self._items if step < self.oldest)
        return [(old, self._items.pop(old)) for old in too_old]

    def of(self, number: int) -> T:
        """Return the item of a step, or of the nearest step in the ring."""
        number = min(max(number, self.oldest), self._newest)
        item = self._items.get(number)
        if item is None:
            item = self._items[number] = self._make()
        return item

    def items(self) -> Iterator[T]:
        """Yield the items, the oldest first."""
        for number in sorted(self._items):
            yield self._items[number]

    def at(self, number: int) -> T | None:
        """Return the item of a step; None if it has none."""
        return self._items.get(number)
