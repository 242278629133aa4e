"""Requests that expect no response, with one and without."""

from __future__ import annotations

import pytest

from tests.support import kafka as k
from tests.support.talk import BROKER, CLIENT, Talk


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
    assert [
        (cid, request is None, response is None) for cid, request, response in talk.pairs()
    ] == [(i, False, False) for i in range(1, 52)]
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
    in_large_batches = Talk()
    for at in range(0, len(turns), 40):
        in_large_batches.at_once(*turns[at : at + 40])
    in_large_batches.close()
    one_by_one = Talk()
    for turn in turns:
        one_by_one.at_once(turn)
    one_by_one.close()
    assert in_large_batches.pairs() == one_by_one.pairs()
    assert (
        in_large_batches.kinds()
        == one_by_one.kinds()
        == ["unsolicited_response"] * (3 * has_responses)
    )
