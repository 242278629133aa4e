"""Short texts for people: names from the wire, times, amounts with their units, values of a row.

In: values of a row or a line; any may be None. Out: short printable text, with names from the wire
escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.texts import escape
from kanalyze.common.times import format_time
from kanalyze.common.zones import UTC, Zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MISSING = "-"
"""The text for null."""

_LIMIT = 120


def shown(text: str | None, limit: int = _LIMIT) -> str:
    """Return a text with unprintable characters escaped, cut to at most ``limit`` characters.

    Null is ``-``. The empty text is ``""``, and the text ``-`` is written in quotes.
    """
    if text is None:
        return MISSING
    if text in ("", MISSING):
        return f'"{text}"'
    # Cut first: escaping never makes a text shorter.
    escaped = escape(text[: limit + 1])
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "\u2026"


def clock_text(
    time_ns: int | None, zone: Zone = UTC, *, dated: bool = False, decimals: int = 3
) -> str:
    """Return ``09:30:00.123``, or ``01-31 09:30:00`` if ``dated``; ``-`` for None."""
    if time_ns is None:
        return MISSING
    text = format_time(time_ns + zone.offset_ns(time_ns))
    return f"{text[5:10]} {text[11:19]}" if dated else text[11 : 20 + decimals]


def moment_text(time_ns: int | None, zone: Zone = UTC) -> str:
    """Return ``2026-01-31 09:30:00.123``; ``-`` for None."""
    if time_ns is None:
        return MISSING
    return format_time(time_ns + zone.offset_ns(time_ns))[:23].replace("T", " ")


def day_text(time_ns: int, zone: Zone = UTC) -> str:
    """Return ``2026-01-31``."""
    return moment_text(time_ns, zone)[:10]


def is_dated(capture: Mapping[str, Any], zone: Zone = UTC) -> bool:
    """Return true if a report's capture spans several days, so that times need a date."""
    first_ns, last_ns = capture["first_time_ns"], capture["last_time_ns"]
    if first_ns is None or last_ns is None:
        return False
    return day_text(first_ns, zone) != day_text(last_ns, zone)


class ReportClock(NamedTuple):
    """Writes the times of a report."""

    zone: Zone = UTC
    is_dated: bool = False
    """Whether times need a date."""

    @classmethod
    def of(cls, report: Mapping[str, Any], zone: Zone) -> ReportClock:
        """Return the clock of a report."""
        return cls(zone, is_dated(report["capture"], zone))

    def text(self, time_ns: int | None) -> str:
        """Return a time as :func:`clock_text` does."""
        return clock_text(time_ns, self.zone, dated=self.is_dated)


UTC_CLOCK = ReportClock()
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

    Null is ``-``, and nothing at all is ``0 s``. A negative duration has a minus sign.
    """
    if not duration_ns:
        return MISSING if duration_ns is None else "0 s"
    if duration_ns < 0:
        return f"-{duration_text(-duration_ns)}"
    for unit, size in (("ns", 1), ("\u00b5s", 1_000), ("ms", 1_000_000)):
        if duration_ns / size < _ROUNDED_TO_1000:
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


_ROUNDED_TO_1000 = 999.5
"""From here on, three digits are those of 1000: an even digit is nearest to what is between."""


def _three_digits(number: float) -> float:
    return float(f"{number:.3g}")


def _digits(number: float) -> str:
    """Return a number below 1000 with three digits; whole numbers have no decimals."""
    if number == int(number):
        return str(int(number))
    rounded = _three_digits(number)
    decimals = 2 if rounded < 10 else 1 if rounded < 100 else 0
    return f"{rounded:.{decimals}f}"


def number_text(value: int | None) -> str:
    """Return a number that is no amount, such as an offset: all digits; ``-`` for null."""
    return MISSING if value is None else str(value)


def listed(texts: Sequence[str], most: int | None = None, *, more: bool = False) -> str:
    """Return at most ``most`` texts with commas between them; ``-`` if there are none.

    ``…`` follows if texts are left out, or if ``more`` says that there are others.
    """
    if not texts:
        return MISSING
    is_cut = more or (most is not None and len(texts) > most)
    return ", ".join(texts[:most]) + (", \u2026" if is_cut else "")


def captures_text(names: Sequence[object]) -> str:
    """Return the name of the first capture, and how many more there are."""
    if not names:
        return "no capture"
    more = f" and {count_text(len(names) - 1)} more" if len(names) > 1 else ""
    return shown(str(names[0])) + more


def connection_text(connection: str | None, number: int | None) -> str:
    """Return a connection, with its number if the two ends had one before; ``-`` for null."""
    return shown(connection) + (f" #{number}" if number is not None and number > 1 else "")


def api_text(name: str | None, key: int | None, name_text: Callable[[str], str] = shown) -> str:
    """Return the name of an API as ``name_text`` writes it, or the key if there is no name."""
    return name_text(name) if name else f"(key {key})"


def api_label(
    name: str | None,
    key: int | None,
    wire: str,
    *,
    waited: bool = False,
    name_text: Callable[[str], str] = shown,
) -> str:
    """Return the API of a line of a table: with its wire if that is not Kafka's; null has none."""
    if key is None:
        return "(response alone)"
    api = api_text(name, key, name_text)
    api = api if wire == "kafka" else f"{api} {shown(wire)}"
    return f"{api} (waited)" if waited else api


def status_text(status: str, error_name: str | None) -> str:
    """Return the status of a request; instead of ``error``, the name of the error."""
    return shown(error_name if status == "error" else status)


def packets_text(request_packet: int | None, response_packet: int | None) -> str:
    """Return the first packets of a request and its response."""
    return f"{number_text(request_packet)} \u2192 {number_text(response_packet)}"
