"""Frames that continue in a later segment: how many bytes have come, and their sizes."""

from __future__ import annotations

import pytest

from kanalyze.common.saved import load, save
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.framing.partial_frame import PartialFrame, SplitPrefix
from tests.support.streams import TIME_NS, chunk


def begun(size: int, received: bytes) -> PartialFrame:
    """A frame of this size whose prefix and some of whose bytes have come."""
    partial = PartialFrame()
    frame = Frame(size, 100, TIME_NS, 1)
    frame.add(0, memoryview(size.to_bytes(4, "big") + received))
    partial.frame, partial.remaining = frame, size - len(received)
    return partial


def test_seen_bytes_of_a_frame_are_buffered_or_lost() -> None:
    partial = begun(50, b"0123456789")
    assert (partial.seen_bytes, partial.buffered_bytes) == (14, 14)
    partial.lose(30)
    assert (partial.remaining, partial.seen_bytes, partial.buffered_bytes) == (10, 44, 14)
    partial.lose(10)
    frame = partial.end(TIME_NS + 5, 6)
    assert frame is not None
    assert (frame.missing_bytes, frame.lost_bytes) == (40, 40)
    assert (frame.end_time_ns, frame.end_packet) == (TIME_NS + 5, 6)
    assert (partial.frame, partial.remaining, partial.seen_bytes) == (None, 0, 0)


def test_no_frame_ends_if_none_has_begun() -> None:
    assert PartialFrame().end(TIME_NS, 1) is None


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_size_is_known_once_its_four_bytes_are_there(first: int) -> None:
    prefix, data = SplitPrefix(), (0x01020304).to_bytes(4, "big") + b"body"
    segments = chunk([b"earlier" + data[:first], data[first:]]).segments
    prefix.begin(segments, 0, 7, 7)
    assert prefix.size is None
    assert prefix.frame is not None
    assert (prefix.frame.stream_offset, prefix.frame.start_packet) == (7, 1)
    assert prefix.add(segments, 1) == 4 - first
    assert prefix.size == 0x01020304
    frame = prefix.frame
    prefix.end(frame, 0x01020304)
    assert frame.length == 0x01020308
    assert bytes(frame.read(0, 4)) == data[:4]
    assert (prefix.frame, prefix.size) == (None, None)


def test_a_size_may_come_byte_by_byte() -> None:
    prefix, segments = SplitPrefix(), chunk([b"\0", b"\0", b"\1", b"\2"]).segments
    prefix.begin(segments, 0, 0, 0)
    assert [prefix.add(segments, index) for index in (1, 2, 3)] == [1, 1, 1]
    assert prefix.size == 0x102


def test_a_size_is_unknown_if_its_rest_was_not_captured() -> None:
    prefix = SplitPrefix()
    prefix.begin(chunk([b"\0\0"]).segments, 0, 0, 0)
    assert prefix.add(chunk([b"\1\2body"], snap=1).segments, 0) == -1
    assert prefix.size is None


def test_partial_frames_and_split_prefixes_continue_from_their_states() -> None:
    partial, other = begun(50, b"0123"), PartialFrame()
    load(other, save(partial))
    assert (other.remaining, other.seen_bytes) == (46, 8)
    prefix, again = SplitPrefix(), SplitPrefix()
    prefix.begin(chunk([b"\0\0"]).segments, 0, 9, 0)
    load(again, save(prefix))
    again.add(chunk([b"\1\2"]).segments, 0)
    assert again.size == 0x102


def test_inconsistent_states_are_refused() -> None:
    _, frame = save(begun(50, b"0123"))
    for wrong in ((0, frame), (51, frame), (3, None)):
        with pytest.raises(ValueError, match="beyond those that have come"):
            load(PartialFrame(), wrong)
    for wrong_prefix in ((b"", frame), (b"12", None), (b"1234", frame), (b"12", frame)):
        with pytest.raises(ValueError, match="a split size prefix"):
            load(SplitPrefix(), wrong_prefix)
