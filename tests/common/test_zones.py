from __future__ import annotations

import time
from datetime import UTC as DATETIME_UTC
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.zones import LOCAL, UTC, Zone, zone_of
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
WINTER_NS = 1_769_851_800_000_000_000  # 2026-01-31T09:30:00Z
SUMMER_NS = 1_785_576_600_000_000_000  # 2026-08-01T09:30:00Z
TIMES_NS = st.integers(0, 4_000_000_000).map(lambda seconds: seconds * 10**9 + 5)


@given(st.sampled_from(NAMES), st.lists(TIMES_NS, min_size=1, max_size=5))
def test_the_offset_is_that_of_the_time(name: str, times_ns: list[int]) -> None:
    zone = zone_of(name)
    for time_ns in times_ns:
        there = datetime.fromtimestamp(time_ns // 10**9, ZoneInfo(name))
        assert zone.offset_ns(time_ns) == there.utcoffset() // timedelta(seconds=1) * 10**9


@given(st.sampled_from(NAMES), TIMES_NS)
def test_a_time_that_clocks_show_is_found_again(name: str, time_ns: int) -> None:
    zone = zone_of(name)
    wall_ns = time_ns + zone.offset_ns(time_ns)
    found_ns = zone.since_epoch_ns(wall_ns)
    # Where clocks are put back they show a time twice.
    assert found_ns + zone.offset_ns(found_ns) == wall_ns


@pytest.fixture
def machine_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("machine_zone")
def test_the_zone_of_the_machine_has_its_summer() -> None:
    zone = zone_of(LOCAL)
    assert [zone.label(each) for each in (WINTER_NS, SUMMER_NS)] == ["CET, UTC+1", "CEST, UTC+2"]
    assert zone.since_epoch_ns(SUMMER_NS) == SUMMER_NS - 2 * 3600 * 10**9


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("", "UTC"),
        ("utc", "UTC"),
        (LOCAL, "UTC"),
        ("Asia/Kolkata", "IST, UTC+5:30"),
        ("America/New_York", "EST, UTC-5"),
        ("America/Sao_Paulo", "UTC-3"),
    ],
)
def test_a_zone_says_its_name_and_its_distance(name: str, label: str) -> None:
    assert zone_of(name).label(WINTER_NS) == label


@pytest.mark.parametrize("name", ["Europe/Brelin", "../passwd", "/etc/localtime", "x" * 999])
def test_a_zone_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        Zone(name)


def test_utc_has_no_offset() -> None:
    assert UTC.offset_ns(WINTER_NS) == 0
    assert datetime.fromtimestamp(UTC.since_epoch_ns(WINTER_NS) // 10**9, DATETIME_UTC).hour == 9


@given(st.sampled_from(NAMES), TIMES_NS, st.integers(0, 400))
def test_offsets_of_a_span_are_those_of_its_times(name: str, first_ns: int, days: int) -> None:
    zone, hour_ns = zone_of(name), 3600 * 10**9
    last_ns = first_ns + days * 24 * hour_ns
    offsets = zone.offsets_ns(first_ns, last_ns)
    assert offsets == sorted(offsets)
    assert offsets[0] == (first_ns, zone.offset_ns(first_ns))
    for time_ns in range(first_ns, last_ns + 1, 24 * hour_ns):
        assert [offset for at, offset in offsets if at <= time_ns][-1] == zone.offset_ns(time_ns)
    for at_ns, offset_ns in offsets[1:]:
        assert zone.offset_ns(at_ns) == offset_ns != zone.offset_ns(at_ns - 1)


def test_a_span_in_utc_has_one_offset() -> None:
    assert UTC.offsets_ns(0, SUMMER_NS) == [(0, 0)]
