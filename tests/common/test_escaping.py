from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.escaping import escape


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
