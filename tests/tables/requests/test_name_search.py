"""Only the names of topics are read from exchanges."""

from __future__ import annotations

import random

from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.tables.requests.name_search import NameReader
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.messages import Generator, Writer
from tests.support.talk import Talk

CATALOG = Catalog()
TOPIC_ID = bytes(range(16))


def test_a_metadata_response_shows_names_and_a_heartbeat_none() -> None:
    names = NameReader(CATALOG)
    tracker = ConnectionTracker(
        MessageReader(CATALOG, Decoders(CATALOG), names.needed_fields), CATALOG
    )
    message = CATALOG.message(k.METADATA, "response")
    values = Generator(message, 12, random.Random(1)).values()
    topic = dict(values["topics"][0]) if values["topics"] else {}
    values["topics"] = [topic | {"name": "orders", "topicId": TOPIC_ID}] if topic else []
    body = Writer(message, 12).write(values)
    talk = Talk(tracker=tracker).client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    request = k.request(k.METADATA, 12, 2, b"\0\0\0\0", tags=b"\0")
    talk.client(request).broker(k.response(2, body, tags=b"\0"))
    heartbeat, metadata = talk.exchanges
    assert names.names(heartbeat) == []
    assert topic
    assert names.names(metadata) == [(TOPIC_ID, "orders")]


def test_no_field_is_decoded_in_messages_without_names() -> None:
    names = NameReader(CATALOG)
    assert names.needed_fields(k.PRODUCE, "request").paths == ()
    assert names.needed_fields(k.FETCH, "response").paths == ()
    assert names.needed_fields(999, "response").paths == ()
    assert "Topics.TopicId" in names.needed_fields(k.METADATA, "response").paths


def test_kafka_0_7_has_no_topic_ids() -> None:
    talk = Talk().client(old.fetch(0)).broker(old.fetched())
    assert NameReader(CATALOG).names(talk.exchanges[0]) == []
