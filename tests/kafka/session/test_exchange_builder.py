"""Exchanges made of frames, without streams: pairs, tokens, unreadable frames, losses."""

from __future__ import annotations

import struct

from kanalyze.common.saved import load, save
from kanalyze.kafka.framing.framer import SyncLoss
from kanalyze.kafka.session.correlation import Correlator
from kanalyze.kafka.session.events import ConnectionEvents, TokenRanges
from kanalyze.kafka.session.exchange import Exchange, Message, Peers
from kanalyze.kafka.session.exchange_builder import PENDING_BYTES, ExchangeBuilder, SyncLosses
from kanalyze.kafka.session.resync import RequestLocator
from kanalyze.model.anomalies import AnomalyKind
from tests.support import kafka as k
from tests.support.session import CATALOG, READER, TCP, begun, cut_frame, cut_of, exchange, frame_of
from tests.support.streams import TIME_NS
from tests.support.talk import BROKER, CLIENT

LOCATOR = RequestLocator(READER, CATALOG)
TOKEN = struct.pack(">i", 17) + b"\x60\x0f\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00AP"


def new_builder(*, tokens_first: bool = False) -> ExchangeBuilder:
    peers = Peers(TCP, *TCP.endpoints)
    return ExchangeBuilder(
        *(peers, CLIENT, READER, LOCATOR), from_start=True, keep=None, tokens_first=tokens_first
    )


def test_a_request_waits_and_its_response_completes_it() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(cut_of(k.heartbeat(7)), 0, events)
    assert events.exchanges == []
    assert builder.buffered_bytes == PENDING_BYTES
    builder.add_response(cut_of(k.heartbeat_answer(7)), 0, events)
    (exchange,) = events.exchanges
    assert exchange.response is not None
    assert (exchange.lost_ns, builder.buffered_bytes, events.anomalies) == (None, 0, [])
    sizes = len(k.heartbeat(7)) + len(k.heartbeat_answer(7))
    assert builder.bodies.decoded_bytes == sizes


def test_a_token_is_counted_and_makes_no_exchange() -> None:
    builder, events = new_builder(tokens_first=True), ConnectionEvents()
    builder.add_request(cut_of(TOKEN), 0, events)
    builder.add_response(cut_of(TOKEN), 0, events)
    assert (events.exchanges, events.anomalies) == ([], [])
    assert [each[1:5] for each in events.token_bytes] == [
        (CLIENT, 0, 4, len(TOKEN)),
        (BROKER, 0, 4, len(TOKEN)),
    ]
    assert builder.bodies.decoded_bytes == 2 * len(TOKEN)


def test_a_frame_without_a_header_is_unreadable_and_may_be_a_token() -> None:
    builder, events = new_builder(), ConnectionEvents()
    holed = frame_of(b"\0\0\0\1x")
    holed.missing_bytes = 3
    builder.add_request(cut_of(struct.pack(">ihhih", 12, 3, 1, 2, -7) + b"??"), 0, events)
    builder.add_response(cut_frame(holed), 0, events)
    assert [(each.kind, each.direction, each.detail) for each in events.anomalies] == [
        (AnomalyKind.MALFORMED_BODY, CLIENT, "request header"),
        (AnomalyKind.MISSING_BYTES, BROKER, "correlation id"),
    ]
    assert len(events.token_bytes) == 2
    assert builder.bodies.undecoded_bytes == 16 + 5


def test_an_early_response_keeps_the_connection_unsettled() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_response(cut_of(k.heartbeat_answer(7)), 0, events)
    assert not builder.is_settled()
    builder.add_request(cut_of(k.heartbeat(7)), 0, events)
    assert builder.is_settled()
    assert len(events.exchanges) == 1


def test_at_the_end_every_exchange_is_complete() -> None:
    builder, events = new_builder(), ConnectionEvents()
    for request in (k.heartbeat(1), k.produce(2, acks=0), k.heartbeat(4)):
        builder.add_request(cut_of(request), 0, events)
    builder.add_response(cut_of(k.heartbeat_answer(9)), 0, events)
    builder.add_incomplete_request(frame_of(k.heartbeat(3)), events)
    builder.add_incomplete_response(frame_of(k.heartbeat_answer(4)), events)
    builder.close(events)
    assert [each.correlation_id for each in events.exchanges] == [4, 9, 2, 1, 3]
    kinds = [each.kind.value for each in events.anomalies]
    assert kinds == ["orphan_response", "unanswered_request", "unanswered_request"]
    assert [each.malformed for each in events.exchanges] == [True, *[False] * 4]
    for each in (events.exchanges[0], events.exchanges[-1]):
        assert "incomplete_frame" in each.anomalies


def test_a_state_has_pending_requests_and_early_responses() -> None:
    builder, other, events = new_builder(), new_builder(), ConnectionEvents()
    builder.add_request(cut_of(k.heartbeat(1)), 0, events)
    builder.add_request(cut_of(k.produce(2, acks=0)), 0, events)
    builder.add_response(cut_of(k.heartbeat_answer(9)), 0, events)
    load(other, save(builder))
    assert save(other) == save(builder)
    assert other.buffered_bytes == builder.buffered_bytes


# -- messages that continue in the next batch -----------------------------------------------------


def test_record_data_of_an_incomplete_request_is_dropped() -> None:
    request = k.produce(2, acks=1, version=7, records=k.record_batch(5, size=200_000))
    frame, events = begun(request[:-10]), ConnectionEvents()
    new_builder().trim_request(frame, events)
    assert frame.buffered_bytes < 10_000
    assert events.token_bytes == []


