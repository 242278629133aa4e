from __future__ import annotations

import pytest

from kanalyze.model.segments import Segments
from kanalyze.model.tcp import Endpoint
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.connection import OpenConnection
from kanalyze.net.tcp.delivery import Segment
from kanalyze.net.tcp.limits import ReassemblyLimits
from tests.support.packets import ACK, FIN, RST, SYN

PAIR = (0x0A000001_0007, 0x0A000002_2384)
SHARED = Segments(memoryview(bytes(100)), [0], [4], [4], [1], [1])


def piece(seq, flags=ACK, length=0, ack=0, from_higher=0, time_ns=0):
    return Segment(seq, ack, flags, 0, length, length, time_ns, 1, 0, from_higher)


def state_of(*segments):
    state = OpenConnection(PAIR, segments[0], 1, ReassemblyLimits(), LayerStats())
    assert all(state.receive(segment, SHARED) for segment in segments)
    return state


OPENING = (piece(10, SYN), piece(50, SYN | ACK, ack=11, from_higher=1), piece(11, ack=51))


def test_the_first_sender_is_the_first_endpoint():
    lower, higher = Endpoint("10.0.0.1", 7), Endpoint("10.0.0.2", 9092)
    assert state_of(OPENING[0]).tcp.endpoints == (lower, higher)
    assert state_of(piece(50, from_higher=1)).tcp.endpoints == (higher, lower)


@pytest.mark.parametrize(
    ("segment", "belongs"),
    [
        (piece(10, SYN), True),
        (piece(11, SYN), False),
        (piece(50, SYN | ACK, ack=11, from_higher=1), True),
        (piece(90, SYN | ACK, ack=11, from_higher=1), True),
        (piece(90, SYN, from_higher=1), False),
    ],
    ids=["same SYN", "other SYN", "same SYN-ACK", "other SYN-ACK", "SYN of the other end"],
)
def test_a_syn_belongs_or_begins_another_connection(segment, belongs):
    assert state_of(*OPENING).receive(segment, SHARED) is belongs


def test_a_syn_ack_with_another_number_after_data_begins_another_connection():
    state = state_of(*OPENING, piece(51, length=4, ack=11, from_higher=1))
    assert not state.receive(piece(90, SYN | ACK, ack=11, from_higher=1), SHARED)


def test_a_syn_ack_that_answers_another_syn_begins_another_connection():
    state = state_of(OPENING[0], piece(11, length=4))
    assert not state.receive(piece(50, SYN | ACK, ack=99, from_higher=1), SHARED)


def test_two_acknowledged_fins_or_one_reset_are_the_end():
    ending = (piece(11, FIN | ACK, ack=51), piece(51, FIN | ACK, ack=12, from_higher=1))
    assert not state_of(*OPENING, *ending).is_over()
    assert state_of(*OPENING, *ending, piece(12, ack=52)).is_over()
    assert state_of(*OPENING, piece(11, RST)).is_over()


def test_a_connection_with_a_hole_a_fin_or_stray_data_is_not_in_order():
    assert state_of(*OPENING).is_in_order()
    assert not state_of(*OPENING, piece(13, length=4)).is_in_order()
    assert not state_of(*OPENING, piece(11, FIN | ACK)).is_in_order()
    assert not state_of(*OPENING, piece(0x60000000, length=4)).is_in_order()


def test_buffered_bytes_are_those_of_both_directions():
    state = state_of(*OPENING, piece(13, length=4), piece(60, length=5, from_higher=1))
    assert state.buffered_bytes == 9
    update = state.close(SHARED, "open")
    assert update.closed
    assert [len(items) for items in update.items] == [2, 2]
    assert state.buffered_bytes == 0
