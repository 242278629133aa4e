"""Counts the work of a piece of code, so that the figure is the same on every machine."""

from __future__ import annotations

import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def calls_of(action: Callable[[], object]) -> int:
    """Run something and return how many functions it called, those written in C among them.

    A loop over Python objects calls something at each step. What NumPy does within one call
    counts once.
    """
    calls = 0

    def count(_frame: object, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


def peak_bytes_of(action: Callable[[], object]) -> int:
    """Run something and return the peak of the memory that Python allocated for it."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