def test_an_incomplete_request_of_an_unknown_api_may_hold_a_token() -> None:
    events, builder = ConnectionEvents(), new_builder()
    unknown = k.request(999, 0, 1, b"secret")
    login = k.request(k.SASL_AUTHENTICATE, 0, 1, b"secret")
    for request, count in ((unknown, 1), (login, 2), (k.heartbeat(1), 2)):
        builder.trim_request(begun(request[:-2]), events)
        assert len(events.token_bytes) == count


def test_an_incomplete_response_may_hold_a_token_unless_its_request_is_known() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(cut_of(k.heartbeat(1)), 0, events)
    for number, end, count in ((1, -1, 0), (2, -1, 1), (1, 6, 1)):
        builder.trim_response(begun(k.heartbeat_answer(number)[:end]), events)
        assert len(events.token_bytes) == count
    # Complete, it is known that the second one has none.
    builder.add_request(cut_of(k.heartbeat(2)), 0, events)
    builder.add_response(cut_of(k.heartbeat_answer(2)), 0, events)
    assert events.token_bytes[-1][3:5] == (0, 0)


# -- losses of sync -------------------------------------------------------------------------------


def new_losses(correlator: Correlator | None = None) -> SyncLosses:
    known = Correlator(from_start=True) if correlator is None else correlator
    return SyncLosses(TCP, CLIENT, known, TokenRanges(TCP))


def test_a_loss_is_an_anomaly_and_its_bytes_are_unread_until_a_frame_is_read() -> None:
    correlator, events = Correlator(from_start=True), ConnectionEvents()
    losses = new_losses(correlator)
    losses.add([SyncLoss(0, None, TIME_NS + 5, 3)], CLIENT, events)
    assert [each.kind for each in events.anomalies] == [AnomalyKind.NOT_IN_SYNC]
    assert [(each.stream_offset, each.end) for each in events.token_bytes] == [(0, None)]
    assert correlator.lost.requests
    assert losses.is_open(CLIENT)
    assert losses.is_waiting()
    losses.end_before(frame_of(k.heartbeat(1)), CLIENT, events)
    assert [(each.stream_offset, each.end) for each in events.token_bytes] == [(0, None), (0, 0)]
    assert not losses.is_open(CLIENT)
    assert losses.lost_ns == TIME_NS + 5


def answered(request_offset: int, response_offset: int) -> Exchange:
    """An exchange whose messages have these stream offsets."""
    found = exchange(1, 0)
    found.request, found.response = (
        Message.read(0, 1, 0, 1, 20, None, None, offset)
        for offset in (request_offset, response_offset)
    )
    return found


def test_a_loss_counts_from_its_place_in_its_stream() -> None:
    losses, events = new_losses(), ConnectionEvents()
    assert losses.lost_before(answered(0, 0)) is None
    losses.add([SyncLoss(100, None, TIME_NS + 5, 3)], CLIENT, events)
    losses.add([SyncLoss(300, None, TIME_NS + 7, 9)], BROKER, events)
    assert losses.lost_before(answered(99, 299)) is None
    assert losses.lost_before(answered(100, 299)) == TIME_NS + 5
    assert losses.lost_before(answered(99, 300)) == TIME_NS + 7
    assert losses.lost_before(answered(5000, 5000)) == TIME_NS + 7


def test_losses_that_are_too_many_to_remember_are_before_all_later_exchanges() -> None:
    losses = new_losses()
    for number in range(200):
        losses.add([SyncLoss(number, None, TIME_NS + number, 3)], BROKER, ConnectionEvents())
    assert losses.lost_before(answered(0, 199)) == TIME_NS + 199
    assert losses.lost_before(answered(0, 180)) == TIME_NS + 180
    assert len(losses._times[BROKER]) == 64


def test_after_a_loss_of_responses_earlier_requests_may_have_lost_theirs() -> None:
    correlator, events = Correlator(from_start=True), ConnectionEvents()
    losses, request = new_losses(correlator), exchange(1, 0)
    losses.add([SyncLoss(0, None, TIME_NS, 1)], BROKER, events)
    assert losses.is_open(BROKER)
    assert not correlator.lost.has_response_to(request)
    losses.end_before(frame_of(k.heartbeat_answer(1)), BROKER, events)
    assert correlator.lost.has_response_to(request)


def test_a_direction_that_begins_out_of_sync_is_unread_and_no_loss_of_requests() -> None:
    losses = new_losses()
    events = losses.begin((False, True), is_whole=False)
    assert [(each.direction, each.end) for each in events.token_bytes] == [(CLIENT, None)]
    assert (losses.is_open(CLIENT), losses.is_waiting(), losses.lost_ns) == (True, False, TIME_NS)
    assert new_losses().begin((True, False), is_whole=False).anomalies == []
    whole = new_losses()
    assert whole.begin((True, True), is_whole=True).token_bytes == []
    assert whole.lost_ns is None


def test_missing_bytes_are_noted_in_the_exchange_once() -> None:
    losses, frame, request = new_losses(), frame_of(k.heartbeat(1)), exchange(1, 0)
    frame.missing_bytes, frame.lost_bytes = 5, 3
    for _ in range(2):
        losses.note_missing(frame, CLIENT, request)
    assert request.anomalies == [AnomalyKind.LOST_BYTES, AnomalyKind.SNAPPED_BYTES]
    assert losses.lost_ns == frame.start_time_ns


def test_a_state_has_open_losses_and_an_older_one_the_last_of_them() -> None:
    losses, other, older = new_losses(), new_losses(), new_losses()
    losses.add([SyncLoss(7, None, TIME_NS, 3)], BROKER, ConnectionEvents())
    load(other, save(losses))
    assert (other.is_open(BROKER), save(other)) == (True, save(losses))
    load(older, (TIME_NS, (), ()))
    assert older.lost_before(answered(0, 0)) == TIME_NS
