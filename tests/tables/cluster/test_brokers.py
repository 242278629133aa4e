from __future__ import annotations

from typing import Any

import pytest

from kanalyze.common.plain_values import from_bytes, to_bytes
from kanalyze.tables.cluster.brokers import SeenMetadata, metadata_entries

PRODUCE, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = 0, 3, 10, 60
ID = bytes(range(16))
COORDINATOR = {"NodeId": 1, "Host": "b", "Port": 9092, "ErrorCode": 0}
HINT = {
    "Responses": [
        {
            "Name": "t",
            "PartitionResponses": [
                {"Index": 0, "ErrorCode": 6, "CurrentLeader": {"LeaderId": 2, "LeaderEpoch": 5}}
            ],
        }
    ]
}
"""A response to Produce that names the current leader."""


def partition(index: int, leader: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "PartitionIndex": index,
        "ErrorCode": 0,
        "LeaderId": leader,
        "LeaderEpoch": 0,
        "ReplicaNodes": [1, 2, 3],
        "IsrNodes": [1, 2],
        "OfflineReplicas": [3],
        **more,
    }


def topic(name: str, *partitions: dict[str, Any], code: int = 0) -> dict[str, Any]:
    return {"ErrorCode": code, "Name": name, "TopicId": ID, "Partitions": list(partitions)}


def broker(node_id: int, host: str = "b") -> dict[str, Any]:
    return {"NodeId": node_id, "Host": host, "Port": 9092, "Rack": None}


def metadata(
    *topics: dict[str, Any], brokers: tuple[Any, ...] = (), controller: int = 1, version: int = 13
) -> list[Any]:
    answer = {
        "Brokers": list(brokers),
        "ClusterId": "c",
        "ControllerId": controller,
        "Topics": list(topics),
    }
    return metadata_entries(METADATA, version, None, answer)


def short(lines: Any) -> list[tuple[Any, ...]]:
    return [(line.kind, line.topic, line.partition, line.leader_id) for line in lines]


def test_unchanged_metadata_gives_no_line() -> None:
    seen = SeenMetadata()
    first = metadata(topic("t", partition(1), partition(0)), brokers=(broker(1),))
    assert short(seen.changes("a", first)) == [
        ("broker", None, None, None),
        ("partition", "t", 0, 1),
        ("partition", "t", 1, 1),
    ]
    assert short(seen.changes("a", first)) == []
    assert len(short(seen.changes("b", first))) == 3  # another connection
    moved = metadata(topic("t", partition(0), partition(1, leader=2)), brokers=(broker(1),))
    assert short(seen.changes("a", moved)) == [("partition", "t", 1, 2)]
    assert short(seen.changes("a", first)) == [("partition", "t", 1, 1)]


def test_the_columns_of_a_partition() -> None:
    [line] = SeenMetadata().changes(
        "a", metadata(topic("t", partition(0, LeaderId=-1, ErrorCode=5)))
    )
    assert (line.leader_id, line.leader_epoch) == (None, 0)
    assert (line.replica_count, line.isr_count, line.offline_count) == (3, 2, 1)
    assert (line.error_code, line.error_name) == (5, "LEADER_NOT_AVAILABLE")
    assert line.topic_id == "AAECAwQFBgcICQoLDA0ODw"
    [old] = SeenMetadata().changes(
        "a", metadata(topic("t", partition(0, LeaderEpoch=-1)), version=4)
    )
    assert old.offline_count is old.leader_epoch is None


def test_a_topic_without_partitions_has_a_line_once() -> None:
    seen = SeenMetadata()
    unknown = metadata(topic("t", code=3))
    assert short(seen.changes("a", unknown)) == [("topic", "t", None, None)]
    assert short(seen.changes("a", unknown)) == []
    assert short(seen.changes("a", metadata(topic("t", partition(0))))) == [
        ("partition", "t", 0, 1)
    ]
    assert short(seen.changes("a", unknown)) == [("topic", "t", None, None)]


def test_a_change_of_the_controller_alone_gives_no_line() -> None:
    seen = SeenMetadata()
    brokers = (broker(1), broker(2))
    first = list(seen.changes("a", metadata(brokers=brokers, controller=2)))
    assert [line.is_controller for line in first] == [False, True]
    assert list(seen.changes("a", metadata(brokers=brokers, controller=1))) == []
    [moved] = seen.changes("a", metadata(brokers=(broker(1, "other"), broker(2)), controller=1))
    assert (moved.node_id, moved.host, moved.is_controller) == (1, "other", True)
    [unknown] = SeenMetadata().changes("a", metadata(brokers=(broker(1),), controller=-1))
    assert unknown.is_controller is None


