"""The view: capture, rates, alerts, charts, tables; and what keys do to it.

In: windows that another object fills, the time, keys and the size of a terminal. Out: a drawn
terminal, and whether to continue. It has no clock and does not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.zones import UTC, Zone
from kanalyze.live.run import Sink
from kanalyze.live.view.alerts import alerts
from kanalyze.live.view.tables import REQUESTS, TABLES, finding_text, sorted_entries, table_lines
from kanalyze.live.view.view_state import Effect, ViewState
from kanalyze.live.window.row_measures import RowChoice
from kanalyze.live.window.snapshot import PIPE, OpenedRows
from kanalyze.queries.finding import Finding
from kanalyze.queries.report_names import names_in
from kanalyze.render.findings import command_text, confidence_text
from kanalyze.render.layout import bar_lines, cell_width, padded
from kanalyze.render.lines import Line
from kanalyze.render.units import (
    MISSING,
    bytes_text,
    count_text,
    counted,
    duration_text,
    moment_text,
    percent_text,
    rate_text,
    shown,
)
from kanalyze.spec.rows.requests import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.text import Text

    from kanalyze.live.view.tables import LiveTable
    from kanalyze.live.view.terminal import Terminal
    from kanalyze.live.window.snapshot import CaptureState, Snapshot
    from kanalyze.live.window.windows import Windows
    from kanalyze.runtime.monitor import TlsConnections
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.names import AddressNames

_MAX_ITEMS = 100
"""Maximum number of items to show of a list, such as the partitions of a request."""


def request_fields(row: Row, zone: Zone = UTC) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each field, in the order of columns; for lists, of each item."""
    for column in COLUMNS:
        value = getattr(row, column.name)
        if isinstance(value, list):
            for item in value[:_MAX_ITEMS]:
                yield column.name, _item_text(item)
            if len(value) > _MAX_ITEMS:
                yield column.name, f"{count_text(len(value) - _MAX_ITEMS)} more"
        elif value is not None:
            yield column.name, _text(column.name, value, zone)


def _text(name: str, value: Any, zone: Zone = UTC) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int):
        return shown(str(value))
    if name.endswith(("_start_ns", "_end_ns")):
        return f"{moment_text(value, zone)} {zone.short_label(value)}"
    if name.endswith("_ns"):
        return duration_text(value)
    if name.endswith("_bytes"):
        return f"{bytes_text(value)} ({value:,})"
    return str(value)


def _item_text(item: Any) -> str:
    """Return a struct's fields, without nulls, or a text."""
    if not hasattr(item, "_asdict"):
        return shown(str(item))
    return ", ".join(
        f"{name} {shown(str(value))}" for name, value in item._asdict().items() if value is not None
    )


