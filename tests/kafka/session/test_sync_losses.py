"""Losses of sync, until a later frame is read, and their effects on exchanges."""

from __future__ import annotations

from kanalyze.common.saved import load, save
from kanalyze.kafka.framing.framer import SyncLoss
from kanalyze.kafka.session.correlation import Correlator
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.exchange import Exchange, Message
from kanalyze.kafka.session.sync_losses import SyncLosses
from kanalyze.kafka.session.token_ranges import TokenRanges
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import Endpoint, TcpConnection
from tests.kafka.session.test_message_reader import frame_of
from tests.kafka.session.test_pending_requests import exchange
from tests.support import kafka as k
from tests.support.streams import TIME_NS
from tests.support.talk import BROKER, CLIENT

TCP = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, CLIENT, TIME_NS, TIME_NS)


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
    assert losses.has_open
    assert losses.is_waiting
    losses.end_before(frame_of(k.heartbeat(1)), CLIENT, events)
    assert [(each.stream_offset, each.end) for each in events.token_bytes] == [(0, None), (0, 0)]
    assert not losses.has_open
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


def test_a_state_without_the_places_of_losses_has_the_last_of_them() -> None:
    losses = new_losses()
    load(losses, (TIME_NS, (), ()))
    assert losses.lost_before(answered(0, 0)) == TIME_NS


def test_an_implausible_size_is_named() -> None:
    events = ConnectionEvents()
    new_losses().add([SyncLoss(8, -1, TIME_NS, 3)], BROKER, events)
    assert [(each.kind, each.detail) for each in events.anomalies] == [
        (AnomalyKind.IMPLAUSIBLE_SIZE, "size -1")
    ]


def test_a_size_that_is_text_in_the_middle_says_nothing_of_the_protocol() -> None:
    events = ConnectionEvents()
    new_losses().add([SyncLoss(8, 1213486160, TIME_NS, 3)], BROKER, events)
    assert [each.detail for each in events.anomalies] == ['size 1213486160, the text "HTTP"']


def test_after_a_loss_of_responses_earlier_requests_may_have_lost_theirs() -> None:
    correlator, events = Correlator(from_start=True), ConnectionEvents()
    losses, request = new_losses(correlator), exchange(1, 0)
    losses.add([SyncLoss(0, None, TIME_NS, 1)], BROKER, events)
    assert losses.has_lost_responses()
    assert not correlator.lost.has_response_to(request)
    losses.end_before(frame_of(k.heartbeat_answer(1)), BROKER, events)
    assert correlator.lost.has_response_to(request)


def test_a_direction_that_begins_out_of_sync_is_unread_and_no_loss_of_requests() -> None:
    losses = new_losses()
    events = losses.begin((False, True), is_whole=False)
    assert [(each.direction, each.end) for each in events.token_bytes] == [(CLIENT, None)]
    assert (losses.has_open, losses.is_waiting, losses.lost_ns) == (True, False, TIME_NS)
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


def test_a_state_has_open_losses() -> None:
    losses, other = new_losses(), new_losses()
    losses.add([SyncLoss(7, None, TIME_NS, 3)], BROKER, ConnectionEvents())
    load(other, save(losses))
    assert (other.has_open, save(other)) == (True, save(losses))
