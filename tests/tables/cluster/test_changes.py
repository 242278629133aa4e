"""The table changes: what administrators' requests ask for, and what became of it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.common import forked
from kanalyze.decoding.secrets import HIDDEN
from kanalyze.spec.rows.cluster import Change
from kanalyze.tables.cluster.changes import _MAX_CHANGES, _READERS, CHANGE_FIELDS
from tests.support.captures import path, request_log
from tests.support.traffic import Line, answers, asks, body, capture_of
from tests.support.vectors import Vector, read_vectors

if TYPE_CHECKING:
    from pathlib import Path

NAMES = Change._fields
ID = bytes(range(16))


def changes_in(file: Path) -> list[tuple[Any, ...]]:
    asked = f"SELECT {', '.join(NAMES)} FROM changes ORDER BY request_id"
    return [tuple(line.values()) for line in kanalyze.sql(str(file), asked).to_pylist()]


def exchange(
    folder: Path, api_key: int, version: int, asked: dict[str, Any], answered: dict[str, Any] | None
) -> list[tuple[Any, ...]]:
    """The changes of one exchange, without the names of errors; None is no answer."""
    packets: list[bytes] = []
    line = Line(packets).open()
    line.client(asks(18, 0, 1, body(18, "request", 0))).broker(
        answers(18, 0, 1, body(18, "response", 0))
    )
    request = asks(api_key, version, 2, body(api_key, "request", version, **asked))
    line.client(*(request[at : at + 50_000] for at in range(0, len(request), 50_000)))
    if answered is not None:
        line.broker(answers(api_key, version, 2, body(api_key, "response", version, **answered)))
    file = folder / "changes.pcap"
    file.write_bytes(capture_of(packets))
    return [line[:-1] for line in changes_in(file)]


def config(name: str, value: str | None, operation: int = 0) -> dict[str, Any]:
    return {"name": name, "configOperation": operation, "value": value}


def partition_codes(name: str, inner: str, *codes: int) -> dict[str, Any]:
    parts = [{"partitionIndex": at, "errorCode": code} for at, code in enumerate(codes)]
    return {"name": name, "topicName": name, "topicId": ID, inner: parts}


def in_sync_answer(topic: dict[str, Any], partition: int, code: int) -> dict[str, Any]:
    numbers = {"leaderId": 1, "leaderEpoch": 0, "isr": [], "leaderRecoveryState": 0}
    part = {"partitionIndex": partition, "errorCode": code, "partitionEpoch": 0, **numbers}
    return {**topic, "partitions": [part]}


IN_SYNC_PART = {
    "partitionIndex": 2,
    "leaderEpoch": 0,
    "partitionEpoch": 0,
    "leaderRecoveryState": 0,
    "newIsr": [3, 1],
}
ACL = {
    "resourceType": 2,
    "resourceName": "orders",
    "resourcePatternType": 4,
    "patternType": 4,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permissionType": 3,
    "errorCode": 0,
}
FILTER = {
    "resourceTypeFilter": 1,
    "resourceNameFilter": None,
    "patternTypeFilter": 1,
    "principalFilter": None,
    "hostFilter": None,
    "operation": 1,
    "permissionType": 1,
}
ENTITY = [
    {"entityType": "user", "entityName": "a"},
    {"entityType": "client-id", "entityName": None},
]
CASES: dict[str, tuple[int, int, dict[str, Any], dict[str, Any] | None, list[tuple[Any, ...]]]] = {
    "a topic with the numbers that the broker chose": (
        *(19, 7),
        {
            "topics": [
                {
                    "name": "t",
                    "numPartitions": -1,
                    "replicationFactor": -1,
                    "assignments": [],
                    "configs": [{"name": "retention.ms", "value": "5"}],
                }
            ]
        },
        {
            "topics": [
                {
                    "name": "t",
                    "topicId": ID,
                    "errorCode": 0,
                    "errorMessage": None,
                    "numPartitions": 6,
                    "replicationFactor": 3,
                    "configs": [],
                }
            ]
        },
        [
            ("create", "topic", "t", "partitions", "6", False, 0),
            ("create", "topic", "t", "replication_factor", "3", False, 0),
            ("create", "topic", "t", "retention.ms", "5", False, 0),
        ],
    ),
    "a topic on trial, with its replicas assigned": (
        *(19, 1),
        {
            "topics": [
                {
                    "name": "t",
                    "numPartitions": -1,
                    "replicationFactor": -1,
                    "assignments": [
                        {"partitionIndex": 0, "brokerIds": [1, 2]},
                        {"partitionIndex": 1, "brokerIds": [2, 3]},
                    ],
                    "configs": [],
                }
            ],
            "validateOnly": True,
        },
        {"topics": [{"name": "t", "errorCode": 36, "errorMessage": "there is"}]},
        [
            ("create", "topic", "t", "partitions", "2", True, 36),
            ("create", "topic", "t", "replication_factor", "2", True, 36),
        ],
    ),
    "topics deleted by id and by name": (
        *(20, 6),
        {"topics": [{"name": None, "topicId": ID}, {"name": "b", "topicId": bytes(16)}]},
        {
            "responses": [
                {"name": "a", "topicId": ID, "errorCode": 0, "errorMessage": None},
                {"name": "b", "topicId": bytes(16), "errorCode": 3, "errorMessage": None},
            ]
        },
        [
            ("delete", "topic", "a", None, None, False, 0),
            ("delete", "topic", "b", None, None, False, 3),
        ],
    ),
    "topics deleted, without an answer": (
        *(20, 3),
        {"topicNames": ["a"]},
        None,
        [("delete", "topic", "a", None, None, False, None)],
    ),
    "more partitions": (
        *(37, 3),
        {"topics": [{"name": "t", "count": 9, "assignments": None}], "validateOnly": False},
        {"results": [{"name": "t", "errorCode": 37, "errorMessage": None}]},
        [("alter", "topic", "t", "partitions", "9", False, 37)],
    ),
    "records deleted": (
        *(21, 2),
        {
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partitionIndex": 0, "offset": 70},
                        {"partitionIndex": 1, "offset": -1},
                    ],
                }
            ]
        },
        {
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partitionIndex": 0, "lowWatermark": 70, "errorCode": 0},
                        {"partitionIndex": 1, "lowWatermark": -1, "errorCode": 6},
                    ],
                }
            ]
        },
        [
            ("delete", "records", "t-0", "before", "70", False, 0),
            ("delete", "records", "t-1", "before", None, False, 6),
        ],
    ),
    "configurations": (
        *(44, 1),
        {
            "resources": [
                {
                    "resourceType": 4,
                    "resourceName": "1",
                    "configs": [
                        config("log.cleaner.threads", "2"),
                        config("ssl.keystore.password", "hush"),
                        config("sasl.jaas.config", "x password=hush"),
                        config("proxy", "https://me:hush@host"),
                        config("num.io.threads", None, 1),
                        config("plugins", "b", 2),
                        config("plugins", "a", 3),
                    ],
                },
                {"resourceType": 99, "resourceName": "x", "configs": [config("a", "hush")]},
            ]
        },
        {
            "responses": [
                {"errorCode": 0, "errorMessage": None, "resourceType": 4, "resourceName": "1"},
                {"errorCode": 42, "errorMessage": None, "resourceType": 99, "resourceName": "x"},
            ]
        },
        [
            ("set", "broker_config", "1", "log.cleaner.threads", "2", False, 0),
            ("set", "broker_config", "1", "ssl.keystore.password", HIDDEN, False, 0),
            ("set", "broker_config", "1", "sasl.jaas.config", HIDDEN, False, 0),
            ("set", "broker_config", "1", "proxy", HIDDEN, False, 0),
            ("reset", "broker_config", "1", "num.io.threads", None, False, 0),
            ("append", "broker_config", "1", "plugins", "b", False, 0),
            ("subtract", "broker_config", "1", "plugins", "a", False, 0),
            ("set", "99_config", "x", "a", HIDDEN, False, 42),
        ],
    ),
    "all configurations of a topic": (
        *(33, 2),
        {
            "resources": [
                {
                    "resourceType": 2,
                    "resourceName": "t",
                    "configs": [{"name": "cleanup.policy", "value": "compact"}],
                }
            ],
            "validateOnly": True,
        },
        {
            "responses": [
                {"errorCode": 0, "errorMessage": None, "resourceType": 2, "resourceName": "t"}
            ]
        },
        [("set", "topic_config", "t", "cleanup.policy", "compact", True, 0)],
    ),
    "ACLs created": (
        *(30, 3),
        {"creations": [ACL, {**ACL, "resourceName": "x", "permissionType": 2, "operation": 99}]},
        {
            "results": [
                {"errorCode": 0, "errorMessage": None},
                {"errorCode": 54, "errorMessage": ""},
            ]
        },
        [
            *(
                (
                    "create",
                    "acl",
                    "topic orders (prefixed)",
                    "User:a read from *",
                    "allow",
                    False,
                    0,
                ),
                ("create", "acl", "topic x (prefixed)", "User:a 99 from *", "deny", False, 54),
            )
        ],
    ),
    "ACLs deleted": (
        *(31, 3),
        {"filters": [FILTER, {**FILTER, "principalFilter": "User:b"}]},
        {
            "filterResults": [
                {
                    "errorCode": 0,
                    "errorMessage": None,
                    "matchingAcls": [{**ACL, "errorMessage": ""}],
                },
                {"errorCode": 0, "errorMessage": None, "matchingAcls": []},
            ]
        },
        [
            ("delete", "acl", "topic orders (prefixed)", "User:a read from *", "allow", False, 0),
            ("delete", "acl", "any * (any)", "User:b any from *", "any", False, 0),
        ],
    ),
    "quotas": (
        *(49, 1),
        {
            "entries": [
                {
                    "entity": ENTITY,
                    "ops": [
                        {"key": "producer_byte_rate", "value": 1024.0, "remove": False},
                        {"key": "consumer_byte_rate", "value": 0.0, "remove": True},
                    ],
                }
            ],
            "validateOnly": False,
        },
        {"entries": [{"errorCode": 0, "errorMessage": None, "entity": ENTITY[::-1]}]},
        [
            *(
                (*what, "quota", "client-id=<default>,user=a", *setting, False, 0)
                for what, setting in (
                    (("set",), ("producer_byte_rate", "1024.0")),
                    (("delete",), ("consumer_byte_rate", None)),
                )
            )
        ],
    ),
    "users": (
        *(51, 0),
        {
            "deletions": [{"name": "a", "mechanism": 1}],
            "upsertions": [
                {
                    "name": "b",
                    "mechanism": 2,
                    "iterations": 8192,
                    "salt": b"hush",
                    "saltedPassword": b"hush hush",
                }
            ],
        },
        {
            "results": [
                {"user": "a", "errorCode": 91, "errorMessage": None},
                {"user": "b", "errorCode": 0, "errorMessage": None},
            ]
        },
        [
            ("delete", "user", "a", "SCRAM-SHA-256", None, False, 91),
            ("set", "user", "b", "SCRAM-SHA-512", "8192 iterations", False, 0),
        ],
    ),
    "a token created": (
        *(38, 3),
        {"ownerPrincipalType": "User", "ownerPrincipalName": "a", "maxLifetimeMs": -1},
        {
            "errorCode": 0,
            "principalType": "User",
            "principalName": "a",
            "tokenId": "id",
            "hmac": b"hush",
        },
        [("create", "delegation_token", "User:a", "id", "id", False, 0)],
    ),
    "a token expired": (
        *(40, 2),
        {"hmac": b"hush", "expiryTimePeriodMs": -1},
        {"errorCode": 0, "expiryTimestampMs": 77},
        [("expire", "delegation_token", None, "expiry_ms", "77", False, 0)],
    ),
    "a token not renewed": (
        *(39, 2),
        {"hmac": b"hush", "renewPeriodMs": 5},
        {"errorCode": 62, "expiryTimestampMs": 0},
        [("renew", "delegation_token", None, "expiry_ms", None, False, 62)],
    ),
    "groups deleted": (
        *(42, 2),
        {"groupsNames": ["g", "h"]},
        {"results": [{"groupId": "h", "errorCode": 68}, {"groupId": "g", "errorCode": 0}]},
        [
            ("delete", "group", "g", None, None, False, 0),
            ("delete", "group", "h", None, None, False, 68),
        ],
    ),
    "offsets deleted": (
        *(47, 0),
        {
            "groupId": "g",
            "topics": [{"name": "t", "partitions": [{"partitionIndex": 0}, {"partitionIndex": 1}]}],
        },
        {"errorCode": 0, "topics": [partition_codes("t", "partitions", 0, 86)]},
        [
            ("delete", "offsets", "g", "t-0", None, False, 0),
            ("delete", "offsets", "g", "t-1", None, False, 86),
        ],
    ),
    "offsets of a group that is not there": (
        *(47, 0),
        {"groupId": "g", "topics": [{"name": "t", "partitions": [{"partitionIndex": 0}]}]},
        {"errorCode": 69, "topics": []},
        [("delete", "offsets", "g", "t-0", None, False, 69)],
    ),
    "a leader elected": (
        *(43, 2),
        {"electionType": 1, "topicPartitions": [{"topic": "t", "partitions": [4]}]},
        {
            "errorCode": 0,
            "replicaElectionResults": [
                {
                    "topic": "t",
                    "partitionResult": [{"partitionId": 4, "errorCode": 83, "errorMessage": None}],
                }
            ],
        },
        [("elect", "leader", "t-4", "election", "unclean", False, 83)],
    ),
    "leaders of all partitions elected": (
        *(43, 0),
        {"topicPartitions": None},
        {
            "replicaElectionResults": [
                {
                    "topic": "t",
                    "partitionResult": [{"partitionId": 4, "errorCode": 0, "errorMessage": None}],
                }
            ]
        },
        [("elect", "leader", "t-4", "election", "preferred", False, 0)],
    ),
    "reassignments": (
        *(45, 0),
        {
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partitionIndex": 0, "replicas": [3, 1]},
                        {"partitionIndex": 1, "replicas": None},
                    ],
                }
            ]
        },
        {
            "errorCode": 0,
            "responses": [
                {
                    "name": "t",
                    "partitions": [
                        {"partitionIndex": 0, "errorCode": 0, "errorMessage": None},
                        {"partitionIndex": 1, "errorCode": 85, "errorMessage": None},
                    ],
                }
            ],
        },
        [
            ("alter", "reassignment", "t-0", "replicas", "3,1", False, 0),
            ("cancel", "reassignment", "t-1", "replicas", None, False, 85),
        ],
    ),
    "replicas in sync, of a topic with a name": (
        *(56, 1),
        {"topics": [{"topicName": "a.b-c", "partitions": [IN_SYNC_PART]}]},
        {"errorCode": 0, "topics": [in_sync_answer({"topicName": "a.b-c"}, 2, 0)]},
        [("set", "in_sync_replicas", "a.b-c-2", "brokers", "1,3", False, 0)],
    ),
    "replicas in sync, of a topic with an id": (
        *(56, 3),
        {
            "topics": [
                {
                    "topicId": ID,
                    "partitions": [
                        {
                            "partitionIndex": 2,
                            "leaderEpoch": 0,
                            "partitionEpoch": 0,
                            "leaderRecoveryState": 0,
                            "newIsrWithEpochs": [{"brokerId": 7, "brokerEpoch": 1}],
                        }
                    ],
                }
            ]
        },
        {"errorCode": 0, "topics": [in_sync_answer({"topicId": ID}, 2, 107)]},
        [("set", "in_sync_replicas", "AAECAwQFBgcICQoLDA0ODw-2", "brokers", "7", False, 107)],
    ),
    "a controller": (
        *(53, 0),
        {
            "topics": [
                {
                    "topicName": "__cluster_metadata",
                    "partitions": [{"partitionIndex": 0, "leaderId": 3, "leaderEpoch": 12}],
                }
            ]
        },
        {"errorCode": 0, "topics": []},
        [("elect", "controller", "3", "epoch", "12", False, 0)],
    ),
    "a feature": (
        *(57, 1),
        {
            "featureUpdates": [
                {"feature": "metadata.version", "maxVersionLevel": 20, "upgradeType": 1}
            ],
            "validateOnly": True,
        },
        {
            "errorCode": 0,
            "results": [{"feature": "metadata.version", "errorCode": 95, "errorMessage": None}],
        },
        [("set", "feature", "metadata.version", "version", "20", True, 95)],
    ),
    "a broker": (
        *(62, 0),
        {
            "brokerId": 3,
            "listeners": [
                {"name": "PLAIN", "host": "h", "port": 9092, "securityProtocol": 0},
                {"name": "SSL", "host": "::1", "port": 9093, "securityProtocol": 1},
            ],
            "rack": "east",
        },
        {"errorCode": 0},
        [
            ("register", "broker", "3", "listeners", "PLAIN://h:9092,SSL://[::1]:9093", False, 0),
            ("register", "broker", "3", "rack", "east", False, 0),
        ],
    ),
    "a broker that is gone": (
        *(64, 0),
        {"brokerId": 3},
        {"errorCode": 102},
        [("unregister", "broker", "3", None, None, False, 102)],
    ),
    "a voter": (
        *(80, 0),
        {"voterId": 3, "listeners": [{"name": "C", "host": "h", "port": 1}]},
        {"errorCode": 0},
        [("register", "raft_voter", "3", "listeners", "C://h:1", False, 0)],
    ),
    "a voter removed": (
        *(81, 0),
        {"voterId": 3},
        {"errorCode": 0},
        [("unregister", "raft_voter", "3", None, None, False, 0)],
    ),
    "offsets of a share group": (
        *(91, 0),
        {
            "groupId": "g",
            "topics": [
                {"topicName": "t", "partitions": [{"partitionIndex": 0, "startOffset": 12}]}
            ],
        },
        {
            "errorCode": 0,
            "responses": [
                {
                    "topicName": "t",
                    "topicId": ID,
                    "partitions": [{"partitionIndex": 0, "errorCode": 6, "errorMessage": None}],
                }
            ],
        },
        [("set", "offsets", "g", "t-0", "12", False, 6)],
    ),
    "offsets of a share group deleted": (
        *(92, 0),
        {"groupId": "g", "topics": [{"topicName": "t"}]},
        {
            "errorCode": 0,
            "responses": [{"topicName": "t", "topicId": ID, "errorCode": 3, "errorMessage": None}],
        },
        [("delete", "offsets", "g", "t", None, False, 3)],
    ),
}


def test_every_api_that_changes_something_has_a_case() -> None:
    assert {case[0] for case in CASES.values()} == set(CHANGE_FIELDS) == set(_READERS)


def test_a_change_is_what_was_asked_and_what_became_of_it(tmp_path: Path) -> None:
    for name, (api_key, version, asked, answered, expected) in CASES.items():
        assert exchange(tmp_path, api_key, version, asked, answered) == expected, name


def test_a_request_for_very_many_changes_has_lines_for_the_first(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(_MAX_CHANGES + 5)]
    found = exchange(tmp_path, 20, 3, {"topicNames": names}, None)
    assert [line[2] for line in found] == names[:_MAX_CHANGES]


def messages_of_kafka() -> dict[tuple[int, int], dict[str, list[Vector]]]:
    """What Kafka's serializer wrote, by API and version, then by kind."""
    found: dict[tuple[int, int], dict[str, list[Vector]]] = defaultdict(lambda: defaultdict(list))
    for vector in read_vectors():
        if vector.api_key in CHANGE_FIELDS:
            found[vector.api_key, vector.version][vector.kind].append(vector)
    return found


