"""Exchanges of Kafka 0.7 made of frames: paired in order, and not at all after a loss."""

from __future__ import annotations

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.exchange import Peers
from kanalyze.kafka.v07.exchange_builder import ExchangeBuilder07
from tests.support import kafka07 as old
from tests.support.session import TCP, frame_of
from tests.support.talk import CLIENT


def new_builder(*, is_certain: bool = True) -> ExchangeBuilder07:
    return ExchangeBuilder07(Peers(TCP, *TCP.endpoints), CLIENT, is_certain=is_certain, keep=None)


def test_responses_belong_to_requests_in_their_order() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(frame_of(old.fetch(0)), events)
    builder.add_request(frame_of(old.produce()), events)
    assert [each.one_way for each in events.exchanges] == [True]
    builder.add_response(frame_of(old.fetched()), events)
    assert events.exchanges[1].response is not None
    assert (len(builder), builder.undecoded_bytes) == (0, 0)


def test_after_a_loss_pending_requests_are_unanswered_and_responses_are_orphans() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(frame_of(old.fetch(0)), events)
    builder.lose_sync(events)
    builder.add_response(frame_of(old.fetched()), events)
    kinds = [each.kind.value for each in events.anomalies]
    assert kinds == ["unanswered_request", "orphan_response"]
    assert builder.undecoded_bytes == len(old.fetched())


def test_a_state_has_the_pending_requests() -> None:
    builder, other = new_builder(), new_builder(is_certain=False)
    builder.add_request(frame_of(old.fetch(0)), ConnectionEvents())
    load(other, save(builder))
    assert (len(other), save(other)) == (1, save(builder))
