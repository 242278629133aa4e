"""Frames of one direction: where they lie, and what is no plain stream."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.connection import cutting
from kanalyze.connection.cutting import PlainStream, plain_stream
from kanalyze.model import Gap
from kanalyze.protocol.framing import LARGEST_FRAME_BYTES
from tests.support.columnar import ALWAYS_JOINED, NEVER_JOINED, by_columns_at_once
from tests.support.streams import TIME_NS, chunk, cut, frame_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.model import StreamItem

FRAMES = [frame_of(bytes([number] * size)) for number, size in enumerate((8, 20, 9, 300, 8))]
STREAM = b"".join(FRAMES)
BEGINS = [0, 12, 36, 49, 353]


def items_of(groups: Sequence[Sequence[bytes]], stream_offset: int = 1000) -> list[StreamItem]:
    """A chunk for each group of pieces, each over a buffer of its own."""
    items: list[StreamItem] = []
    packet = 1
    for group in groups:
        items.append(chunk(group, stream_offset=stream_offset, first_packet=packet))
        stream_offset += sum(map(len, group))
        packet += len(group)
    return items


def stream_of(*groups: Sequence[bytes]) -> PlainStream:
    found = plain_stream(items_of(groups))
    assert found is not None
    return found


# -- plain streams --------------------------------------------------------------------------------


def test_chunks_that_follow_one_another_are_a_plain_stream() -> None:
    stream = stream_of([b"abc", b"de"], [b"f"])
    assert (stream.stream_offset, stream.size, stream.ends) == (1000, 6, [3, 5, 6])
    assert stream.time_ns == [TIME_NS + 1, TIME_NS + 2, TIME_NS + 3]
    assert stream.packet == [1, 2, 3]


def test_nothing_is_no_plain_stream() -> None:
    assert plain_stream([]) is None
    assert plain_stream(items_of([[]])) is None


def test_a_gap_is_none_wherever_it_is() -> None:
    whole = items_of([[b"abc"]])
    gap = Gap(1003, 2, TIME_NS, 2)
    assert plain_stream([*whole, gap]) is None
    assert plain_stream([Gap(998, 2, TIME_NS, 1), *whole]) is None


def test_what_does_not_follow_is_none() -> None:
    later = chunk([b"de"], stream_offset=1004)
    assert plain_stream([*items_of([[b"abc"]]), later]) is None


def test_bytes_that_a_snap_length_cut_off_are_missing() -> None:
    assert plain_stream([chunk([b"abc", b"defgh"], snap=4)]) is None
    assert plain_stream([chunk([b"abc", b"defgh"], snap=5)]) is not None


def test_a_chunk_is_only_its_own_segments() -> None:
    (item,) = items_of([[b"abc", b"de", b"fgh"]])
    middle = plain_stream([item._replace(first=1, last=2, stream_offset=1003)])  # type: ignore[union-attr]
    assert middle is not None
    assert (middle.stream_offset, middle.read(0, 2)) == (1003, b"de")


@given(
    st.lists(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4), min_size=1),
    st.data(),
)
def test_any_part_can_be_read_and_given_on(groups: list[list[bytes]], data: st.DataObject) -> None:
    whole = b"".join(map(b"".join, groups))
    stream = stream_of(*groups)
    begin = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(0, len(whole)))
    part = whole[begin:end]
    assert stream.read(begin, end) == part
    chunks = stream.chunks(begin, end)
    again = plain_stream([*chunks])
    if not part:
        assert again is None
        assert stream.copy(begin, end) is None
        return
    assert again is not None
    assert (again.stream_offset, again.read(0, again.size)) == (1000 + begin, part)
    # Each byte keeps its packet and time.
    where = [packet for packet, length in segments(stream) for _ in range(length)]
    assert [packet for packet, length in segments(again) for _ in range(length)] == where[begin:end]
    copied = stream.copy(begin, end)
    assert copied is not None
    own = PlainStream([copied])
    assert (own.stream_offset, own.read(0, own.size)) == (1000 + begin, part)
    assert (own.time_ns, own.packet, own.length) == (again.time_ns, again.packet, again.length)


def segments(stream: PlainStream) -> list[tuple[int, int]]:
    return list(zip(stream.packet, stream.length, strict=True))


def test_a_copy_outlives_the_buffers() -> None:
    buffer = bytearray(b"abcdef")
    (item,) = items_of([[b"abc", b"def"]])
    lent = item.segments._replace(buffer=memoryview(buffer))  # type: ignore[union-attr]
    stream = plain_stream([item._replace(segments=lent)])  # type: ignore[union-attr]
    assert stream is not None
    copied = stream.copy(1, 5)
    assert copied is not None
    buffer[:] = b"xxxxxx"
    assert PlainStream([copied]).read(0, 4) == b"bcde"
    assert stream.read(0, 6) == b"xxxxxx"


# -- cutting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("few_frames", [ALWAYS_JOINED, 3, NEVER_JOINED])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 12, 13, 50, 1000])
def test_frames_are_found_however_they_are_cut(size: int, few_frames: int) -> None:
    pieces = cut(STREAM, [size] * (len(STREAM) // size))
    with by_columns_at_once(few_frames):
        for groups in ([pieces], [[piece] for piece in pieces]):
            cuts = cutting.cut(stream_of(*groups), 0, 8)
            assert cuts is not None
            assert (cuts.at, cuts.size, cuts.end) == (BEGINS, [8, 20, 9, 300, 8], len(STREAM))
            assert cuts.joined == (None if few_frames == NEVER_JOINED else STREAM)


@pytest.mark.parametrize("few_frames", [ALWAYS_JOINED, NEVER_JOINED])
def test_a_frame_that_ends_later_is_not_among_them(few_frames: int) -> None:
    with by_columns_at_once(few_frames):
        for length in range(1, len(STREAM)):
            cuts = cutting.cut(stream_of([STREAM[:length]]), 0, 8)
            assert cuts is not None
            ends = [*BEGINS[1:], len(STREAM)]
            assert cuts.at == BEGINS[: sum(end <= length for end in ends)]
            assert cuts.end == max([0, *(end for end in ends if end <= length)])


def test_what_a_frame_that_began_before_lacks_is_skipped() -> None:
    for skip in range(9):
        cuts = cutting.cut(stream_of([b"x" * skip + STREAM]), skip, 8)
        assert cuts is not None
        assert cuts.at == [skip + begin for begin in BEGINS]
        assert cuts.place(2) == skip + BEGINS[2]
        assert cuts.place(5) == skip + len(STREAM)


def test_all_of_a_stream_may_be_skipped_but_no_more() -> None:
    cuts = cutting.cut(stream_of([b"abc"]), 3, 8)
    assert cuts is not None
    assert (cuts.at, cuts.end, cuts.place(0)) == ([], 3, 3)
    assert cutting.cut(stream_of([b"abc"]), 4, 8) is None


@pytest.mark.parametrize("few_frames", [ALWAYS_JOINED, NEVER_JOINED])
@pytest.mark.parametrize("size", [-1, 0, 7, LARGEST_FRAME_BYTES + 1, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_size_that_no_frame_has(size: int, few_frames: int, before: int) -> None:
    data = b"".join(FRAMES[:before]) + struct.pack(">i", size)
    with by_columns_at_once(few_frames):
        assert cutting.cut(stream_of([data, b"more"]), 0, 8) is None


def test_the_largest_and_the_smallest_size() -> None:
    largest = struct.pack(">i", LARGEST_FRAME_BYTES)
    for smallest in (4, 8):
        cuts = cutting.cut(stream_of([frame_of(bytes(smallest)), largest]), 0, smallest)
        assert cuts is not None
        assert (cuts.at, cuts.end) == ([0], 4 + smallest)


def test_streams_of_large_frames_are_not_joined() -> None:
    small = stream_of([frame_of(bytes(8)) * 8, frame_of(bytes(100_000))])
    large = stream_of([frame_of(bytes(100_000))] * 8)
    found = cutting.cut(small, 0, 8), cutting.cut(large, 0, 8)
    assert [cuts is not None and cuts.joined is not None for cuts in found] == [True, False]