def secrets_in(value: Any, name: str = "") -> set[str]:
    """Values of salts, passwords and HMACs in Kafka's JSON of a message."""
    if isinstance(value, dict):
        return {text for key, part in value.items() for text in secrets_in(part, key)}
    if isinstance(value, list):
        return {text for part in value for text in secrets_in(part, name)}
    # A text of few letters may be part of any other.
    return {value} if name in ("salt", "saltedPassword", "hmac") and len(value) >= 8 else set()


def test_messages_of_every_version_give_lines_without_secrets(tmp_path: Path) -> None:
    packets: list[bytes] = []
    line = Line(packets).open()
    secrets: set[str] = set()
    versions = messages_of_kafka()
    number = 0
    for (api_key, version), kinds in versions.items():
        for asked, answered in zip(kinds["request"], kinds["response"], strict=False):
            number += 1
            line.client(asks(api_key, version, number, asked.content))
            line.broker(answers(api_key, version, number, answered.content))
            secrets |= secrets_in([asked.json, answered.json])
    file = tmp_path / "all.pcap"
    file.write_bytes(capture_of(packets))
    found = kanalyze.sql(str(file), "SELECT * EXCLUDE (capture) FROM changes").to_pylist()
    assert {(line["api_key"], line["api_version"]) for line in found} == set(versions)
    shown = repr(found)
    assert len(secrets) > 5
    for secret in secrets:
        assert secret not in shown


