"""Processor time, held against what this processor does in a second."""

from __future__ import annotations

import time

_TURNS = 200_000
_USUAL_S = 0.01
"""For so many turns, on the processors that limits were chosen on."""


def took_soon(taken_s: float, limit_s: float) -> bool:
    """Whether processor time was below a limit: of a slow processor that is so much more.

    Limits are ten and more times what is usual. They tell what takes time in proportion from what
    does not.
    """
    return taken_s < limit_s or taken_s < limit_s * _slowness()


def _slowness() -> float:
    return min(_seconds_of_turns() for _ in range(5)) / _USUAL_S


def _seconds_of_turns() -> float:
    began_s = time.thread_time()
    total = 0
    for number in range(_TURNS):
        total += number & 7
    return time.thread_time() - began_s
