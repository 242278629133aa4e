"""Exchanges made of frames, without streams: pairs, tokens, unreadable frames."""

from __future__ import annotations

import struct

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.exchange import Peers
from kanalyze.kafka.session.exchange_builder import PENDING_BYTES, ExchangeBuilder
from kanalyze.kafka.session.resync import RequestLocator
from tests.kafka.session.test_message_reader import CATALOG, READER, frame_of
from tests.kafka.session.test_sync_losses import TCP
from tests.support import kafka as k
from tests.support.talk import CLIENT

LOCATOR = RequestLocator(READER, CATALOG)


def new_builder(*, tokens_first: bool = False) -> ExchangeBuilder:
    peers = Peers(TCP, *TCP.endpoints)
    return ExchangeBuilder(
        *(peers, CLIENT, READER, LOCATOR), from_start=True, keep=None, tokens_first=tokens_first
    )


def test_a_request_waits_and_its_response_completes_it() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(frame_of(k.heartbeat(7)), events)
    assert events.exchanges == []
    assert builder.buffered_bytes == PENDING_BYTES
    assert [each.correlation_id for each in builder.correlator.in_flight()] == [7]
    builder.add_response(frame_of(k.heartbeat_answer(7)), events)
    (exchange,) = events.exchanges
    assert exchange.response is not None
    assert (exchange.lost_ns, builder.buffered_bytes, events.anomalies) == (None, 0, [])
    sizes = len(k.heartbeat(7)) + len(k.heartbeat_answer(7))
    assert builder.bodies.decoded_bytes == sizes


def test_a_token_is_counted_and_makes_no_exchange() -> None:
    builder, events = new_builder(tokens_first=True), ConnectionEvents()
    token = (
        struct.pack(">i", 17) + b"\x60\x0f\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00AP"
    )
    builder.add_request(frame_of(token), events)
    builder.add_response(frame_of(token), events)
    assert (events.exchanges, events.anomalies) == ([], [])
    assert len(events.token_bytes) == 2
    assert builder.bodies.decoded_bytes == 2 * len(token)


def test_a_frame_without_a_header_is_unreadable_and_may_be_a_token() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(frame_of(struct.pack(">ihhih", 12, 3, 1, 2, -7) + b"??"), events)
    builder.add_response(frame_of(b"\0\0\0\1x"), events)
    assert [each.detail for each in events.anomalies] == ["request header", "correlation id"]
    assert len(events.token_bytes) == 2
    assert builder.bodies.undecoded_bytes == 16 + 5


def test_an_early_response_keeps_the_connection_unsettled() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_response(frame_of(k.heartbeat_answer(7)), events)
    assert not builder.is_settled
    builder.add_request(frame_of(k.heartbeat(7)), events)
    assert builder.is_settled
    assert len(events.exchanges) == 1


def test_at_the_end_every_exchange_is_complete() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(frame_of(k.heartbeat(1)), events)
    builder.add_request(frame_of(k.produce(2, acks=0)), events)
    builder.add_response(frame_of(k.heartbeat_answer(9)), events)
    builder.add_incomplete_request(frame_of(k.heartbeat(3)), events)
    builder.close(events)
    assert [each.correlation_id for each in events.exchanges] == [9, 2, 1, 3]
    kinds = [each.kind.value for each in events.anomalies]
    assert kinds == ["orphan_response", "unanswered_request", "unanswered_request"]
    assert "incomplete_frame" in events.exchanges[-1].anomalies


def test_a_state_has_pending_requests_and_early_responses() -> None:
    builder, other, events = new_builder(), new_builder(), ConnectionEvents()
    builder.add_request(frame_of(k.heartbeat(1)), events)
    builder.add_request(frame_of(k.produce(2, acks=0)), events)
    builder.add_response(frame_of(k.heartbeat_answer(9)), events)
    load(other, save(builder))
    assert save(other) == save(builder)
    assert other.buffered_bytes == builder.buffered_bytes
