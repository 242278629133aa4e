from __future__ import annotations

import pytest

from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.connection import OpenConnection
from kanalyze.net.tcp.delivery import Segment
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.time_wait import TimeWaitTable
from tests.support.packets import ACK, SYN

PAIR = (0x0A000001_0007, 0x0A000002_2384)
LIMITS = ReassemblyLimits(time_wait_pairs=2, late_segments=2, late_ns=1000)


def piece(seq, flags=ACK, length=0, time_ns=0):
    return Segment(seq, 0, flags, 0, length, length, time_ns, 1, 0, 0)


def closed(end="reset", pair=PAIR, number=3) -> OpenConnection:
    state = OpenConnection(pair, piece(10, SYN), number, LIMITS, LayerStats())
    state.half_streams[0].start(11, has_syn=True)
    state.tcp.end = end
    return state


def pairs(*states) -> TimeWaitTable:
    remembered = TimeWaitTable(LIMITS)
    for state in states:
        remembered.add(state)
    return remembered


def test_the_next_connection_on_a_pair_has_the_next_number():
    remembered = pairs(closed())
    assert remembered.next_number(PAIR) == 4
    assert remembered.next_number(PAIR) == 1


def test_the_oldest_are_forgotten():
    others = [(PAIR[0] + i, PAIR[1]) for i in (1, 2)]
    remembered = pairs(closed(), *(closed(pair=other) for other in others))
    assert len(remembered) == 2
    assert remembered.next_number(PAIR) == 1
    assert remembered.next_number(others[0]) == 4
    remembered.clear()
    assert len(remembered) == 0


@pytest.mark.parametrize(
    ("segment", "is_late"),
    [
        (piece(10, SYN), True),
        (piece(99, SYN), False),
        (piece(99), True),
        (piece(11, length=5), True),
        (piece(0x70000000, length=5), False),
        (piece(11, length=5, time_ns=1001), False),
    ],
    ids=["same SYN", "other SYN", "empty", "payload", "far payload", "payload long after"],
)
def test_a_late_packet_is_of_the_closed_connection(segment, is_late):
    assert pairs(closed()).is_late(PAIR, segment) is is_late


def test_payload_is_late_a_few_times_only():
    remembered = pairs(closed())
    assert [remembered.is_late(PAIR, piece(11, length=5)) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("end", ["limit", "idle"])
def test_payload_on_a_pair_that_was_given_up_is_not_late(end):
    assert not pairs(closed(end)).is_late(PAIR, piece(11, length=5))


def test_nothing_is_late_on_an_unknown_pair():
    assert not pairs().is_late(PAIR, piece(11))
