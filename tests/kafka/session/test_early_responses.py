"""Responses that were read before their request."""

from __future__ import annotations

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.early_responses import EarlyResponse, EarlyResponses
from tests.kafka.session.test_message_reader import READER, frame_of
from tests.kafka.session.test_pending_requests import exchange
from tests.support import kafka as k


def early(*ids: int) -> EarlyResponses:
    responses = EarlyResponses()
    for correlation_id in ids:
        assert responses.add(answer(correlation_id)) == []
    return responses


def answer(correlation_id: int, frame: bytes | None = None) -> EarlyResponse:
    """The response after one that ended at 5 ns."""
    return EarlyResponse(frame_of(frame or k.heartbeat_answer(correlation_id)), correlation_id, 5)


def test_the_response_with_the_id_is_matched_once() -> None:
    responses, request = early(7, 8), exchange(8, 1)
    assert responses.has_any()
    found = responses.match(request, READER.checks, requests_lost=False)
    assert found is not None
    assert (READER.correlation_id(found.frame), found.previous_ns) == (8, 5)
    assert responses.match(request, READER.checks, requests_lost=False) is None
    assert responses.buffered_bytes == len(k.heartbeat_answer(7))


def test_after_lost_requests_an_early_response_is_not_matched_with_a_later_request() -> None:
    responses, later = early(8), exchange(8, 9)
    assert responses.match(later, READER.checks, requests_lost=True) is None
    assert responses.match(later, READER.checks, requests_lost=False) is not None


def test_a_response_to_a_one_way_request_has_to_fit() -> None:
    responses, request = early(8), exchange(8, 1)
    request.one_way = True
    request.api_key = k.METADATA
    assert responses.match(request, READER.checks, requests_lost=False) is None
    request.api_key = k.HEARTBEAT
    assert responses.match(request, READER.checks, requests_lost=False) is not None


def test_the_oldest_responses_are_dropped_beyond_a_number_or_a_number_of_bytes() -> None:
    responses = early(*range(64))
    (dropped,) = responses.add(answer(64))
    assert READER.correlation_id(dropped) == 0
    assert len(responses.add(answer(65, k.response(65, bytes(1 << 20))))) == 65
    assert (responses.has_any(), responses.buffered_bytes) == (False, 0)


def test_responses_before_one_whose_request_came_are_dropped() -> None:
    responses = early(7)
    assert responses.drop_before(-1) == []
    assert len(responses.drop_before(0)) == 1
    assert (responses.drop_all(), responses.buffered_bytes) == ([], 0)


def test_a_state_has_all_early_responses() -> None:
    responses, other = early(7, 8), EarlyResponses()
    load(other, save(responses))
    assert other.buffered_bytes == responses.buffered_bytes
    assert [READER.correlation_id(frame) for frame in other.drop_all()] == [7, 8]