def test_changes_are_those_in_the_log_of_the_broker() -> None:
    asked = [
        (entry["requestHeader"]["requestApiKeyName"], entry["request"])
        for entry in request_log("admin")
    ]
    topics = [
        topic["name"]
        for name, request in asked
        if name == "CREATE_TOPICS"
        for topic in request["topics"]
    ]
    configs = [
        (resource["resourceName"], each["name"], each["value"])
        for name, request in asked
        if name == "INCREMENTAL_ALTER_CONFIGS"
        for resource in request["resources"]
        for each in resource["configs"]
    ]
    deleted = [
        name
        for api, request in asked
        if api == "DELETE_TOPICS"
        for name in request.get("topicNames") or [each["name"] for each in request["topics"]]
    ]
    found = changes_in(path("admin"))
    assert [line[2] for line in found if line[:2] == ("create", "topic")][::2] == topics
    assert [line[2:5] for line in found if line[:2] == ("set", "topic_config")] == configs
    assert [line[2] for line in found if line[:2] == ("delete", "topic")] == deleted
    assert topics
    assert configs
    assert deleted


def test_changes_of_the_cluster_itself_name_topics_whose_ids_are_known() -> None:
    found = [line for line in changes_in(path("cluster")) if line[1] == "in_sync_replicas"]
    # A node stops, starts again and catches up: all partitions have three replicas in sync again.
    assert sorted(line[2] for line in found) == ["cluster-0", "cluster-1", "cluster-2"]
    assert {line[4] for line in found} == {"1,2,3"}
    elected = [line for line in changes_in(path("cluster")) if line[1] == "controller"]
    assert {line[2:5] for line in elected} == {("2", "epoch", "1")}


def test_the_question_shows_what_a_setting_was_before() -> None:
    lines = kanalyze.sql(str(path("admin")), "changes").to_pylist()
    of_topic = [line for line in lines if line["resource"] == "admin-java"]
    partitions = [
        (line["action"], line["before"], line["value"], line["refused"])
        for line in of_topic
        if line["setting"] == "partitions"
    ]
    assert partitions == [
        ("create", None, "4", None),
        ("create", None, None, "TOPIC_ALREADY_EXISTS"),
        ("alter", "4", "6", None),
    ]
    times = [line["time"] for line in lines]
    assert times == sorted(times)


@pytest.mark.parametrize("name", ["admin", "controller"])
def test_a_saved_file_and_workers_give_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = changes_in(path(name))
    assert expected
    kanalyze.save(str(path(name)), output=tmp_path / "saved.duckdb")
    assert changes_in(tmp_path / "saved.duckdb") == expected
    monkeypatch.setattr(forked, "_MIN_BYTES", 0)
    names = ", ".join(NAMES)
    asked = f"SELECT {names} FROM changes ORDER BY request_id"
    found = kanalyze.sql(str(path(name)), asked, jobs=3).to_pylist()
    assert [tuple(line.values()) for line in found] == expected
