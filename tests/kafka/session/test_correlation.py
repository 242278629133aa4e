"""Pairing of requests and responses when parts of the connection were not captured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.correlation import (
    Correlator,
    EarlyResponse,
    EarlyResponses,
    PendingRequests,
    _UsedIds,
)
from kanalyze.kafka.session.exchange import Exchange, Message
from tests.support import kafka as k
from tests.support.session import READER, exchange, frame_of
from tests.support.talk import BROKER, CLIENT, Talk


def ids_of(exchanges: list[Exchange]) -> list[int | None]:
    return [found.correlation_id for found in exchanges]


def added(correlator: Correlator, *requests: tuple[int, int]) -> list[Exchange]:
    """Add requests, each a correlation id and a packet."""
    exchanges = [exchange(correlation_id, packet) for correlation_id, packet in requests]
    for request in exchanges:
        assert correlator.add(request) is None
    return exchanges


def message(stream_offset: int) -> Message:
    return Message.read(0, 1, 0, 1, 20, None, None, stream_offset)


def test_a_response_after_that_of_a_later_request_is_late() -> None:
    correlator = Correlator(from_start=True)
    assert not correlator.follow_order(0, 0)
    assert not correlator.follow_order(40, 20)
    assert correlator.keeps_order
    assert correlator.follow_order(20, 40)
    assert not correlator.keeps_order
    # This one was captured late: its response came before that of the later request.
    assert not correlator.follow_order(30, 10)


def test_a_request_overtakes_those_that_still_wait() -> None:
    correlator = Correlator(from_start=True)
    first, second = added(correlator, (1, 1), (2, 2))
    first.request, second.request = message(0), message(20)
    assert correlator.match(2, 3) is second
    assert correlator.overtakes(20)
    correlator.lost.add_responses(3)
    assert not correlator.overtakes(20)
    assert correlator.match(1, 4) is first
    assert not correlator.overtakes(0)


def test_a_state_without_the_order_of_responses_continues_in_order() -> None:
    correlator, other = Correlator(from_start=True), Correlator(from_start=True)
    correlator.follow_order(0, 0)
    load(other, save(correlator)[:-3])
    assert other.keeps_order
    assert not other.follow_order(0, 0)


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
    # It is no longer known which of the lowest ids were used, nor soon which of those below them.
    assert used.add(12)
    assert any(used.add(5 - 3 * number) for number in range(200))


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), max_size=60))
def test_pending_requests_behave_like_a_list_searched_from_its_oldest_end(
    turns: list[tuple[bool, bool, int]],
) -> None:
    pending, model = PendingRequests(), list[Exchange]()
    for packet, (is_request, is_looked_up, correlation_id) in enumerate(turns):
        if is_request:
            added = exchange(correlation_id, packet)
            model.append(added)
            assert pending.add(added) is None
        else:
            expected = next((e for e in model if e.correlation_id == correlation_id), None)
            if is_looked_up:
                assert pending.oldest(correlation_id) is expected
            assert pending.pop(correlation_id) is expected
            if expected is not None:
                model.remove(expected)
        assert len(pending) == len(model)
        assert pending.first() is (model[0] if model else None)
        of_id = [each for each in model if each.correlation_id == correlation_id]
        assert pending.count(correlation_id) == len(of_id)
    assert list(pending) == model
    assert set(pending.apis()) == {e.correlation_id for e in model}
    assert pending.pop_all() == model
    assert len(pending) == 0


# -- responses that were read before their request -------------------------------------------------


def answer(correlation_id: int, frame: bytes | None = None) -> EarlyResponse:
    """The response after one that ended at 5 ns."""
    return EarlyResponse(frame_of(frame or k.heartbeat_answer(correlation_id)), correlation_id, 5)


def test_an_early_response_is_matched_once_and_if_no_request_was_lost() -> None:
    responses, request = EarlyResponses(), exchange(8, 9)
    for number in (7, 8):
        assert responses.add(answer(number)) == []
    assert responses.match(request, READER.checks, requests_lost=True) is None
    found = responses.match(request, READER.checks, requests_lost=False)
    assert found is not None
    assert (READER.correlation_id(found.frame), found.previous_ns) == (8, 5)
    assert responses.match(request, READER.checks, requests_lost=False) is None
    assert responses.buffered_bytes == len(k.heartbeat_answer(7))


def test_an_early_response_to_a_one_way_request_has_to_fit() -> None:
    responses, request = EarlyResponses(), exchange(8, 1)
    responses.add(answer(8))
    request.one_way = True
    for key, fits in ((k.METADATA, False), (k.HEARTBEAT, True)):
        request.api_key = key
        found = responses.match(request, READER.checks, requests_lost=False)
        assert (found is not None) == fits


def test_the_oldest_responses_are_dropped_beyond_a_number_or_a_number_of_bytes() -> None:
    responses = EarlyResponses()
    assert not any(responses.add(answer(number)) for number in range(64))
    (dropped,) = responses.add(answer(64))
    assert READER.correlation_id(dropped) == 0
    assert len(responses.add(answer(65, k.response(65, bytes(1 << 20))))) == 65
    assert (responses.has_any(), responses.buffered_bytes) == (False, 0)


# -- requests that expect no response --------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, 3, 7])
def test_produce_with_acks_0_gets_no_response(version: int) -> None:
    talk = Talk().client(k.produce(1, acks=0, version=version), k.heartbeat(2))
    talk.broker(k.heartbeat_answer(2)).close()
    assert [exchange.one_way for exchange in talk.exchanges] == [True, False]
    assert talk.anomalies == []


@pytest.mark.parametrize("version", [0, 2, 3, 7])
def test_a_response_to_produce_with_acks_0_is_paired_and_reported(version: int) -> None:
    talk = Talk().client(k.produce(1, acks=0, version=version))
    talk.broker(k.produce_answer(1, version=version))
    assert talk.pairs() == [(1, 1, 2)]
    (exchange,) = talk.exchanges
    assert exchange.one_way
    assert exchange.response is not None
    assert exchange.response.version == version
    assert exchange.anomalies == ["unsolicited_response"]
    assert talk.close().kinds() == ["unsolicited_response"]


def test_responses_to_many_produces_with_acks_0_in_flight_are_paired_and_reported() -> None:
    talk = Talk().client(*(k.produce(i, acks=0) for i in range(1, 50)), k.heartbeat(50))
    talk.broker(*(k.produce_answer(i) for i in range(1, 50)), k.heartbeat_answer(50))
    talk.client(k.produce(51, acks=0)).broker(k.produce_answer(51)).close()
    assert [pair[0] for pair in talk.pairs() if None not in pair] == list(range(1, 52))
    assert talk.kinds() == ["unsolicited_response"] * 50


def test_a_response_captured_before_a_produce_with_acks_0_is_paired_too() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.broker(k.produce_answer(2)).client(k.produce(2, acks=0)).close()
    assert talk.pairs()[1] == (2, 4, 3)
    assert talk.kinds() == ["response_before_request", "unsolicited_response"]


def test_a_response_is_paired_first_with_a_request_that_expects_one() -> None:
    talk = Talk().client(k.produce(0, acks=0), k.heartbeat(0)).broker(k.heartbeat_answer(0)).close()
    assert sorted(talk.pairs(), key=str) == [(0, 1, None), (0, 2, 3)]
    assert talk.anomalies == []


def test_a_response_that_does_not_fit_a_produce_is_an_orphan() -> None:
    talk = Talk().client(k.produce(1, acks=0)).broker(k.response(1, b"no such thing")).close()
    assert sorted(talk.pairs(), key=str) == [(1, 1, None), (1, None, 2)]
    assert talk.kinds() == ["orphan_response"]


def test_responses_to_acks_0_are_not_awaited_after_a_broker_has_sent_none() -> None:
    talk = Talk().client(k.produce(1, acks=0))
    assert talk.exchanges == []
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2))
    assert sorted(talk.pairs()) == [(1, 1, None), (2, 2, 3)]
    talk.client(k.produce(3, acks=0))
    assert talk.pairs()[2:] == [(3, 4, None)]
    assert talk.anomalies == []


def test_one_way_requests_are_complete_beyond_a_number_or_a_time() -> None:
    talk = Talk().client(*(k.produce(i, acks=0) for i in range(1, 1001)))
    assert talk.exchanges == []
    talk.client(k.produce(1001, acks=0))
    assert [pair[0] for pair in talk.pairs()] == list(range(1, 1002))
    slow = Talk().client(k.produce(1, acks=0))
    slow.packet += 6_000_000_000
    slow.client(k.produce(2, acks=0))
    assert [pair[0] for pair in slow.pairs()] == [1, 2]
    assert [exchange.one_way for exchange in slow.exchanges] == [True, True]


def test_after_lost_responses_a_broker_may_still_respond_to_acks_0() -> None:
    talk = Talk().client(k.produce(1, acks=0), k.heartbeat(2))
    talk.loses(BROKER, len(k.produce_answer(1))).broker(k.heartbeat_answer(2))
    talk.client(k.produce(3, acks=0)).broker(k.produce_answer(3)).close()
    assert sorted(talk.pairs()) == [(1, 1, None), (2, 2, 3), (3, 4, 5)]
    assert "orphan_response" not in talk.kinds()


@pytest.mark.parametrize("has_responses", [True, False])
def test_produce_with_acks_0_between_others_is_reported_the_same_in_large_batches(
    has_responses: bool,
) -> None:
    turns: list[tuple[int, bytes]] = []
    for number in range(1, 90):
        is_one_way = number % 30 == 7
        turns.append((CLIENT, k.produce(number, acks=0 if is_one_way else 1)))
        if has_responses or not is_one_way:
            turns.append((BROKER, k.produce_answer(number)))
    large_batches, one_by_one = Talk(), Talk()
    for talk, size in ((large_batches, 40), (one_by_one, 1)):
        for at in range(0, len(turns), size):
            talk.at_once(*turns[at : at + size])
        assert talk.close().kinds() == ["unsolicited_response"] * (3 * has_responses)
    assert large_batches.pairs() == one_by_one.pairs()
