"""Growing columns return the values put into them; all others are null."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.buffers import IntBuffer, WordBuffer, buffers_of, ints_of, words_of

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
    drained = ints_with(values).drain(len(values))
    assert list(drained.values) == [value or 0 for value in values]
    valid = [True] * len(values) if drained.valid is None else list(map(bool, drained.valid))
    assert valid == [value is not None for value in values]


@given(st.lists(st.none() | st.integers(0, 2**62)), st.integers(-(2**40), 2**40))
def test_least_largest_and_shift_ignore_nulls(values, shift):
    buffer, known = ints_with(values), [value for value in values if value is not None]
    assert buffer.least(len(values)) == min(known, default=2**63 - 1)
    assert buffer.largest(len(values)) == max(known, default=-1)
    buffer.shift(len(values), shift)
    assert values_of(buffer, len(values)) == [None if v is None else v + shift for v in values]


def test_a_number_can_be_overwritten_by_null():
    buffer = ints_with([1, 2])
    buffer.change(0, None)
    buffer.change(1, 7)
    assert values_of(buffer, 2) == [None, 7]


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
    assert list(ints.drain(2).valid) == [0, 0]
    assert list(words.drain(2).codes) == [-1, -1]


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
    read = [None if code < 0 else block.words[code] for block in blocks for code in block.codes]
    assert read == texts


def test_dropped_texts_stay_in_earlier_blocks():
    buffer = WordBuffer()
    buffer.make_room(1)
    buffer.put(0, "old")
    block = buffer.drain(1)
    buffer.forget()
    assert (buffer.words, buffer.characters) == ([], 0)
    assert buffer.code("new") == block.codes[0]
    assert block.words == ["old"]


def test_every_column_of_a_row_has_a_buffer_of_its_type():
    buffers = buffers_of(COLUMNS)
    assert isinstance(words_of(buffers, "partitions.topic"), WordBuffer)
    assert isinstance(ints_of(buffers, "partitions.record_count"), IntBuffer)
    assert isinstance(words_of(buffers, "anomalies"), WordBuffer)
    assert "partitions" not in buffers
    with pytest.raises(AssertionError):
        ints_of(buffers, "topic" if "topic" in buffers else "client_id")
