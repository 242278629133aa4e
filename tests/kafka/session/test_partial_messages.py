"""Messages that continue in the next batch are trimmed, and reported if they may be tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.framing.framer import FrameCutter
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.partial_messages import PartialMessages
from tests.kafka.framing.test_framer import never
from tests.kafka.session.test_exchange_builder import new_builder
from tests.kafka.session.test_message_reader import READER, frame_of
from tests.support import kafka as k
from tests.support.streams import chunk
from tests.support.talk import BROKER, CLIENT

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame


def begun(data: bytes) -> Frame:
    cutter = FrameCutter(never)
    cutter.feed([chunk([data])])
    assert cutter.partial.frame is not None
    return cutter.partial.frame


def test_record_data_of_an_incomplete_request_is_dropped() -> None:
    request = k.produce(2, acks=1, version=7, records=k.record_batch(5, size=200_000))
    frame, events = begun(request[:-10]), ConnectionEvents()
    PartialMessages(READER, new_builder()).add_request(frame, CLIENT, events)
    assert frame.buffered_bytes < 10_000
    assert events.token_bytes == []


def test_an_incomplete_request_of_an_unknown_api_may_hold_a_token() -> None:
    events = ConnectionEvents()
    partials = PartialMessages(READER, new_builder())
    partials.add_request(begun(k.request(999, 0, 1, b"secret")[:-2]), CLIENT, events)
    partials.add_request(
        begun(k.request(k.SASL_AUTHENTICATE, 0, 1, b"secret")[:-2]), CLIENT, events
    )
    partials.add_request(begun(k.heartbeat(1)[:-2]), CLIENT, events)
    assert len(events.token_bytes) == 2


def test_an_incomplete_response_may_hold_a_token_unless_its_request_is_known() -> None:
    builder, events = new_builder(), ConnectionEvents()
    builder.add_request(frame_of(k.heartbeat(1)), events)
    partials = PartialMessages(READER, builder)
    partials.add_response(begun(k.heartbeat_answer(1)[:-1]), BROKER, events)
    assert events.token_bytes == []
    partials.add_response(begun(k.heartbeat_answer(2)[:-1]), BROKER, events)
    assert len(events.token_bytes) == 1
    partials.add_response(begun(k.heartbeat_answer(1)[:6]), BROKER, events)
    assert len(events.token_bytes) == 1