def test_another_process_continues_with_the_saved_metadata() -> None:
    seen = SeenMetadata()
    first = [
        *metadata(topic("t", partition(0), partition(1)), topic("\udcff", code=3), controller=2),
        *metadata(brokers=(broker(1), broker(2)), controller=2),
        *metadata_entries(FIND_COORDINATOR, 0, {"KeyType": 0, "Key": "g"}, COORDINATOR),
        *metadata_entries(PRODUCE, 10, None, HINT),
    ]
    one, other = ("c:1>b:2", 1), ("c:1>b:2", 2)
    for connection in (one, other):
        assert len(short(seen.changes(connection, first))) == 7
    state = from_bytes(to_bytes(seen.state({one})))
    later = SeenMetadata.from_state(state)
    assert later.state({one, other}) == state
    assert short(later.changes(one, first)) == []
    assert later._bytes == seen._bytes // 2
    assert len(short(later.changes(other, first))) == 7
    with pytest.raises(ValueError, match="unknown kind of metadata: 'x'"):
        SeenMetadata.from_state((("c", 1, ((("x", 1, 2), (1,)),)),))
    for key, value in (
        (("topic", "t", None), (0, b"123")),
        (("topic", 1, None), (0, b"")),
        (("hint", ("t",), 0), (0, 0, 0)),
        (("hint", ("t", None), 0), (0, 0, None)),
        (("broker", None, "metadata"), ("h", 1, None, None, None, None)),
        (("coordinator", "group", "g"), (1, "h", 9092)),
    ):
        with pytest.raises(ValueError, match=r"value|values|incomplete"):
            SeenMetadata.from_state((("c", 1, ((key, value),)),))


def test_memory_is_bounded_and_dropped_metadata_gives_lines_again() -> None:
    seen = SeenMetadata(most_bytes=100_000)
    many = metadata(topic("t", *(partition(index) for index in range(1000))))
    for round_ in range(3):
        for connection in range(20):
            lines = short(seen.changes(connection, many))
            assert len(lines) == 1000, (round_, connection)
            assert seen._bytes <= 100_000
    assert short(seen.changes(19, many)) == []
    assert len(seen._connections) == 3


def test_a_response_larger_than_the_memory_limit_gives_lines_each_time() -> None:
    seen = SeenMetadata(most_bytes=1000)
    many = metadata(topic("t", *(partition(index) for index in range(100))))
    assert len(short(seen.changes("a", many))) == len(short(seen.changes("a", many))) == 100
    assert (seen._bytes, seen._connections) == (0, {})


def test_coordinators_by_version() -> None:
    one = {"NodeId": 2, "Host": "h", "Port": 1, "ErrorCode": 0}
    request = {"Key": "g", "KeyType": 0, "CoordinatorKeys": []}
    [line] = SeenMetadata().changes("a", metadata_entries(FIND_COORDINATOR, 2, request, one))
    assert (line.kind, line.key_type, line.key, line.node_id) == ("coordinator", "group", "g", 2)
    request = {"Key": "", "KeyType": 1, "CoordinatorKeys": ["x", "y"]}
    several = [
        {**one, "Key": "x"},
        {"NodeId": -1, "Host": "", "Port": -1, "ErrorCode": 15, "Key": "y"},
    ]
    lines = SeenMetadata().changes(
        "a", metadata_entries(FIND_COORDINATOR, 4, request, {"Coordinators": several})
    )
    assert [(x.key_type, x.key, x.node_id, x.host, x.port, x.error_code) for x in lines] == [
        ("transaction", "x", 2, "h", 1, 0),
        ("transaction", "y", None, None, None, 15),
    ]


def test_listed_controllers_are_not_brokers() -> None:
    answer = {
        "EndpointType": 2,
        "ClusterId": "c",
        "ControllerId": 7,
        "Brokers": [{"BrokerId": 7, "Host": "h", "Port": 1, "Rack": None, "IsFenced": False}],
    }
    [line] = SeenMetadata().changes("a", metadata_entries(DESCRIBE_CLUSTER, 1, None, answer))
    assert (line.kind, line.is_controller, line.is_fenced) == ("controller", True, None)
    [line] = SeenMetadata().changes("a", metadata_entries(DESCRIBE_CLUSTER, 2, None, answer))
    assert line.is_fenced is False


def test_a_response_with_an_error_may_name_the_leader() -> None:
    parts = [
        {"Index": 0, "ErrorCode": 6, "CurrentLeader": {"LeaderId": 2, "LeaderEpoch": 9}},
        {"Index": 1, "ErrorCode": 0, "CurrentLeader": {"LeaderId": -1, "LeaderEpoch": -1}},
    ]
    topics = [{"Name": "t", "TopicId": bytes(16), "PartitionResponses": parts}]
    answer = {"Responses": topics, "NodeEndpoints": [broker(2)]}
    seen = SeenMetadata()
    lines = list(seen.changes("a", metadata_entries(PRODUCE, 10, None, answer)))
    assert short(lines) == [("partition", "t", 0, 2), ("broker", None, None, None)]
    assert (lines[0].leader_epoch, lines[0].error_code, lines[0].isr_count) == (9, 6, None)
    assert (lines[1].node_id, lines[1].host, lines[1].cluster_id) == (2, "b", None)
    assert list(seen.changes("a", metadata_entries(PRODUCE, 10, None, answer))) == []


def test_a_response_that_was_not_decoded_gives_no_lines() -> None:
    assert metadata_entries(METADATA, 13, None, None) == []
