from __future__ import annotations

from tests.fuzz.reduce import smaller


def test_bytes_that_do_not_matter_are_cut_away() -> None:
    data = bytes(range(1, 200)) + b"BUG" + bytes(range(1, 100))
    assert smaller(data, lambda found: b"BUG" in found) == b"BUG"


def test_bytes_of_any_value_become_zero() -> None:
    found = smaller(b"abcdefgh", lambda data: len(data) >= 4 and data[3:4] == b"d")
    assert found == b"\0\0\0d"


def test_an_input_that_always_breaks_becomes_empty_and_one_that_never_does_stays() -> None:
    assert smaller(b"abc" * 9, lambda _: True) == b""
    assert smaller(b"abc" * 9, lambda _: False) == b"abc" * 9
