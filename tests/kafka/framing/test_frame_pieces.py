"""Spans of segments and lists of pieces give back the bytes that they were made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.saved import make, save
from kanalyze.kafka.framing.frame_pieces import FramePieces, SegmentSpan
from kanalyze.kafka.wire import MissingBytes
from tests.kafka.framing.test_frame import segments_of


def test_a_view_joins_only_as_many_segments_as_it_needs():
    segments, _ = segments_of(bytes(range(200)), [(10, 10)] * 20)
    span = SegmentSpan(segments, 1, 5, 180)
    assert (len(span), span.buffered_bytes, span.reach) == (180, 180, 180)
    assert list(span.view(0, 1)) == list(range(15, 20))
    assert list(span.view(3, 10)) == list(range(18, 30))
    assert list(span.view(0, 1000)) == list(range(15, 195))
    assert [bytes(view) for _, views in span.contiguous_runs(170, 180) for view in views] == [
        bytes(range(185, 190)),
        bytes(range(190, 195)),
    ]


def test_a_hole_in_a_span_ends_a_view():
    segments, _ = segments_of(bytes(range(40)), [(10, 10), (10, 4), (10, 0), (10, 2)])
    span = SegmentSpan(segments, 0, 5, 35)
    assert span.buffered_bytes == 11
    assert span.reach == 27
    assert list(span.view(0, 100)) == list(range(5, 14))
    assert len(span.view(10, 1)) == 0
    assert [(at, len(views)) for at, views in span.contiguous_runs(0, 35)] == [(0, 2), (25, 1)]


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(min_size=1, max_size=9)), max_size=12))
def test_neighbouring_pieces_are_joined(parts):
    """Each part is a hole's length, and the bytes after the hole."""
    pieces, known = FramePieces(), list[int | None]()
    for hole, data in parts:
        known += [None] * hole
        pieces.add(len(known), memoryview(data))
        known += data
    assert pieces.end() == len(known)
    assert pieces.buffered_bytes() == len(known) - known.count(None)
    for at, byte in enumerate(known):
        if byte is None:
            with pytest.raises(MissingBytes):
                pieces.join(at, 1)
        else:
            run = known[at : known.index(None, at) if None in known[at:] else None]
            assert list(pieces.join(at, len(known))) == run


def test_pieces_that_are_detached_or_saved_outlive_their_buffers():
    buffer = bytearray(b"abcdef")
    pieces = FramePieces()
    pieces.add(0, memoryview(buffer)[:3])
    pieces.add(5, memoryview(buffer)[3:])
    saved = make(FramePieces, save(pieces))
    buffer[:] = b"......"
    for each in (pieces, saved):
        found = [bytes(each.join(at, most)) for at, most in ((0, 3), (6, 9))]
        assert found == [b"abc", b"ef"]


def test_only_the_selected_ranges_are_kept():
    pieces = FramePieces()
    pieces.add(0, memoryview(b"abcdefgh"))
    pieces.keep_only([(1, 3), (3, 4), (6, 7)])
    assert pieces.buffered_bytes() == 4
    assert [bytes(pieces.join(at, 9)) for at in (1, 6)] == [b"bcd", b"g"]


@pytest.mark.parametrize("state", [((0, 2), (b"abc", b"d")), ((0,), (b"",))])
def test_a_state_with_overlapping_or_empty_pieces_is_refused(state):
    with pytest.raises(ValueError, match="overlap"):
        make(FramePieces, state)
