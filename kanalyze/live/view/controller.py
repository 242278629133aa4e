"""The controller of the view: reads keys, draws windows on the terminal.

In: the time; windows that another object fills. Out: a drawn terminal, and whether to go on. Must
not know: where rows come from. It has no clock and does not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kanalyze.live.view.view import render, view_of
from kanalyze.live.view.view_state import Effect, ViewState

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kanalyze.live.window.snapshot import Snapshot
    from kanalyze.live.window.windows import Windows

__all__ = ["REFRESH_NS", "ViewController"]

REFRESH_NS = 500_000_000
"""The view is drawn at this interval, and at once after a key."""


class _Screen(Protocol):
    """The part of :class:`~kanalyze.live.view.terminal.Terminal` that the controller uses."""

    @property
    def size(self) -> tuple[int, int]: ...

    def show(self, renderable: RenderableType) -> None: ...

    def keys(self) -> list[str]: ...


class ViewController:
    """Shows windows on a terminal, which is open already."""

    def __init__(
        self, windows: Windows, terminal: _Screen, *, refresh_ns: int = REFRESH_NS
    ) -> None:
        """Show ``windows`` at intervals of ``refresh_ns``."""
        self._windows = windows
        self._terminal = terminal
        self._refresh_ns = refresh_ns
        self._state = ViewState()
        self._snapshot: Snapshot | None = None
        self._drawn_ns: int | None = None
        self._drawn_size = (0, 0)

    @property
    def state(self) -> ViewState:
        """The state of the view, which keys change."""
        return self._state

    def tick(self, now_ns: int, clock_ns: int) -> bool:
        """Process keys, and draw if it is due; return False if the user quits.

        Call it a few times a second; it does not wait. ``now_ns`` is the time of the packets,
        ``clock_ns`` that of a monotonic clock. Raises OSError.
        """
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
                # The next key starts from the line that this one led to.
                self._state = view_of(self._snapshot, self._state, *size).state
        if keys or size != self._drawn_size or self._is_due(clock_ns):
            self._draw(now_ns, size)
            self._drawn_ns, self._drawn_size = clock_ns, size
        return True

    def _is_due(self, clock_ns: int) -> bool:
        return self._drawn_ns is None or clock_ns - self._drawn_ns >= self._refresh_ns

    def _draw(self, now_ns: int, size: tuple[int, int]) -> None:
        if self._snapshot is None or not self._state.paused:
            self._snapshot = self._windows.snapshot(now_ns)
        lines, self._state = view_of(self._snapshot, self._state, *size)
        self._terminal.show(render(lines))
