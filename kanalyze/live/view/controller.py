"""The view as it goes on: windows, a terminal, and the user in turns.

In: time, and windows that someone else fills. Out: a terminal that shows them, and whether to go
on. This module must not know where rows come from; it has no clock and does not wait.
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
"""The view is drawn anew so often, and at once after a key."""


class _Screen(Protocol):
    """What :class:`~kanalyze.live.view.terminal.Terminal` has."""

    @property
    def size(self) -> tuple[int, int]: ...

    def show(self, renderable: RenderableType) -> None: ...

    def keys(self) -> list[str]: ...


class ViewController:
    """Shows windows on a terminal that is entered already."""

    def __init__(
        self, windows: Windows, terminal: _Screen, *, refresh_ns: int = REFRESH_NS
    ) -> None:
        """Begin; ``refresh_ns`` is how often the view is drawn anew."""
        self._windows = windows
        self._terminal = terminal
        self._refresh_ns = refresh_ns
        self._state = ViewState()
        self._snapshot: Snapshot | None = None
        self._drawn_ns: int | None = None
        self._drawn_size = (0, 0)

    @property
    def state(self) -> ViewState:
        """What the user has chosen."""
        return self._state

    def tick(self, now_ns: int, clock_ns: int) -> bool:
        """Heed keys, and draw when it is time to; False: the user wants to quit.

        Never waits: to be called after each batch, some times a second. ``now_ns`` is the time of
        the packets, ``clock_ns`` that of a clock that does not jump. Raises OSError.
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
                # Each goes on from where the one before it has led, not from beyond an end.
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
