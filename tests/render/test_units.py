from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.render.units import (
    at_least,
    bytes_text,
    count_text,
    duration_text,
    per_mille_text,
    percent_text,
    rate_text,
    records_text,
)


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
