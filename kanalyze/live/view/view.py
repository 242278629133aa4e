"""Lays out the view: capture, rates, alerts, charts, tables.

In: snapshots, the state of the view, the size of a terminal. Out: lines, and the state with the
selected entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.live.view.alerts import alerts
from kanalyze.live.view.request_fields import request_fields
from kanalyze.live.view.tables import REQUESTS, TABLES, finding_text, sorted_entries, table_lines
from kanalyze.live.window.snapshot import PIPE
from kanalyze.queries.findings import Finding
from kanalyze.render.findings import command_text, confidence_text
from kanalyze.render.layout import bar_lines, cell_width, padded
from kanalyze.render.lines import Line
from kanalyze.render.units import (
    MISSING,
    count_text,
    counted,
    duration_text,
    percent_text,
    rate_text,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.text import Text

    from kanalyze.live.view.tables import LiveTable
    from kanalyze.live.view.view_state import ViewState
    from kanalyze.live.window.snapshot import Snapshot
    from kanalyze.runtime.monitor import TlsConnections
    from kanalyze.spec.rows.requests import Row

__all__ = ["View", "filters_text", "render", "view_of"]


_HELP_KEYS = 14
_HELP = (
    ("tab, 1 to 8", "choose the table"),
    ("up, down", "select a line; also j, k, page up, page down, end; home: select none"),
    ("enter", "show the requests of the selected line; again: all fields of a request"),
    ("escape", "go back; clear the filter and the selection"),
    ("s", "sort by the next column; in requests: slowest or latest first"),
    ("r", "reverse the order"),
    ("/", "show only requests with this name: API, client, topic, ...; a part or a glob (* ? [])"),
    ("p, space", "pause the view; counting continues"),
    ("c", "clear the counts"),
    ("q, ctrl-c", "quit"),
)


# -- what is shown --------------------------------------------------------------------------------


class View(NamedTuple):
    """The content of the screen."""

    lines: list[Line]
    state: ViewState
    """The state, with the selection adapted to the entries; see :meth:`ViewState.settled`."""


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
    if state.request is None:
        head += _charts(snapshot, width, _chart_height(height))
    head.append(_tabs(snapshot, state, width))
    foot = [_foot(state, width)]
    room = max(height - len(head) - len(foot), 0)
    if state.request is not None:
        body, state = _fields(state.request, state, width, room)
    elif state.opened is not None:
        body, state = _requests(snapshot, state, width, room)
    else:
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


def filters_text(filters: Mapping[str, Any]) -> str:
    """Return the filters of the run as options of the command line; escaped."""
    words = []
    for name, value in filters.items():
        if name == "slower_than_ns":
            words.append(f"--slower-than {duration_text(value).replace(' ', '')}")
        elif value is True:
            words.append(f"--{name}")
        else:
            words += [f"--{name.replace('_', '-')} {shown(str(each))}" for each in value]
    return " ".join(words)


def _capture(snapshot: Snapshot, state: ViewState, width: int) -> Line:
    # Counts of packets are known only for all requests together.
    snapshot = snapshot.unfiltered or snapshot
    capture = snapshot.capture
    line = Line()
    if state.paused:
        line.append("PAUSED", "bold black on yellow")
    if capture is not None:
        source = "(pipe)" if capture.source == PIPE else shown(capture.source, max(width // 4, 8))
        _add(line, source, "bold", width)
        _add(line, _clock(capture.elapsed_ns), "", width)
        dropped = capture.dropped_packets
        # Dropped packets come first, because there may be no room for all parts.
        text = f"dropped {'unknown' if dropped is None else count_text(dropped)}"
        _add(line, text, "bold red" if dropped else "dim", width)
        _add(line, f"packets {rate_text(snapshot.packets, snapshot.window_ns)}", "", width)
        if capture.tls is not None and (capture.tls.decrypted or capture.tls.encrypted):
            _add(line, _tls_text(capture.tls), "yellow" if capture.tls.encrypted else "", width)
        _add(line, rate_text(snapshot.wire_bytes, snapshot.window_ns, "B"), "", width)
        _add(line, f"connections {count_text(capture.connections)}", "", width)
        if capture.in_flight is not None:
            _add(line, f"in flight {count_text(capture.in_flight.requests)}", "", width)
    return line


def _tls_text(tls: TlsConnections) -> str:
    if not tls.decrypted:
        return f"TLS {count_text(tls.encrypted)} encrypted"
    of = f"/{count_text(tls.decrypted + tls.encrypted)}" if tls.encrypted else ""
    return f"TLS {count_text(tls.decrypted)}{of} decrypted"


def _rates(snapshot: Snapshot, width: int) -> Line:
    traffic, window_ns = snapshot.traffic, snapshot.window_ns
    line = Line()
    _add(line, f"requests {rate_text(traffic.requests, window_ns)}", "bold green", width)
    share = MISSING if snapshot.error_share is None else percent_text(snapshot.error_share)
    errors = f"errors {rate_text(traffic.errors, window_ns)} ({share})"
    _add(line, errors, "red" if traffic.errors else "dim", width)
    if traffic.unread:
        _add(line, f"not read {rate_text(traffic.unread, window_ns)}", "yellow", width)
    if snapshot.p99_ns is not None:
        _add(line, f"p99 {duration_text(snapshot.p99_ns)}", "bold", width)
        _add(line, f"p50 {duration_text(snapshot.p50_ns)}", "", width)
    _add(line, f"last {_span_text(window_ns, snapshot)}", "dim", width)
    _add(line, f"sent {rate_text(traffic.request_bytes, window_ns, 'B')}", "", width)
    _add(line, f"received {rate_text(traffic.response_bytes, window_ns, 'B')}", "", width)
    return line


def _span_text(span_ns: int, snapshot: Snapshot) -> str:
    """Return a span of time in whole steps, so that the text does not change all the time."""
    return duration_text(-(-span_ns // snapshot.step_ns) * snapshot.step_ns)


def _alerts(snapshot: Snapshot, width: int, most: int) -> list[Line]:
    lines = [
        Line(padded(alert.text, width).rstrip(), alert.style)
        for alert in alerts(snapshot.unfiltered or snapshot)
    ]
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

    The newest step is left out, because it is not complete.
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
        for (label, scale), bars in zip(labels, bar_lines(amounts, height), strict=True):
            line = Line()
            line.append(padded(label, _CHART_NAME), "dim")
            line.append(padded(scale, _CHART_TOP + 1, right=True), "dim")
            line.append(" \u2502", "dim")
            # The newest step is at the right.
            line.append(bars.rjust(columns), style)
            yield line


def _tabs(snapshot: Snapshot, state: ViewState, width: int) -> Line:
    """Return the tabs, then the filter; a long filter makes the tabs shorter."""
    filters = [snapshot.filters]
    if state.typed is None:
        filters.append(shown(state.pattern) if state.pattern else "")
    text = " ".join(filter(None, filters))
    room = width - min(cell_width(f" only {text}"), width // 3) * bool(text)
    names = sum(len(table.name) for table in TABLES)
    is_wide, is_narrow = names + 5 * len(TABLES) <= room, names + 3 * len(TABLES) > room
    pad = " " * is_wide
    line = Line()
    for number, table in enumerate(TABLES):
        chosen = number == state.table
        name = f"{number + 1} {table.name}" if chosen or not is_narrow else f"{number + 1}"
        line.append(f"{pad}{name}{pad}", "bold reverse" if chosen else "dim")
        line.append(" ")
    if text:
        line.append(padded(f"only {text}", max(width - cell_width(line.plain), 0)), "yellow")
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
    keys = _FOOT if not state.outer else _FOOT_OF_ROWS if state.request is None else _FOOT_OF_ROW
    for key, meaning in keys:
        text = f"{key} {meaning}"
        if cell_width(line.plain) + len(text) + 2 > width:
            break
        line.append("  " if line.parts else "")
        line.append(key, "bold")
        line.append(f" {meaning}", "dim")
    return line


def _end_of(text: str, width: int) -> str:
    """Return a text; if it is wider than ``width``, an ellipsis and its end."""
    if cell_width(text) <= width:
        return text
    while text and cell_width(text) >= width:
        text = text[1:]
    return f"\u2026{text}"


_FOOT = (
    ("q", "quit"),
    ("?", "help"),
    ("tab", "table"),
    ("enter", "open"),
    ("s", "sort"),
    ("r", "reverse"),
    ("/", "filter"),
    ("p", "pause"),
    ("c", "clear"),
)
_FOOT_OF_ROW = (("q", "quit"), ("?", "help"), ("escape", "back"), ("p", "pause"))
_FOOT_OF_ROWS = (
    *_FOOT_OF_ROW[:3],
    ("enter", "open"),
    ("s", "slowest or latest first"),
    *_FOOT_OF_ROW[3:],
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

_OTHERS_LINES = (12, 6, 3)
"""Numbers of entries to show of each other table; the first number for which all tables fit."""
_MIN_LINES = 10
"""Lines that the chosen table may take before other tables get room."""


def _tables(
    snapshot: Snapshot, state: ViewState, width: int, room: int
) -> tuple[list[Line], ViewState]:
    chosen = _entries(state.table, snapshot, state)
    remaining_lines = room - min(len(chosen) + 1, max(_MIN_LINES, room // 2))
    other_lines: list[Line] = []
    for most in _OTHERS_LINES:
        blocks = [
            _other(number, snapshot, state, width, most)
            for number in range(len(TABLES))
            if number != state.table
        ]
        if sum(map(len, blocks)) <= remaining_lines:
            break
    for block in blocks:
        if len(other_lines) + len(block) <= remaining_lines:
            other_lines += block
    room -= len(other_lines)
    notes = _left_out(snapshot, state)[: max(room - 2, 0)]
    keys = list(map(TABLES[state.table].key, chosen))
    state = state.settled(keys, _visible_entries(len(chosen), room - len(notes)))
    lines = [*notes, *_chosen(chosen, snapshot, state, width, room - len(notes))]
    lines += [Line()] * (room - len(lines))
    return [*lines, *other_lines], state


def _left_out(snapshot: Snapshot, state: ViewState) -> list[Line]:
    """Return lines, above the table of findings, about findings that are not searched for."""
    if not TABLES[state.table].finds or snapshot.findings is None:
        return []
    reasons = snapshot.findings.not_searched.items()
    return [
        Line(f"left out: {shown(name)}: {shown(why, _WORDS)}", "yellow") for name, why in reasons
    ]


_WORDS = 200
"""Characters of a reason."""


def _requests(
    snapshot: Snapshot, state: ViewState, width: int, room: int
) -> tuple[list[Line], ViewState]:
    """Return the lines of the opened entry: its description, then its requests."""
    table, opened = TABLES[state.table], snapshot.opened
    line = table.opened(state.opened)
    rows = () if opened is None else opened.rows
    count = 0 if opened is None else opened.total
    span_ns = snapshot.recent_ns if line is not None and line.is_recent else snapshot.window_ns
    span = _span_text(span_ns, snapshot)
    order = "latest" if state.latest else "slowest"
    name = MISSING if line is None else line.name
    title = f"{table.name}: {name}: {counted(count, 'request')} in {span}, {order} first"
    head = [Line(part.plain, "bold") for part in Line(title).fitted(width)]
    description = _about_finding(snapshot, state, width)
    most = max(room - len(head) - min(len(rows) + 1, room // 2), 0)
    head += description[:most]
    if len(description) > most > 0:
        head[-1] = Line(f"{padded(head[-1].plain, width - 2).rstrip()} \u2026")
    room = max(room - len(head), 0)
    state = state.settled(rows, max(room - 1, 0))
    visible = rows[state.first : state.first + max(room - 1, 0)]
    if not visible:
        finding = _opened_finding(snapshot, state)
        is_of_requests = finding is None or finding.command == "requests"
        nothing = "no requests in this time" if is_of_requests else "not about requests"
        return [*head, Line(nothing, style="dim")], state
    by = _TIME_COLUMN if state.latest else 0
    lines = table_lines(REQUESTS, visible, snapshot, width, by=by, selected=state.selected_line)
    return [*head, *lines], state


_TIME_COLUMN = 3


def _about_finding(snapshot: Snapshot, state: ViewState, width: int) -> list[Line]:
    """Return the texts of the opened finding, as lines."""
    finding = _opened_finding(snapshot, state)
    if finding is None:
        return []
    texts = (
        ("what", finding_text(finding)),
        ("why", finding.why),
        ("repair", finding.repair),
        ("confidence", confidence_text(finding.sure)),
        ("rows", command_text(finding.command, finding.options)),
    )
    return [line for name, text in texts for line in Line(f"{name}: {text}").fitted(width)]


def _opened_finding(snapshot: Snapshot, state: ViewState) -> Finding | None:
    table = TABLES[state.table]
    for entry in table.entries(snapshot) if table.finds else ():
        if table.key(entry) == state.opened:
            assert isinstance(entry, Finding)
            return entry
    return None


def _fields(request: Row, state: ViewState, width: int, room: int) -> tuple[list[Line], ViewState]:
    """Return the fields of a request that are not null, a line for each."""
    fields = list(request_fields(request))
    state = state.settled(range(len(fields)), room)
    name_width = max(len(name) for name, _ in fields)
    lines = []
    for number, (name, text) in enumerate(fields[state.first : state.first + room], state.first):
        line = Line()
        marked = " reverse" * (number == state.index)
        line.append(padded(name, name_width + 2), f"dim{marked}")
        line.append(padded(text, max(width - name_width - 2, 1)).rstrip(), marked.lstrip())
        lines.append(line)
    return lines, state


def _visible_entries(entries: int, room: int) -> int:
    """Return how many entries fit below the titles.

    If not all of them fit, one line is needed for their count.
    """
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
        return [Line(f"{table.title}: {_nothing(table, snapshot, state)}", style="dim")]
    visible = entries[state.first : state.first + _visible_entries(len(entries), room)]
    lines = list(
        table_lines(
            table,
            visible,
            snapshot,
            width,
            by=order.by,
            reverse=order.reverse,
            selected=state.selected_line,
        )
    )
    if len(entries) > len(visible):
        last = state.first + len(visible)
        text = f"{state.first + 1} to {last} of {count_text(len(entries))}"
        lines.append(Line(text, style="dim"))
    return lines


def _nothing(table: LiveTable, snapshot: Snapshot, state: ViewState) -> str:
    """Return why a table is empty."""
    latest = snapshot.findings
    if table.finds and latest is not None and latest.requests and not latest.findings:
        span = _span_text(latest.span_ns, snapshot)
        return f"none in the last {counted(latest.requests, 'request')}, of {span}"
    return "nothing matches" if state.shown_pattern() else "nothing yet"


def _other(number: int, snapshot: Snapshot, state: ViewState, width: int, most: int) -> list[Line]:
    entries = _entries(number, snapshot, state)
    if not entries:
        return []
    table = TABLES[number]
    return [
        Line(),
        Line(table.title, style="bold cyan"),
        *table_lines(table, entries[:most], snapshot, width),
    ]
