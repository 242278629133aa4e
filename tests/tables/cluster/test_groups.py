from __future__ import annotations

import struct
from typing import Any

import pytest

from kanalyze.tables.cluster.groups import MAX_LISTED, OffsetEvents, group_events
from tests.support.cases import for_each

JOIN, SYNC, LEAVE, HEARTBEAT, COMMIT, FETCH_OFFSETS = 11, 14, 13, 12, 8, 9
NEWER, STREAMS = 68, 88


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def subscription(*topics: str, version: int = 0) -> bytes:
    named = b"".join(map(text, topics))
    return struct.pack(">hi", version, len(topics)) + named + struct.pack(">i", -1)


def assignment(partitions: dict[str, list[int]], user_data: bytes = b"") -> bytes:
    data = struct.pack(">hi", 0, len(partitions))
    for topic, numbers in partitions.items():
        data += text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return data + struct.pack(">i", len(user_data)) + user_data


def events(key: int, request: dict[str, Any], response: dict[str, Any] | None) -> list[Any]:
    """Return the events of an exchange, those with offsets too, one by one."""
    all_events: list[Any] = []
    for item in group_events(key, request, response):
        if isinstance(item, OffsetEvents):
            all_events += [item.event._replace(**offset._asdict()) for offset in item.offsets]
        else:
            all_events.append(item)
    return all_events


def joined(protocols: list[bytes], protocol_type: str = "consumer") -> Any:
    request = {
        "GroupId": "g",
        "SessionTimeoutMs": 10_000,
        "RebalanceTimeoutMs": -1,
        "MemberId": "",
        "GroupInstanceId": None,
        "ProtocolType": protocol_type,
        "Protocols": [{"Name": "range", "Metadata": data} for data in protocols],
        "Reason": None,
    }
    [event] = events(JOIN, request, None)
    return event


def synced(data: bytes, protocol_type: str | None = None, code: int = 0) -> Any:
    request = {
        "GroupId": "g",
        "GenerationId": 1,
        "MemberId": "m",
        "GroupInstanceId": None,
        "ProtocolType": protocol_type,
        "ProtocolName": None,
        "Assignments": [],
    }
    answer = {"ErrorCode": code, "Assignment": data, "ProtocolType": None, "ProtocolName": None}
    [event] = events(SYNC, request, answer)
    return event


