"""What the user of the view has chosen, and what keys do to it.

In: names of keys (see :mod:`kanalyze.live.view.keys`), and the keys of the entries that are shown.
Out: :class:`ViewState`, and what the user asked for. This module must not know how anything is
shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.view.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = ["Effect", "Order", "ViewState"]

_FILTER_LIMIT = 80
_NOWHERE = -1
_END = 1 << 30
"""Behind the end of any table."""


class Effect(Enum):
    """What a key asks of whoever holds the view."""

    NONE = "none"
    CLEAR = "clear"
    """Forget what was counted."""
    QUIT = "quit"


class Order(NamedTuple):
    """What a table is sorted by."""

    by: int
    reverse: bool = False


_FIRST_ORDERS = tuple(Order(table.sorted_by) for table in TABLES)


@dataclass(frozen=True)
class ViewState:
    """What the user has chosen."""

    table: int = 0
    """Number of the table that has the room, from 0."""
    orders: tuple[Order, ...] = _FIRST_ORDERS
    """Of each table."""
    place: int = _NOWHERE
    """The selected entry of the table, counted from 0; -1 while none is selected."""
    selected: Hashable = None
    """Its key, by which it is found wherever it goes; None while that is not known."""
    first: int = 0
    """How many entries of the table are scrolled over."""
    page: int = 10
    """How many entries of it are shown."""
    pattern: str = ""
    """The filter."""
    typed: str | None = None
    """The filter as it is being typed; None while it is not."""
    paused: bool = False
    helping: bool = False

    def key(self, key: str) -> tuple[ViewState, Effect]:
        """Return what a key makes of the state, and what it asks for."""
        if key == "ctrl-c":
            return self, Effect.QUIT
        if self.typed is not None:
            return self._typing(self.typed, key), Effect.NONE
        if self.helping:
            # Any key leads back; quitting still quits.
            return replace(self, helping=False), Effect.QUIT if key == "q" else Effect.NONE
        if key in ("q", "c"):
            return self, Effect.QUIT if key == "q" else Effect.CLEAR
        return self._changed(key), Effect.NONE

    def shown_pattern(self) -> str:
        """Return the filter that counts: what is being typed counts at once."""
        return self.pattern if self.typed is None else self.typed

    def settled(self, keys: Sequence[Hashable], room: int) -> ViewState:
        """Return the state where its table has entries of these keys, and room for so many.

        The selected entry is where it went, or what has its place if it is gone; it is within
        the entries, and within what is shown. There is no way beyond either end.
        """
        room = max(room, 1)
        if self.place == _NOWHERE or not keys:
            return replace(self, first=0, page=room)
        place = min(self.place, len(keys) - 1)
        # Where it was comes first: several entries may look the same.
        if self.selected not in (None, keys[place]) and self.selected in keys:
            place = keys.index(self.selected)
        first = min(max(self.first, place - room + 1, 0), place, max(len(keys) - room, 0))
        return replace(self, place=place, selected=keys[place], first=first, page=room)

    def _changed(self, key: str) -> ViewState:
        if len(key) == 1 and "1" <= key <= str(len(TABLES)):
            return self._at_table(int(key) - 1)
        match key:
            case "tab" | "right":
                return self._at_table((self.table + 1) % len(TABLES))
            case "shift-tab" | "left":
                return self._at_table((self.table - 1) % len(TABLES))
            case "s":
                columns = len(TABLES[self.table].columns)
                return self._sorted(Order((self.orders[self.table].by + 1) % columns))
            case "r":
                order = self.orders[self.table]
                return self._sorted(order._replace(reverse=not order.reverse))
            case "p" | " ":
                return replace(self, paused=not self.paused)
            case "/":
                return replace(self, typed=self.pattern)
            case "h" | "?":
                return replace(self, helping=True)
            case "escape":
                return replace(self._unselected(), pattern="")
        return self._moved(key)

    def _moved(self, key: str) -> ViewState:
        match key:
            case "down" | "j":
                return self._selected(self.place + 1)
            case "up" | "k":
                return self._selected(self.place - 1) if self.place > 0 else self._unselected()
            case "pagedown":
                return self._selected(self.place + self.page)
            case "pageup":
                return self._selected(self.place - self.page) if self.place > 0 else self
            case "end":
                return self._selected(_END)
            case "home":
                return self._unselected()
        return self

    def _selected(self, place: int) -> ViewState:
        return replace(self, place=min(max(place, 0), _END), selected=None)

    def _unselected(self) -> ViewState:
        return replace(self, place=_NOWHERE, selected=None, first=0)

    def _at_table(self, table: int) -> ViewState:
        return replace(self._unselected(), table=table)

    def _sorted(self, order: Order) -> ViewState:
        orders = (*self.orders[: self.table], order, *self.orders[self.table + 1 :])
        return replace(self, orders=orders)

    def _typing(self, typed: str, key: str) -> ViewState:
        match key:
            case "enter":
                return replace(self, pattern=typed, typed=None)
            case "escape":
                return replace(self, typed=None)
            case "backspace":
                return replace(self, typed=typed[:-1])
            case "ctrl-u":
                return replace(self, typed="")
        if len(key) == 1 and len(typed) < _FILTER_LIMIT:
            return replace(self, typed=typed + key)
        return self
