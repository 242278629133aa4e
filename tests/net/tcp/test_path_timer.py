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
def test_an_acknowledgment_alone_that_comes_soon_is_a_round_trip(origin):
    one = timer()
    one.begin(origin + 100, 5 * MS)
    one.acknowledge((origin + 99) % 2**32, 10, False, 6 * MS, 6)
    assert one.is_timed
    assert least_after(one, 25 * MS) == 20 * MS
    assert not one.is_timed


def test_one_that_may_be_delayed_is_none():
    one = timer()
    one.begin(100, 0)
    assert least_after(one, 40 * MS) == UNKNOWN


def test_one_that_cannot_be_delayed_is_one_however_late():
    one = timer()
    one.begin(100, 0)
    assert least_after(one, 80 * MS, newly=17_920) == 80 * MS


def test_one_that_goes_with_data_is_none_but_a_bound():
    one = timer()
    one.begin(100, 0)
    assert least_after(one, 2 * MS, has_payload=True) == UNKNOWN
    one.begin(200, 10 * MS)
    assert least_after(one, 15 * MS) == 2 * MS


def test_a_syn_is_answered_at_once():
    one = timer()
    one.begin_syn(100, 0)
    assert least_after(one, 150 * MS) == 150 * MS


def test_a_syn_that_was_sent_again_is_not_timed_but_its_copy_is_ignored():
    one = timer()
    one.begin_syn(100, 0)
    one.begin_syn(100, 1 * MS)
    assert one.is_timed
    one.begin_syn(100, 1000 * MS)
    assert not one.is_timed


def test_time_that_goes_back_gives_none():
    one = timer()
    one.begin(100, 5 * MS)
    assert least_after(one, 4 * MS) == UNKNOWN


def test_nothing_is_timed_any_more_that_was_given_up():
    one = timer()
    one.begin(100, 0)
    one.cancel()
    assert not one.is_timed


def test_a_state_goes_on():
    one, other = timer(), timer()
    one.begin_syn(2**32 + 7, 3 * MS)
    other.load_state(one.state())
    assert other.state() == one.state() == (True, True, True, 7, 3 * MS)
    with pytest.raises(ValueError, match="32 bits"):
        other.load_state((True, True, True, 2**32, 3 * MS))
