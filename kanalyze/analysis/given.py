"""What Python's users give as conditions: datetimes, durations, one value or several.

In: any value. Out: the texts that :class:`~kanalyze.analysis.filters.RowFilter` reads, numbers, or
a UsageError of one line that names the argument. This module must not know what is done with them.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.analysis.sizes import parse_size
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal

__all__ = [
    "Duration",
    "Moment",
    "Ports",
    "Texts",
    "duration_text",
    "path_text",
    "ports",
    "shown",
    "size_bytes",
    "texts",
    "time_text",
    "truth",
]

Texts: TypeAlias = "str | Iterable[str] | None"
"""One, several, or none."""
Ports: TypeAlias = "int | str | Iterable[int | str] | None"
Moment: TypeAlias = "str | datetime | date | time | float | Decimal | None"
"""As text; without a zone it is UTC; a number is Unix seconds."""
Duration: TypeAlias = "str | timedelta | None"

_NS_PER_US = 1_000
_MICROSECOND = timedelta(microseconds=1)
_MOST_SHOWN = 60


def texts(name: str, value: object, *, numbers: bool = False) -> tuple[str, ...]:
    """Return one text or several as texts; none for None. With ``numbers``, integers too."""
    if value is None:
        return ()
    return tuple(_text(name, each, numbers=numbers) for each in _several(value))


def _several(value: object) -> list[object]:
    """Return what a list, a set and the like hold; anything else is alone."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__") or isinstance(value, type):
        return [value]
    return list(value)


def _text(name: str, value: object, *, numbers: bool) -> str:
    if isinstance(value, str):
        return value
    if numbers and isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise UsageError(f"{name}: not the key of an API: {value}")
        return str(value)
    raise UsageError(f"{name}: not a text: {shown(value)}")


def ports(value: object) -> tuple[int, ...]:
    """Return TCP ports, given as numbers or as texts."""
    return () if value is None else tuple(map(_port, _several(value)))


def _port(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 5:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 65536:
        return value
    raise UsageError(f"not a TCP port: {shown(value)}")


def time_text(name: str, value: object) -> str | None:
    """Return a time as the text that says it; None for None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return _datetime_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time) and value.tzinfo is None:
        return value.isoformat()
    seconds = _seconds_text(value)
    if seconds is None:
        raise UsageError(f"{name}: not a time: {shown(value)}")
    return seconds


def _seconds_text(value: object) -> str | None:
    """Return a number of seconds in digits; None for what is none."""
    from decimal import Decimal  # slow to import, and most filters tell no time

    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    seconds = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return f"{seconds:f}" if seconds.is_finite() and seconds >= 0 else None


def _datetime_text(value: datetime) -> str:
    at = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    # Those of pandas have nanoseconds besides.
    nanoseconds = getattr(at, "nanosecond", 0)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond * _NS_PER_US + nanoseconds:09d}Z"


def duration_text(name: str, value: object) -> str | None:
    """Return a duration as the text that says it; None for None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, timedelta) and value >= timedelta(0):
        # Those of pandas have nanoseconds besides.
        return f"{value // _MICROSECOND * _NS_PER_US + getattr(value, 'nanoseconds', 0)}ns"
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise UsageError(f"{name}: {value} has no unit (give '{value}ms', or a timedelta)")
    raise UsageError(f"{name}: not a duration: {shown(value)}")


def truth(name: str, value: object) -> bool:
    """Return what is True or False, and nothing that only counts as such."""
    if isinstance(value, bool):
        return value
    raise UsageError(f"{name}: not True or False: {shown(value)}")


def size_bytes(name: str, value: object) -> int | None:
    """Return a size, given as bytes or as a text such as ``2G``; None for None."""
    if isinstance(value, str):
        return parse_size(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise UsageError(f"{name}: not a number of bytes: {shown(value)}")


def path_text(name: str, value: object) -> str | None:
    """Return a path as text; None for None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(value)
    raise UsageError(f"{name}: not a path: {shown(value)}")


def shown(value: Any) -> str:
    """Return a value as a message may show it: one line, and no long one."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
