"""Times of day for people.

In: Unix times. Out: short text, in UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.times import format_time
from kanalyze.render.text import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["clock_text", "is_dated", "moment_text"]


def clock_text(time_ns: int | None, *, dated: bool = False, decimals: int = 3) -> str:
    """Return ``09:30:00.123``, or ``01-31 09:30:00`` if ``dated``; ``-`` for None."""
    if time_ns is None:
        return MISSING
    text = format_time(time_ns)
    return f"{text[5:10]} {text[11:19]}" if dated else text[11 : 20 + decimals]


def moment_text(time_ns: int | None) -> str:
    """Return ``2026-01-31 09:30:00.123``; ``-`` for None."""
    if time_ns is None:
        return MISSING
    return format_time(time_ns)[:23].replace("T", " ")


def is_dated(capture: Mapping[str, Any]) -> bool:
    """Return true if a report's capture spans several days, so that times need a date."""
    first, last = capture["first_time"], capture["last_time"]
    return bool(first and last and first[:10] != last[:10])
