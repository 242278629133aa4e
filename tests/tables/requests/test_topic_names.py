"""Names of topics by their ids."""

from __future__ import annotations

import uuid

import pytest

from kanalyze.errors import UsageError
from kanalyze.tables.requests.topic_names import TopicNames, parse_topic_ids, topic_id_text


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
