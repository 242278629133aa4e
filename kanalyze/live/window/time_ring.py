"""The last steps of time, each with something of its own.

In: numbers of steps. Out: what belongs to them. This module must not know what a step is long or
what it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TimeRing"]

T = TypeVar("T")


class TimeRing(Generic[T]):
    """One item for each of the last ``length`` steps, made when it is first asked for."""

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
        """The number of the oldest step that is kept."""
        return self._newest - self._length + 1

    def begin(self, number: int) -> None:
        """Drop everything; the newest step is number ``number``."""
        self._items.clear()
        self._newest = number

    def advance(self, number: int) -> list[tuple[int, T]]:
        """Let step ``number`` be the newest; drop those too old, and return them.

        Does nothing for a step that is not newer.
        """
        if number <= self._newest:
            return []
        self._newest = number
        too_old = sorted(kept for kept in self._items if kept < self.oldest)
        return [(old, self._items.pop(old)) for old in too_old]

    def of(self, number: int) -> T:
        """Return the item of a step, or of the nearest step that is kept."""
        number = min(max(number, self.oldest), self._newest)
        item = self._items.get(number)
        if item is None:
            item = self._items[number] = self._make()
        return item

    def items(self) -> Iterator[T]:
        """Give the items there are, the oldest first."""
        for number in sorted(self._items):
            yield self._items[number]

    def at(self, number: int) -> T | None:
        """Return the item of a step; None where there is none."""
        return self._items.get(number)
