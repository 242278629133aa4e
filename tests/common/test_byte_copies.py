"""Copies out of buffers: complete, in part, and out of range."""

from __future__ import annotations

from array import array

import pytest

from kanalyze.common.byte_copies import append, copy_bytes, copy_from_array, joined

DATA = bytes(range(200)) * 20


@pytest.mark.parametrize(
    ("begin", "end"), [(0, 4000), (0, 0), (7, 12), (3999, 4000), (4000, 4000), (9, 5)]
)
def test_a_copy_has_the_bytes_of_its_range(begin: int, end: int) -> None:
    assert copy_bytes(memoryview(DATA), begin, end) == DATA[begin:end]
    assert copy_from_array(bytearray(DATA), begin, end) == DATA[begin:end]
    array = bytearray(b"before ")
    append(array, memoryview(DATA), begin, end)
    assert array == b"before " + DATA[begin:end]


def test_a_copy_outlives_changes_of_its_buffer() -> None:
    buffer = bytearray(DATA)
    copies = copy_bytes(memoryview(buffer), 0, 9), copy_from_array(buffer, 0, 9)
    buffer[:] = bytes(len(DATA))
    assert copies == (DATA[:9], DATA[:9])


@pytest.mark.parametrize(("begin", "end"), [(-1, 3), (0, 4001), (4001, 4002)])
def test_a_range_outside_the_buffer_is_an_error(begin: int, end: int) -> None:
    with pytest.raises(IndexError):
        copy_bytes(memoryview(DATA), begin, end)
    with pytest.raises(IndexError):
        copy_from_array(bytearray(DATA), begin, end)


def test_ranges_are_joined_in_their_order() -> None:
    begins, ends = array("q", [7, 0, 9, 3999, 20]), array("q", [12, 3, 9, 4000, 5])
    expected = DATA[7:12] + DATA[:3] + DATA[3999:]
    assert joined(memoryview(DATA), begins, ends) == expected
    assert joined(memoryview(DATA), array("q"), array("q")) == b""


def test_an_empty_range_may_be_anywhere() -> None:
    assert joined(memoryview(b""), array("q", [5, -3]), array("q", [5, -9])) == b""


@pytest.mark.parametrize(("begin", "end"), [(-1, 3), (0, 4001), (4001, 4002)])
def test_ranges_outside_the_buffer_are_not_joined(begin: int, end: int) -> None:
    with pytest.raises(IndexError):
        joined(memoryview(DATA), array("q", [0, begin]), array("q", [4, end]))
