"""The state of the view, and how keys change it.

In: names of keys (see :mod:`kanalyze.live.view.terminal`); the identities of the entries shown.
Out: :class:`ViewState`, and the :class:`Effect` of a key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.view.tables import TABLES
from kanalyze.spec.rows.requests import Row

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_FILTER_LIMIT = 80
_NONE = -1
_END = 1 << 30
"""An index beyond the end of any table."""


class Effect(Enum):
    """What the controller must do after a key."""

    NONE = "none"
    CLEAR = "clear"
    """Clear the windows."""
    QUIT = "quit"


class Order(NamedTuple):
    """The column that a table is sorted by."""

    by: int
    reverse: bool = False


_FIRST_ORDERS = tuple(Order(table.sorted_by) for table in TABLES)


class _Selection(NamedTuple):
    """The selected and the first visible entry; as in :class:`ViewState`."""

    selected_index: int
    selected: Hashable
    first: int


@dataclass(frozen=True)
class ViewState:
    """The user's choices: a table, its order, an entry, a filter."""

    table: int = 0
    """The chosen table, from 0."""
    orders: tuple[Order, ...] = _FIRST_ORDERS
    """The order of each table."""
    index: int = _NONE
    """The index of the selected entry, from 0; -1 if none is selected."""
    selected: Hashable = None
    """The identity of the selected entry, by which it is found in the next snapshot; None if
    unknown."""
    first: int = 0
    """The index of the first visible entry."""
    page: int = 10
    """The number of visible entries."""
    pattern: str = ""
    """The filter."""
    typed: str | None = None
    """The filter while it is typed; None otherwise."""
    paused: bool = False
    helping: bool = False
    opened: Hashable = None
    """The identity of the entry whose requests are shown; None for the tables."""
    latest: bool = False
    """True if the requests are sorted by time, the latest first; False: by latency."""
    request: Row | None = None
    """The request whose fields are shown; None if there is none."""
    outer: tuple[_Selection, ...] = ()
    """The selections at the outer levels, to go back to; that of the tables first."""

    def key(self, key: str) -> tuple[ViewState, Effect]:
        """Return the state after a key, and what the controller must do."""
        if key == "ctrl-c":
            return self, Effect.QUIT
        if self.typed is not None:
            return self._typing(self.typed, key), Effect.NONE
        if self.helping:
            # Any key closes the help.
            return replace(self, helping=False), Effect.QUIT if key == "q" else Effect.NONE
        if key in ("q", "c"):
            return self, Effect.QUIT if key == "q" else Effect.CLEAR
        return self._changed(key), Effect.NONE

    def shown_pattern(self) -> str:
        """Return the filter in effect; while it is typed, the text so far."""
        return self.pattern if self.typed is None else self.typed

    @property
    def selected_line(self) -> int | None:
        """The line of the selected entry among the visible ones; None if none is selected."""
        return None if self.index == _NONE else self.index - self.first

    def settled(self, keys: Sequence[Hashable], room: int) -> ViewState:
        """Return the state for entries with these identities, of which ``room`` are visible.

        The selected entry stays selected if it moved. If it is no longer there, the entry at its
        index is selected. The selected entry is always visible.
        """
        room = max(room, 1)
        if self.index == _NONE or not keys:
            return replace(self, first=0, page=room)
        index = min(self.index, len(keys) - 1)
        # The old index is tried first, because several entries may have the same identity.
        if self.selected not in (None, keys[index]) and self.selected in keys:
            index = keys.index(self.selected)
        first = min(max(self.first, index - room + 1, 0), index, max(len(keys) - room, 0))
        return replace(self, index=index, selected=keys[index], first=first, page=room)

    def _changed(self, key: str) -> ViewState:
        if len(key) == 1 and "1" <= key <= str(len(TABLES)):
            return self._at_table(int(key) - 1)
        match key:
            case "tab" | "right":
                return self._at_table((self.table + 1) % len(TABLES))
            case "shift-tab" | "left":
                return self._at_table((self.table - 1) % len(TABLES))
            case "p" | " ":
                return replace(self, paused=not self.paused)
            case "h" | "?":
                return replace(self, helping=True)
            case "enter":
                return self._with_opened()
            case "escape" if self.outer:
                return self._with_closed()
            case "s" if self.opened is not None and self.request is None:
                return replace(self._unselected(), latest=not self.latest)
        return self._moved(key) if self.outer else self._changed_table(key)

    def _changed_table(self, key: str) -> ViewState:
        match key:
            case "s":
                columns = len(TABLES[self.table].columns)
                return self._sorted(Order((self.orders[self.table].by + 1) % columns))
            case "r":
                order = self.orders[self.table]
                return self._sorted(order._replace(reverse=not order.reverse))
            case "/":
                return replace(self, typed=self.pattern)
            case "escape":
                return replace(self._unselected(), pattern="")
        return self._moved(key)

    def _moved(self, key: str) -> ViewState:
        match key:
            case "down" | "j":
                return self._selected(self.index + 1)
            case "up" | "k":
                return self._selected(self.index - 1) if self.index > 0 else self._unselected()
            case "pagedown":
                return self._selected(self.index + self.page)
            case "pageup":
                return self._selected(self.index - self.page) if self.index > 0 else self
            case "end":
                return self._selected(_END)
            case "home":
                return self._unselected()
        return self

    def _selected(self, index: int) -> ViewState:
        return replace(self, index=min(max(index, 0), _END), selected=None)

    def _unselected(self) -> ViewState:
        return replace(self, index=_NONE, selected=None, first=0)

    def _at_table(self, table: int) -> ViewState:
        return replace(self._unselected(), table=table, opened=None, request=None, outer=())

    def _with_opened(self) -> ViewState:
        """Open the selected entry or request, if it can open; select the first if none is."""
        selection = _Selection(self.index, self.selected, self.first)
        inner = replace(self._unselected(), outer=(*self.outer, selection))
        if self.index == _NONE and self.request is None:
            return self._selected(0)
        if self.selected is None or self.request is not None:
            return self
        if self.opened is not None:
            assert isinstance(self.selected, Row)
            return replace(inner, request=self.selected)
        if TABLES[self.table].opened(self.selected) is None:
            return self
        return replace(inner, opened=self.selected, latest=False)

    def _with_closed(self) -> ViewState:
        """Go back to the level from which the current one was opened."""
        *outer, (index, selected, first) = self.outer
        return replace(
            self,
            index=index,
            selected=selected,
            first=first,
            outer=tuple(outer),
            request=None,
            opened=self.opened if outer else None,
        )

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
