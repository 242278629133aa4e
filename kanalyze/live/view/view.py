"""Lays out the view: capture, rates, alerts, charts, tables.

In: snapshots, the state of the view, the size of a terminal. Out: lines, and the state with the
selected entry. Must not know: the terminal itself, nor keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.view.alerts import alerts
from kanalyze.live.view.tables import TABLES, sorted_entries, table_lines
from kanalyze.live.window.snapshot import PIPE
from kanalyze.render.chart import bar_lines
from kanalyze.render.layout import cell_width, padded
from kanalyze.render.lines import Line
from kanalyze.render.text import shown
from kanalyze.render.units import count_text, duration_text, percent_text, rate_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from kanalyze.live.view.view_state import ViewState
    from kanalyze.live.window.snapshot import Snapshot

__all__ = ["View", "render", "view_of"]


_HELP_KEYS = 14
_HELP = (
    ("tab, 1 to 6", "choose the table"),
    ("up, down", "select a line, and follow it; also j, k, page up, page down, end; home: none"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter by name: a part of it, or a glob (* ? [])"),
    ("escape", "clear the filter and the selection"),
    ("p, space", "pause the view; counting goes on"),
    ("c", "clear the counts"),
    ("q, ctrl-c", "quit"),
)


# -- what is shown --------------------------------------------------------------------------------


class View(NamedTuple):
    """What the terminal shows."""

    lines: list[Line]
    state: ViewState
    """With the selected entry; see :meth:`ViewState.settled`."""


def render(lines: Sequence[Line]) -> Text:
    """Join lines to one text for a rich console."""
    from rich.text import Text

    texts = [Text.assemble(*line.parts) for line in lines]
    return Text("\n", no_wrap=True, overflow="crop", end="").join(texts)


def view_of(snapshot: Snapshot, state: ViewState, width: int, height: int) -> View:
    """Return ``height`` lines, none wider than ``width``; both are at least 1.

    A small terminal has no charts, a smaller one only the chosen table.
    """
    head = [_capture(snapshot, state, width), _rates(snapshot, width)]
    head += _alerts(snapshot, width, _max_alerts(height))
    head += _charts(snapshot, width, _chart_height(height))
    head.append(_tabs(state, width))
    foot = [_foot(state, width)]
    room = max(height - len(head) - len(foot), 0)
    body, state = _tables(snapshot, state, width, room)
    if state.helping:
        body = _help(width)
    body = body[:room]
    body += [Line()] * (room - len(body))
    lines = [next(line.fitted(width)) for line in [*head, *body, *foot][:height]]
    return View(lines, state)


def _chart_height(height: int) -> int:
    """Return the height of each chart."""
    return 0 if height < 18 else 1 if height < 40 else 2


def _max_alerts(height: int) -> int:
    return 1 if height < 18 else 3 if height < 30 else 6


def _capture(snapshot: Snapshot, state: ViewState, width: int) -> Line:
    capture = snapshot.capture
    line = Line()
    if state.paused:
        line.append("PAUSED", "bold black on yellow")
    if capture is not None:
        source = "(pipe)" if capture.source == PIPE else shown(capture.source, max(width // 4, 8))
        _add(line, source, "bold", width)
        _add(line, _clock(capture.elapsed_ns), "", width)
        dropped = capture.dropped_packets
        # Before the parts for which there may be no room.
        text = f"dropped {'unknown' if dropped is None else count_text(dropped)}"
        _add(line, text, "bold red" if dropped else "dim", width)
        _add(line, f"packets {rate_text(snapshot.packets, snapshot.window_ns)}", "", width)
        _add(line, rate_text(snapshot.wire_bytes, snapshot.window_ns, "B"), "", width)
        _add(line, f"connections {count_text(capture.connections)}", "", width)
        if capture.in_flight is not None:
            _add(line, f"in flight {count_text(capture.in_flight.requests)}", "", width)
    return line


def _rates(snapshot: Snapshot, width: int) -> Line:
    traffic, window_ns = snapshot.traffic, snapshot.window_ns
    line = Line()
    _add(line, f"requests {rate_text(traffic.requests, window_ns)}", "bold green", width)
    share = percent_text(snapshot.error_share)
    errors = f"errors {rate_text(traffic.errors, window_ns)} ({share})"
    _add(line, errors, "red" if traffic.errors else "dim", width)
    if snapshot.p99_ns is not None:
        _add(line, f"p99 {duration_text(snapshot.p99_ns)}", "bold", width)
        _add(line, f"p50 {duration_text(snapshot.p50_ns)}", "", width)
    # In whole steps, so that it does not change all the time.
    _add(line, f"last {duration_text(_rounded_up(window_ns, snapshot.step_ns))}", "dim", width)
    _add(line, f"sent {rate_text(traffic.request_bytes, window_ns, 'B')}", "", width)
    _add(line, f"received {rate_text(traffic.response_bytes, window_ns, 'B')}", "", width)
    return line


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _alerts(snapshot: Snapshot, width: int, most: int) -> list[Line]:
    lines = [Line(padded(alert.text, width).rstrip(), alert.style) for alert in alerts(snapshot)]
    if len(lines) > most:
        lines[most - 1].append(f" (+{len(lines) - most} more)", "bold yellow")
    return lines[:most]


def _clock(elapsed_ns: int) -> str:
    """Return ``1:02:03``, whose width does not change every second."""
    minutes, seconds = divmod(elapsed_ns // 1_000_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def _add(line: Line, text: str, style: str, width: int) -> None:
    """Append a part if there is room for it, or if it is the first."""
    gap = "  " if line.parts else ""
    if not line.parts or cell_width(line.plain) + cell_width(gap + text) <= width:
        line.append(gap)
        line.append(text, style)


_CHART_NAME = 8
_CHART_TOP = 8


def _charts(snapshot: Snapshot, width: int, height: int) -> Iterator[Line]:
    """Yield the charts over steps of time, one below the other.

    The newest step, which is not complete, is left out.
    """
    columns = width - _CHART_NAME - _CHART_TOP - 3
    if height == 0 or columns < 10:
        return
    requests = [step.requests for step in snapshot.history[:-1]][-columns:]
    errors = [step.errors for step in snapshot.history[:-1]][-columns:]
    p99s = [0 if time is None else time for time in snapshot.p99_history[:-1]][-columns:]
    step_ns = snapshot.step_ns
    for name, amounts, top, style in (
        ("requests", requests, rate_text(max(requests, default=0), step_ns), "green"),
        ("p99", p99s, duration_text(max(p99s)) if any(p99s) else "-", "cyan"),
        ("errors", errors, rate_text(max(errors, default=0), step_ns), "red"),
    ):
        labels = [(name, top), *[("", "")] * (height - 1)]
        for (left, right), bars in zip(labels, bar_lines(amounts, height), strict=True):
            line = Line()
            line.append(padded(left, _CHART_NAME), "dim")
            line.append(padded(right, _CHART_TOP + 1, right=True), "dim")
            line.append(" \u2502", "dim")
            # The newest step is at the right.
            line.append(bars.rjust(columns), style)
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
        typed = shown(state.typed) if state.typed else ""
        line = Line(f"/{_end_of(typed, width - 2)}", style="bold yellow")
        line.append("\u2588", "yellow")
        _add(line, "enter: keep  escape: drop", "dim", width)
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


def _end_of(text: str, width: int) -> str:
    """Return a text, or the end of it if there is no room for all."""
    if cell_width(text) <= width:
        return text
    while text and cell_width(text) >= width:
        text = text[1:]
    return f"\u2026{text}"


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
"""Entries of tables that are not chosen."""
_MIN_LINES = 10
"""Lines for the chosen table before others are shown."""


def _tables(
    snapshot: Snapshot, state: ViewState, width: int, room: int
) -> tuple[list[Line], ViewState]:
    chosen = _entries(state.table, snapshot, state)
    left = room - min(len(chosen) + 1, max(_MIN_LINES, room // 2))
    others: list[Line] = []
    for number in range(len(TABLES)):
        block = [] if number == state.table else _other(number, snapshot, state, width)
        if len(others) + len(block) <= left:
            others += block
    room -= len(others)
    state = state.settled(list(map(TABLES[state.table].key, chosen)), _shown(len(chosen), room))
    lines = _chosen(chosen, snapshot, state, width, room)
    lines += [Line()] * (room - len(lines))
    return [*lines, *others], state


def _shown(entries: int, room: int) -> int:
    """Return how many entries fit between the titles and the line with their count."""
    most = max(room - 1, 0)
    return most if entries <= most else max(most - 1, 0)


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
    """Return the chosen table: titles, entries, and their count if not all fit."""
    table, order = TABLES[state.table], state.orders[state.table]
    if not entries:
        word = "nothing matches" if state.shown_pattern() else "nothing yet"
        return [Line(f"{table.title}: {word}", style="dim")]
    some = entries[state.first : state.first + _shown(len(entries), room)]
    lines = list(
        table_lines(
            table,
            some,
            snapshot,
            width,
            by=order.by,
            reverse=order.reverse,
            selected=state.index - state.first if state.index >= 0 else None,
        )
    )
    if len(entries) > len(some):
        last = state.first + len(some)
        text = f"{state.first + 1} to {last} of {count_text(len(entries))}"
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
