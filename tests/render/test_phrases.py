"""Short texts that several tables and reports have in common."""

from __future__ import annotations

from kanalyze.render.units import (
    api_text,
    captures_text,
    connection_text,
    listed,
    number_text,
    packets_text,
    status_text,
)


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
