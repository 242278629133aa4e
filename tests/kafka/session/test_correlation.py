"""Pairing of requests and responses when parts of the connection were not captured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.correlation import Correlator, _UsedIds
from kanalyze.kafka.session.exchange import Message, Peers
from kanalyze.model.tcp import Endpoint, TcpConnection
from tests.kafka.session.test_pending_requests import exchange

if TYPE_CHECKING:
    from kanalyze.kafka.session.exchange import Exchange


ENDS = (Endpoint("a", 1), Endpoint("b", 2))
PEERS = Peers(TcpConnection(1, ENDS, 1, 0, 0, 0), *ENDS)


def ids_of(exchanges: list[Exchange]) -> list[int | None]:
    return [found.correlation_id for found in exchanges]


def added(correlator: Correlator, *requests: tuple[int, int]) -> list[Exchange]:
    """Add requests, each a correlation id and a packet."""
    exchanges = [exchange(correlation_id, packet) for correlation_id, packet in requests]
    for request in exchanges:
        assert correlator.add(request) is None
    return exchanges


def test_without_a_loss_the_oldest_request_with_the_id_is_answered() -> None:
    correlator = Correlator(from_start=True)
    first, second = added(correlator, (0, 1), (0, 2))
    assert correlator.match(0, 3) is first
    assert correlator.match(0, 4) is second
    assert correlator.match(0, 5) is None


def test_without_a_loss_a_response_may_be_captured_before_its_request() -> None:
    correlator = Correlator(from_start=True)
    (late,) = added(correlator, (7, 9))
    assert correlator.match(7, 3) is late


def message(stream_offset: int) -> Message:
    return Message.read(0, 1, 0, 1, 20, None, None, stream_offset)


def test_a_response_after_that_of_a_later_request_is_late() -> None:
    correlator = Correlator(from_start=True)
    assert not correlator.follow_order(message(0), message(0))
    assert not correlator.follow_order(message(40), message(20))
    assert correlator.keeps_order
    assert correlator.follow_order(message(20), message(40))
    assert not correlator.keeps_order
    # This one was captured late: its response came before that of the later request.
    assert not correlator.follow_order(message(30), message(10))


def test_a_request_overtakes_those_that_still_wait() -> None:
    correlator = Correlator(from_start=True)
    first, second = added(correlator, (1, 1), (2, 2))
    first.request, second.request = message(0), message(20)
    assert correlator.match(2, 3) is second
    assert correlator.overtakes(second.request)
    correlator.lost.add_responses(3)
    assert not correlator.overtakes(second.request)
    assert correlator.match(1, 4) is first
    assert not correlator.overtakes(first.request)


def test_a_state_without_the_order_of_responses_continues_in_order() -> None:
    correlator, other = Correlator(from_start=True), Correlator(from_start=True)
    correlator.follow_order(message(0), message(0))
    load(other, save(correlator)[:-3])
    assert other.keeps_order
    assert not other.follow_order(message(0), message(0))


def test_after_a_loss_no_response_answers_a_later_request() -> None:
    correlator = Correlator(from_start=True)
    correlator.lost.requests = True
    (late,) = added(correlator, (7, 9))
    assert correlator.match(7, 3) is None
    assert correlator.match(7, 10) is late


def test_a_request_with_a_unique_id_is_matched_whatever_was_lost() -> None:
    correlator = Correlator(from_start=False)
    first, second = added(correlator, (4, 1), (5, 2))
    correlator.lost.add_responses(3)
    assert correlator.match(5, 3) is second
    assert correlator.lost.has_response_to(first)


def test_a_client_with_one_id_that_waits_for_responses_is_matched_with_its_last_request() -> None:
    correlator = Correlator(from_start=True)
    added(correlator, (0, 1))
    assert correlator.match(0, 2) is not None
    unanswered, last = added(correlator, (0, 3), (0, 5))
    correlator.lost.add_responses(6)
    assert correlator.is_ambiguous()
    assert correlator.drop_ambiguous(0, 6) == [unanswered]
    assert correlator.match(0, 6) is last
    assert correlator.lost.has_response_to(unanswered)


def test_a_client_with_one_id_that_does_not_wait_is_not_matched_after_a_lost_response() -> None:
    correlator = Correlator(from_start=True)
    added(correlator, (0, 1), (0, 2))
    assert correlator.match(0, 3) is not None
    assert correlator.match(0, 4) is not None
    added(correlator, (0, 5), (0, 6))
    correlator.lost.add_responses(8)
    assert ids_of(correlator.drop_ambiguous(0, 8)) == [0, 0]
    assert correlator.match(0, 8) is None
    # Requests after the loss are certain again.
    (after,) = added(correlator, (0, 9))
    assert correlator.match(0, 10) is after


def test_no_response_is_matched_after_a_lost_request_of_a_client_with_one_id() -> None:
    correlator = Correlator(from_start=True)
    added(correlator, (0, 1), (0, 2))
    correlator.match(0, 3)
    correlator.match(0, 4)
    correlator.lost.requests = True
    added(correlator, (0, 6))
    assert correlator.match(0, 7) is None


@given(st.lists(st.integers(0, 40), max_size=60))
def test_used_ids_are_remembered_like_a_set(ids: list[int]) -> None:
    used, known = _UsedIds(), set[int]()
    for correlation_id in ids:
        was_used = used.add(correlation_id)
        assert was_used == (correlation_id in known)
        if was_used:
            return
        known.add(correlation_id)


def test_rising_ids_with_very_many_gaps_are_not_taken_for_used_ones() -> None:
    """A client may have one counter for many connections, and many requests may be lost."""
    used = _UsedIds()
    assert not any(used.add(10 + 3 * number) for number in range(1000))
    assert not used.add(9 + 3 * 999)
    assert used.add(10 + 3 * 998)
    # It is no longer known which of the lowest ids were used, nor which of those below them.
    assert used.add(12)
    assert used.add(5)
