"""Texts told apart many at a time, as one would do it one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.protocol.lockstep_texts import coded

LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 63, 64)
LONG = 65


def texts_of(data: bytes, places: list[tuple[int, int]]) -> list[bytes | None]:
    """What :func:`coded` says that there is, after checking that it says each text once."""
    start = np.array([at for at, _ in places], np.int64)
    length = np.array([size for _, size in places], np.int64)
    codes, texts = coded(np.frombuffer(data, np.uint8), start, length)
    assert codes.dtype == np.int32
    assert len(codes) == len(places)
    used = {texts[code] for code in codes.tolist() if code >= 0}
    assert len(used) == len({code for code in codes.tolist() if code >= 0})
    return [None if code < 0 else texts[code] for code in codes.tolist()]


def naive(data: bytes, places: list[tuple[int, int]]) -> list[bytes | None]:
    return [None if size < 0 else data[at : at + size] for at, size in places]


@st.composite
def places_in(draw: st.DrawFn, size: int, lengths: tuple[int, ...]) -> tuple[int, int]:
    length = draw(st.sampled_from([-1, *(one for one in lengths if one <= size)]))
    return draw(st.integers(0, size - max(length, 0))), length


@given(st.data(), st.sampled_from([LENGTHS, (*LENGTHS, LONG, 200)]))
def test_texts_are_told_apart_as_one_by_one(data: st.DataObject, lengths: tuple[int, ...]) -> None:
    # Few different bytes: many texts are the same, or differ in their length alone.
    content = data.draw(st.lists(st.sampled_from(b"ab\0"), max_size=300).map(bytes))
    places = data.draw(st.lists(places_in(len(content), lengths), max_size=40))
    assert texts_of(content, places) == naive(content, places)


@pytest.mark.parametrize("length", [*LENGTHS, LONG, 66, 1000])
def test_a_text_at_the_very_end_of_the_buffer(length: int) -> None:
    text = bytes(range(1, 251)) * 4
    content = b"x" * 8 + text[:length]
    places = [(8, length), (8, length), (0, 8), (len(content) - min(length, 3), min(length, 3))]
    assert texts_of(content, places) == naive(content, places)


@pytest.mark.parametrize("size", range(10))
def test_a_buffer_smaller_than_a_word(size: int) -> None:
    content = b"abcabcabc"[:size]
    places = [(at, length) for at in range(size + 1) for length in range(-1, size - at + 1)]
    assert texts_of(content, places) == naive(content, places)


@pytest.mark.parametrize("length", [*LENGTHS[1:], LONG])
def test_one_other_byte_makes_another_text(length: int) -> None:
    texts = [b"a" * length]
    texts += [b"a" * at + b"b" + b"a" * (length - at - 1) for at in range(length)]
    content = b"".join(texts)
    places = [(number * length, length) for number in range(len(texts))]
    assert texts_of(content, places) == texts


def test_zeros_at_the_end_count() -> None:
    places = [(0, length) for length in range(17)]
    assert texts_of(bytes(16), places) == [bytes(length) for length in range(17)]


def test_null_is_none_of_the_texts_and_empty_is_one() -> None:
    assert texts_of(b"abcdefgh", [(5, -1), (3, 0), (0, 0), (99, -1)]) == [None, b"", b"", None]
    assert texts_of(b"abcdefgh", [(5, -1)]) == [None]


def test_nothing_is_nothing() -> None:
    assert texts_of(b"", []) == []
    assert texts_of(b"abcdefgh", []) == []


def test_many_texts_are_all_found() -> None:
    # No two of ten thousand have the same hash, or those that do are told apart.
    content = b"".join(number.to_bytes(4, "big") for number in range(10_000))
    places = [(at, size) for size in (4, 8, 12) for at in range(0, len(content) - 8, 4)]
    assert texts_of(content, places) == naive(content, places)
