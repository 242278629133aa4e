"""The controller of the view: reads keys, draws windows on the terminal.

In: the time; windows that another object fills. Out: a drawn terminal, and whether to continue. It
has no clock and does not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.live.view.tables import TABLES
from kanalyze.live.view.view import filters_text, render, view_of
from kanalyze.live.view.view_state import Effect, ViewState
from kanalyze.live.window.row_choice import RowChoice
from kanalyze.live.window.snapshot import OpenedRows
from kanalyze.live.window.windows import FilteredWindows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanalyze.live.view.terminal import Terminal
    from kanalyze.live.window.snapshot import LatestFindings, Snapshot
    from kanalyze.live.window.windows import Windows

__all__ = ["REFRESH_NS", "ViewController"]

MAX_REQUESTS = 200
"""Maximum number of requests to show for an opened line of a table."""
REFRESH_NS = 500_000_000
"""The view is drawn at this interval, and at once after a key."""


class ViewController:
    """Shows windows on a terminal, which is open already."""

    def __init__(
        self,
        windows: Windows,
        terminal: Terminal,
        *,
        refresh_ns: int = REFRESH_NS,
        filters: Mapping[str, Any] | None = None,
    ) -> None:
        """Show ``windows`` at intervals of ``refresh_ns``; ``filters`` are the filters of the run.

        If the windows keep rows, the user can filter them by a pattern and open lines of tables.
        """
        self._windows = windows
        self._terminal = terminal
        self._refresh_ns = refresh_ns
        self._state = ViewState()
        self._snapshot: Snapshot | None = None
        self._drawn_ns: int | None = None
        self._drawn_size = (0, 0)
        self._filters = filters_text(filters or {})
        self._selection: tuple[Any, ...] = ()
        """The selection that the snapshot shows: pattern, opened entry, order."""
        self._filtered: tuple[str, FilteredWindows] | None = None
        """The pattern, and sums over the rows that match it."""
        self.findings: LatestFindings | None = None
        """The result of the latest search for findings; None before the first."""

    @property
    def state(self) -> ViewState:
        """The state of the view, which keys change."""
        return self._state

    def tick(self, now_ns: int, clock_ns: int) -> bool:
        """Process keys, and draw if it is due; return False if the user quits.

        Call it a few times a second; it does not wait. ``now_ns`` is the time of the packets,
        ``clock_ns`` that of a monotonic clock. Raises OSError.
        """
        if self._filtered is not None:
            self._filtered[1].follow()
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
        return self._drawn_ns is None or clock_ns - self._drawn_ns >= self._refresh_ns

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
            snapshot = snapshot._replace(findings=self.findings, filters=self._filters)
        return self._opened(self._matching(snapshot))

    def _matching(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot of the requests that match the pattern, or of all without a pattern."""
        rows, pattern = self._windows.recent_rows, self._state.shown_pattern()
        if not pattern or rows is None:
            self._filtered = None
            return snapshot
        if self._filtered is None or self._filtered[0] != pattern:
            self._filtered = pattern, FilteredWindows(rows, RowChoice(naming=pattern))
        return self._filtered[1].snapshot(snapshot)

    def _opened(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the requests of the opened entry, if there is one."""
        rows, state = self._windows.recent_rows, self._state
        line = None if state.opened is None else TABLES[state.table].opened(state.opened)
        if rows is None or line is None or state.request is not None:
            return snapshot._replace(opened=None)
        matches_pattern = RowChoice(naming=state.shown_pattern())
        span_ns = snapshot.recent_ns if line.is_recent else snapshot.window_ns
        requests, count = rows.find(
            lambda block: line.choice(block) & matches_pattern(block),
            since_ns=snapshot.time_ns - span_ns,
            most=MAX_REQUESTS,
            slowest=not state.latest,
        )
        return snapshot._replace(opened=OpenedRows(tuple(requests), count))
