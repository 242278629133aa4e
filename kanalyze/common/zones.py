"""Time zones: what to add to UTC, and what a zone is called.

In: names of zones; Unix times. Out: :class:`Zone`. Times of captures are in UTC everywhere; a zone
matters where people read them, and where they type them.
"""

from __future__ import annotations

import time
from bisect import bisect
from typing import TYPE_CHECKING

from kanalyze.common.texts import bounded_text
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from datetime import tzinfo

LOCAL = "local"
"""The name of the zone of this machine."""
_NS_PER_S = 1_000_000_000
_BLOCK_NS = 900 * _NS_PER_S
"""Offsets change at most at a quarter of an hour."""


class Zone:
    """A time zone; without a name, UTC."""

    def __init__(self, name: str = "") -> None:
        """Find the zone; raises UsageError if there is none of this name."""
        self.name = name
        self._zone = None if name in ("", LOCAL) else _found(name)
        self._block: int | None = None
        self._known = 0, "UTC"
        """Offset and abbreviation in the block of time that was asked for last."""

    def offset_ns(self, time_ns: int) -> int:
        """Return what to add to a Unix time in ns, so that its UTC is the time of this zone."""
        return self._at(time_ns)[0]

    def since_epoch_ns(self, wall_ns: int) -> int:
        """Return the Unix time at which clocks of this zone show what UTC shows at ``wall_ns``."""
        guess_ns = wall_ns - self.offset_ns(wall_ns)
        return wall_ns - self.offset_ns(guess_ns)

    def label(self, time_ns: int) -> str:
        """Return the zone's abbreviation then, and how far it is from UTC: ``CET, UTC+1``."""
        offset_ns, short = self._at(time_ns)
        minutes = offset_ns // (60 * _NS_PER_S)
        if not self.name or (short == "UTC" and not minutes):
            return "UTC"
        hours, rest = divmod(abs(minutes), 60)
        from_utc = f"UTC{'-' if minutes < 0 else '+'}{hours}" + (f":{rest:02d}" if rest else "")
        return f"{short}, {from_utc}" if short.isalpha() else from_utc

    def offsets_ns(self, first_ns: int, last_ns: int) -> list[tuple[int, int]]:
        """Return the offset from ``first_ns`` on, and each change up to ``last_ns`` with its time.

        Changes are found that last longer than a day, to the quarter of an hour.
        """
        changes = [(first_ns, self.offset_ns(first_ns))]
        day_ns = 96 * _BLOCK_NS
        for start_ns in range(first_ns, last_ns, day_ns):
            before, after_ns = changes[-1][1], min(start_ns + day_ns, last_ns)
            after = self.offset_ns(after_ns)
            if after != before:
                blocks = range(start_ns // _BLOCK_NS, after_ns // _BLOCK_NS + 1)
                at = bisect(blocks, False, key=lambda block: self._is_other(block, before))
                changes.append((blocks[at] * _BLOCK_NS, after))
        return changes

    def _is_other(self, block: int, offset_ns: int) -> bool:
        return self.offset_ns(block * _BLOCK_NS) != offset_ns

    def short_label(self, time_ns: int) -> str:
        """Return the zone's abbreviation then; how far it is from UTC, if it has none."""
        return self.label(time_ns).partition(",")[0]

    def _at(self, time_ns: int) -> tuple[int, str]:
        if self.name and time_ns // _BLOCK_NS != self._block:
            self._block = time_ns // _BLOCK_NS
            self._known = self._asked(time_ns // _NS_PER_S)
        return self._known

    def _asked(self, seconds: int) -> tuple[int, str]:
        if self._zone is None:
            local = time.localtime(seconds)
            return local.tm_gmtoff * _NS_PER_S, local.tm_zone
        from datetime import UTC as DATETIME_UTC
        from datetime import datetime, timedelta

        moment = datetime(1970, 1, 1, tzinfo=DATETIME_UTC) + timedelta(seconds=seconds)
        there = moment.astimezone(self._zone)
        offset = there.utcoffset() or timedelta()
        return offset // timedelta(seconds=1) * _NS_PER_S, there.tzname() or ""


UTC = Zone()


def zone_of(name: str) -> Zone:
    """Return the zone of a name such as ``Europe/Berlin``; raises UsageError if there is none."""
    return UTC if name.upper() in ("", "UTC", "Z") else Zone(name)


def _found(name: str) -> tzinfo:
    """Return the zone of the system's data, or of the package tzdata."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # imported late: for one option

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"no time zone: {bounded_text(name)!r} (a name such as Europe/Berlin, or UTC)"
        ) from None
