from __future__ import annotations

from kanalyze.render.units import clock_text, moment_text
from tests.support.rows import START_NS


def test_a_time_of_day_has_the_requested_decimals():
    assert clock_text(START_NS + 1_234_567) == "00:00:00.001"
    assert clock_text(START_NS + 1_234_567, decimals=6) == "00:00:00.001234"


def test_a_dated_time_has_month_and_day():
    assert clock_text(START_NS, dated=True) == "01-01 00:00:00"


def test_a_moment_has_its_date():
    assert moment_text(START_NS + 1_234_567) == "2026-01-01 00:00:00.001"


def test_null_is_a_dash():
    assert clock_text(None) == moment_text(None) == "-"
