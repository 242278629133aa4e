"""Waiting for something to come about, however slow the machine is and whatever else runs on it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LONG_S = 300.0
"""Nothing takes so long unless it never comes: what is waited for is an event, not this time."""
_LOOK_EVERY_S = 0.01


def wait_until(look: Callable[[], T], what: str = "what was waited for") -> T:
    """Look until there is something, and return it; raises AssertionError where it never comes."""
    until_s = time.monotonic() + LONG_S
    while not (found := look()):
        assert time.monotonic() < until_s, f"{what}: not within {LONG_S:.0f} s"
        time.sleep(_LOOK_EVERY_S)
    return found
