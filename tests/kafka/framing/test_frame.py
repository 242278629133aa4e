"""A frame in many segments gives back the bytes that were captured of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.framing.boundary_search import FrameLocator
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.framing.framer import FrameCutter
from kanalyze.kafka.framing.trimming import keep_only
from kanalyze.kafka.wire import MissingBytes
from kanalyze.model.streams import Chunk, Segments

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=120)
"""For each segment: its length, and how many of its bytes the snap length leaves."""


class Nowhere(FrameLocator):
    """Finds no boundary."""

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        return None, len(view)


class CapturedFrame(NamedTuple):
    """A frame, and by position its bytes, None for those that were not captured."""

    frame: Frame
    known: list[int | None]


def segments_of(data: bytes, parts: Sequence[tuple[int, int]]) -> tuple[Segments, list[int | None]]:
    """Segments of ``data`` with other bytes between them, and which bytes they have."""
    storage, known, at = bytearray(), list[int | None](), 0
    columns: list[list[int]] = [[], [], [], [], []]
    for number, (size, captured) in enumerate(parts):
        piece = data[at : at + size]
        captured_bytes = min(len(piece), captured)
        storage += b"\xee\xee\xee"
        for column, value in zip(
            columns, (len(storage), len(piece), captured_bytes, number, number), strict=True
        ):
            column.append(value)
        storage += piece[:captured_bytes]
        known += [*piece[:captured_bytes], *[None] * (len(piece) - captured_bytes)]
        at += size
    return Segments(memoryview(storage), *columns), known


def captured_frame(parts: Sequence[tuple[int, int]], at_once: int) -> CapturedFrame:
    """A frame with a captured size prefix, which came in batches of ``at_once`` segments."""
    body = bytes(index % 251 for index in range(sum(size for size, _ in parts)))
    data = len(body).to_bytes(4, "big") + body
    parts = [(4, 4), *parts]
    cutter, known, frames, offset = FrameCutter(Nowhere()), list[int | None](), list[Frame](), 0
    for first in range(0, len(parts), at_once):
        some = parts[first : first + at_once]
        segments, batch_known = segments_of(data[offset:], some)
        frames += cutter.feed([Chunk(offset, segments, 0, len(some))]).frames
        if cutter.partial.frame is not None:
            cutter.partial.frame.detach()
        if not frames:
            segments.buffer[:] = b"\xdd" * len(segments.buffer)
        known += batch_known
        offset += sum(size for size, _ in some)
    (frame,) = frames
    return CapturedFrame(frame, known)


def assert_reads(frame: Frame, known: list[int | None], at: int, length: int) -> None:
    expected = known[at : at + length]
    if None in expected:
        with pytest.raises(MissingBytes):
            frame.read(at, length)
    else:
        assert list(frame.read(at, length)) == expected


@given(PARTS, st.integers(1, 130), st.data())
def test_only_captured_bytes_can_be_read(parts, at_once, data):
    frame, known = captured_frame(parts, at_once)
    assert frame.length == len(known)
    assert frame.missing_bytes == known.count(None)
    assert frame.buffered_bytes == len(known) - known.count(None)
    assert frame.received == max(at for at, byte in enumerate(known) if byte is not None) + 1
    for _ in range(8):
        at = data.draw(st.integers(0, len(known) - 1))
        assert_reads(frame, known, at, data.draw(st.integers(1, len(known) - at)))
    at = data.draw(st.integers(0, len(known) - 1))
    if known[at] is not None:
        window = frame.window(at)
        window_known = known[at : at + len(window)]
        assert list(window) == window_known
        enough = len(window) >= frame.window_bytes or at + len(window) == len(known)
        assert enough or known[at + len(window)] is None


@given(PARTS, st.integers(1, 130), st.data())
def test_dropped_bytes_are_gone_and_all_others_stay(parts, at_once, data):
    frame, known = captured_frame(parts, at_once)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(known)), max_size=6)))
    ranges = list(zip(bounds[::2], bounds[1::2], strict=False))
    until = data.draw(st.integers(0, len(known)))
    keep_only(frame, ranges, until)
    for at in range(until):
        if not any(begin <= at < end for begin, end in ranges):
            known[at] = None
    assert frame.buffered_bytes == len(known) - known.count(None)
    for at in range(len(known)):
        assert_reads(frame, known, at, 1)


@given(PARTS, st.data())
def test_a_detached_frame_outlives_its_buffers(parts, data):
    frame, known = captured_frame(parts, len(parts) + 1)
    buffered = frame.buffered_bytes
    frame.detach()
    assert frame.buffered_bytes == buffered
    for at in range(len(known)):
        assert_reads(frame, known, at, 1)
    begin = data.draw(st.integers(0, len(known) - 1))
    assert_reads(frame, known, begin, len(known) - begin)
