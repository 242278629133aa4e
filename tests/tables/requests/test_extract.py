"""Summaries of bodies, which are encoded from our definitions and decoded for the rows."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest

from kanalyze.kafka.codec.compiler import compile_decoder
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.requests.extract import Extractors
from kanalyze.tables.requests.summaries import FIELD_NUMBERS, ExchangeSummary, PartitionSummary
from kanalyze.tables.requests.topic_names import topic_id_text
from tests.support.batches import batch
from tests.support.messages import Generator, Writer
from tests.support.vectors import definition_of, read_vectors

if TYPE_CHECKING:
    from kanalyze.kafka.codec.values import EncodedFields
    from kanalyze.kafka.schema.schema_ast import Field

CATALOG = Catalog()
EXTRACTORS = Extractors(CATALOG)
TOPIC_ID = bytes(range(16))
NO_ID = bytes(16)
KINDS: tuple[Literal["request", "response"], ...] = ("request", "response")


def read(key: int, kind: str, version: int, values: dict[str, Any] | None) -> EncodedFields | None:
    """Return the values on the tape of a message, decoded with the fields that rows need."""
    if values is None:
        return None
    message = CATALOG.message(key, kind)  # type: ignore[arg-type]
    body = Writer(message, version).write(values)
    decode = compile_decoder(message, version, EXTRACTORS.needed_fields(key, kind))
    _, end = decode(body, 0, 0, None)
    assert end == len(body)
    return decode.take(None)


def summary(
    key: int,
    version: int,
    request: dict[str, Any] | None = None,
    response: dict[str, Any] | None = None,
) -> ExchangeSummary:
    return EXTRACTORS.summary(
        key, read(key, "request", version, request), read(key, "response", version, response)
    )


def values(found: ExchangeSummary, *names: str) -> tuple[int | str | None, ...]:
    """Return some of the fields of a summary that have a single value."""
    texts = {"group_id", "member_id", "transactional_id"}
    return tuple(
        found.text(FIELD_NUMBERS[name]) if name in texts else found.number(FIELD_NUMBERS[name])
        for name in names
    )


def produced(topic: dict[str, Any], records: bytes | None) -> dict[str, Any]:
    return {
        "transactionalId": "tx",
        "acks": -1,
        "timeoutMs": 30_000,
        "topicData": [{**topic, "partitionData": [{"index": 4, "records": records}]}],
    }


@pytest.mark.parametrize("version", [3, 9, 13])
def test_produce_joins_partitions_of_request_and_response(version: int) -> None:
    topic = {"topicId": TOPIC_ID} if version >= 13 else {"name": "orders"}
    answer = {"index": 4, "errorCode": 0, "baseOffset": 77, "logAppendTimeMs": -1}
    answer |= {"logStartOffset": 0} if version >= 5 else {}
    answer |= {"recordErrors": [], "errorMessage": None} if version >= 8 else {}
    found = summary(
        0,
        version,
        produced(topic, batch(5)),
        {"responses": [{**topic, "partitionResponses": [answer]}], "throttleTimeMs": 9},
    )
    name, topic_id = topic.get("name", ""), topic.get("topicId", NO_ID)
    assert list(found.partitions) == [
        PartitionSummary(name, topic_id, 4, 5, 161, 77, None, "none", 0)
    ]
    assert values(found, "acks", "transactional_id", "throttle_time_ms") == (-1, "tx", 9)
    assert found.errors == []


def test_a_refused_produce_has_its_error_and_no_offset() -> None:
    answer = {"index": 4, "errorCode": 10, "baseOffset": -1, "logAppendTimeMs": -1}
    topic = {"name": "orders"}
    response = {"responses": [{**topic, "partitionResponses": [answer]}], "throttleTimeMs": 0}
    found = summary(0, 3, produced(topic, batch(5)), response)
    assert found.errors == [("orders", NO_ID, 4, 10)]
    assert (next(iter(found.partitions)).base_offset, next(iter(found.partitions)).error_code) == (
        None,
        10,
    )


def test_a_produce_without_a_response_has_the_partitions_of_the_request() -> None:
    found = summary(0, 3, produced({"name": "orders"}, batch(5)))
    assert list(found.partitions) == [PartitionSummary("orders", NO_ID, 4, 5, 161, codec="none")]
    assert values(found, "throttle_time_ms") == (None,)


def test_null_records_count_as_no_records() -> None:
    found = summary(0, 3, produced({"name": "orders"}, None))
    assert (
        next(iter(found.partitions)).record_count,
        next(iter(found.partitions)).record_bytes,
    ) == (0, 0)


def test_a_fetch_lists_the_partitions_that_its_response_left_out() -> None:
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
    found = summary(1, 4, request, response)
    assert list(found.partitions) == [
        PartitionSummary("orders", NO_ID, 1, 2, 161, 28, 30, "none", 0),
        PartitionSummary("orders", NO_ID, 0),
    ]
    assert values(found, "max_wait_ms", "min_bytes") == (500, 1)


def test_list_offsets_version_0_answers_with_a_list() -> None:
    answered = {"partitionIndex": 0, "errorCode": 0, "oldStyleOffsets": [90, 40]}
    response = {"topics": [{"name": "orders", "partitions": [answered]}]}
    assert list(summary(2, 0, None, response).partitions) == [
        PartitionSummary("orders", NO_ID, 0, base_offset=90, error_code=0)
    ]


def test_metadata_shows_names_and_errors_at_every_level() -> None:
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
    found = summary(3, 13, None, response)
    assert found.names == [(TOPIC_ID, "orders")]
    assert found.errors == [
        ("orders", TOPIC_ID, 2, 5),
        ("gone", NO_ID, None, 3),
        (None, NO_ID, None, 41),
    ]


def test_a_metadata_request_by_topic_names_the_topic_and_its_partitions() -> None:
    topics = [{"topicId": NO_ID, "name": "orders"}, {"topicId": NO_ID, "name": "gone"}]
    request = {
        "topics": topics,
        "allowAutoTopicCreation": True,
        "includeTopicAuthorizedOperations": False,
    }
    assert list(summary(3, 12, request).partitions) == [
        PartitionSummary("orders", NO_ID, None),
        PartitionSummary("gone", NO_ID, None),
    ]
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
            {**topic, "errorCode": 3, "name": "gone", "topicId": NO_ID, "partitions": []},
            {**topic, "name": "orders", "topicId": TOPIC_ID, "partitions": [partition]},
        ],
    }
    assert list(summary(3, 12, request, response).partitions) == [
        PartitionSummary("orders", NO_ID, None),
        PartitionSummary("gone", NO_ID, None, error_code=3),
        PartitionSummary("orders", TOPIC_ID, 2, error_code=5),
    ]


def test_a_created_topic_is_listed_without_a_partition() -> None:
    topic = {"name": "new", "numPartitions": 3, "replicationFactor": 1, "configs": []}
    request = {
        "topics": [{**topic, "assignments": []}],
        "timeoutMs": 1000,
        "validateOnly": False,
    }
    made = {"name": "new", "topicId": TOPIC_ID, "errorCode": 36, "errorMessage": None}
    made |= {"topicConfigErrorCode": 0, "numPartitions": 3, "replicationFactor": 1, "configs": []}
    response = {"throttleTimeMs": 0, "topics": [made]}
    assert list(summary(19, 7, request).partitions) == [PartitionSummary("new", NO_ID, None)]
    # A name means the same topic, whether a message has its id or not.
    assert list(summary(19, 7, request, response).partitions) == [
        PartitionSummary("new", TOPIC_ID, None, error_code=36)
    ]


def test_a_transactional_commit_lists_its_partitions() -> None:
    partition = {"partitionIndex": 4, "committedOffset": 70, "committedMetadata": None}
    request = {
        "transactionalId": "tx",
        "groupId": "g",
        "producerId": 1,
        "producerEpoch": 0,
        "topics": [{"name": "orders", "partitions": [partition]}],
    }
    answered = {"partitionIndex": 4, "errorCode": 16}
    response = {"throttleTimeMs": 0, "topics": [{"name": "orders", "partitions": [answered]}]}
    assert list(summary(28, 0, request).partitions) == [
        PartitionSummary("orders", NO_ID, 4, base_offset=70)
    ]
    assert list(summary(28, 0, request, response).partitions) == [
        PartitionSummary("orders", NO_ID, 4, base_offset=70, error_code=16)
    ]


def test_partitions_that_are_a_list_of_numbers_are_listed() -> None:
    transaction = {"transactionalId": "tx", "producerId": 1, "producerEpoch": 0}
    topics = [{"name": "a", "partitions": [0, 2]}, {"name": "b", "partitions": [0]}]
    request = {"transactions": [{**transaction, "verifyOnly": False, "topics": topics}]}
    answered = [
        {"partitionIndex": 2, "partitionErrorCode": 0},
        {"partitionIndex": 0, "partitionErrorCode": 55},
    ]
    result = {"name": "a", "resultsByPartition": answered}
    response = {
        "throttleTimeMs": 0,
        "errorCode": 0,
        "resultsByTransaction": [{"transactionalId": "tx", "topicResults": [result]}],
    }
    assert list(summary(24, 4, request, response).partitions) == [
        PartitionSummary("a", NO_ID, 0, error_code=55),
        PartitionSummary("a", NO_ID, 2, error_code=0),
        PartitionSummary("b", NO_ID, 0),
    ]


def test_a_repeated_partition_has_the_error_code_that_is_not_0() -> None:
    def marker(*codes: int) -> dict[str, Any]:
        partitions = [{"partitionIndex": 1, "errorCode": code} for code in codes]
        return {"producerId": 1, "topics": [{"name": "a", "partitions": partitions}]}

    for markers in ([marker(0), marker(49)], [marker(49), marker(0)], [marker(0, 49)]):
        assert list(summary(27, 1, None, {"markers": markers}).partitions) == [
            PartitionSummary("a", NO_ID, 1, error_code=49)
        ]


def test_a_share_fetch_lists_the_records_that_it_delivered() -> None:
    request = {
        "groupId": "g",
        "memberId": "m",
        "shareSessionEpoch": 1,
        "maxWaitMs": 500,
        "minBytes": 1,
        "maxBytes": 1000,
        "maxRecords": 500,
        "batchSize": 500,
        "topics": [],
        "forgottenTopicsData": [{"topicId": TOPIC_ID, "partitions": [7]}],
    }
    partition = {
        "partitionIndex": 1,
        "errorCode": 0,
        "errorMessage": None,
        "acknowledgeErrorCode": 121,
        "acknowledgeErrorMessage": None,
        "currentLeader": {"leaderId": 0, "leaderEpoch": 0},
        "records": batch(2, base_offset=28),
        "acquiredRecords": [],
    }
    response = {
        "throttleTimeMs": 0,
        "errorCode": 0,
        "errorMessage": None,
        "acquisitionLockTimeoutMs": 30_000,
        "responses": [{"topicId": TOPIC_ID, "partitions": [partition]}],
        "nodeEndpoints": [],
    }
    # Partitions that leave the session are not listed.
    assert list(summary(78, 1, request).partitions) == []
    (part,) = summary(78, 1, request, response).partitions
    assert (part.topic_id, part.partition, part.error_code) == (TOPIC_ID, 1, 121)
    assert (part.record_count, part.record_bytes, part.base_offset, part.codec) == (
        2,
        161,
        28,
        "none",
    )


def test_a_topic_is_in_the_struct_of_the_partition_or_in_an_outer_one() -> None:
    state = {
        "partitionIndex": 3,
        "controllerEpoch": 1,
        "leader": 0,
        "leaderEpoch": 0,
        "isr": [],
        "partitionEpoch": 0,
        "replicas": [],
        "addingReplicas": [],
        "removingReplicas": [],
        "isNew": False,
    }
    request = {"controllerId": 0, "controllerEpoch": 1, "brokerEpoch": 1, "type": 0}
    request["liveLeaders"] = []
    old = {**request, "ungroupedPartitionStates": [{**state, "topicName": "orders"}]}
    assert list(summary(4, 1, old).partitions) == [PartitionSummary("orders", NO_ID, 3)]
    topic = {"topicName": "orders", "topicId": TOPIC_ID, "partitionStates": [state]}
    new = {**request, "topicStates": [topic]}
    refused = {"topicId": TOPIC_ID, "partitionErrors": [{"partitionIndex": 3, "errorCode": 11}]}
    response = {"errorCode": 0, "topics": [refused]}
    found = summary(4, 5, new, response)
    assert list(found.partitions) == [PartitionSummary("orders", TOPIC_ID, 3, error_code=11)]


def test_a_cursor_is_not_a_topic_of_the_request() -> None:
    request = {
        "topics": [{"name": "orders"}],
        "responsePartitionLimit": 1,
        "cursor": {"topicName": "orders", "partitionIndex": 7},
    }
    assert list(summary(75, 0, request).partitions) == [PartitionSummary("orders", NO_ID, None)]


_BY_HAND = {0, 1, 2, 9}
"""APIs whose summaries list only partitions, no topic without one."""


def named_in(fields: tuple[Field, ...], value: dict[str, Any], topic: str = "") -> set[Any]:
    """(topic or id, partition) in Kafka's JSON of a message; None for a topic by itself."""
    ours = {field.json_name: field for field in fields}
    names = [
        item
        for name, item in value.items()
        if name in ours and ours[name].entity_type == "topicName" and isinstance(item, str) and item
    ]
    own = names[0] if names else value.get("topicId", "")
    own = "" if own == NO_ID_TEXT else own
    topic = own or topic
    found: set[Any] = set()
    others: set[Any] = set()
    for name, item in value.items():
        field = ours.get(name)
        if field is None or name == "forgottenTopicsData":
            continue
        if field.type == "[]string" and field.entity_type == "topicName":
            others |= {(topic_name, None) for topic_name in item or () if topic_name}
        elif topic and field.type == "[]int32" and name in ("partitions", "partitionIndexes"):
            found |= {(topic, index) for index in item or ()}
        elif field.struct is not None and name not in ("cursor", "nextCursor"):
            for inner in item or () if field.is_array else [item] if item else []:
                found |= named_in(field.struct.fields, inner, topic)
        elif topic and field.type == "int32" and name in PARTITION_NAMES:
            return {(topic, item)}
    codes = [code for name, code in value.items() if name.lower().endswith("errorcode")]
    if own and (not found or any(codes)):
        found.add((own, None))
    return found | others


