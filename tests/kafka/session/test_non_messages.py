"""Frames that are no messages: tokens count as read, all others are reported."""

from __future__ import annotations

from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.message_bodies import MessageBodies
from kanalyze.kafka.session.non_messages import NonMessages
from kanalyze.kafka.session.token_ranges import TokenRanges
from kanalyze.model.anomalies import AnomalyKind
from tests.kafka.session.test_message_reader import READER, frame_of
from tests.kafka.session.test_sync_losses import TCP
from tests.support import kafka as k
from tests.support.talk import BROKER, CLIENT


def test_a_token_counts_as_read_and_its_position_is_reported_without_an_anomaly() -> None:
    bodies, events = MessageBodies(READER, None), ConnectionEvents()
    frame = frame_of(k.heartbeat(1))
    NonMessages(TokenRanges(TCP), bodies, TCP).add_token(frame, CLIENT, events)
    assert (bodies.decoded_bytes, bodies.undecoded_bytes) == (frame.length, 0)
    assert events.anomalies == []
    assert [(each.direction, each.end) for each in events.token_bytes] == [(CLIENT, frame.length)]


def test_an_unreadable_frame_may_be_a_token_and_is_malformed_or_has_missing_bytes() -> None:
    bodies, events = MessageBodies(READER, None), ConnectionEvents()
    non_messages = NonMessages(TokenRanges(TCP), bodies, TCP)
    whole, holed = frame_of(k.heartbeat(1)), frame_of(k.heartbeat(2))
    holed.missing_bytes = 3
    non_messages.add_unreadable(whole, BROKER, "correlation id", events)
    non_messages.add_unreadable(holed, CLIENT, "request header", events)
    assert [(each.kind, each.direction, each.detail) for each in events.anomalies] == [
        (AnomalyKind.MALFORMED_BODY, BROKER, "correlation id"),
        (AnomalyKind.MISSING_BYTES, CLIENT, "request header"),
    ]
    assert len(events.token_bytes) == 2
    assert (bodies.decoded_bytes, bodies.undecoded_bytes) == (0, whole.length + holed.length)
