"""Varints and tag sections."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.wire import (
    MAX_UNSIGNED_VARINT,
    Malformed,
    Truncated,
    WireError,
    read_unsigned_varint,
    skip_tags,
)
from tests.support.messages import unsigned_varint


@given(st.integers(0, MAX_UNSIGNED_VARINT))
def test_an_unsigned_varint_is_read_as_it_was_written(value: int) -> None:
    written = unsigned_varint(value)
    assert read_unsigned_varint(b"x" + written + b"x", 1) == (value, 1 + len(written))
    for end in range(len(written)):
        with pytest.raises(Truncated):
            read_unsigned_varint(written[:end], 0)


@pytest.mark.parametrize("written", [b"\xff\xff\xff\xff\x08", b"\x80" * 5, b"\xff" * 10])
def test_a_varint_that_is_too_long_or_too_large_is_malformed(written: bytes) -> None:
    with pytest.raises(Malformed):
        read_unsigned_varint(written, 0)


def test_a_varint_with_needless_zeros_is_read() -> None:
    assert read_unsigned_varint(b"\x81\x80\x00", 0) == (1, 3)


def test_a_tag_section_is_stepped_over() -> None:
    section = b"\x02\x01\x03abc\x90\x4e\x00"
    assert skip_tags(section + b"rest", 0, len(section)) == len(section)


@pytest.mark.parametrize("section", [b"\x02\x01\x00\x01\x00", b"\x02\x05\x00\x01\x00"])
def test_tags_that_do_not_rise_are_malformed(section: bytes) -> None:
    with pytest.raises(Malformed, match="tags do not rise"):
        skip_tags(section, 0, len(section))


def test_a_tag_section_that_is_cut_is_truncated() -> None:
    section = b"\x02\x01\x03abc\x09\x02xy"
    for end in range(len(section)):
        with pytest.raises(Truncated):
            skip_tags(section[:end], 0, end)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_tag_section_or_a_wire_error(section: bytes) -> None:
    try:
        end = skip_tags(section, 0, len(section))
    except WireError:
        return
    assert 0 < end <= len(section)
