"""Exchanges are completed with a response, without one, or by a response alone."""

from __future__ import annotations

from kanalyze.kafka.session.completion import ExchangeCompletion
from kanalyze.kafka.session.events import ConnectionEvents
from tests.kafka.session.test_exchange_builder import new_builder
from tests.kafka.session.test_message_reader import READER, frame_of
from tests.kafka.session.test_pending_requests import exchange
from tests.support import kafka as k
from tests.support.talk import BROKER


def new_completion() -> ExchangeCompletion:
    parts = new_builder()
    return ExchangeCompletion(
        BROKER, READER, parts.bodies, parts.correlator, parts.login, parts.losses, parts.tokens
    )


def test_a_response_before_its_request_is_an_anomaly() -> None:
    builder, events = new_builder(), ConnectionEvents()
    request = frame_of(k.heartbeat(1))
    builder.add_request(request, events)
    (waiting,) = builder.correlator.in_flight()
    assert waiting.request is not None
    waiting.request.start_packet = 9
    builder.add_response(frame_of(k.heartbeat_answer(1)), events)
    assert [each.kind.value for each in events.anomalies] == ["response_before_request"]


def test_a_request_without_a_response_is_unanswered_or_settled() -> None:
    completion, events = new_completion(), ConnectionEvents()
    builder = new_builder()
    builder.add_request(frame_of(k.heartbeat(1)), ConnectionEvents())
    (waiting,) = builder.correlator.in_flight()
    completion.unanswered(waiting, events)
    assert "unanswered_request" in waiting.anomalies
    one_way = exchange(2, 2)
    completion.one_way([one_way], 7, events)
    assert one_way.settled_packet == 7
    assert events.exchanges == [waiting, one_way]


def test_a_response_alone_is_an_orphan() -> None:
    completion, events = new_completion(), ConnectionEvents()
    completion.orphan(frame_of(k.heartbeat_answer(5)), None, events)
    completion.orphan(frame_of(k.heartbeat_answer(6)), 7, events)
    orphan, settled = events.exchanges
    assert (orphan.request, orphan.correlation_id, orphan.settled_packet) == (None, 5, None)
    assert (settled.request, settled.correlation_id, settled.settled_packet) == (None, 6, 7)
    assert [each.kind.value for each in events.anomalies] == ["orphan_response"] * 2


def test_a_response_that_is_cut_by_the_end_of_the_stream_is_malformed() -> None:
    completion, events, request = new_completion(), ConnectionEvents(), exchange(5, 1)
    completion.incomplete(request, frame_of(k.heartbeat_answer(5)), events)
    assert (request.malformed, events.exchanges) == (True, [request])
    assert "incomplete_frame" in request.anomalies