NO_ID_TEXT = "A" * 22
PARTITION_NAMES = {"partitionIndex", "partition", "partitionId", "index"}


def test_messages_of_kafkas_serializer_have_the_partitions_of_their_json() -> None:
    named = set()
    for vector in read_vectors():
        if vector.kind == "other" or vector.api_key is None:
            continue
        message = definition_of(vector, CATALOG)
        needed_fields = EXTRACTORS.needed_fields(vector.api_key, vector.kind)
        if not message.valid_versions.contains(vector.version):
            continue
        decode = compile_decoder(message, vector.version, needed_fields)
        decode(vector.content, 0, 0, None)
        encoded = decode.take(None)
        pair = (encoded, None) if vector.kind == "request" else (None, encoded)
        found = EXTRACTORS.summary(vector.api_key, *pair)
        # The message may contain the name of a topic id elsewhere.
        names = {topic_id_text(topic_id): name for topic_id, name in found.names}
        ours = {
            (part.topic or topic_id_text(part.topic_id) or "", part.partition)
            for part in found.partitions
        }
        theirs = {
            (names.get(topic, topic), partition)
            for topic, partition in named_in(message.struct.fields, vector.json)
        }
        if vector.api_key in _BY_HAND:
            ours = {place for place in ours if place[0]}
            theirs = {place for place in theirs if place[1] is not None}
        assert ours == theirs, (vector.name, vector.version)
        if theirs:
            named.add((vector.api_key, vector.kind))
    assert named == {
        (api.key, kind)
        for api in CATALOG.apis
        for kind in ("request", "response")
        if _has_topics(CATALOG.message(api.key, kind).struct.fields)  # type: ignore[arg-type]
    }


