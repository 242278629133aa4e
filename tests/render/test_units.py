"""Short texts for people that tables and reports have in common."""

from __future__ import annotations

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
from tests.support.cases import for_each
from tests.support.rows import START_NS

VALUES = (
    (shown, {"orders": "orders", None: "-", "": '""', "-": '"-"', "\x1b[2J": "\\u001b[2J"}),
    (shown, {"a\u202eb": "a\\u202eb"}),
    (bytes_text, {None: "-", 0: "0 B", 999: "999 B", 1000: "1 kB", 1234: "1.23 kB"}),
    (bytes_text, {9_999: "10.0 kB", 12_345: "12.3 kB", 999_499: "999 kB", 999_500: "1.00 MB"}),
    (bytes_text, {1_200_000: "1.20 MB", 10**15: "1 PB"}),
    (duration_text, {None: "-", 0: "0 s", 850: "850 ns", 1_234: "1.23 \u00b5s"}),
    (duration_text, {999_999: "1.00 ms", 3_400_000: "3.40 ms", 12_300_000_000: "12.3 s"}),
    (duration_text, {119_400_000_000: "119 s", 125_000_000_000: "2m05s", -1_500: "-1.50 \u00b5s"}),
    (duration_text, {3_720_000_000_000: "1h02m", 273_600_000_000_000: "3d04h"}),
    (count_text, {1_234_567: "1,234,567", None: "-"}),
    # Only the whole is 100 %, and only nothing is 0 %.
    (percent_text, {1: "100 %", 0: "0 %", 0.999999: "99.99 %", 0.000001: "0.01 %", 0.5: "50.00 %"}),
    (per_mille_text, {None: "-", 0: "0 %", 1: "0.1 %", 978: "97.8 %", 1000: "100 %"}),
    (number_text, {None: "-", 1234567: "1234567"}),
    (clock_text, {START_NS + 1_234_567: "00:00:00.001", None: "-"}),
    (moment_text, {START_NS + 1_234_567: "2026-01-01 00:00:00.001", None: "-"}),
)


@for_each("case", VALUES)
def test_values_are_written_for_people(case):
    write, texts = case
    assert {value: write(value) for value in texts} == texts


@given(st.text(st.characters()), st.integers(3, 50))
def test_shown_text_is_printable_and_bounded(text, limit):
    escaped = shown(text, limit)
    assert escaped.isprintable()
    assert 0 < len(escaped) <= limit


def test_a_long_text_ends_in_an_ellipsis():
    assert shown("x" * 100_000, 10) == "xxxxxxxxx\u2026"
    assert shown("x" * 10, 10) == "x" * 10


def test_a_time_of_day_has_the_requested_date_and_decimals():
    assert clock_text(START_NS + 1_234_567, decimals=6) == "00:00:00.001234"
    assert clock_text(START_NS, dated=True) == "01-01 00:00:00"


@given(st.integers(0, 2**63 - 1), st.integers(0, 10_000 * 86_400 * 10**9 - 1))
def test_sizes_and_durations_have_at_most_eight_characters(size, duration_ns):
    assert len(bytes_text(size)) <= 8
    assert len(duration_text(duration_ns)) <= 8


def test_rates_are_per_second():
    assert rate_text(123, 100_000_000) == "1.23k/s"
    assert rate_text(5_000, 2_000_000_000, "B") == "2.50 kB/s"


def test_a_lower_bound_is_marked_and_a_number_without_one_is_unknown():
    assert [at_least("5", known=known) for known in (True, None, False)] == ["5", "5", "\u22655"]
    assert [records_text(0, known=known) for known in (True, None, False)] == ["0", "0", "unknown"]
    assert records_text(1234, known=False) == "\u22651,234"


def test_texts_beyond_the_limit_are_left_out():
    assert listed([]) == "-"
    assert listed(["a", "b"]) == listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == listed(["a", "b"], 2, more=True) == "a, b, \u2026"


def test_captures_are_the_first_name_and_a_count():
    assert captures_text([]) == "no capture"
    assert captures_text(["a\n"]) == "a\\n"
    assert captures_text(["a", *["b"] * 1000]) == "a and 1,000 more"


def test_only_a_later_connection_of_the_same_ends_has_a_number():
    assert connection_text(None, None) == "-"
    assert connection_text("a:1>b:2", None) == connection_text("a:1>b:2", 1) == "a:1>b:2"
    assert connection_text("a:1>b:2", 2) == "a:1>b:2 #2"


def test_apis_statuses_and_packets_are_named():
    assert (api_text("Fetch", 1), api_text(None, 999)) == ("Fetch", "(key 999)")
    assert api_text("Fetch", 1, str.upper) == "FETCH"
    assert status_text("ok", None) == "ok"
    assert status_text("error", "NOT_CONTROLLER") == "NOT_CONTROLLER"
    assert packets_text(7, None) == "7 \u2192 -"
