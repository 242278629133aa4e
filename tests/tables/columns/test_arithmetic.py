"""Loops over columns give the results of plain Python, compiled and uncompiled."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from types import SimpleNamespace

INT64S = st.integers(-(2**63), 2**63 - 1)
VALUES = st.lists(INT64S, min_size=1, max_size=20)
CODES = st.lists(st.integers(-1, 6), max_size=20)
LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=8)
# The modules are the same in every example.
often = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def unpacked(data: bytes | bytearray, count: int) -> list[bool]:
    return [bool(data[place >> 3] >> (place & 7) & 1) for place in range(count)]


@often
@given(VALUES, st.data())
def test_values_are_picked_by_position(
    core: SimpleNamespace, values: list[int], data: st.DataObject
):
    numbers = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20))
    places = array("q", numbers)
    expected = [values[number] for number in numbers]
    assert core.int_columns.picked(array("q", values), places).tolist() == expected
    small = [value & 0x7F for value in values]
    expected = [small[number] for number in numbers]
    assert core.int_columns.picked_types(array("i", small), places).tolist() == expected
    assert list(core.arithmetic.picked_bytes(bytearray(small), places)) == expected


def test_a_position_beyond_the_values_is_an_error(core: SimpleNamespace):
    for number in (3, 2**40, -4):
        with pytest.raises(IndexError):
            core.int_columns.picked(array("q", [1, 2, 3]), array("q", [number]))


@often
@given(LENGTHS, st.data())
def test_lists_are_picked_with_their_items(
    core: SimpleNamespace, lengths: list[int], data: st.DataObject
):
    numbers = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=10))
    offsets = array("q", [0, *accumulate(lengths)])
    made, items = core.arithmetic.items_of_lists(offsets, array("q", numbers))
    expected = [list(range(offsets[number], offsets[number + 1])) for number in numbers]
    found = [items[first:end].tolist() for first, end in pairwise(made)]
    assert found == expected
    assert made[0] == 0
    assert core.arithmetic.differences(offsets).tolist() == lengths


@often
@given(CODES)
def test_codes_are_renumbered_by_first_appearance(core: SimpleNamespace, codes: list[int]):
    made, order = core.arithmetic.first_places(array("i", codes), 7)
    assert order.tolist() == [code for code in dict.fromkeys(codes) if code >= 0]
    assert [-1 if code < 0 else order[code] for code in made] == codes
    places = array("i", [10 * code for code in range(7)])
    assert core.arithmetic.recoded(array("i", codes), places).tolist() == [
        -1 if code < 0 else 10 * code for code in codes
    ]


@often
@given(st.lists(INT64S | st.integers(-(2**32), 2**32) | st.integers(-40_000, 40_000), max_size=9))
def test_numbers_are_narrowed_or_refused(core: SimpleNamespace, values: list[int]):
    math = core.arithmetic
    for narrowed, kind, bits in ((math.narrowed_ints, "i", 32), (math.narrowed_shorts, "h", 16)):
        if all(-(1 << bits - 1) <= value < 1 << bits - 1 for value in values):
            assert narrowed(array("q", values)) == array(kind, values)
        else:
            with pytest.raises(OverflowError):
                narrowed(array("q", values))


@often
@given(st.lists(st.booleans(), max_size=40))
def test_flags_become_bits(core: SimpleNamespace, flags: list[bool]):
    math, count = core.arithmetic, len(flags)
    assert unpacked(math.bits(bytearray(flags)), count) == flags
    assert unpacked(math.bits_of_longs(array("q", [7 * flag for flag in flags])), count) == flags
    codes = math.bits_of_codes(array("i", [flag - 1 for flag in flags]))
    assert (codes is None) == all(flags)
    if codes is not None:
        assert unpacked(codes, count) == flags


@often
@given(LENGTHS)
def test_sizes_add_up(core: SimpleNamespace, lengths: list[int]):
    math = core.arithmetic
    assert math.sums_up_to(array("q", lengths)).tolist() == [0, *accumulate(lengths)]
    assert core.int_columns.shifted(array("q", lengths), -3).tolist() == [
        length - 3 for length in lengths
    ]
    sizes = array("q", bytes(8 * len(lengths)))
    codes = array("i", [length - 1 for length in lengths])
    math.add_word_sizes(sizes, codes, array("q", [5, 6, 7, 8]), 4)
    assert sizes.tolist() == [4 + (0, 5, 6, 7, 8)[length] for length in lengths]
    offsets = array("q", [0, *accumulate(lengths)])
    up_to = array("q", [2 * place for place in range(offsets[-1] + 1)])
    math.add_list_sizes(sizes, offsets, up_to, 1)
    assert sizes.tolist() == [5 + (0, 5, 6, 7, 8)[length] + 2 * length for length in lengths]
