"""The search for a frame boundary: every byte is skipped once, or returned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.saved import load, save
from kanalyze.kafka.framing.boundary_search import BoundarySearch, FrameLocator
from kanalyze.kafka.framing.frame import Frame
from tests.support.streams import chunk, cut


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
