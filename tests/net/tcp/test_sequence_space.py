from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.net.tcp.sequence_space import PAST_WINDOW_BYTES, SequenceSpace, distance


def new_space(sequence: int = 1000, *, has_syn: bool = True) -> SequenceSpace:
    connection = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, 0, 0, 0)
    space = SequenceSpace(connection, 0)
    space.start(sequence, has_syn=has_syn)
    return space


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_the_distance_is_the_shorter_way_around(sequence, step):
    assert distance((sequence + step) % 2**32, sequence) == step


def test_a_sequence_number_has_the_offset_nearest_to_the_next_byte():
    space = new_space(5)
    assert space.offset_of(0xFFFFFFFF) == -6
    space.stream_offset, space.next_sequence = 2**40, 0xFFFFFFF0
    assert space.offset_of(16) == 2**40 + 32


@pytest.mark.parametrize(
    ("stream_offset", "is_out_of_window"),
    [(2**30, False), (2**30 + 1, True), (-1, False), (-2, True)],
)
def test_offsets_beyond_any_window_are_out_of_window(stream_offset, is_out_of_window):
    assert new_space().is_out_of_window(stream_offset, stream_offset + 10) is is_out_of_window


def test_without_a_syn_bytes_shortly_before_the_first_are_not_out_of_window():
    space = new_space(has_syn=False)
    assert not space.is_out_of_window(-PAST_WINDOW_BYTES, 0)
    assert space.is_out_of_window(-PAST_WINDOW_BYTES - 1, 0)


def test_after_a_fin_nothing_belongs_to_the_stream():
    space = new_space()
    space.fin_offset = 10
    assert not space.is_out_of_window(0, 10)
    assert space.is_out_of_window(0, 11)


def test_bytes_delivered_move_both_numbers_and_sequence_numbers_wrap():
    space = new_space(0xFFFFFFFE)
    space.advance(5)
    assert (space.stream_offset, space.next_sequence, space.first_sequence) == (5, 3, 0xFFFFFFFE)


def test_a_late_syn_shows_whether_the_start_was_seen():
    for sequence, is_start in ((1000, True), (999, False)):
        space = new_space(has_syn=False)
        space.note_syn(sequence)
        assert space.connection.start_seen[0] is is_start
