"""How often Python searches for cycles of objects.

In: nothing. Out: thresholds of the garbage collector.

Rows and messages are many small objects without cycles. With Python's own thresholds, the search
for cycles takes a fifth to a third of the time of an analysis, and finds nothing.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:  # see kanalyze/cli/interruption.py
    from collections.abc import Iterator
    from typing import Final

_OBJECTS_BETWEEN_COLLECTIONS: Final = 100_000
_THRESHOLDS: Final = (_OBJECTS_BETWEEN_COLLECTIONS, 50, 100)


def collect_rarely() -> None:
    """Search for cycles rarely from now on, for a process that only runs our code."""
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Search for cycles rarely inside a ``with`` block; the thresholds before come back after it.

    Thresholds are of the whole process. If the user's are higher, or 0 (never), they stay.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < _OBJECTS_BETWEEN_COLLECTIONS:
        yield
        return
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def no_collection() -> Iterator[None]:
    """Do not search for cycles inside a ``with`` block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
