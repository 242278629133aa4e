"""A clock on which waiting takes no time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kanalyze.cli.progress import SystemClock
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable


class FastClock(SystemClock):
    """A clock that advances at once when code waits, up to ``until_s``; then it stands still."""

    def __init__(self, until_s: float, at: Callable[[float], object] = lambda _: None) -> None:
        """Call ``at`` with the new time whenever it advances, before the wait returns."""
        self._now_s = 0.0
        self._until_s = until_s
        self._at = at
        self._is_over = threading.Event()

    def seconds(self) -> float:
        return self._now_s

    def ends_within(self, ended: threading.Event, seconds: float) -> bool:
        later_s = round(self._now_s + seconds, 6)
        if later_s > self._until_s:
            self._is_over.set()
            return ended.wait(LONG_S)
        self._now_s = later_s
        self._at(later_s)
        return False

    def run(self) -> None:
        """Return when ``until_s`` is reached and everything due is done."""
        assert self._is_over.wait(LONG_S)
