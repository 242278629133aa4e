"""Waiting for an event, however slow or busy the machine is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LONG_S = 300.0
"""A deadline that only an event that never comes exceeds: tests wait for events, not times."""
_LOOK_EVERY_S = 0.01


def wait_until(look: Callable[[], T], what: str = "what was waited for") -> T:
    """Call ``look`` until its result is true, and return it; fail if it never is."""
    until_s = time.monotonic() + LONG_S
    while not (found := look()):
        assert time.monotonic() < until_s, f"{what}: not within {LONG_S:.0f} s"
        time.sleep(_LOOK_EVERY_S)
    return found
