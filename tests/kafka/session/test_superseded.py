"""Unstable versions that had other fields in some releases are read in their old layout."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.decoding.bodies import BodyReader
from kanalyze.kafka.codec.compiler import Decoders, Projection
from kanalyze.kafka.codec.interpreter import read_message
from kanalyze.kafka.schema.api_table import SUPERSEDED
from tests.support import kafka as k
from tests.support.messages import Writer
from tests.support.talk import BROKER, CLIENT, Talk
from tests.support.traffic import CATALOG, _defaults, answers, asks, body

if TYPE_CHECKING:
    from kanalyze.kafka.schema.catalog import Kind

END_QUORUM_EPOCH, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE, SUMMARY = 54, 68, 69, 87
TOPIC_ID = bytes(range(16))
SUMMARY_3_9 = (
    b"\x02" + TOPIC_ID + b"\x02" + struct.pack(">ih", 3, 0) + b"\0" + struct.pack(">iq", 7, 42)
) + b"\0\0\0"
"""One topic with one partition: state epoch 7, start offset 42, and no leader epoch."""
PARTITIONS = [{"topicId": TOPIC_ID, "partitions": [1, 2]}]
ASSIGNED = {
    "error": 1,
    "assignedTopicPartitions": PARTITIONS,
    "pendingTopicPartitions": [],
    "metadataVersion": 1,
    "metadataBytes": b"x",
}
QUIET = dict.fromkeys(
    (
        *("instanceId", "rackId", "subscribedTopicNames", "subscribedTopicRegex"),
        *("serverAssignor", "clientAssignors", "topicPartitions"),
    )
)
"""Fields that are null in a heartbeat without news."""
SAMPLES: list[tuple[int, Kind, dict[str, Any]]] = [
    (
        END_QUORUM_EPOCH,
        "request",
        {
            "clusterId": "c",
            "topics": [
                {
                    "topicName": "__cluster_metadata",
                    "partitions": [
                        {
                            "partitionIndex": 0,
                            "replicaId": 1,
                            "leaderId": 1,
                            "leaderEpoch": 5,
                            "preferredSuccessors": [2, 3],
                        }
                    ],
                }
            ],
        },
    ),
    (CONSUMER_HEARTBEAT, "request", {"groupId": "g", "memberId": "m", "memberEpoch": 3} | QUIET),
    (
        CONSUMER_HEARTBEAT,
        "request",
        {
            "groupId": "g",
            "memberId": "m",
            "subscribedTopicNames": ["t"],
            "serverAssignor": "range",
            "topicPartitions": PARTITIONS,
        },
    ),
    (CONSUMER_HEARTBEAT, "response", {"memberId": "m", "memberEpoch": 3, "errorCode": 25}),
    (CONSUMER_HEARTBEAT, "response", {"memberId": "m", "assignment": ASSIGNED}),
    (
        CONSUMER_DESCRIBE,
        "response",
        {
            "groups": [
                {
                    "errorCode": 0,
                    "errorMessage": None,
                    "groupId": "g",
                    "groupState": "Stable",
                    "groupEpoch": 2,
                    "assignmentEpoch": 2,
                    "assignorName": "range",
                    "members": [
                        {
                            "memberId": "m",
                            "instanceId": None,
                            "rackId": None,
                            "memberEpoch": 2,
                            "clientId": "c",
                            "clientHost": "h",
                            "subscribedTopicNames": ["t"],
                            "subscribedTopicRegex": None,
                            "assignment": {
                                "topicPartitions": [],
                                "error": 0,
                                "metadataVersion": 1,
                                "metadataBytes": b"",
                            },
                            "targetAssignment": {
                                "topicPartitions": [],
                                "error": 0,
                                "metadataVersion": 1,
                                "metadataBytes": b"",
                            },
                        }
                    ],
                    "authorizedOperations": 0,
                }
            ]
        },
    ),
]


def superseded_body(api_key: int, kind: Kind, values: dict[str, Any]) -> bytes:
    message = CATALOG.superseded(api_key, kind, 0)
    assert message is not None
    return Writer(message, 0).write(_defaults(message.struct, 0) | values)


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
@pytest.mark.parametrize(("api_key", "kind", "values"), SAMPLES)
def test_messages_of_an_early_release_are_read(
    api_key: int, kind: Kind, values: dict[str, Any], cut_at: int | None
) -> None:
    content = superseded_body(api_key, kind, values)
    talk = talk_about(api_key, kind, frame_of(api_key, kind, content), cut_at=cut_at)
    assert [exchange.malformed for exchange in talk.exchanges] == [False, False]
    assert talk.anomalies == []
    made = BodyReader(CATALOG, Decoders(CATALOG)).message(
        frame_of(api_key, kind, content), api_key, 0, kind
    )
    message = CATALOG.superseded(api_key, kind, 0)
    assert message is not None
    assert made.definition is message
    assert (made.values, len(content)) == read_message(message, 0, content)


@pytest.mark.parametrize(("api_key", "kind", "values"), SAMPLES)
def test_a_connection_is_recognized_by_messages_of_an_early_release(
    api_key: int, kind: Kind, values: dict[str, Any]
) -> None:
    if kind == "request":
        request = asks(api_key, 0, 1, superseded_body(api_key, kind, values))
        response = answers(api_key, 0, 1, body(api_key, "response", 0))
    else:
        request = asks(api_key, 0, 1, body(api_key, "request", 0))
        response = answers(api_key, 0, 1, superseded_body(api_key, kind, values))
    talk = Talk(opened_by=None).client(request).broker(response).close()
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
    projection = Projection.of("ErrorCode", "MemberEpoch")
    decoders = Decoders(CATALOG)
    values = {"memberId": "m", "memberEpoch": 3, "errorCode": 25}
    content = superseded_body(CONSUMER_HEARTBEAT, "response", values)
    decode = decoders.superseded(CONSUMER_HEARTBEAT, "response", 0, projection)
    assert decode is not None
    assert decode(content, 0, 0, None) == ((25, 3), len(content))
    final_content = body(CONSUMER_HEARTBEAT, "response", 0, **values)
    decode_final = decoders.get(CONSUMER_HEARTBEAT, "response", 0, projection)
    assert decode_final(final_content, 0, 0, None) == ((25, 3), len(final_content))
