"""The view on a terminal: what it shows, and what keys do to it.

In: snapshots, names of keys (see :mod:`kanalyze.live.keys`) and the size of a terminal. Out: what
to show, and what the user asked for. This module must not know the terminal itself: it reads and
writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kanalyze.live.tables import TABLES, sorted_entries, table_lines
from kanalyze.render.chart import bar_lines
from kanalyze.render.layout import cell_width, padded
from kanalyze.render.lines import Line
from kanalyze.render.text import shown
from kanalyze.render.units import count_text, duration_text, percent_text, rate_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from kanalyze.live.snapshot import Snapshot

__all__ = ["Effect", "ViewState", "render", "view_lines"]

_FILTER_LIMIT = 80
_PAGE = 10


class Effect(Enum):
    """What a key asks of whoever holds the view."""

    NONE = "none"
    CLEAR = "clear"
    """Forget what was counted."""
    QUIT = "quit"


class _Order(NamedTuple):
    """What a table is sorted by."""

    by: int
    reverse: bool = False


_FIRST_ORDERS = tuple(_Order(table.sorted_by) for table in TABLES)


@dataclass(frozen=True)
class ViewState:
    """What the user has chosen."""

    table: int = 0
    """Number of the table that has the room, from 0."""
    orders: tuple[_Order, ...] = _FIRST_ORDERS
    """Of each table."""
    first: int = 0
    """How many lines of the table are scrolled over."""
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

    def _changed(self, key: str) -> ViewState:
        if len(key) == 1 and "1" <= key <= str(len(TABLES)):
            return replace(self, table=int(key) - 1, first=0)
        step = _SCROLLS.get(key)
        if step is not None:
            return replace(self, first=max(self.first + step, 0))
        match key:
            case "tab" | "right":
                return replace(self, table=(self.table + 1) % len(TABLES), first=0)
            case "shift-tab" | "left":
                return replace(self, table=(self.table - 1) % len(TABLES), first=0)
            case "s":
                columns = len(TABLES[self.table].columns)
                return self._sorted(_Order((self.orders[self.table].by + 1) % columns))
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
                return replace(self, pattern="", first=0)
            case "home":
                return replace(self, first=0)
        return self

    def _sorted(self, order: _Order) -> ViewState:
        orders = (*self.orders[: self.table], order, *self.orders[self.table + 1 :])
        return replace(self, orders=orders, first=0)

    def _typing(self, typed: str, key: str) -> ViewState:
        match key:
            case "enter":
                return replace(self, pattern=typed, typed=None, first=0)
            case "escape":
                return replace(self, typed=None)
            case "backspace":
                return replace(self, typed=typed[:-1])
            case "ctrl-u":
                return replace(self, typed="")
        if len(key) == 1 and len(typed) < _FILTER_LIMIT:
            return replace(self, typed=typed + key)
        return self


_SCROLLS = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": _PAGE, "pageup": -_PAGE}

_HELP_KEYS = 14
_HELP = (
    ("tab, 1 to 6", "choose the table that has the room"),
    ("up, down", "scroll in it; also j, k, page up and down, home"),
    ("s", "sort by the next column"),
    ("r", "the other way round"),
    ("/", "only what has this in its name; may be a glob (* ? [])"),
    ("escape", "everything again"),
    ("p, space", "stop to look; counting goes on"),
    ("c", "forget what was counted"),
    ("q, ctrl-c", "quit"),
)


# -- what is shown --------------------------------------------------------------------------------


def render(snapshot: Snapshot, state: ViewState, width: int, height: int) -> Text:
    """Return the lines of :func:`view_lines` as one text for a rich console."""
    from rich.text import Text

    lines = [Text.assemble(*line.parts) for line in view_lines(snapshot, state, width, height)]
    return Text("\n", no_wrap=True, overflow="crop", end="").join(lines)


def view_lines(snapshot: Snapshot, state: ViewState, width: int, height: int) -> list[Line]:
    """Return ``height`` lines, none wider than ``width``; both are 1 at least.

    On a small terminal the chart goes first, then what is not the chosen table.
    """
    head = [_capture(snapshot, state, width), _rates(snapshot, width)]
    foot = [_foot(state, width)]
    head += _chart(snapshot, width, _chart_height(height))
    head.append(_tabs(state, width))
    room = height - len(head) - len(foot)
    body = _help(width) if state.helping else _tables(snapshot, state, width, room)
    body = body[: max(room, 0)]
    body += [Line()] * (room - len(body))
    return [next(line.fitted(width)) for line in [*head, *body, *foot][:height]]


def _chart_height(height: int) -> int:
    return 0 if height < 18 else 2 if height < 30 else 4


def _capture(snapshot: Snapshot, state: ViewState, width: int) -> Line:
    capture = snapshot.capture
    line = Line()
    if state.paused:
        line.append("PAUSED", "bold black on yellow")
    if capture is not None:
        _add(line, shown(capture.source, max(width // 4, 8)), "bold", width)
        _add(line, _clock(capture.elapsed_ns), "", width)
        dropped = capture.dropped_packets
        # Said before what there may be no room for.
        text = f"dropped {'unknown' if dropped is None else count_text(dropped)}"
        _add(line, text, "bold red" if dropped else "dim", width)
        _add(line, f"packets {rate_text(snapshot.packets, snapshot.window_ns)}", "", width)
        _add(line, rate_text(snapshot.wire_bytes, snapshot.window_ns, "B"), "", width)
        _add(line, f"connections {count_text(capture.connections)}", "", width)
    return line


def _rates(snapshot: Snapshot, width: int) -> Line:
    traffic, window_ns = snapshot.traffic, snapshot.window_ns
    line = Line()
    _add(line, f"requests {rate_text(traffic.requests, window_ns)}", "bold green", width)
    share = percent_text(snapshot.error_share)
    errors = f"errors {rate_text(traffic.errors, window_ns)} ({share})"
    _add(line, errors, "red" if traffic.errors else "dim", width)
    _add(line, f"sent {rate_text(traffic.request_bytes, window_ns, 'B')}", "", width)
    _add(line, f"received {rate_text(traffic.response_bytes, window_ns, 'B')}", "", width)
    _add(line, f"last {duration_text(window_ns)}", "dim", width)
    return line


def _clock(elapsed_ns: int) -> str:
    """Return ``1:02:03``: unlike other durations it takes the same room from second to second."""
    minutes, seconds = divmod(elapsed_ns // 1_000_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def _add(line: Line, text: str, style: str, width: int) -> None:
    """Add a part behind the others, if there is room for it or nothing yet."""
    gap = "  " if line.parts else ""
    if not line.parts or cell_width(line.plain) + cell_width(gap + text) <= width:
        line.append(gap)
        line.append(text, style)


_CHART_LABEL = 9


def _chart(snapshot: Snapshot, width: int, height: int) -> Iterator[Line]:
    """Give a chart of requests by step; the newest step, which is not over, is left out."""
    columns = width - _CHART_LABEL - 2
    if height == 0 or columns < 10:
        return
    over = [step.requests for step in snapshot.history[:-1]][-columns:]
    top = rate_text(max(over, default=0), snapshot.step_ns)
    labels = [top, *[""] * (height - 2), "requests"]
    for label, bars in zip(labels, bar_lines(over, height), strict=True):
        line = Line()
        line.append(padded(label, _CHART_LABEL, right=True), "dim")
        line.append(" \u2502", "dim")
        # The newest at the right: the chart moves to the left.
        line.append(bars.rjust(columns), "green")
        yield line


def _tabs(state: ViewState, width: int) -> Line:
    line = Line()
    narrow = sum(len(table.name) + 5 for table in TABLES) > width
    for number, table in enumerate(TABLES):
        chosen = number == state.table
        text = f" {number + 1} {table.name} " if chosen or not narrow else f" {number + 1} "
        line.append(text, "bold reverse" if chosen else "dim")
        line.append(" ")
    if state.shown_pattern() and state.typed is None:
        line.append(f"only {shown(state.pattern)}", "yellow")
    line.rstrip()
    return line


def _foot(state: ViewState, width: int) -> Line:
    if state.typed is not None:
        line = Line(f"/{shown(state.typed) if state.typed else ''}", style="bold yellow")
        line.append("\u2588", "yellow")
        line.append("  enter: keep  escape: drop", "dim")
        return line
    line = Line()
    for key, meaning in _FOOT:
        text = f"{key} {meaning}"
        if cell_width(line.plain) + len(text) + 2 > width:
            break
        line.append("  " if line.parts else "")
        line.append(key, "bold")
        line.append(f" {meaning}", "dim")
    return line


_FOOT = (
    ("q", "quit"),
    ("?", "help"),
    ("tab", "table"),
    ("s", "sort"),
    ("r", "reverse"),
    ("/", "filter"),
    ("p", "pause"),
    ("c", "clear"),
)


def _help(width: int) -> list[Line]:
    lines: list[Line] = []
    for keys, meaning in _HELP:
        names = [keys]
        for part in Line(meaning).fitted(max(width - _HELP_KEYS, 1)):
            line = Line()
            line.append(padded(names.pop() if names else "", _HELP_KEYS), "bold")
            line.append(part.plain)
            lines.append(line)
    return [*lines, Line(), Line("any key: back", style="dim")]


# -- tables ---------------------------------------------------------------------------------------

_OTHERS_LINES = 3
"""Lines of a table that is not the chosen one."""
_LEAST_LINES = 10
"""Lines that are left to the chosen table if it needs them, before others are shown."""


def _tables(snapshot: Snapshot, state: ViewState, width: int, room: int) -> list[Line]:
    chosen = _entries(state.table, snapshot, state)
    left = room - min(len(chosen) + 1, max(_LEAST_LINES, room // 2))
    others: list[Line] = []
    for number in range(len(TABLES)):
        block = [] if number == state.table else _other(number, snapshot, state, width)
        if len(others) + len(block) <= left:
            others += block
    lines = _chosen(chosen, snapshot, state, width, room - len(others))
    lines += [Line()] * (room - len(others) - len(lines))
    return [*lines, *others]


def _entries(number: int, snapshot: Snapshot, state: ViewState) -> list[Any]:
    order = state.orders[number]
    return sorted_entries(
        TABLES[number],
        snapshot,
        pattern=state.shown_pattern(),
        by=order.by,
        reverse=order.reverse,
    )


def _chosen(
    entries: list[Any], snapshot: Snapshot, state: ViewState, width: int, room: int
) -> list[Line]:
    """Return the table that has the room: titles, entries, and how many more there are."""
    table, order = TABLES[state.table], state.orders[state.table]
    if not entries:
        word = "nothing matches" if state.shown_pattern() else "nothing yet"
        return [Line(f"{table.title}: {word}", style="dim")]
    most = max(room - 1, 0)
    if len(entries) > most:
        most = max(most - 1, 0)
    first = min(state.first, max(len(entries) - most, 0))
    some = entries[first : first + most]
    lines = list(table_lines(table, some, snapshot, width, by=order.by, reverse=order.reverse))
    if len(entries) > len(some):
        text = f"{first + 1} to {first + len(some)} of {count_text(len(entries))}"
        lines.append(Line(text, style="dim"))
    return lines


def _other(number: int, snapshot: Snapshot, state: ViewState, width: int) -> list[Line]:
    entries = _entries(number, snapshot, state)
    if not entries:
        return []
    table = TABLES[number]
    return [
        Line(),
        Line(table.title, style="bold cyan"),
        *table_lines(table, entries[:_OTHERS_LINES], snapshot, width),
    ]
