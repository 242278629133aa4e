from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.render.units import shown


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
