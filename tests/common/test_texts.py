from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.texts import bounded_text, escape, known_or_similar, parse_size, similar
from kanalyze.errors import UsageError

NAMES = ["Produce", "Fetch", "ListOffsets"]


def test_a_shortened_text_says_how_long_it_was():
    assert bounded_text("y" * 300).endswith("y... (300 characters)")
    assert bounded_text("y" * 256) == "y" * 256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", "orders"),
        ("caf\u00e9 \u6f22\u5b57 \U0001f600", "caf\u00e9 \u6f22\u5b57 \U0001f600"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("two\nlines\r\t", "two\\nlines\\r\\t"),
        ("exe.\u202egnp", "exe.\\u202egnp"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("no\u00a0break", "no\\u00a0break"),
        ("\x9b31m", "\\u009b31m"),
        ("a\\b", "a\\\\b"),
        ("\udc80", "\\udc80"),
        ("[bold]x[/]", "[bold]x[/]"),
        ("", ""),
    ],
)
def test_unprintable_characters_are_escaped(text, expected):
    assert escape(text) == expected


@given(st.text(st.characters()))
def test_the_original_text_can_be_restored(text):
    quoted = escape(text).replace('"', '\\"')
    assert json.loads(f'"{quoted}"') == text


@given(st.text(st.characters()))
def test_an_escaped_text_is_printable(text):
    assert escape(text).isprintable()


def test_similar_names_are_suggested_in_their_own_case() -> None:
    assert similar("produc", NAMES) == "; did you mean Produce?"
    assert similar("LISTOFFSET", NAMES) == "; did you mean ListOffsets?"
    assert similar("xyz", NAMES) == ""


def test_at_most_three_names_are_suggested_the_nearest_first() -> None:
    names = ["client_port", "client_ip", "client_id", "client_software_name", "client_ids"]
    assert similar("client_id", names) == "; did you mean client_id, client_ids, client_ip?"


def test_all_names_are_listed_if_none_is_similar() -> None:
    assert known_or_similar("xyz", NAMES) == "; there are Produce, Fetch, ListOffsets"
    assert known_or_similar("fetsh", NAMES) == "; did you mean Fetch?"


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1K", 1 << 10),
        ("256m", 256 << 20),
        ("256MB", 256 << 20),
        ("256MiB", 256 << 20),
        (" 2g ", 2 << 30),
        ("3T", 3 << 40),
    ],
)
def test_a_size_is_a_number_with_or_without_a_unit(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "B", "M", "1.5G", "-1", "1 G x", "KM", "²"])
def test_a_text_that_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)
