"""Short texts that several tables and reports have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.render.units import (
    api_text,
    at_least,
    bytes_text,
    captures_text,
    clock_text,
    connection_text,
    count_text,
    duration_text,
    listed,
    moment_text,
    number_text,
    packets_text,
    per_mille_text,
    percent_text,
    rate_text,
    records_text,
    shown,
    status_text,
)
from tests.support.rows import START_NS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", "orders"),
        (None, "-"),
        ("", '""'),
        ("-", '"-"'),
        ("\x1b[2J", "\\u001b[2J"),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_text_is_escaped_and_null_differs_from_empty(text, expected):
    assert shown(text) == expected


@given(st.text(st.characters()), st.integers(3, 50))
def test_shown_text_is_printable_and_bounded(text, limit):
    escaped = shown(text, limit)
    assert escaped.isprintable()
    assert 0 < len(escaped) <= limit


def test_a_long_text_ends_in_an_ellipsis():
    assert shown("x" * 100_000, 10) == "xxxxxxxxx\u2026"
    assert shown("x" * 10, 10) == "x" * 10


def test_a_time_of_day_has_the_requested_decimals():
    assert clock_text(START_NS + 1_234_567) == "00:00:00.001"
    assert clock_text(START_NS + 1_234_567, decimals=6) == "00:00:00.001234"


def test_a_dated_time_has_month_and_day():
    assert clock_text(START_NS, dated=True) == "01-01 00:00:00"


def test_a_moment_has_its_date():
    assert moment_text(START_NS + 1_234_567) == "2026-01-01 00:00:00.001"


def test_null_is_a_dash():
    assert clock_text(None) == moment_text(None) == "-"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (9_999, "10.0 kB"),
        (12_345, "12.3 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (1_200_000, "1.20 MB"),
        (10**15, "1 PB"),
    ],
)
def test_sizes_have_three_digits_and_a_unit(size, expected):
    assert bytes_text(size) == expected


@pytest.mark.parametrize(
    ("duration_ns", "expected"),
    [
        (None, "-"),
        (0, "0 ns"),
        (850, "850 ns"),
        (1_234, "1.23 \u00b5s"),
        (999_999, "1.00 ms"),
        (3_400_000, "3.40 ms"),
        (12_300_000_000, "12.3 s"),
        (119_400_000_000, "119 s"),
        (125_000_000_000, "2m05s"),
        (3_720_000_000_000, "1h02m"),
        (273_600_000_000_000, "3d04h"),
        (-1_500, "-1.50 \u00b5s"),
    ],
)
def test_durations_have_three_digits_and_a_unit(duration_ns, expected):
    assert duration_text(duration_ns) == expected


@given(st.integers(0, 2**63 - 1), st.integers(0, 10_000 * 86_400 * 10**9 - 1))
def test_sizes_and_durations_have_at_most_eight_characters(size, duration_ns):
    assert len(bytes_text(size)) <= 8
    assert len(duration_text(duration_ns)) <= 8


def test_counts_have_separators_of_thousands():
    assert count_text(1_234_567) == "1,234,567"
    assert count_text(None) == "-"


def test_rates_are_per_second():
    assert rate_text(123, 100_000_000) == "1.23k/s"
    assert rate_text(5_000, 2_000_000_000, "B") == "2.50 kB/s"


@pytest.mark.parametrize(
    ("share", "expected"),
    [(1, "100 %"), (0, "0 %"), (0.999999, "99.99 %"), (0.000001, "0.01 %"), (0.5, "50.00 %")],
)
def test_a_share_is_not_rounded_to_0_or_100_percent(share, expected):
    assert percent_text(share) == expected


def test_a_lower_bound_is_marked():
    assert at_least("5", known=True) == "5"
    assert at_least("5", known=None) == "5"
    assert at_least("5", known=False) == "\u22655"


def test_an_uncounted_number_of_records_is_unknown_and_not_0():
    assert records_text(0, known=True) == "0"
    assert records_text(0, known=None) == "0"
    assert records_text(0, known=False) == "unknown"
    assert records_text(1234, known=False) == "\u22651,234"


@pytest.mark.parametrize(
    ("per_mille", "expected"),
    [(None, "-"), (0, "0 %"), (1, "0.1 %"), (978, "97.8 %"), (1000, "100 %")],
)
def test_thousandths_are_shown_in_percent(per_mille, expected):
    assert per_mille_text(per_mille) == expected


def test_null_is_a_hyphen() -> None:
    assert number_text(None) == connection_text(None, None) == listed([]) == "-"
    assert packets_text(7, None) == "7 \u2192 -"


def test_a_number_has_all_digits() -> None:
    assert number_text(1234567) == "1234567"


def test_texts_beyond_the_limit_are_left_out() -> None:
    assert listed(["a", "b"]) == listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == listed(["a", "b"], 2, more=True) == "a, b, \u2026"


def test_captures_are_the_first_name_and_a_count() -> None:
    assert captures_text([]) == "no capture"
    assert captures_text(["a\n"]) == "a\\n"
    assert captures_text(["a", *["b"] * 1000]) == "a and 1,000 more"


def test_only_a_later_connection_of_the_same_ends_has_a_number() -> None:
    assert connection_text("a:1>b:2", None) == connection_text("a:1>b:2", 1) == "a:1>b:2"
    assert connection_text("a:1>b:2", 2) == "a:1>b:2 #2"


def test_an_api_without_a_name_is_its_key() -> None:
    assert (api_text("Fetch", 1), api_text(None, 999)) == ("Fetch", "(key 999)")
    assert api_text("Fetch", 1, str.upper) == "FETCH"


def test_the_status_error_is_the_name_of_the_error() -> None:
    assert status_text("ok", None) == "ok"
    assert status_text("error", "NOT_CONTROLLER") == "NOT_CONTROLLER"