_HELP_KEYS = 14
_HELP = (
    ("tab, 1 to 9", "choose the table"),
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
        body, state = _fields(state.request, snapshot, state, width, room)
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
        # What hangs and what is missing come first, because there may be no room for all parts.
        if capture.in_flight is not None:
            _add(line, f"in flight {count_text(capture.in_flight.requests)}", "", width)
        dropped = capture.dropped_packets
        text = f"dropped {'unknown' if dropped is None else count_text(dropped)}"
        _add(line, text, "bold red" if dropped else "dim", width)
        _add(line, f"packets {rate_text(snapshot.packets, snapshot.window_ns)}", "", width)
        if capture.tls is not None and (capture.tls.decrypted or capture.tls.encrypted):
            _add(line, _tls_text(capture.tls), "yellow" if capture.tls.encrypted else "", width)
        _add(line, rate_text(snapshot.wire_bytes, snapshot.window_ns, "B"), "", width)
        _add(line, f"connections {count_text(capture.connections)}", "", width)
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
        Line(padded(snapshot.named(alert.text), width).rstrip(), alert.style)
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
        found = len(_entries(number, snapshot, state)) if table.finds else 0
        count = f": {count_text(found)}" if found else ""
        if names + 3 * len(TABLES) + len(count) > room:
            count = "!" * bool(found)
        style = "bold reverse" if chosen else "bold red" if found else "dim"
        line.append(f"{pad}{name}{count}{pad}", style)
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


def _fields(
    request: Row, snapshot: Snapshot, state: ViewState, width: int, room: int
) -> tuple[list[Line], ViewState]:
    """Return the fields of a request that are not null, a line for each."""
    fields = list(request_fields(request, snapshot.zone))
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


_OLD_S = 5
"""The age in seconds of a search for findings that is said."""


def _nothing(table: LiveTable, snapshot: Snapshot, state: ViewState) -> str:
    """Return why a table is empty."""
    latest = snapshot.findings
    if table.finds and latest is not None and latest.requests and not latest.findings:
        span = _span_text(latest.span_ns, snapshot)
        age_s = (snapshot.time_ns - latest.time_ns) // 1_000_000_000
        ago = f", {age_s} s ago" if age_s >= _OLD_S else ""
        return f"none in the last {counted(latest.requests, 'request')}, of {span}{ago}"
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


MAX_REQUESTS = 200
"""Maximum number of requests to show for an opened line of a table."""
REFRESH_NS = 500_000_000
"""The view is drawn at this interval, and at once after a key."""


class ViewController(Sink):
    """Shows windows on a terminal, which is open already; its user can end the run."""

    def __init__(
        self,
        windows: Windows,
        terminal: Terminal,
        *,
        filters: Mapping[str, Any] | None = None,
        zone: Zone = UTC,
        names: AddressNames | None = None,
    ) -> None:
        """Show ``windows`` at intervals; ``filters`` are the filters of the run.

        Times are those of ``zone``; ``names`` stand beside their addresses.

        If the windows keep rows, the user can filter them by a pattern and open lines of tables.
        """
        self._windows = windows
        self._terminal = terminal
        self._state = ViewState()
        self._snapshot: Snapshot | None = None
        self._drawn_ns: int | None = None
        self._drawn_size = (0, 0)
        self._filters = filters_text(filters or {})
        self._zone = zone
        self._names = names
        self._now_ns = 0
        """The time at which names hold: that of the latest tick."""
        self._selection: tuple[Any, ...] = ()
        """The selection that the snapshot shows: pattern, opened entry, order."""
        self._pattern = ""
        """The pattern by which the windows are filtered."""

    @property
    def state(self) -> ViewState:
        """The state of the view, which keys change."""
        return self._state

    def add(self, rows: RowBlock, now_ns: int) -> None:
        """Count rows."""
        self._windows.add(rows, now_ns)

    def tick(self, state: CaptureState, now_ns: int, clock_ns: int) -> bool:
        """Process keys, and draw if it is due; return False if the user quits.

        Call it a few times a second; it does not wait. Raises OSError.
        """
        self._windows.add_capture(state, now_ns)
        self._now_ns = now_ns
        keys = self._terminal.keys()
        size = self._terminal.size
        for key in keys:
            self._state, effect = self._state.key(key)
            if effect is Effect.QUIT:
                return False
            if effect is Effect.CLEAR:
                self._windows.clear()
                self._snapshot = None
            elif self._snapshot is not None and len(keys) > 1:
                # The next key of this batch refers to the line that this key selected.
                self._state = view_of(self._snapshot, self._state, *size).state
        if keys or size != self._drawn_size or self._is_due(clock_ns):
            self._draw(now_ns, size)
            self._drawn_ns, self._drawn_size = clock_ns, size
        return True

    def _is_due(self, clock_ns: int) -> bool:
        return self._drawn_ns is None or clock_ns - self._drawn_ns >= REFRESH_NS

    def _draw(self, now_ns: int, size: tuple[int, int]) -> None:
        selection = (self._state.shown_pattern(), self._state.opened, self._state.latest)
        # A paused view keeps its snapshot until the selection changes.
        if self._snapshot is None or not self._state.paused or selection != self._selection:
            self._snapshot, self._selection = self._latest_snapshot(now_ns), selection
        lines, self._state = view_of(self._snapshot, self._state, *size)
        self._terminal.show(render(lines))

    def _latest_snapshot(self, now_ns: int) -> Snapshot:
        snapshot = self._snapshot and (self._snapshot.unfiltered or self._snapshot)
        if snapshot is None or not self._state.paused:
            snapshot = self._windows.snapshot(now_ns)
            snapshot = snapshot._replace(filters=self._filters, zone=self._zone, names=self._names)
        return self._opened(self._matching(snapshot))

    def _matching(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot of the requests that match the pattern, or of all without a pattern."""
        pattern = self._state.shown_pattern()
        if pattern != self._pattern:
            self._pattern = pattern
            self._windows.filter_by(self._matching_rows() if pattern else None)
        return self._windows.filtered(snapshot)

    def _matching_rows(self) -> RowChoice:
        return RowChoice(
            naming=self._state.shown_pattern(),
            names_in=lambda text: names_in(text, self._names, self._now_ns),
        )

    def _opened(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the requests of the opened entry, if there is one."""
        rows, state = self._windows.recent_rows, self._state
        line = None if state.opened is None else TABLES[state.table].opened(state.opened)
        if rows is None or line is None or state.request is not None:
            return snapshot._replace(opened=None)
        matches_pattern = self._matching_rows()
        span_ns = snapshot.recent_ns if line.is_recent else snapshot.window_ns
        requests, count = rows.find(
            lambda block: line.choice(block) & matches_pattern(block),
            since_ns=snapshot.time_ns - span_ns,
            most=MAX_REQUESTS,
            slowest=not state.latest,
        )
        return snapshot._replace(opened=OpenedRows(tuple(requests), count))
