"""How long connections have been silent, by capture times that may jump.

In: the times of packets. Out: a number of ticks that rises with time.
"""

from __future__ import annotations

from typing import Final

from kanalyze.common.saved import Saved
from kanalyze.model.packets import NO_TIME

__all__ = ["IdleTimer"]

_TICKS: Final = 4
"""A connection is idle after more ticks than these, because the first and the last are partial."""


class IdleTimer:
    """Counts time in ticks, of which the idle time has four.

    A jump of the time, ahead or back, counts as one tick, so it closes no connection.
    """

    _NOT_SAVED = ("_tick_ns",)
    _SAVED = Saved("_began_ns:int? tick:count")

    def __init__(self, idle_ns: int) -> None:
        """``idle_ns`` is the least silence that counts as idle: more than 0."""
        self._tick_ns = -(-idle_ns // _TICKS)
        self._began_ns: int | None = None
        self.tick = 0
        """The current tick."""

    def advance_to(self, now_ns: int) -> bool:
        """Let time pass; tell whether there was a tick."""
        if now_ns == NO_TIME:
            return False
        if self._began_ns is None:
            self._began_ns = now_ns
        if abs(now_ns - self._began_ns) < self._tick_ns:
            return False
        self._began_ns = now_ns
        self.tick += 1
        return True

    def is_idle(self, active_tick: int) -> bool:
        """True if a connection is idle now whose last segment came in tick ``active_tick``."""
        return self.tick - active_tick > _TICKS