def _has_topics(fields: tuple[Field, ...]) -> bool:
    return any(
        field.entity_type == "topicName"
        or field.name == "TopicId"
        or (field.struct is not None and _has_topics(field.struct.fields))
        for field in fields
    )


def test_an_unknown_api_has_no_facts() -> None:
    found = EXTRACTORS.summary(999, None, None)
    assert (list(found.partitions), found.errors) == ([], [])
    assert values(found, "group_id") == (None,)
    assert EXTRACTORS.needed_fields(999, "request").paths == ()


@pytest.mark.parametrize("version", [0, 3, 6])
def test_find_coordinator_names_the_group_or_the_transaction(version: int) -> None:
    for key_type, name in ((0, "group_id"), (1, "transactional_id")):
        if version == 0 and key_type:
            continue
        request: dict[str, Any] = {"keyType": key_type} if version else {}
        request |= {"key": "it"} if version < 4 else {"coordinatorKeys": ["it"]}
        assert values(summary(10, version, request), name) == ("it",)


def test_a_column_that_is_a_field_is_unknown_in_versions_without_the_field() -> None:
    for version, throttle_time_ms in ((0, None), (1, 9)):
        response: dict[str, Any] = {"responses": []}
        response |= {"throttleTimeMs": 9} if version else {}
        found = summary(0, version, None, response)
        assert values(found, "throttle_time_ms") == (throttle_time_ms,)


def test_every_message_that_a_column_names_has_the_field_and_gives_it_to_the_column() -> None:
    apis = {
        CATALOG.message(api.key, kind).name: (api, kind) for api in CATALOG.apis for kind in KINDS
    }
    declared = [
        (column, *path.split("."))
        for column in COLUMNS
        if column.field is not None
        for path in column.field.paths
        if not path.startswith("*.")
    ]
    assert len(declared) >= 5
    for column, name, field in declared:
        api, kind = apis[name]
        assert field in EXTRACTORS.needed_fields(api.key, kind).paths
        version = api.versions.highest
        message = Generator(CATALOG.message(api.key, kind), version, Random(1)).values()
        message[field[0].lower() + field[1:]] = 17
        found = summary(api.key, version, **{kind: message})
        assert values(found, column.name) == (17,)
