"""The facts about consumer groups in an exchange: joins, assignments, failed sessions, offsets.

In: the values of the two bodies of an exchange. Out: :class:`GroupEvent`, and :class:`OffsetEvents`
for the offsets of many partitions. It has no state: a line depends only on its exchange.

A heartbeat gives a line only if it failed. A heartbeat of the newer groups (KIP-848 and similar)
also gives a line if the member joins or leaves, if the epoch changes, or if either side names
topics or partitions, which they do when these have changed.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.codec.embedded_protocols import parse_assignment, parse_subscription
from kanalyze.kafka.schema.error_codes import error_name
from kanalyze.kafka.wire import WireError
from kanalyze.spec.rows.cluster import AssignedPartition, GroupEvent
from kanalyze.tables.requests.topic_names import topic_id_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.kafka.codec.embedded_protocols import Subscription
    from kanalyze.tables.cluster.fields import FieldPaths


class PartitionOffset(NamedTuple):
    """What a message says of the offset of one partition: the last fields of an event."""

    topic: str | None
    topic_id: str | None
    partition: int | None
    committed_offset: int | None
    committed_leader_epoch: int | None
    error_code: int | None
    error_name: str | None


OFFSET_FIELDS = PartitionOffset._fields
"""The fields that differ between the events of a message with offsets."""


class OffsetEvents(NamedTuple):
    """Events that are alike except for their offsets, one per partition.

    A capture may have hundreds of thousands of them.
    """

    event: GroupEvent
    """All other fields."""
    offsets: list[PartitionOffset]


MAX_LISTED = 1000
"""Number of topics or partitions that one line lists."""
_LONGEST_TEXT = 1000
_CONSUMER = "consumer"
HEARTBEAT = 12
"""The API key of the heartbeats of classic groups: only those that failed have facts."""

_COMMITTED = (
    *("GroupId", "GenerationIdOrMemberEpoch", "MemberId", "GroupInstanceId"),
    *("Topics.Name", "Topics.TopicId", "Topics.Partitions.PartitionIndex"),
    *("Topics.Partitions.CommittedOffset", "Topics.Partitions.CommittedLeaderEpoch"),
)
_COMMIT_ANSWER = (
    *("Topics.Name", "Topics.TopicId", "Topics.Partitions.PartitionIndex"),
    "Topics.Partitions.ErrorCode",
)
_FETCHED = (
    *("Topics.Name", "Topics.Partitions.PartitionIndex", "Topics.Partitions.CommittedOffset"),
    *("Topics.Partitions.CommittedLeaderEpoch", "Topics.Partitions.ErrorCode", "ErrorCode"),
)
_MEMBER = ("GroupId", "MemberId", "MemberEpoch")
_NEWER_ANSWER = ("ErrorCode", "MemberId", "MemberEpoch", "HeartbeatIntervalMs")
_ASSIGNMENT = ("Assignment.TopicPartitions.TopicId", "Assignment.TopicPartitions.Partitions")
_OWNED = ("TopicPartitions.TopicId", "TopicPartitions.Partitions")
_TASKS = ("ActiveTasks.SubtopologyId", "ActiveTasks.Partitions")
_GENERATION = ("GroupId", "GenerationId", "MemberId", "GroupInstanceId")

GROUP_FIELDS: FieldPaths = {
    8: (_COMMITTED, _COMMIT_ANSWER),
    28: (_COMMITTED, _COMMIT_ANSWER),
    9: (
        ("GroupId", "Groups.GroupId", "Groups.MemberId", "Groups.MemberEpoch"),
        (
            *_FETCHED,
            *("Groups.GroupId", "Groups.Topics.TopicId"),
            *(f"Groups.{path}" for path in _FETCHED),
        ),
    ),
    11: (
        (
            *("GroupId", "SessionTimeoutMs", "RebalanceTimeoutMs", "MemberId", "GroupInstanceId"),
            *("ProtocolType", "Protocols.Name", "Protocols.Metadata", "Reason"),
        ),
        ("ErrorCode", "GenerationId", "ProtocolName", "Leader", "MemberId", "Members.MemberId"),
    ),
    HEARTBEAT: (_GENERATION, ("ErrorCode",)),
    13: (
        (
            *("GroupId", "MemberId", "Members.MemberId", "Members.GroupInstanceId"),
            "Members.Reason",
        ),
        ("ErrorCode", "Members.MemberId", "Members.GroupInstanceId", "Members.ErrorCode"),
    ),
    14: (
        (*_GENERATION, "ProtocolType", "ProtocolName", "Assignments.MemberId"),
        ("ErrorCode", "ProtocolType", "ProtocolName", "Assignment"),
    ),
    68: (
        (
            *(*_MEMBER, "InstanceId", "RebalanceTimeoutMs", "SubscribedTopicNames"),
            *("SubscribedTopicRegex", *_OWNED),
        ),
        (*_NEWER_ANSWER, *_ASSIGNMENT),
    ),
    76: ((*_MEMBER, "SubscribedTopicNames"), (*_NEWER_ANSWER, *_ASSIGNMENT)),
    88: ((*_MEMBER, "InstanceId", "RebalanceTimeoutMs", *_TASKS), (*_NEWER_ANSWER, *_TASKS)),
}
"""The fields to decode of the APIs whose messages have facts about groups."""
COMMIT_APIS = frozenset({8, 28})
"""Those whose facts are commits: OffsetCommit, TxnOffsetCommit."""

_Values: TypeAlias = "dict[str, Any]"
_Event: TypeAlias = "GroupEvent | OffsetEvents"


def group_events(
    api_key: int, request: _Values | None, response: _Values | None
) -> Iterator[_Event]:
    """Yield the facts in an exchange. A body that was not decoded is None. Raises nothing."""
    if request is None:
        return
    for event in _EVENTS[api_key](request, response):
        if isinstance(event, OffsetEvents) or event.error_code is None:
            yield event
        else:
            yield event._replace(error_name=error_name(event.error_code))


# -- classic groups: join, sync, heartbeat, leave -------------------------------------------------


def _join(request: _Values, response: _Values | None) -> Iterator[GroupEvent]:
    answer = response or {}
    protocols = request["Protocols"]
    leader, member = answer.get("Leader") or None, answer.get("MemberId") or None
    is_leader = None if leader is None else leader == member
    members = answer.get("Members")
    told = None
    if request["ProtocolType"] == _CONSUMER:
        told = _subscription(protocol["Metadata"] for protocol in protocols)
    owned = None
    if told is not None and told.version >= 1:
        owned = sum(len(topic.partitions) for topic in told.owned)
    yield GroupEvent(
        event="join",
        group_id=request["GroupId"],
        member_id=member or request["MemberId"] or None,
        group_instance_id=request.get("GroupInstanceId"),
        generation_id=_known(answer.get("GenerationId")),
        protocol_type=request["ProtocolType"] or None,
        protocol_name=answer.get("ProtocolName") or None,
        protocols=tuple([protocol["Name"] for protocol in protocols[:MAX_LISTED]]),
        leader=leader,
        is_leader=is_leader,
        member_count=len(members) if members and is_leader else None,
        session_timeout_ms=request["SessionTimeoutMs"],
        rebalance_timeout_ms=_known(request.get("RebalanceTimeoutMs")),
        subscribed_count=None if told is None else len(told.topics),
        subscribed_topics=() if told is None else told.topics[:MAX_LISTED],
        owned_count=owned,
        rack_id=None if told is None else told.rack_id,
        reason=_short(request.get("Reason")),
        error_code=answer.get("ErrorCode"),
    )


def _sync(request: _Values, response: _Values | None) -> Iterator[GroupEvent]:
    answer = response or {}
    protocol_type = answer.get("ProtocolType") or request.get("ProtocolType") or None
    partitions: list[AssignedPartition] | None = None
    if response is not None and response["ErrorCode"] == 0:
        partitions = _assignment(response["Assignment"], protocol_type)
    assignments = request["Assignments"]
    yield GroupEvent(
        event="sync",
        group_id=request["GroupId"],
        member_id=request["MemberId"] or None,
        group_instance_id=request.get("GroupInstanceId"),
        generation_id=_known(request["GenerationId"]),
        protocol_type=protocol_type,
        protocol_name=answer.get("ProtocolName") or request.get("ProtocolName") or None,
        is_leader=len(assignments) > 0,
        member_count=len(assignments) or None,
        assigned_count=None if partitions is None else len(partitions),
        assigned=tuple(partitions or ())[:MAX_LISTED],
        error_code=answer.get("ErrorCode"),
    )


def _heartbeat(request: _Values, response: _Values | None) -> Iterator[GroupEvent]:
    if response is None or response["ErrorCode"] == 0:
        return
    yield GroupEvent(
        event="heartbeat",
        group_id=request["GroupId"],
        member_id=request["MemberId"] or None,
        group_instance_id=request.get("GroupInstanceId"),
        generation_id=_known(request["GenerationId"]),
        error_code=response["ErrorCode"],
    )


def _leave(request: _Values, response: _Values | None) -> Iterator[GroupEvent]:
    """Yield the members that leave: up to version 2 the sender, then those that it names."""
    answer = response or {}
    code = answer.get("ErrorCode")
    members = request.get("Members") or [{"MemberId": request.get("MemberId")}]
    codes = {
        (member["MemberId"], member.get("GroupInstanceId")): member["ErrorCode"]
        for member in answer.get("Members") or ()
    }
    for member in members:
        key = (member["MemberId"], member.get("GroupInstanceId"))
        yield GroupEvent(
            event="leave",
            group_id=request["GroupId"],
            member_id=member["MemberId"] or None,
            group_instance_id=member.get("GroupInstanceId"),
            reason=_short(member.get("Reason")),
            # An error of the whole response applies to each member.
            error_code=code or codes.get(key, code),
        )


# -- offsets --------------------------------------------------------------------------------------


def _commit(request: _Values, response: _Values | None) -> Iterator[OffsetEvents]:
    codes = {
        (_topic(topic), part["PartitionIndex"]): part["ErrorCode"]
        for topic in (response or {}).get("Topics", ())
        for part in topic["Partitions"]
    }
    event = GroupEvent(
        event="commit",
        group_id=request["GroupId"],
        member_id=request.get("MemberId") or None,
        group_instance_id=request.get("GroupInstanceId"),
        generation_id=_known(request.get("GenerationIdOrMemberEpoch")),
    )
    offsets = []
    for topic in request["Topics"]:
        topic_key = _topic(topic)
        for part in topic["Partitions"]:
            partition = part["PartitionIndex"]
            code = codes.get((topic_key, partition))
            epoch = _known(part.get("CommittedLeaderEpoch"))
            offsets.append(_offset(topic_key, partition, part["CommittedOffset"], epoch, code))
    if offsets:
        yield OffsetEvents(event, offsets)


def _fetch_offsets(request: _Values, response: _Values | None) -> Iterator[_Event]:
    """Yield the stored offsets; from version 8 on, those of several groups."""
    if response is None:
        return
    requested = {group["GroupId"]: group for group in request.get("Groups") or ()}
    groups = response.get("Groups") or ()
    if not groups and not requested:
        groups = [{**response, "GroupId": request.get("GroupId")}]
    for group in groups:
        member = requested.get(group["GroupId"], {})
        event = GroupEvent(
            event="fetch_offsets",
            group_id=group["GroupId"] or None,
            member_id=member.get("MemberId") or None,
            sent_member_epoch=_known(member.get("MemberEpoch")),
        )
        if group.get("ErrorCode"):
            yield event._replace(error_code=group["ErrorCode"])
        offsets = []
        for topic in group.get("Topics") or ():
            topic_key = _topic(topic)
            for part in topic["Partitions"]:
                offset = _known(part["CommittedOffset"])
                epoch = _known(part.get("CommittedLeaderEpoch"))
                code = part["ErrorCode"]
                offsets.append(_offset(topic_key, part["PartitionIndex"], offset, epoch, code))
        if offsets:
            yield OffsetEvents(event, offsets)


def _offset(
    topic: tuple[str | None, str | None],
    partition: int,
    offset: int | None,
    epoch: int | None,
    code: int | None,
) -> PartitionOffset:
    error = None if code is None else error_name(code)
    return PartitionOffset(*topic, partition, offset, epoch, code, error)


# -- the newer groups, which have only heartbeats -------------------------------------------------


def _newer_heartbeat(request: _Values, response: _Values | None) -> Iterator[GroupEvent]:
    answer = response or {}
    code, epoch, sent = answer.get("ErrorCode"), answer.get("MemberEpoch"), request["MemberEpoch"]
    topics, regex = request.get("SubscribedTopicNames"), request.get("SubscribedTopicRegex")
    assigned_count, assigned = _assigned(answer)
    owned = _count(_partition_lists(request))
    has_changes = (topics, regex, owned, assigned_count) != (None, None, None, None)
    if not (has_changes or code or sent <= 0 or (code == 0 and epoch != sent)):
        return
    yield GroupEvent(
        event="join" if sent == 0 else "leave" if sent < 0 else "heartbeat",
        group_id=request["GroupId"],
        member_id=answer.get("MemberId") or request["MemberId"] or None,
        group_instance_id=request.get("InstanceId"),
        # A response with an error has zeros in all other fields.
        member_epoch=None if code else epoch,
        sent_member_epoch=sent,
        rebalance_timeout_ms=_known(request.get("RebalanceTimeoutMs")),
        # The response to a member that leaves has 0.
        heartbeat_interval_ms=answer.get("HeartbeatIntervalMs") or None,
        subscribed_count=None if topics is None else len(topics),
        subscribed_topics=tuple(topics or ())[:MAX_LISTED],
        subscribed_regex=_short(regex),
        rack_id=request.get("RackId"),
        owned_count=owned,
        assigned_count=assigned_count,
        assigned=assigned,
        error_code=code,
    )


def _assigned(answer: _Values) -> tuple[int | None, tuple[AssignedPartition, ...]]:
    """Return the number of assigned partitions, and the first 1000; None without an assignment."""
    if answer.get("ActiveTasks") is not None:
        return _count(_partition_lists(answer)), ()
    assignment = answer.get("Assignment")
    # Kafka 3.5 and 3.6 have other names for these fields.
    if assignment is None or "TopicPartitions" not in assignment:
        return None, ()
    partitions = (
        AssignedPartition(None, topic_id_text(topic["TopicId"]), partition)
        for topic in assignment["TopicPartitions"]
        for partition in topic["Partitions"]
    )
    return _count(_partition_lists(assignment)), tuple(islice(partitions, MAX_LISTED))


def _partition_lists(values: _Values) -> list[list[int]] | None:
    """Return the partitions of each topic or subtopology in a message; None if it has no list."""
    topics = values.get("TopicPartitions")
    if topics is None:
        topics = values.get("ActiveTasks")
    return None if topics is None else [topic["Partitions"] for topic in topics]


def _count(lists: list[list[int]] | None) -> int | None:
    return None if lists is None else sum(map(len, lists))


# -- bytes of the consumer protocol ---------------------------------------------------------------


def _subscription(metadata: Iterable[bytes]) -> Subscription | None:
    """Return the first metadata that can be parsed; None if there is none.

    A client sends the same topics with every assignor.
    """
    for data in islice(metadata, MAX_LISTED):
        try:
            return parse_subscription(data)
        except WireError:
            continue
    return None


def _assignment(data: bytes, protocol_type: str | None) -> list[AssignedPartition] | None:
    """Return the partitions that a member is assigned; None if it is no consumer's assignment.

    Up to version 4 the messages do not name the protocol. Then the bytes count as a consumer's
    assignment only if they can be parsed as one to the last byte.
    """
    if protocol_type not in (None, _CONSUMER) or (protocol_type is None and not data):
        return None
    try:
        decoded = parse_assignment(data)
    except WireError:
        return None
    if protocol_type is None:
        sizes = [
            6 + len(topic.topic.encode()) + 4 * len(topic.partitions) for topic in decoded.assigned
        ]
        if len(data) != 10 + sum(sizes) + len(decoded.user_data or b""):
            return None
    return [
        AssignedPartition(topic.topic, None, partition)
        for topic in decoded.assigned
        for partition in topic.partitions
    ]


# -- values ---------------------------------------------------------------------------------------


def _topic(topic: _Values) -> tuple[str | None, str | None]:
    """Return the name and the id of a topic, each None if unknown."""
    return topic.get("Name") or None, topic_id_text(topic.get("TopicId") or b"")


def _known(number: int | None) -> int | None:
    """Return a number; None if it is negative, which means that there is none."""
    return None if number is None or number < 0 else number


def _short(text: str | None) -> str | None:
    return None if not text else text[:_LONGEST_TEXT]


_EVENTS: dict[int, Callable[[_Values, _Values | None], Iterator[_Event]]] = {
    8: _commit,
    28: _commit,
    9: _fetch_offsets,
    11: _join,
    HEARTBEAT: _heartbeat,
    13: _leave,
    14: _sync,
    68: _newer_heartbeat,
    76: _newer_heartbeat,
    88: _newer_heartbeat,
}
