"""Times and durations as text, exact to the nanosecond.

In: text from a user, or integers. Out: integers, or text.
"""

from __future__ import annotations

import re

from kanalyze.common.zones import UTC, Zone
from kanalyze.errors import UsageError

_NS_PER_S = 1_000_000_000
NS_PER_DAY = 86_400 * _NS_PER_S
_MS, _MIN, _H = _NS_PER_S // 1000, 60 * _NS_PER_S, 3600 * _NS_PER_S
ROUND_WIDTHS_NS = (
    *(width * _MS for width in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(width * _NS_PER_S for width in (1, 2, 5, 10, 15, 30)),
    *(width * _MIN for width in (1, 2, 5, 10, 15, 30)),
    *(width * _H for width in (1, 2, 3, 6, 12)),
    *(width * NS_PER_DAY for width in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)),
)
"""Widths of spans of time that people read at a glance; ``time_buckets.sql`` has them too."""
_ISO_FRACTION = r"(?a)(.*[T ]\d\d:?\d\d:?\d\d)[.,](\d+)(.*)"
_TIME_OF_DAY = r"(?a)([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:[.,](\d{1,9}))?)?(Z?)"
_ZONED = r"(.*)\[([^\[\]]*)\]"
_UNIX_SECONDS = r"(?a)\d{1,12}(\.\d{1,9})?"
# The longest timedelta has 23 digits of ns.
_DURATION = r"(?a)(\d{1,24}(?:\.\d{1,15})?)\s*(ns|us|\u00b5s|ms|s|m|min|h)"
_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "ms": 1_000_000,
    "s": _NS_PER_S,
    "m": 60 * _NS_PER_S,
    "min": 60 * _NS_PER_S,
    "h": 3600 * _NS_PER_S,
}


def format_time(time_ns: int) -> str:
    """Return a Unix time in ns as ISO 8601 in UTC with nine decimals, ending in ``Z``."""
    from datetime import UTC, datetime, timedelta  # imported late: few commands show a time

    seconds, fraction = divmod(time_ns, _NS_PER_S)
    whole = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def round_width_ns(least_ns: int, unit_ns: int = 1) -> int:
    """Return the smallest round width from ``least_ns`` on that is a multiple of ``unit_ns``.

    If there is none, the smallest multiple from ``least_ns`` on.
    """
    for width_ns in ROUND_WIDTHS_NS:
        if width_ns >= least_ns and not width_ns % unit_ns:
            return width_ns
    return -(-least_ns // unit_ns) * unit_ns


def split_zone(text: str) -> tuple[str, str]:
    """Return a time without a name of a zone in brackets (RFC 9557), and the name or nothing."""
    match = re.fullmatch(_ZONED, text)
    return (match[1], match[2]) if match else (text, "")


def parse_relative_ns(text: str) -> int | None:
    """Return the nanoseconds of ``+5m`` or ``-1h``; None for anything else."""
    if not re.match(r"(?a)[+-]\d", text):
        return None
    duration_ns = parse_duration_ns(text[1:])
    return -duration_ns if text[0] == "-" else duration_ns


def parse_time_ns(text: str, zone: Zone = UTC) -> int:
    """Return the Unix time in ns that ``text`` gives.

    Digits alone, with up to nine decimals, are Unix seconds. Anything else is ISO 8601, with up
    to nine decimals; without an offset from UTC it is of ``zone``; a date alone is its first
    moment. Raises UsageError for anything else.
    """
    text = text.strip()
    if re.fullmatch(_UNIX_SECONDS, text):
        from decimal import Decimal  # slow to import, and most filters have no time

        return int(Decimal(text) * _NS_PER_S)
    from datetime import UTC as DATETIME_UTC
    from datetime import datetime, timedelta

    match = re.fullmatch(_ISO_FRACTION, text)
    before, digits, after = match.groups() if match else (text, "0", "")
    try:
        moment = datetime.fromisoformat(before + after)
    except ValueError:
        moment = None
    if moment is None or len(digits) > 9:
        raise UsageError(
            f"not a time: {text!r} (ISO 8601 such as 2026-01-31T09:30:00.5Z, a time of day such as "
            "09:30, Unix seconds, or -1h before the end, +5m after the beginning)"
        )
    is_local = moment.tzinfo is None
    if is_local:
        moment = moment.replace(tzinfo=DATETIME_UTC)
    seconds = (moment - datetime(1970, 1, 1, tzinfo=DATETIME_UTC)) // timedelta(seconds=1)
    time_ns = seconds * _NS_PER_S + int(digits.ljust(9, "0"))
    return zone.since_epoch_ns(time_ns) if is_local else time_ns


def parse_time_of_day_ns(text: str) -> int | None:
    """Return a time of day, ``09:30`` or ``09:30:00.5``, as nanoseconds since midnight.

    None for anything else, such as a time with a date.
    """
    match = re.fullmatch(_TIME_OF_DAY, text.strip())
    if match is None:
        return None
    hours, minutes, seconds, digits = match.groups(default="0")[:4]
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * _NS_PER_S + int(digits.ljust(9, "0"))


def parse_duration_ns(text: str) -> int:
    """Return the duration that ``text`` gives, in ns, rounded down.

    A number and one of the units ns, us, ms, s, m (or min) and h: ``10ms``, ``1.5s``. Raises
    UsageError for anything else; a number without a unit is refused, because it is ambiguous.
    """
    match = re.fullmatch(_DURATION, text.strip())
    if match is None:
        raise UsageError(f"not a duration: {text!r} (a number and a unit, such as 10ms or 1.5s)")
    number, unit = match.groups()
    from decimal import Decimal  # slow to import

    return int(Decimal(number) * _UNIT_NS[unit])
