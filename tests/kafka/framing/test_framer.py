"""Cutting a stream into frames, whatever the segments look like, and finding the next boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.saved import load, save
from kanalyze.kafka.framing.frame import Frame
from kanalyze.kafka.framing.framer import (
    BoundarySearch,
    FrameCutter,
    FrameLocator,
    PartialFrame,
    SplitPrefix,
)
from kanalyze.kafka.wire import MissingBytes, Truncated
from kanalyze.model.streams import Gap, Segments
from tests.support.streams import TIME_NS, chunk, cut, frame_of

if TYPE_CHECKING:
    from collections.abc import Callable


BODIES = st.lists(st.binary(min_size=4, max_size=60), min_size=1, max_size=8)


class FunctionLocator(FrameLocator):
    """A locator made of a function."""

    def __init__(self, find: Callable[[memoryview], tuple[int | None, int]]) -> None:
        self._find = find

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        return self._find(view)


@FunctionLocator
def never(view: memoryview) -> tuple[int | None, int]:
    """Find no boundary, keep nothing."""
    return None, len(view)


@FunctionLocator
def marked(view: memoryview) -> tuple[int | None, int]:
    """Find a boundary where a body begins with MARK."""
    index = bytes(view).find(b"MARK")
    if index >= 4:
        return index - 4, index - 4
    return None, max(0, len(view) - 7)


class Patient(FrameLocator):
    """Finds a boundary as ``marked`` does, but none when it is called for the first time."""

    def __init__(self) -> None:
        self.is_called = False

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        if self.is_called:
            return marked(view)
        self.is_called = True
        return None, 0


def body_of(frame: Frame) -> bytes:
    return bytes(frame.read(4, frame.size))


@given(BODIES, st.lists(st.integers(1, 30), max_size=40))
def test_any_segmentation_gives_the_same_frames(bodies: list[bytes], sizes: list[int]) -> None:
    """The times of each are those of the packets with its first and its last byte."""
    pieces = cut(b"".join(map(frame_of, bodies)), sizes)
    cutter = FrameCutter(never)
    frames = cutter.feed([chunk(pieces)]).frames
    assert [body_of(frame) for frame in frames] == bodies
    offsets = [sum(len(b) + 4 for b in bodies[:i]) for i in range(len(bodies))]
    assert [frame.stream_offset for frame in frames] == offsets
    assert cutter.partial.frame is None
    assert cutter.skipped_bytes == 0
    packet_of = [number + 1 for number, piece in enumerate(pieces) for _ in piece]
    for frame in frames:
        first, last = frame.stream_offset, frame.stream_offset + frame.length - 1
        assert (frame.start_packet, frame.end_packet) == (packet_of[first], packet_of[last])
        assert frame.start_time_ns == TIME_NS + packet_of[first]
        assert frame.end_time_ns == TIME_NS + packet_of[last]


@given(BODIES, st.lists(st.integers(1, 30), max_size=40), st.integers(1, 6))
def test_frames_survive_the_reuse_of_buffers_between_batches(
    bodies: list[bytes], sizes: list[int], batch: int
) -> None:
    pieces = cut(b"".join(map(frame_of, bodies)), sizes)
    cutter = FrameCutter(never)
    frames, at = [], 0
    for first in range(0, len(pieces), batch):
        some = pieces[first : first + batch]
        storage = bytearray(b"".join(some))
        item = chunk(some, stream_offset=at, first_packet=first + 1)
        own = item.segments
        columns = (own.start, own.length, own.captured, own.time_ns, own.packet)
        cut_frames = cutter.feed([item._replace(segments=Segments(memoryview(storage), *columns))])
        frames += [body_of(frame) for frame in cut_frames.frames]
        if cutter.partial.frame is not None:
            cutter.partial.frame.detach()
        storage[:] = b"\xee" * len(storage)
        at += sum(map(len, some))
    assert frames == bodies


def test_a_gap_inside_a_frame_costs_only_its_own_bytes() -> None:
    data = frame_of(b"a" * 40) + frame_of(b"next")
    cutter = FrameCutter(never)
    holed, whole = cutter.feed(
        [
            chunk([data[:10]]),
            Gap(10, 20, TIME_NS, 3),
            chunk([data[30:]], stream_offset=30, first_packet=3),
        ]
    ).frames
    assert (holed.missing_bytes, holed.lost_bytes, holed.buffered_bytes) == (20, 20, 24)
    assert holed.end_packet == 3
    assert bytes(holed.read(0, 10)) == data[:10]
    assert bytes(holed.read(30, 14)) == data[30:44]
    with pytest.raises(MissingBytes):
        holed.read(8, 4)
    assert body_of(whole) == b"next"
    assert cutter.is_in_sync()


def test_a_gap_over_a_boundary_loses_sync_and_the_next_frame_is_found() -> None:
    data = frame_of(b"a" * 40) + frame_of(b"lost") + frame_of(b"MARK and more")
    cutter = FrameCutter(marked)
    (cut_short,) = cutter.feed([chunk([data[:10]]), Gap(10, 36, TIME_NS, 3)]).frames
    assert not cutter.is_in_sync()
    items = [chunk([data[46:50], data[50:]], stream_offset=46, first_packet=3)]
    (frame,) = cutter.feed(items).frames
    assert cut_short.missing_bytes == 34
    assert (cut_short.end_time_ns, cut_short.end_packet) == (None, None)
    assert body_of(frame) == b"MARK and more"
    assert frame.stream_offset == 52
    assert cutter.skipped_bytes == 6
    assert cutter.is_in_sync()


def test_a_frame_that_a_search_found_has_the_numbers_of_its_packets() -> None:
    data = b"x" * 30 + frame_of(b"MARK" + b"y" * 20) + frame_of(b"last one")
    cutter, frames = FrameCutter(marked, in_sync=False), []
    for number, piece in enumerate(cut(data, [5] * 20)):
        items = [chunk([piece], stream_offset=5 * number, first_packet=number + 1)]
        frames += cutter.feed(items).frames
    first, last = frames
    assert (first.start_packet, first.end_packet) == (7, 12)
    assert body_of(last) == b"last one"
    assert cutter.skipped_bytes == 30


@pytest.mark.parametrize("size", [-1, 104_857_601, 0x16030100])
def test_an_implausible_size_is_no_frame_and_is_not_waited_for(size: int) -> None:
    data = frame_of(b"good") + size.to_bytes(4, "big", signed=True) + frame_of(b"MARK!")
    cutter = FrameCutter(marked)
    cut_frames = cutter.feed([chunk([data])])
    assert [body_of(frame) for frame in cut_frames.frames] == [b"good", b"MARK!"]
    (loss,) = cut_frames.losses
    assert (loss.stream_offset, loss.size, loss.packet) == (8, size, 1)
    assert cutter.skipped_bytes == 4


def test_the_largest_frame_is_a_hundred_mebibytes_and_reserves_nothing() -> None:
    cutter = FrameCutter(never)
    cutter.feed([chunk([(100 * 1024 * 1024).to_bytes(4, "big") + b"body"])])
    assert cutter.partial.frame is not None
    assert cutter.buffered_bytes == 8


@given(st.lists(st.integers(1, 9), max_size=12))
def test_any_segmentation_skips_the_same_bytes(sizes: list[int]) -> None:
    alert = bytes.fromhex("15030300020246")  # neither it nor any part of it is a plausible size
    stream = frame_of(b"before") + alert + frame_of(b"MARK after")
    cutter = FrameCutter(marked)
    found = cutter.feed([chunk(cut(stream, sizes))])
    found.extend(cutter.finish())
    assert [frame.stream_offset for frame in found.frames] == [0, 10 + len(alert)]
    assert cutter.skipped_bytes == len(alert)


def test_a_stream_of_zeros_is_not_cut_into_frames_for_ever() -> None:
    cutter = FrameCutter(never)
    frames = cutter.feed([chunk([bytes(1000)])]).frames
    assert len(frames) == 32
    assert not cutter.is_in_sync()


def test_a_snap_length_leaves_sizes_and_times() -> None:
    data = frame_of(b"a" * 96) + frame_of(b"b" * 96)
    cutter = FrameCutter(never)
    first, second = cutter.feed([chunk([data[:100], data[100:]], snap=20)]).frames
    assert (first.size, first.missing_bytes, first.end_packet) == (96, 80, 1)
    assert (second.size, second.missing_bytes, second.end_packet) == (96, 80, 2)
    assert bytes(second.read(0, 20)) == data[100:120]
    with pytest.raises(MissingBytes):
        second.read(18, 4)


def test_a_size_prefix_that_was_snapped_off_loses_sync_until_a_later_segment() -> None:
    data = frame_of(b"a" * 16) + frame_of(b"hidden") + frame_of(b"MARK")
    cutter = FrameCutter(marked)
    frames = cutter.feed([chunk([data[:30]], snap=22), chunk([data[30:]], stream_offset=30)]).frames
    assert [frame.size for frame in frames] == [16, 4]
    assert cutter.skipped_bytes == 10


def test_reading_beyond_a_frame_is_refused() -> None:
    cutter = FrameCutter(never)
    frames = cutter.feed([chunk([frame_of(b"abcd"), frame_of(b"efgh")])]).frames
    frame = frames[0]
    with pytest.raises(Truncated):
        frame.read(6, 3)
    with pytest.raises(Truncated):
        frame.window(9)
    assert bytes(frame.window(8)) == b""


def test_a_window_joins_only_what_is_requested() -> None:
    data = frame_of(bytes(range(200)) * 50)
    cutter = FrameCutter(never)
    (frame,) = cutter.feed([chunk(cut(data, [500] * 30))]).frames
    first = len(frame.window(0))
    assert 2048 <= first < 3000
    assert bytes(frame.window(4)) == data[4 : 4 + len(frame.window(4))]
    frame.window_bytes = 192
    assert 192 <= len(frame.window(0)) < 192 + 500
    assert bytes(frame.read(4, len(data) - 4)) == data[4:]


def test_finding_and_losing_sync_again_and_again_takes_linear_time() -> None:
    # 16,000 boundaries, each followed by an impossible size.
    data = (frame_of(b"MARKMARK") + b"\xff" * 4) * 16_000
    cutter = FrameCutter(marked)
    frames = cutter.feed([chunk(cut(data, [1448] * (len(data) // 1448)))]).frames
    assert len(frames) == 16_000


def test_at_the_end_the_bytes_that_a_search_holds_are_frames_or_skipped() -> None:
    cutter = FrameCutter(Patient(), in_sync=False)
    data = b"??" + frame_of(b"MARK1") + b"\xff" * 4 + frame_of(b"MARK2") + b"rest"
    frames = cutter.feed([chunk([data])]).frames
    assert frames == []
    assert [body_of(frame) for frame in cutter.finish().frames] == [b"MARK1", b"MARK2"]
    assert cutter.skipped_bytes == len(data) - 18


def test_a_step_ends_where_sync_is_lost_and_the_rest_is_fed_again() -> None:
    data = frame_of(b"good") + b"\xff" * 4 + frame_of(b"MARK!") + frame_of(b"last")
    cutter = FrameCutter(marked)
    first = cutter.feed_until_loss([chunk([data]), chunk([frame_of(b"next")], stream_offset=29)])
    assert [body_of(frame) for frame in first.frames] == [b"good"]
    assert [loss.stream_offset for loss in first.losses] == [8]
    assert not cutter.is_in_sync()
    assert cutter.needs_locator()
    second = cutter.feed_until_loss(first.rest)
    assert [body_of(frame) for frame in second.frames] == [b"MARK!", b"last", b"next"]
    assert (second.losses, second.rest, cutter.needs_locator()) == ([], [], False)


def test_a_located_frame_that_is_not_confirmed_is_dropped() -> None:
    class Doubting(FunctionLocator):
        def confirm(self, frame: Frame) -> bool:
            return frame.size > 10

    data = frame_of(b"MARKed") + frame_of(b"MARK and more of it")
    cutter = FrameCutter(Doubting(marked), in_sync=False)
    first = cutter.feed([chunk([data[:9]])])
    assert (first.frames, cutter.needs_locator()) == ([], True)
    second = cutter.feed([chunk([data[9:]], stream_offset=9, first_packet=2)])
    assert [body_of(frame) for frame in second.frames] == [b"MARK and more of it"]


class Marked(FrameLocator):
    """Finds a frame at the byte M; confirms frames of an even length."""

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        index = bytes(view).find(b"M")
        return (index, index) if index >= 0 else (None, len(view))

    def confirm(self, frame: Frame) -> bool:
        return frame.length % 2 == 0


def bytes_of(chunks) -> bytes:
    return b"".join(
        bytes(each.segments.buffer[each.segments.start[at] :][: each.segments.captured[at]])
        for each in chunks
        for at in range(each.first, each.last)
    )


@given(st.binary(max_size=60), st.binary(max_size=20), st.lists(st.integers(1, 9), max_size=30))
def test_the_bytes_from_the_boundary_on_are_returned_and_those_before_skipped(before, after, sizes):
    before = before.replace(b"M", b".")
    search = BoundarySearch(Marked(), is_on=True)
    rest = search.search(chunk(cut(before + b"M" + after, sizes)))
    assert not search.is_on
    assert bytes_of(rest[::-1]) == b"M" + after
    assert rest[-1].stream_offset == search.skipped_bytes == len(before)
    assert search.buffered_bytes == 0


def test_without_a_boundary_all_bytes_are_skipped_and_the_search_goes_on():
    search = BoundarySearch(Marked(), is_on=True)
    assert search.search(chunk([b"x" * 5000, b"y" * 5000])) == []
    assert search.is_on
    search.clear()
    assert (search.skipped_bytes, search.buffered_bytes) == (10_000, 0)


def test_only_an_incomplete_frame_that_the_search_ended_with_needs_to_be_confirmed():
    search = BoundarySearch(Marked(), is_on=True)
    search.search(chunk([b"..M23456"], stream_offset=100))
    complete, even, odd, other = (
        Frame(size, offset, 0, 1) for size, offset in ((1, 102), (10, 102), (11, 102), (11, 110))
    )
    assert [search.is_unconfirmed(each) for each in (complete, even, odd, other)] == [
        *(False, True, True, False)
    ]
    assert [search.confirms(each) for each in (complete, even, odd, other)] == [
        *(True, True, False, True)
    ]


def test_a_search_continues_from_its_state():
    class Waits(Marked):
        """Keeps the last byte, so that something is buffered."""

        def __call__(self, view: memoryview) -> tuple[int | None, int]:
            index, keep = super().__call__(view)
            return index, keep if index is not None else len(view) - 1

    search = BoundarySearch(Waits(), is_on=True)
    search.search(chunk([b"abc"], stream_offset=7))
    assert (search.buffered_bytes, search.offset, search.skipped_bytes) == (1, 9, 2)
    second = BoundarySearch(Waits(), is_on=False)
    load(second, save(search))
    for each in (search, second):
        (found,) = each.search(chunk([b"M"], stream_offset=10))
        assert (found.stream_offset, bytes_of([found]), each.skipped_bytes) == (10, b"M", 3)


@pytest.mark.parametrize("marks", [(), ((1, 0, 1),), ((0, 0, 1), (9, 0, 1))])
def test_a_state_whose_packets_do_not_fit_its_bytes_is_refused(marks):
    with pytest.raises(ValueError, match="a search"):
        load(BoundarySearch(Marked(), is_on=False), (0, -1, -1, (b"abc", 0, 0, 0, 0, marks)))


def begun(size: int, received: bytes) -> PartialFrame:
    """A frame of this size whose prefix and some of whose bytes have come."""
    partial = PartialFrame()
    frame = Frame(size, 100, TIME_NS, 1)
    frame.add(0, memoryview(size.to_bytes(4, "big") + received))
    partial.frame, partial.remaining = frame, size - len(received)
    return partial


def test_a_size_is_unknown_if_its_rest_was_not_captured() -> None:
    prefix = SplitPrefix()
    prefix.begin(chunk([b"\0\0"]).segments, 0, 0, 0)
    assert prefix.add(chunk([b"\1\2body"], snap=1).segments, 0) == -1
    assert prefix.size is None


def test_inconsistent_states_are_refused() -> None:
    _, frame = save(begun(50, b"0123"))
    for wrong in ((0, frame), (51, frame), (3, None)):
        with pytest.raises(ValueError, match="beyond those that have come"):
            load(PartialFrame(), wrong)
    for wrong_prefix in ((b"", frame), (b"12", None), (b"1234", frame), (b"12", frame)):
        with pytest.raises(ValueError, match="a split size prefix"):
            load(SplitPrefix(), wrong_prefix)


@given(st.lists(st.integers(1, 9), max_size=12))
def test_a_frame_that_was_cut_is_made_into_one_object_however_often_it_is_asked_for(
    sizes: list[int],
) -> None:
    bodies = [b"first", b"", b"third frame"]
    stream = b"".join([frame_of(body) for body in bodies])
    found = FrameCutter(marked).feed([chunk(cut(stream, sizes))])
    assert found.frame(2) is found.frame(2)
    joined = FrameCutter(marked).feed([chunk(cut(stream, [3, *sizes]))])
    joined.extend(found)
    assert joined.frame(5) is found.frame(2)
    assert [bytes(each.read(4, each.size)) for each in joined.frames] == bodies * 2
    found.clear()
    assert (found.count, found.frames) == (0, [])
