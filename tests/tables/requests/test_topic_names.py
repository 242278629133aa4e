"""Names of topics by their ids."""

from __future__ import annotations

import random
import uuid

import pytest

from kanalyze.errors import UsageError
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.kafka.session.message_reader import MessageReader
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.tables.requests.topic_names import (
    NameReader,
    TopicNames,
    parse_topic_ids,
    topic_id_text,
)
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.messages import Generator, Writer
from tests.support.talk import Talk


def test_an_id_is_written_as_kafka_writes_it() -> None:
    # In Kafka, the id of the topic __cluster_metadata is 00000000-0000-0000-0000-000000000001.
    assert topic_id_text(uuid.UUID(int=1).bytes) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert topic_id_text(b"\xfb\xef\xbe" * 5 + b"\xfb") == "----" * 5 + "-w"


def test_zeros_are_not_a_topic_id() -> None:
    assert topic_id_text(bytes(16)) is None
    assert topic_id_text(b"") is None
    assert TopicNames().text(bytes(16)) is None


def test_a_given_name_takes_precedence_over_learned_ones_and_the_latest_learned_one_counts() -> (
    None
):
    names, topic_id = TopicNames(), bytes(15) + b"\7"
    assert names.name(None, topic_id) is None
    names.learn(topic_id, "first")
    names.learn(topic_id, "second")
    assert names.name("", topic_id) == "second"
    assert names.name("given", topic_id) == "given"


def test_the_capture_is_searched_once_and_only_for_an_id_without_a_name() -> None:
    searched = []

    def search() -> list[tuple[bytes, str]]:
        searched.append(1)
        return [(b"\1" * 16, "later")]

    names = TopicNames(search)
    names.learn(b"\2" * 16, "known")
    assert names.name(None, b"\2" * 16) == "known"
    assert names.name(None, bytes(16)) is names.name("", b"") is None
    assert searched == []
    assert names.name(None, b"\1" * 16) == "later"
    assert names.name(None, b"\3" * 16) is None
    assert searched == [1]


ID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
AS_BASE64 = "ASNFZ4mrze8BI0VniavN7w"


@pytest.mark.parametrize(
    "text",
    [
        f"{AS_BASE64} orders\n",
        f"# by hand\n\n  {ID}\torders  \n",
        f"{ID.hex} orders",
        f'{{"{AS_BASE64}": "orders"}}',
        f' {{"{str(ID).upper()}": "orders"}}',
        f"{AS_BASE64}== orders",
    ],
)
def test_topic_ids_are_read_from_lines_and_from_json(text: str) -> None:
    assert topic_id_text(ID.bytes) == AS_BASE64
    assert parse_topic_ids(text) == {ID.bytes: "orders"}


def test_an_empty_file_names_nothing() -> None:
    assert parse_topic_ids("") == {}
    assert parse_topic_ids("{}") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders", "line 1 of the topic ids: expected an id and a name"),
        (f"{ID} orders\n{ID} a b", "line 2 of the topic ids: expected an id and a name"),
        ("abc orders", "'abc' is neither 22 characters of base64 nor a UUID"),
        ("{", "topic ids: invalid JSON"),
        (f'{{"{ID}": 5}}', "is not a text"),
        (f'{{"{ID}": ""}}', "the name is empty"),
    ],
)
def test_invalid_lists_of_topic_ids_are_refused_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_topic_ids(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_controllers_log_has_its_name_whatever_a_response_says() -> None:
    names = TopicNames()
    assert names.name(None, bytes(15) + b"\1") == "__cluster_metadata"
    names.learn(bytes(15) + b"\1", "orders")
    assert names.name(None, bytes(15) + b"\1") == "__cluster_metadata"
    assert names.changes == 0


# -- names in exchanges ---------------------------------------------------------------------------

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
