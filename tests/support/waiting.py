"""Waiting for an event, however slow or busy the machine is."""

from __future__ import annotations

import os
import select
import time
from typing import IO, TYPE_CHECKING, TypeVar

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


def next_line(pipe: IO[bytes]) -> bytes:
    """Return the next line from a pipe; empty at its end.

    It is read byte by byte: what is in the buffer of a file is nothing that ``select`` waits for.
    """
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([pipe], [], [], LONG_S)[0], line
        byte = os.read(pipe.fileno(), 1)
        if not byte:
            break
        line += byte
    return line
