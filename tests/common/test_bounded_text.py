from __future__ import annotations

from kanalyze.common.bounded_text import bounded_text


def test_a_shortened_text_says_how_long_it_was():
    assert bounded_text("y" * 300).endswith("y... (300 characters)")
    assert bounded_text("y" * 256) == "y" * 256
