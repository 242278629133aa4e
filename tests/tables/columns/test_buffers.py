"""Columns return the values put into them; loops over them give the results of plain Python."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kanalyze.tables.columns.buffers import IntBuffer, WordBuffer

if TYPE_CHECKING:
    from types import SimpleNamespace

INT64 = st.integers(-(2**63), 2**63 - 1)


def ints_with(values: list[int | None]) -> IntBuffer:
    buffer = IntBuffer()
    for at, value in enumerate(values):
        if at % 3 == 0:
            buffer.make_room(at + 3)
        buffer.put_any(at, value)
    return buffer


def values_of(buffer: IntBuffer, count: int) -> list[int | None]:
    return [buffer.get(at) for at in range(count)]


@given(st.lists(st.none() | INT64))
def test_numbers_come_out_as_they_were_put_with_nulls_between(values):
    numbers, known = ints_with(values).drain(len(values))
    assert list(numbers) == [value or 0 for value in values]
    valid = [True] * len(values) if known is None else list(map(bool, known))
    assert valid == [value is not None for value in values]


@given(st.lists(st.none() | st.integers(0, 2**62)), st.integers(-(2**40), 2**40))
def test_least_largest_and_shift_ignore_nulls(values, shift):
    buffer, known = ints_with(values), [value for value in values if value is not None]
    assert buffer.least(len(values)) == min(known, default=2**63 - 1)
    assert buffer.largest(len(values)) == max(known, default=-1)
    buffer.shift(len(values), shift)
    assert values_of(buffer, len(values)) == [None if v is None else v + shift for v in values]


def test_a_drained_buffer_begins_empty():
    ints, words = ints_with([5]), WordBuffer()
    words.make_room(1)
    words.put(0, "a")
    ints.drain(1)
    words.drain(1)
    for buffer in (ints, words):
        with pytest.raises(IndexError):
            buffer.put(0, 1 if buffer is ints else "a")
        buffer.make_room(2)
    assert list(ints.drain(2)[1]) == [0, 0]
    assert list(words.drain(2)[0]) == [-1, -1]


@given(st.lists(st.none() | st.sampled_from(["", "a", "b", "topic"]), max_size=20))
def test_each_text_is_kept_once_and_stays_valid_in_later_blocks(texts):
    buffer, blocks = WordBuffer(), []
    for first in range(0, len(texts), 5):
        chunk = texts[first : first + 5]
        buffer.make_room(len(chunk))
        for at, text in enumerate(chunk):
            buffer.put(at, text)
        blocks.append(buffer.drain(len(chunk)))
    assert len(buffer.words) == len({text for text in texts if text is not None})
    assert buffer.characters == sum(map(len, buffer.words))
    read = [None if code < 0 else words[code] for codes, words in blocks for code in codes]
    assert read == texts


# -- loops, compiled and uncompiled ---------------------------------------------------------------

VALUES = st.lists(INT64, min_size=1, max_size=20)
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
    assert list(core.buffers.picked_bytes(bytearray(small), places)) == expected


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
    made, items = core.buffers.items_of_lists(offsets, array("q", numbers))
    expected = [list(range(offsets[number], offsets[number + 1])) for number in numbers]
    found = [items[first:end].tolist() for first, end in pairwise(made)]
    assert found == expected
    assert made[0] == 0


@often
@given(CODES)
def test_codes_are_renumbered_by_first_appearance(core: SimpleNamespace, codes: list[int]):
    made, order = core.buffers.first_places(array("i", codes), 7)
    assert order.tolist() == [code for code in dict.fromkeys(codes) if code >= 0]
    assert [-1 if code < 0 else order[code] for code in made] == codes
    places = array("i", [10 * code for code in range(7)])
    assert core.buffers.recoded(array("i", codes), places).tolist() == [
        -1 if code < 0 else 10 * code for code in codes
    ]


@often
@given(st.lists(INT64 | st.integers(-(2**32), 2**32) | st.integers(-40_000, 40_000), max_size=9))
def test_numbers_are_narrowed_or_refused(core: SimpleNamespace, values: list[int]):
    math = core.buffers
    for narrowed, kind, bits in ((math.narrowed_ints, "i", 32), (math.narrowed_shorts, "h", 16)):
        if all(-(1 << bits - 1) <= value < 1 << bits - 1 for value in values):
            assert narrowed(array("q", values)) == array(kind, values)
        else:
            with pytest.raises(OverflowError):
                narrowed(array("q", values))


@often
@given(st.lists(st.booleans(), max_size=40))
def test_flags_become_bits(core: SimpleNamespace, flags: list[bool]):
    math, count = core.buffers, len(flags)
    assert unpacked(math.bits_of_longs(array("q", [7 * flag for flag in flags])), count) == flags
    for bits in (
        math.bits(bytearray(7 * flag for flag in flags)),
        math.bits_of_codes(array("i", [flag - 1 for flag in flags])),
    ):
        assert (bits is None) == all(flags)
        if bits is not None:
            assert unpacked(bits, count) == flags


@often
@given(LENGTHS)
def test_sizes_add_up(core: SimpleNamespace, lengths: list[int]):
    math = core.buffers
    assert math.sums_up_to(array("q", lengths)).tolist() == [0, *accumulate(lengths)]
    assert core.int_columns.shifted(array("q", lengths), -3).tolist() == [
        length - 3 for length in lengths
    ]
    sizes = array("q", bytes(8 * len(lengths)))
    codes = array("i", [length - 1 for length in lengths])
    math.add_word_sizes(sizes, codes, array("q", [5, 6, 7, 8]))
    assert sizes.tolist() == [(0, 5, 6, 7, 8)[length] for length in lengths]
    offsets = array("q", [0, *accumulate(lengths)])
    up_to = array("q", [2 * place for place in range(offsets[-1] + 1)])
    math.add_list_sizes(sizes, offsets, up_to)
    assert sizes.tolist() == [(0, 5, 6, 7, 8)[length] + 2 * length for length in lengths]
