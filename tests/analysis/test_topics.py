"""What topic ids are called."""

from __future__ import annotations

import uuid

from kanalyze.analysis.topics import TopicNames, topic_id_text


def test_an_id_is_written_as_kafka_writes_it() -> None:
    # Kafka's own: the id of the topic __cluster_metadata is 00000000-0000-0000-0000-000000000001.
    assert topic_id_text(uuid.UUID(int=1).bytes) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert topic_id_text(b"\xfb\xef\xbe" * 5 + b"\xfb") == "----" * 5 + "-w"


def test_zeros_are_no_id() -> None:
    assert topic_id_text(bytes(16)) is None
    assert topic_id_text(b"") is None
    assert TopicNames().text(bytes(16)) is None


def test_a_name_given_goes_before_a_name_learnt_and_the_last_one_learnt_holds() -> None:
    names, topic_id = TopicNames(), bytes(15) + b"\7"
    assert names.name(None, topic_id) is None
    names.learn(topic_id, "first")
    names.learn(topic_id, "second")
    assert names.name("", topic_id) == "second"
    assert names.name("given", topic_id) == "given"
