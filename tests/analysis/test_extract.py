"""Facts out of bodies: written by a writer of our definitions, read by the projections of a row."""

from __future__ import annotations

from typing import Any

import pytest

from kanalyze.analysis.extract import Extractors, Facts, Part
from kanalyze.protocol.catalog import Catalog
from kanalyze.protocol.compiler import compile_decoder
from tests.support.batches import batch
from tests.support.messages import Writer

CATALOG = Catalog()
EXTRACTORS = Extractors(CATALOG)
TOPIC_ID = bytes(range(16))
NO_ID = bytes(16)


def read(key: int, kind: str, version: int, values: dict[str, Any] | None) -> Any:
    """What the row's projection makes of a message with these values."""
    if values is None:
        return None
    message = CATALOG.message(key, kind)  # type: ignore[arg-type]
    body = Writer(message, version).write(values)
    decode = compile_decoder(message, version, EXTRACTORS.wanted(key, kind))
    found, end = decode(body, 0, 0, None)
    assert end == len(body)
    return found


def facts(
    key: int,
    version: int,
    request: dict[str, Any] | None = None,
    response: dict[str, Any] | None = None,
) -> Facts:
    return EXTRACTORS.facts(
        key, read(key, "request", version, request), read(key, "response", version, response)
    )


def produced(topic: dict[str, Any], records: bytes | None) -> dict[str, Any]:
    return {
        "transactionalId": "tx",
        "acks": -1,
        "timeoutMs": 30_000,
        "topicData": [{**topic, "partitionData": [{"index": 4, "records": records}]}],
    }


@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_joins_what_was_sent_with_what_was_answered(version: int) -> None:
    topic = {"topicId": TOPIC_ID} if version >= 13 else {"name": "orders"}
    answer = {"index": 4, "errorCode": 0, "baseOffset": 77, "logAppendTimeMs": -1}
    answer |= {"logStartOffset": 0} if version >= 5 else {}
    answer |= {"recordErrors": [], "errorMessage": None} if version >= 8 else {}
    found = facts(
        0,
        version,
        produced(topic, batch(5)),
        {"responses": [{**topic, "partitionResponses": [answer]}], "throttleTimeMs": 9},
    )
    name, topic_id = topic.get("name", ""), topic.get("topicId", NO_ID)
    assert found.parts == [Part(name, topic_id, 4, 5, 161, 77, None, "none", 0)]
    assert (found.acks, found.transactional_id, found.throttle_time_ms) == (-1, "tx", 9)
    assert found.errors == []


def test_a_refused_produce_has_its_error_and_no_offset() -> None:
    answer = {"index": 4, "errorCode": 10, "baseOffset": -1, "logAppendTimeMs": -1}
    topic = {"name": "orders"}
    response = {"responses": [{**topic, "partitionResponses": [answer]}], "throttleTimeMs": 0}
    found = facts(0, 3, produced(topic, batch(5)), response)
    assert found.errors == [("orders", NO_ID, 4, 10)]
    assert (found.parts[0].base_offset, found.parts[0].error_code) == (None, 10)


def test_a_produce_without_an_answer_says_what_was_sent() -> None:
    found = facts(0, 3, produced({"name": "orders"}, batch(5)))
    assert found.parts == [Part("orders", NO_ID, 4, 5, 161, codec="none")]
    assert found.throttle_time_ms is None


def test_null_records_are_none_at_all() -> None:
    found = facts(0, 3, produced({"name": "orders"}, None))
    assert (found.parts[0].record_count, found.parts[0].record_bytes) == (0, 0)


def test_a_fetch_lists_the_partitions_that_its_answer_left_out() -> None:
    request = {
        "replicaId": -1,
        "maxWaitMs": 500,
        "minBytes": 1,
        "maxBytes": 1000,
        "isolationLevel": 0,
        "topics": [
            {
                "topic": "orders",
                "partitions": [
                    {"partition": index, "fetchOffset": 0, "partitionMaxBytes": 100}
                    for index in (0, 1)
                ],
            }
        ],
    }
    answered = {
        "partitionIndex": 1,
        "errorCode": 0,
        "highWatermark": 30,
        "lastStableOffset": 30,
        "abortedTransactions": None,
        "records": batch(2, base_offset=28),
    }
    response = {
        "throttleTimeMs": 0,
        "responses": [{"topic": "orders", "partitions": [answered]}],
    }
    found = facts(1, 4, request, response)
    assert found.parts == [
        Part("orders", NO_ID, 1, 2, 161, 28, 30, "none", 0),
        Part("orders", NO_ID, 0),
    ]
    assert (found.max_wait_ms, found.min_bytes) == (500, 1)


def test_list_offsets_version_0_answers_with_a_list() -> None:
    answered = {"partitionIndex": 0, "errorCode": 0, "oldStyleOffsets": [90, 40]}
    response = {"topics": [{"name": "orders", "partitions": [answered]}]}
    assert facts(2, 0, None, response).parts == [
        Part("orders", NO_ID, 0, base_offset=90, error_code=0)
    ]


def test_metadata_tells_names_and_errors_at_every_level() -> None:
    partition = {
        "errorCode": 5,
        "partitionIndex": 2,
        "leaderId": -1,
        "leaderEpoch": -1,
        "replicaNodes": [],
        "isrNodes": [],
        "offlineReplicas": [],
    }
    topic = {"errorCode": 0, "isInternal": False, "topicAuthorizedOperations": 0}
    response = {
        "throttleTimeMs": 0,
        "brokers": [],
        "clusterId": None,
        "controllerId": 0,
        "topics": [
            {**topic, "name": "orders", "topicId": TOPIC_ID, "partitions": [partition]},
            {**topic, "errorCode": 3, "name": "gone", "topicId": NO_ID, "partitions": []},
        ],
        "errorCode": 41,
    }
    found = facts(3, 13, None, response)
    assert found.names == [(TOPIC_ID, "orders")]
    assert found.errors == [
        ("orders", TOPIC_ID, 2, 5),
        ("gone", NO_ID, None, 3),
        (None, NO_ID, None, 41),
    ]


def test_an_unknown_api_has_no_facts() -> None:
    found = EXTRACTORS.facts(999, None, None)
    assert (found.parts, found.errors, found.group_id) == ([], [], None)
    assert EXTRACTORS.wanted(999, "request").paths == ()


@pytest.mark.parametrize("version", [0, 3, 6])
def test_find_coordinator_names_the_group_or_the_transaction(version: int) -> None:
    for key_type, attribute in ((0, "group_id"), (1, "transactional_id")):
        if version == 0 and key_type:
            continue
        request: dict[str, Any] = {"keyType": key_type} if version else {}
        request |= {"key": "it"} if version < 4 else {"coordinatorKeys": ["it"]}
        assert getattr(facts(10, version, request), attribute) == "it"
