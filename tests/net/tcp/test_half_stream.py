from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.net.layer_stats import Notes
from kanalyze.net.tcp.delivery import Segment
from kanalyze.net.tcp.half_stream import PAST_WINDOW_BYTES, Direction, distance
from kanalyze.net.tcp.limits import ReassemblyLimits
from tests.support.packets import ACK, FIN, RST


def new_direction(sequence: int = 1000, *, has_syn: bool = True) -> Direction:
    connection = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, 0, 0, 0)
    direction = Direction(connection, 0, ReassemblyLimits(), Notes())
    direction.start(sequence, has_syn=has_syn)
    return direction


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_the_distance_is_the_shorter_way_around(sequence, step):
    assert distance((sequence + step) % 2**32, sequence) == step


def test_a_sequence_number_stands_at_the_position_nearest_to_what_comes_next():
    direction = new_direction(5)
    assert direction.place(0xFFFFFFFF) == -6
    direction.position, direction.next_sequence = 2**40, 0xFFFFFFF0
    assert direction.place(16) == 2**40 + 32


@pytest.mark.parametrize(
    ("position", "is_stray"),
    [(2**30, False), (2**30 + 1, True), (-1, False), (-2, True)],
)
def test_what_lies_outside_of_any_window_is_astray(position, is_stray):
    assert new_direction().is_stray(position, position + 10) is is_stray


def test_without_a_syn_what_is_a_little_before_the_first_byte_is_not_astray():
    direction = new_direction(has_syn=False)
    assert not direction.is_stray(-PAST_WINDOW_BYTES, 0)
    assert direction.is_stray(-PAST_WINDOW_BYTES - 1, 0)


def test_after_a_fin_nothing_belongs_to_the_stream():
    direction = new_direction()
    direction.finish_at(10)
    direction.finish_at(20)
    assert not direction.is_stray(0, 10)
    assert direction.is_stray(0, 11)
    assert not direction.is_plain


def test_a_direction_is_plain_while_nothing_is_held_back():
    assert new_direction().is_plain


@pytest.mark.parametrize(
    ("position", "length", "flags", "is_probe"),
    [
        (-1, 0, ACK, True),
        (-1, 1, ACK, True),
        (-1, 2, ACK, False),
        (0, 0, ACK, False),
        (-2, 1, ACK, False),
        (-1, 0, ACK | RST, False),
        (-1, 0, ACK | FIN, False),
    ],
)
def test_a_probe_is_empty_or_one_byte_just_before_what_comes_next(
    position, length, flags, is_probe
):
    piece = Segment(0, 0, flags, 0, length, length, 0, 1, 0, 0)
    assert new_direction().is_probe(piece, position) is is_probe
