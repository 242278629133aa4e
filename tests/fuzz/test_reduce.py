from __future__ import annotations

from tests.fuzz.reduce import smaller


def test_what_does_not_matter_is_cut_away() -> None:
    data = bytes(range(1, 200)) + b"BUG" + bytes(range(1, 100))
    assert smaller(data, lambda found: b"BUG" in found) == b"BUG"


def test_what_must_be_there_but_may_be_anything_becomes_zero() -> None:
    found = smaller(b"abcdefgh", lambda data: len(data) >= 4 and data[3:4] == b"d")
    assert found == b"\0\0\0d"


def test_what_always_breaks_becomes_nothing_and_what_never_does_stays() -> None:
    assert smaller(b"abc" * 9, lambda _: True) == b""
    assert smaller(b"abc" * 9, lambda _: False) == b"abc" * 9
