"""Unstable versions that had other fields in some releases are read in their old layout."""

from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING

import pytest

from kanalyze.decoding.bodies import BodyReader
from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.codec.interpreter import read_message
from kanalyze.kafka.schema.api_table import SUPERSEDED
from kanalyze.kafka.wire import WireError
from tests.support import kafka as k
from tests.support.messages import Generator, Writer
from tests.support.talk import BROKER, CLIENT, Talk
from tests.support.traffic import CATALOG, _defaults, answers, asks, body

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Kind
    from kanalyze.kafka.schema.schema_ast import MessageSpec

CONSUMER_HEARTBEAT, SUMMARY = 68, 87
TOPIC_ID = bytes(range(16))
SUMMARY_3_9 = (
    b"\x02" + TOPIC_ID + b"\x02" + struct.pack(">ih", 3, 0) + b"\0" + struct.pack(">iq", 7, 42)
) + b"\0\0\0"
"""One topic with one partition: state epoch 7, start offset 42, and no leader epoch."""
SEEDS = range(16)


def samples(api_key: int, kind: Kind) -> list[bytes]:
    """Bodies by chance in the layout of an early release, which do not fit the final one."""
    message, final = CATALOG.superseded(api_key, kind, 0), CATALOG.message(api_key, kind)
    assert message is not None
    generators = [Generator(message, 0, Random(seed)) for seed in SEEDS]
    bodies = [Writer(message, 0).write(each.values()) for each in generators]
    others = [content for content in bodies if not fits(final, content)]
    assert len(others) >= 4
    return others


def fits(message: MessageSpec, content: bytes) -> bool:
    try:
        return read_message(message, 0, content)[1] == len(content)
    except WireError:
        return False


def frame_of(api_key: int, kind: Kind, content: bytes) -> bytes:
    return (asks if kind == "request" else answers)(api_key, 0, 2, content)


def talk_about(api_key: int, kind: Kind, frame: bytes, *, cut_at: int | None = None) -> Talk:
    """An exchange in which the request or the response is a frame, in one packet or in two."""
    pair = {
        "request": asks(api_key, 0, 2, body(api_key, "request", 0)),
        "response": answers(api_key, 0, 2, body(api_key, "response", 0)),
        kind: frame,
    }
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    for side, message in ((CLIENT, pair["request"]), (BROKER, pair["response"])):
        pieces = [message] if cut_at is None else [message[:cut_at], message[cut_at:]]
        talk.says(side, *pieces)
    return talk.close()


@pytest.mark.parametrize("cut_at", [None, 20])
def test_a_summary_as_kafka_3_9_wrote_it_is_read(cut_at: int | None) -> None:
    talk = talk_about(SUMMARY, "response", answers(SUMMARY, 0, 2, SUMMARY_3_9), cut_at=cut_at)
    exchange = talk.exchanges[1]
    assert not exchange.malformed
    assert talk.anomalies == []
    assert exchange.response is not None
    assert exchange.response.version == 0
    assert talk.tracker.counts.undecoded_bytes == 0


def test_a_summary_of_kafka_3_9_has_exactly_the_fields_of_its_layout() -> None:
    reader = BodyReader(CATALOG, Decoders(CATALOG))
    made = reader.message(answers(SUMMARY, 0, 2, SUMMARY_3_9), SUMMARY, 0, "response")
    assert made.problem is None
    assert made.definition is not None
    assert made.definition.releases == ("3.9", "4.0")
    partition = {
        "partition": 3,
        "errorCode": 0,
        "errorMessage": None,
        "stateEpoch": 7,
        "startOffset": 42,
    }
    assert made.values == {"results": [{"topicId": TOPIC_ID, "partitions": [partition]}]}


@pytest.mark.parametrize("cut_at", [None, 20])
@pytest.mark.parametrize(("api_key", "kind"), SUPERSEDED)
def test_messages_of_an_early_release_are_read(
    api_key: int, kind: Kind, cut_at: int | None
) -> None:
    message = CATALOG.superseded(api_key, kind, 0)
    assert message is not None
    for content in samples(api_key, kind):
        frame = frame_of(api_key, kind, content)
        talk = talk_about(api_key, kind, frame, cut_at=cut_at)
        assert [exchange.malformed for exchange in talk.exchanges] == [False, False]
        assert talk.anomalies == []
        made = BodyReader(CATALOG, Decoders(CATALOG)).message(frame, api_key, 0, kind)
        assert made.definition is message
        assert (made.values, len(content)) == read_message(message, 0, content)


@pytest.mark.parametrize(("api_key", "kind"), SUPERSEDED)
def test_a_connection_is_recognized_by_messages_of_an_early_release(
    api_key: int, kind: Kind
) -> None:
    for content in samples(api_key, kind):
        pair = {
            "request": asks(api_key, 0, 1, body(api_key, "request", 0)),
            "response": answers(api_key, 0, 1, body(api_key, "response", 0)),
            kind: (asks if kind == "request" else answers)(api_key, 0, 1, content),
        }
        talk = Talk(opened_by=None).client(pair["request"]).broker(pair["response"]).close()
        assert talk.pairs() == [(1, 1, 2)]


@pytest.mark.parametrize("kind", ["request", "response"])
@pytest.mark.parametrize("api_key", sorted({key for key, _ in SUPERSEDED}))
def test_a_message_that_fits_the_final_layout_is_read_in_it(api_key: int, kind: Kind) -> None:
    frame = frame_of(api_key, kind, body(api_key, kind, 0))
    made = BodyReader(CATALOG, Decoders(CATALOG)).message(frame, api_key, 0, kind)
    assert made.problem is None
    assert made.definition is CATALOG.message(api_key, kind)


def test_a_message_that_fits_neither_layout_is_malformed() -> None:
    frame = answers(SUMMARY, 0, 2, SUMMARY_3_9 + b"\x7f")
    talk = talk_about(SUMMARY, "response", frame)
    assert talk.exchanges[1].malformed
    assert talk.kinds() == ["malformed_body"]
    made = BodyReader(CATALOG, Decoders(CATALOG)).message(frame, SUMMARY, 0, "response")
    assert made.problem is not None


def test_selected_fields_are_read_in_both_layouts() -> None:
    values = {"memberId": "m", "memberEpoch": 3, "errorCode": 25}
    message = CATALOG.superseded(CONSUMER_HEARTBEAT, "response", 0)
    assert message is not None
    early = Writer(message, 0).write(_defaults(message.struct, 0) | values)
    final = body(CONSUMER_HEARTBEAT, "response", 0, **values)
    selected, decoders = Projection.of("ErrorCode", "MemberEpoch"), Decoders(CATALOG)
    decode = decoders.superseded(CONSUMER_HEARTBEAT, "response", 0, selected)
    assert decode is not None
    assert decode(early, 0) == ((25, 3), len(early))
    decode = decoders.get(CONSUMER_HEARTBEAT, "response", 0, selected)
    assert decode(final, 0) == ((25, 3), len(final))