def test_a_subscription_names_topics() -> None:
    event = joined([subscription("a", "b")])
    assert (event.subscribed_count, event.subscribed_topics) == (2, ("a", "b"))
    assert event.owned_count is None  # version 0 has no such field
    assert event.rebalance_timeout_ms is event.member_id is event.error_code is None
    assert joined([subscription("a")], "connect").subscribed_count is None
    for bad in (b"", b"\0", b"\xff\xff", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0"):
        event = joined([bad])
        assert (event.subscribed_count, event.subscribed_topics) == (None, ())
        assert joined([bad, subscription("a")]).subscribed_topics == ("a",)
    assert list(group_events(JOIN, None, {"ErrorCode": 0})) == []


ASSIGNED = assignment({"a": [0, 2], "b": []}, b"user")


@for_each(
    "case",
    [
        (ASSIGNED, None, 0, 2),
        # Without the name of the protocol, an assignment has to fit to the last byte.
        (ASSIGNED + b"\0", None, 0, None),
        (ASSIGNED + b"\0", "consumer", 0, 2),  # a newer version, maybe
        (ASSIGNED, "connect", 0, None),
        (ASSIGNED, None, 27, None),
        (b"", "consumer", 0, 0),
        (b"", None, 0, None),
        *((ASSIGNED[:length], "consumer", 0, None) for length in range(1, 20)),
    ],
)
def test_assigned_partitions_are_those_of_a_consumers_assignment(case: Any) -> None:
    *sent, count = case
    event = synced(*sent)
    assert event.assigned_count == count
    expected = [("a", 0), ("a", 2)][: count or 0]
    assert [(part.topic, part.partition) for part in event.assigned] == expected


def test_lists_are_bounded_and_counts_are_not() -> None:
    many = [f"t{number}" for number in range(MAX_LISTED + 5)]
    event = joined([subscription(*many)])
    assert event.subscribed_count == MAX_LISTED + 5
    assert list(event.subscribed_topics) == many[:MAX_LISTED]
    sync = synced(assignment({"t": list(range(MAX_LISTED + 5))}))
    assert (sync.assigned_count, len(sync.assigned)) == (MAX_LISTED + 5, MAX_LISTED)


def test_a_successful_heartbeat_gives_no_line() -> None:
    request = {"GroupId": "g", "GenerationId": 3, "MemberId": "m", "GroupInstanceId": "i"}
    assert events(HEARTBEAT, request, {"ErrorCode": 0}) == []
    assert events(HEARTBEAT, request, None) == []
    [event] = events(HEARTBEAT, request, {"ErrorCode": 27})
    assert (event.event, event.generation_id, event.group_instance_id) == ("heartbeat", 3, "i")
    assert (event.error_code, event.error_name) == (27, "REBALANCE_IN_PROGRESS")


def test_each_member_that_leaves_has_a_line_with_its_own_error() -> None:
    members = [
        {"MemberId": "a", "GroupInstanceId": None, "Reason": "x" * 5000},
        {"MemberId": "", "GroupInstanceId": "i", "Reason": None},
    ]
    codes = [
        {"MemberId": "", "GroupInstanceId": "i", "ErrorCode": 25},
        {"MemberId": "a", "GroupInstanceId": None, "ErrorCode": 0},
    ]
    request = {"GroupId": "g", "MemberId": "", "Members": members}
    left_members = events(LEAVE, request, {"ErrorCode": 0, "Members": codes})
    assert [(member.member_id, member.error_code) for member in left_members] == [
        ("a", 0),
        (None, 25),
    ]
    assert left_members[0].reason == "x" * 1000
    left_members = events(LEAVE, request, {"ErrorCode": 16, "Members": []})
    assert [member.error_code for member in left_members] == [16, 16]
    assert [member.error_code for member in events(LEAVE, request, None)] == [None, None]


def test_offsets_of_an_unanswered_commit_have_no_error_code() -> None:
    part = {"PartitionIndex": 0, "CommittedOffset": 5, "CommittedLeaderEpoch": -1}
    request = {"GroupId": "g", "Topics": [{"Name": "t", "Partitions": [part]}]}
    [event] = events(COMMIT, request, None)
    assert (event.committed_offset, event.committed_leader_epoch) == (5, None)
    assert event.error_code is event.generation_id is event.member_id is None


def test_an_error_of_a_whole_group_is_a_line() -> None:
    request = {"GroupId": "", "Groups": [{"GroupId": "g", "MemberId": "m", "MemberEpoch": 4}]}
    answer = {"Groups": [{"GroupId": "g", "Topics": [], "ErrorCode": 113}]}
    [event] = events(FETCH_OFFSETS, request, answer)
    assert (event.group_id, event.error_name) == ("g", "STALE_MEMBER_EPOCH")
    assert (event.sent_member_epoch, event.topic) == (4, None)


def newer(sent: int, answer: dict[str, Any] | None, **more: Any) -> list[Any]:
    request = {"GroupId": "g", "MemberId": "m", "MemberEpoch": sent, **more}
    response = None
    if answer is not None:
        response = {
            "ErrorCode": 0,
            "MemberId": "m",
            "MemberEpoch": sent,
            "HeartbeatIntervalMs": 5000,
            "Assignment": None,
            **answer,
        }
    return events(NEWER, request, response)


@pytest.mark.parametrize(
    ("sent", "answer", "more", "event"),
    [
        (5, {}, {}, None),
        (5, None, {}, None),
        (0, None, {}, "join"),
        (-1, {}, {}, "leave"),
        (-2, {}, {}, "leave"),
        (5, {"MemberEpoch": 6}, {}, "heartbeat"),
        (5, {"ErrorCode": 110, "MemberEpoch": 0}, {}, "heartbeat"),
        (5, {"Assignment": {"TopicPartitions": []}}, {}, "heartbeat"),
        (5, {}, {"SubscribedTopicNames": []}, "heartbeat"),
        (5, {}, {"SubscribedTopicRegex": "a.*"}, "heartbeat"),
        (5, {}, {"TopicPartitions": []}, "heartbeat"),
    ],
)
def test_a_heartbeat_of_a_newer_group_gives_a_line_for_a_change(
    sent: int, answer: dict[str, Any] | None, more: dict[str, Any], event: str | None
) -> None:
    assert [line.event for line in newer(sent, answer, **more)] == ([event] if event else [])


def test_a_response_with_an_error_has_no_epoch() -> None:
    [event] = newer(5, {"ErrorCode": 110, "MemberEpoch": 0, "HeartbeatIntervalMs": 0})
    assert event.member_epoch is event.heartbeat_interval_ms is None
    assert (event.sent_member_epoch, event.error_name) == (5, "FENCED_MEMBER_EPOCH")


def test_tasks_of_streams_are_counted() -> None:
    request = {"GroupId": "g", "MemberId": "m", "MemberEpoch": 2, "ActiveTasks": None}
    tasks = [{"SubtopologyId": "0", "Partitions": [0, 1]}, {"SubtopologyId": "1", "Partitions": []}]
    answer = {"ErrorCode": 0, "MemberId": "m", "MemberEpoch": 2, "HeartbeatIntervalMs": 9}
    assert events(STREAMS, request, {**answer, "ActiveTasks": None}) == []
    [event] = events(STREAMS, request, {**answer, "ActiveTasks": tasks})
    assert (event.assigned_count, event.assigned, event.owned_count) == (2, (), None)
