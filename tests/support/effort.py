"""Processor time, compared with the speed of this processor."""

from __future__ import annotations

import time

_TURNS = 200_000
_USUAL_S = 0.01
"""Time of the calibration loop on the processors for which limits were chosen."""


def took_soon(taken_s: float, limit_s: float) -> bool:
    """Whether processor time was below a limit, which is higher for a slow processor.

    Limits are at least ten times the usual time. They distinguish time in proportion to the input
    from time out of proportion.
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
