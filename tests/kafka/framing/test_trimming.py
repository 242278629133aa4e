"""Bytes of a frame are dropped if no decoder needs them, or if there is no room for them."""

from __future__ import annotations

import pytest

from kanalyze.kafka.framing.frame import SKIMMED_BYTES, Frame
from kanalyze.kafka.framing.trimming import drop_after, is_worth_skimming, keep_only
from kanalyze.kafka.wire import MissingBytes

LENGTH = 4 * SKIMMED_BYTES


def frame_with(received: int) -> Frame:
    frame = Frame(LENGTH - 4, 0, 1, 1)
    frame.add(0, memoryview(bytes(received)))
    return frame


def test_small_frames_are_not_skimmed() -> None:
    assert not is_worth_skimming(frame_with(SKIMMED_BYTES))
    assert is_worth_skimming(frame_with(SKIMMED_BYTES + 1))


def test_a_frame_is_skimmed_again_when_it_has_doubled() -> None:
    frame = frame_with(3 * SKIMMED_BYTES)
    keep_only(frame, [(0, SKIMMED_BYTES)], 3 * SKIMMED_BYTES)
    assert frame.buffered_bytes == SKIMMED_BYTES
    frame.add(3 * SKIMMED_BYTES, memoryview(bytes(SKIMMED_BYTES)))
    assert not is_worth_skimming(frame)
    frame.add(LENGTH, memoryview(b"x"))
    assert is_worth_skimming(frame)


def test_dropped_bytes_that_no_decoder_needs_are_not_lost() -> None:
    frame = frame_with(1000)
    keep_only(frame, [(0, 10), (500, 600)], 800)
    assert frame.buffered_bytes == 10 + 100 + 200
    assert (frame.missing_bytes, frame.lost_bytes) == (0, 0)
    with pytest.raises(MissingBytes):
        frame.read(10, 1)


def test_bytes_without_room_are_lost_and_the_beginning_is_kept() -> None:
    frame = frame_with(1000)
    assert drop_after(frame, 100) == 900
    assert (frame.buffered_bytes, frame.missing_bytes, frame.lost_bytes) == (100, 900, 900)
    assert len(frame.read(0, 100)) == 100
    with pytest.raises(MissingBytes):
        frame.read(100, 1)
    assert drop_after(frame, 100) == 0
    assert frame.lost_bytes == 900
