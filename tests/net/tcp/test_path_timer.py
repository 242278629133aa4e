from __future__ import annotations

import pytest

from kanalyze.model.network_path import RoundTripHistory
from kanalyze.net.tcp.path_timer import PathTimer

UNKNOWN = -1
MS = 1_000_000
LAST = 99


def timer() -> PathTimer:
    return PathTimer(RoundTripHistory())


def least_after(one: PathTimer, ack_ns: int, *, newly: int = 10, has_payload: bool = False) -> int:
    """The least round trip after an acknowledgment of everything sent."""
    one.acknowledge(one.end, newly, has_payload, ack_ns, 7)
    return one.history.least_at(LAST)


@pytest.mark.parametrize("origin", [0, 2**32 - 50])
def test_an_early_acknowledgment_without_data_is_a_round_trip(origin):
    one = timer()
    one.begin(origin + 100, 5 * MS)
    one.acknowledge((origin + 99) % 2**32, 10, False, 6 * MS, 6)
    assert one.is_timed
    assert least_after(one, 25 * MS) == 20 * MS
    assert not one.is_timed


def test_an_acknowledgment_that_may_be_delayed_is_no_round_trip():
    one = timer()
    one.begin(100, 0)
    assert least_after(one, 40 * MS) == UNKNOWN


def test_an_acknowledgment_that_cannot_be_delayed_is_a_round_trip_however_late():
    one = timer()
    one.begin(100, 0)
    assert least_after(one, 80 * MS, newly=17_920) == 80 * MS


def test_an_acknowledgment_with_data_is_only_a_bound():
    one = timer()
    one.begin(100, 0)
    assert least_after(one, 2 * MS, has_payload=True) == UNKNOWN
    one.begin(200, 10 * MS)
    assert least_after(one, 15 * MS) == 2 * MS


def test_the_answer_to_a_syn_is_a_round_trip_however_late():
    one = timer()
    one.begin_syn(100, 0)
    assert least_after(one, 150 * MS) == 150 * MS


def test_a_retransmitted_syn_is_not_timed_and_a_duplicate_is_ignored():
    one = timer()
    one.begin_syn(100, 0)
    one.begin_syn(100, 1 * MS)
    assert one.is_timed
    one.begin_syn(100, 1000 * MS)
    assert not one.is_timed


def test_a_time_that_goes_back_gives_no_round_trip():
    one = timer()
    one.begin(100, 5 * MS)
    assert least_after(one, 4 * MS) == UNKNOWN


def test_a_cancelled_segment_is_not_timed():
    one = timer()
    one.begin(100, 0)
    one.cancel()
    assert not one.is_timed
