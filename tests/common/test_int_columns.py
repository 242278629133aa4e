"""Arrays of 64-bit integers: compiled, and as plain Python."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common import int_columns
from tests.support.uncompiled import uncompiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

I64 = st.integers(-(1 << 62), (1 << 62) - 1)
NUMBERS = st.lists(I64, max_size=20).map(lambda numbers: array("q", numbers))


@pytest.fixture(scope="module", params=["compiled", "uncompiled"])
def columns(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    if request.param == "compiled":
        assert not (int_columns.__file__ or "").endswith(".py")
        yield int_columns
        return
    with uncompiled() as modules:
        pass
    yield modules["kanalyze.common.int_columns"]


def test_columns_of_rising_and_of_repeated_numbers_are_made(columns):
    assert columns.rising(1 << 40, 3) == array("q", range(1 << 40, (1 << 40) + 3))
    assert columns.rising(7, 0) == array("q")
    assert columns.repeated(113, 2) == array("i", [113, 113])


@given(NUMBERS.filter(len), st.data())
def test_numbers_are_picked_by_row(columns, numbers, data):
    indices = st.integers(0, len(numbers) - 1)
    rows = array("q", data.draw(st.lists(indices, max_size=9)))
    assert columns.picked(numbers, rows) == array("q", [numbers[row] for row in rows])
    types = array("i", range(len(numbers)))
    assert columns.picked_types(types, rows) == array("i", rows)


def test_a_row_outside_the_column_is_an_error(columns):
    with pytest.raises(IndexError):
        columns.picked(array("q", [1]), array("q", [1]))


@given(NUMBERS, st.integers(-1000, 1000))
def test_numbers_are_shifted_summed_and_bounded(columns, numbers, offset):
    assert columns.shifted(numbers, offset) == array("q", [number + offset for number in numbers])
    small = array("q", [number >> 8 for number in numbers])
    assert columns.total(small) == sum(small)
    if numbers:
        assert columns.bounds(numbers) == (min(numbers), max(numbers))


@given(NUMBERS)
def test_the_earliest_number_from_each_row_on_is_found(columns, numbers):
    expected = [min(numbers[row:]) for row in range(len(numbers))]
    assert columns.earliest_from(numbers).tolist() == expected


@given(st.lists(st.lists(st.integers(0, 9)).map(sorted), min_size=1, max_size=6))
def test_merged_sequences_are_in_the_order_of_a_stable_sort(columns, sequences):
    keys = array("q", [key for sequence in sequences for key in sequence])
    begins = list(accumulate(map(len, sequences), initial=0))
    order, run_starts, run_owners = columns.take_turns(keys, begins)
    assert order.tolist() == sorted(range(len(keys)), key=keys.__getitem__)
    owner_of_key = [number for number, sequence in enumerate(sequences) for _ in sequence]
    owners = [owner_of_key[index] for index in order]
    starts = [at for at, owner in enumerate(owners) if at == 0 or owner != owners[at - 1]]
    assert run_starts.tolist() == starts
    assert run_owners.tolist() == [owners[at] for at in starts]


@given(st.binary(max_size=40), st.data())
def test_ranges_of_bytes_are_copied_to_their_places(columns, data, draw):
    sizes = draw.draw(st.lists(st.integers(0, len(data)), max_size=6))
    begins = [draw.draw(st.integers(0, len(data) - size)) for size in sizes]
    places = [draw.draw(st.integers(0, 60 - size)) for size in sizes]
    target, expected = bytearray(60), bytearray(60)
    for place, begin, size in zip(places, begins, sizes, strict=True):
        expected[place : place + size] = data[begin : begin + size]
    columns.copy_ranges(target, *(array("q", places), data, array("q", begins), array("q", sizes)))
    assert target == expected


@pytest.mark.parametrize(
    ("place", "begin", "size"),
    [(-1, 0, 1), (0, -1, 1), (0, 0, -1), (8, 0, 3), (0, 18, 3), (0, 0, 11), (1 << 62, 0, 1 << 62)],
)
def test_bytes_outside_of_a_buffer_are_not_copied(columns, place, begin, size):
    with pytest.raises(IndexError):
        columns.copy_ranges(
            *(bytearray(10), array("q", [place]), bytes(20), array("q", [begin])),
            array("q", [size]),
        )


def test_no_bytes_are_copied_from_anywhere(columns):
    nowhere = array("q", [1 << 62, -1])
    columns.copy_ranges(bytearray(1), nowhere, b"", nowhere, array("q", [0, 0]))


@given(st.lists(st.integers(0, 1 << 40)), st.integers(0, 1 << 40))
def test_ranges_follow_each_other(columns, sizes, first):
    expected = list(accumulate(sizes, initial=first))
    assert columns.places_of(array("q", sizes), first).tolist() == expected


def test_ranges_of_bytes_are_joined_in_their_order(columns):
    data = memoryview(bytes(range(200)) * 20)
    begins, ends = array("q", [7, 0, 9, 3999, 20]), array("q", [12, 3, 9, 4000, 5])
    assert columns.joined(data, begins, ends) == bytes(data[7:12]) + bytes(data[:3]) + data[3999:]
    assert columns.joined(memoryview(b""), array("q", [5, -3]), array("q", [5, -9])) == b""
    for begin, end in ((-1, 3), (0, 4001), (4001, 4002)):
        with pytest.raises(IndexError):
            columns.joined(data, array("q", [0, begin]), array("q", [4, end]))
