from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.times import (
    ROUND_WIDTHS_NS,
    format_time,
    parse_duration_ns,
    parse_time_ns,
    parse_time_of_day_ns,
    round_width_ns,
)
from kanalyze.errors import UsageError
from kanalyze.queries.files import built_in

START_NS = 1_769_851_800_000_000_000  # 2026-01-31T09:30:00Z


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("2026-01-31T09:30:00Z", START_NS),
        ("2026-01-31T09:30:00", START_NS),
        ("2026-01-31 09:30", START_NS),
        ("2026-01-31T10:30:00+01:00", START_NS),
        ("2026-01-31T09:30:00.123456789Z", START_NS + 123_456_789),
        ("2026-01-31T09:30:00,5+00:00", START_NS + 500_000_000),
        ("20260131T093000.000000001Z", START_NS + 1),
        ("2026-01-31", START_NS - 34_200 * 10**9),
        ("1969-12-31T23:59:59.9Z", -100_000_000),
        ("1769851800", START_NS),
        ("1769851800.000000001", START_NS + 1),
        ("0", 0),
        (" 1769851800 ", START_NS),
    ],
)
def test_times_are_exact_to_the_nanosecond(text, expected_ns):
    assert parse_time_ns(text) == expected_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01",
        "2026-01-31T25:00:00Z",
        "2026-01-31T09:30:00.1234567891Z",
        "1.1234567891",
        "-5",
        "+5s",
        "1e9",
        "\u0661\u0662",
        "9" * 50,
    ],
)
def test_a_text_that_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="not a time"):
        parse_time_ns(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_formatted_time_reads_back(time_ns):
    assert parse_time_ns(format_time(time_ns)) == time_ns


def test_a_time_is_formatted_in_utc_with_nine_decimals():
    assert format_time(START_NS + 7) == "2026-01-31T09:30:00.000000007Z"


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("10ms", 10_000_000),
        ("1.5s", 1_500_000_000),
        ("250us", 250_000),
        ("250\u00b5s", 250_000),
        ("7ns", 7),
        ("2m", 120_000_000_000),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0.1 ms", 100_000),
        ("0.5ns", 0),
        ("0s", 0),
    ],
)
def test_durations_have_a_number_and_a_unit(text, expected_ns):
    assert parse_duration_ns(text) == expected_ns


@pytest.mark.parametrize("text", ["", "10", "ms", "-1ms", "1e3ms", "10 parsecs", "1.ms", ".5s"])
def test_a_text_that_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="not a duration"):
        parse_duration_ns(text)


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        ("00:00", 0),
        ("22:46", 81_960 * 10**9),
        ("22:46:09", 81_969 * 10**9),
        (" 22:46:09.448 ", 81_969_448_000_000),
        ("22:46:09,000000001Z", 81_969_000_000_001),
        ("23:59:59.999999999", 86_400 * 10**9 - 1),
        ("2026-01-31T22:46", None),
        ("22", None),
        ("1769851800", None),
        ("24:00", None),
        ("22:60", None),
        ("22:46:60", None),
        ("22:46:09.1234567891", None),
        ("22:46+01:00", None),
        ("\u0661\u0662:00", None),
    ],
)
def test_a_time_of_day_is_distinguished_from_other_times(text, expected_ns):
    assert parse_time_of_day_ns(text) == expected_ns


# -- round widths ---------------------------------------------------------------------------------


@given(st.integers(1, 10**20), st.sampled_from(ROUND_WIDTHS_NS))
def test_a_round_width_is_the_smallest_multiple_that_suffices(least_ns: int, unit_ns: int) -> None:
    width_ns = round_width_ns(least_ns, unit_ns)
    assert width_ns >= least_ns
    assert width_ns % unit_ns == 0
    fitting = [w for w in ROUND_WIDTHS_NS if w >= least_ns and w % unit_ns == 0]
    assert width_ns == min(fitting, default=-(-least_ns // unit_ns) * unit_ns)


def test_the_spans_of_a_report_have_the_same_round_widths() -> None:
    text = built_in("tables")["time_buckets"].sql
    (listed,) = re.findall(r"unnest\(\[([\d,\s]+)\]\)", text)
    assert [int(width) * 10**6 for width in listed.split(",")] == list(ROUND_WIDTHS_NS)
    assert list(ROUND_WIDTHS_NS) == sorted(set(ROUND_WIDTHS_NS))
