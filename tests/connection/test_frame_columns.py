"""Frames of many connections as columns, and one of them as an object."""

from __future__ import annotations

import numpy as np
import pytest

from kanalyze.connection.cutting import cut, plain_stream
from kanalyze.connection.frame_columns import FrameBytes, FrameColumns, read_integers
from tests.support.columnar import ALWAYS_JOINED, NEVER_JOINED, by_columns_at_once
from tests.support.streams import TIME_NS, chunk, frame_of
from tests.support.streams import cut as pieces_of

FRAMES = [frame_of(bytes([number] * size)) for number, size in enumerate((8, 20, 900, 8))]
STREAM = b"".join(FRAMES)


def columns_of(*streams: list[bytes]) -> tuple[FrameColumns, FrameBytes, list[object]]:
    """The frames of streams, each given in pieces; packets are numbered on from 1."""
    frames, data, directions = FrameColumns(), FrameBytes(), []
    packet = 1
    for pieces in streams:
        stream = plain_stream([chunk(pieces, stream_offset=100, first_packet=packet)])
        assert stream is not None
        cuts = cut(stream, 0, 8)
        assert cuts is not None
        directions.append(frames.add(stream, cuts, data))
        packet += len(pieces)
    frames.close()
    return frames, data, directions


@pytest.mark.parametrize("few_frames", [ALWAYS_JOINED, NEVER_JOINED])
@pytest.mark.parametrize("size", [1, 3, 12, 36, 1000])
def test_columns_tell_where_frames_lie_and_when_they_came(size: int, few_frames: int) -> None:
    pieces = pieces_of(STREAM, [size] * (len(STREAM) // size))
    with by_columns_at_once(few_frames):
        frames, data, directions = columns_of([FRAMES[0]], pieces)
    held = data.array().tobytes()
    assert frames.count == 5
    places = zip(frames.start, frames.held, strict=True)
    assert [held[start:end] for start, end in places] == [FRAMES[0], *FRAMES]
    assert frames.held.tolist() == (frames.start + frames.size + 4).tolist()
    begins = np.cumsum([0, *map(len, FRAMES)])
    first = 2 + begins[:-1] // size
    last = 2 + (begins[1:] - 1) // size
    assert frames.start_packet.tolist() == [1, *first]
    assert frames.end_packet.tolist() == [1, *last]
    assert frames.start_ns.tolist() == [TIME_NS + 1, *(TIME_NS + first)]
    assert frames.end_ns.tolist() == [TIME_NS + 1, *(TIME_NS + last)]
    assert [direction.rows for direction in directions] == [slice(0, 1), slice(1, 5)]


def test_of_a_large_frame_only_the_head_lies_together() -> None:
    with by_columns_at_once(NEVER_JOINED, most_joined_bytes=600):
        frames, data, _ = columns_of([STREAM])
    assert (frames.held - frames.start).tolist() == [12, 24, 512, 12]
    assert len(data.array()) == 12 + 24 + 512 + 12


@pytest.mark.parametrize("few_frames", [ALWAYS_JOINED, NEVER_JOINED])
def test_a_frame_as_an_object_is_all_there(few_frames: int) -> None:
    with by_columns_at_once(few_frames, most_joined_bytes=600):
        frames, _, directions = columns_of([FRAMES[0]], pieces_of(STREAM, [5] * 100))
    for index, expected in enumerate(FRAMES):
        frame = frames.frame(directions[1], index)
        assert bytes(frame.read(0, frame.length)) == expected
        assert frame.missing_bytes == 0
        row = 1 + index
        assert (frame.start_packet, frame.end_packet) == (
            frames.start_packet[row], frames.end_packet[row],
        )  # fmt: skip
        assert frame.stream_offset == 100 + sum(map(len, FRAMES[:index]))


def test_nothing_makes_no_columns() -> None:
    frames, data, (direction,) = columns_of([b"abc"])
    assert (frames.count, len(data.array()), direction.rows) == (0, 0, slice(0, 0))
    assert len(frames.start) == len(frames.end_packet) == 0


def test_integers_are_read_at_any_place() -> None:
    data = np.frombuffer(b"\x00\xff\xff\xff\xfe\x01", np.uint8)
    assert read_integers(data, np.array([1, 0, 4]), ">i2").tolist() == [-1, 255, -511]
    assert read_integers(data, np.array([1, 2]), ">i4").tolist() == [-2, -255 - 256]
    assert read_integers(data[:1], np.array([], np.int64), ">i4").tolist() == []
