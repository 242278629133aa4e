"""Numbers for people.

In: integers. Out: short text with a unit.

Units are decimal (1 kB is 1000 B), and three digits are shown. Exact numbers are in the JSON.
"""

from __future__ import annotations

from kanalyze.render.text import MISSING

__all__ = [
    "at_least",
    "bytes_text",
    "count_text",
    "counted",
    "duration_text",
    "per_mille_text",
    "percent_text",
    "rate_text",
    "records_text",
]

_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z")
_SECOND = 1_000_000_000


def count_text(count: int | None) -> str:
    """Return a number with commas between thousands: ``1,234,567``; ``-`` for null."""
    return MISSING if count is None else f"{count:,}"


def counted(count: int, noun: str) -> str:
    """Return a number and what is counted: ``1 packet``, ``2,000 packets``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def bytes_text(size: int | None) -> str:
    """Return a size: ``512 B``, ``1.23 kB``, ``12.3 MB``; ``-`` for null."""
    if size is None:
        return MISSING
    number, prefix = _scaled(size)
    return f"{number} {prefix}B"


def rate_text(amount: int, duration_ns: int, unit: str = "") -> str:
    """Return an amount per second: ``1.23k/s``, or ``1.23 kB/s`` for unit ``B``."""
    number, prefix = _scaled(amount * _SECOND / duration_ns)
    return f"{number} {prefix}{unit}/s" if unit else f"{number}{prefix}/s"


def duration_text(duration_ns: int | None) -> str:
    """Return a duration: ``850 ns``, ``1.23 ms``, ``12.3 s``, ``2m05s``, ``1h02m``, ``3d04h``.

    Null is ``-``. A negative duration has a minus sign.
    """
    if duration_ns is None:
        return MISSING
    if duration_ns < 0:
        return f"-{duration_text(-duration_ns)}"
    for unit, size in (("ns", 1), ("\u00b5s", 1_000), ("ms", 1_000_000)):
        if _three_digits(duration_ns / size) < 1000:
            return f"{_digits(duration_ns / size)} {unit}"
    if _three_digits(duration_ns / _SECOND) < 120:
        return f"{_digits(duration_ns / _SECOND)} s"
    return _long_duration(duration_ns // _SECOND)


def percent_text(share: float) -> str:
    """Return a ratio as a percentage. Only 1 is ``100 %``, only 0 is ``0 %``."""
    if share in (0, 1):
        return f"{100 * int(share)} %"
    return f"{min(max(100 * share, 0.01), 99.99):.2f} %"


def per_mille_text(per_mille: int | None) -> str:
    """Return per mille as a percentage: ``97.8 %``; ``-`` for null."""
    return MISSING if per_mille is None else f"{per_mille / 10:g} %"


def at_least(text: str, *, known: bool | None) -> str:
    """Return a number's text, with ≥ before it if ``known`` is False: the number may be higher."""
    return text if known or known is None else f"\u2265{text}"


def records_text(count: int, *, known: bool | None) -> str:
    """Return a number of records; ``unknown`` if there are records but none could be counted."""
    if not count and known is False:
        return "unknown"
    return at_least(count_text(count), known=known)


def _long_duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds:02d}s"


def _scaled(number: float) -> tuple[str, str]:
    prefix = 0
    while prefix < len(_DECIMAL) - 1 and _three_digits(number) >= 1000:
        number /= 1000
        prefix += 1
    return _digits(number), _DECIMAL[prefix]


def _three_digits(number: float) -> float:
    return float(f"{number:.3g}")


def _digits(number: float) -> str:
    """Return a number below 1000 with three digits; whole numbers have no decimals."""
    if number == int(number):
        return str(int(number))
    rounded = _three_digits(number)
    decimals = 2 if rounded < 10 else 1 if rounded < 100 else 0
    return f"{rounded:.{decimals}f}"
