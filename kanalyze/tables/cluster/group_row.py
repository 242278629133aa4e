"""The row contract of groups: one line per event of a consumer group.

In: nothing. Out: :class:`GroupEvent`, :class:`OffsetEvents` for many that are alike, and
:data:`GROUP_COLUMNS`.
"""

# No "from __future__ import annotations": see kanalyze.tables.row.

from typing import Annotated

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.tables.cluster.carried import CARRIED_COLUMNS
from kanalyze.tables.row import TOPIC, TOPIC_ID, Column, Meaning, columns_of

__all__ = [
    "GROUP_COLUMNS",
    "OFFSET_FIELDS",
    "AssignedPartition",
    "GroupEvent",
    "OffsetEvents",
    "PartitionOffset",
]


class AssignedPartition(NamedTuple):
    """One partition that is assigned to a member."""

    topic: Annotated[str | None, TOPIC]
    topic_id: Annotated[str | None, TOPIC_ID]
    partition: Annotated[int, Meaning("int32", "partition index")]


class GroupEvent(NamedTuple):
    """The facts about a group in an exchange, without the columns of the exchange's row."""

    event: Annotated[
        str,
        Meaning(
            "string",
            "join, sync, leave, heartbeat, commit or fetch_offsets; newer groups (KIP-848, share, "
            "streams) have only heartbeats: epoch 0 is a join, a negative one a leave",
        ),
    ]
    group_id: Annotated[str | None, Meaning("string", "the group", "", True)]
    member_id: Annotated[
        str | None,
        Meaning("string", "the member, from the response or else the request", "", True),
    ] = None
    group_instance_id: Annotated[str | None, Meaning("string", "of a static member", "", True)] = (
        None
    )
    generation_id: Annotated[
        int | None,
        Meaning(
            "int32",
            "join: the new one; sync, heartbeat, commit: the one that the member sent "
            "(a commit of a newer group: the member's epoch)",
            "",
            True,
        ),
    ] = None
    member_epoch: Annotated[
        int | None, Meaning("int32", "newer groups: the epoch in the response", "", True)
    ] = None
    sent_member_epoch: Annotated[
        int | None,
        Meaning(
            "int32",
            "newer groups: the epoch in the request; 0 joins, -1 leaves, -2 leaves for a while",
            "",
            True,
        ),
    ] = None
    protocol_type: Annotated[
        str | None, Meaning("string", "consumer, connect, ...; null if not sent", "", True)
    ] = None
    protocol_name: Annotated[
        str | None, Meaning("string", "the assignor that was chosen", "", True)
    ] = None
    protocols: Annotated[
        tuple[str, ...], Meaning("list<string>", "join: the assignors that the member offers")
    ] = ()
    leader: Annotated[str | None, Meaning("string", "join: the member that assigns", "", True)] = (
        None
    )
    is_leader: Annotated[
        bool | None,
        Meaning("bool", "join: the member is the leader; sync: it sends assignments", "", True),
    ] = None
    member_count: Annotated[
        int | None,
        Meaning(
            "int32",
            "members of the group; known only for the leader's join (the members in its response) "
            "and sync (the members that it assigns to)",
            "",
            True,
        ),
    ] = None
    session_timeout_ms: Annotated[int | None, Meaning("int32", "join", "ms", True)] = None
    rebalance_timeout_ms: Annotated[
        int | None, Meaning("int32", "join, and heartbeats that have it", "ms", True)
    ] = None
    heartbeat_interval_ms: Annotated[
        int | None, Meaning("int32", "newer groups: as the broker requires", "ms", True)
    ] = None
    subscribed_count: Annotated[
        int | None,
        Meaning(
            "int32", "topics that the member subscribes to by name; null if not sent", "", True
        ),
    ] = None
    subscribed_topics: Annotated[
        tuple[str, ...],
        Meaning("list<string>", "the first 1000 of them; only for members of consumer groups"),
    ] = ()
    subscribed_regex: Annotated[
        str | None, Meaning("string", "newer groups: pattern of subscribed topics", "", True)
    ] = None
    owned_count: Annotated[
        int | None,
        Meaning(
            "int32",
            "partitions (streams: tasks) that the member says it owns; null if not sent",
            "",
            True,
        ),
    ] = None
    assigned_count: Annotated[
        int | None,
        Meaning(
            "int32",
            "partitions (streams: active tasks) that the response assigns to the member; null if "
            "it has no assignment",
            "",
            True,
        ),
    ] = None
    assigned: Annotated[
        tuple[AssignedPartition, ...],
        Meaning("list<struct>", "the first 1000 of them; empty for streams"),
    ] = ()
    reason: Annotated[
        str | None, Meaning("string", "join, leave: the client's reason", "", True)
    ] = None
    topic: Annotated[str | None, TOPIC] = None
    topic_id: Annotated[str | None, TOPIC_ID] = None
    partition: Annotated[
        int | None, Meaning("int32", "commit, fetch_offsets: partition index", "", True)
    ] = None
    committed_offset: Annotated[
        int | None,
        Meaning(
            "int64",
            "commit: the committed offset; fetch_offsets: the stored offset, null if there is none",
            "",
            True,
        ),
    ] = None
    committed_leader_epoch: Annotated[
        int | None, Meaning("int32", "leader epoch of the last record before that offset", "", True)
    ] = None
    error_code: Annotated[
        int | None,
        Meaning(
            "int16",
            "of the member or partition if it has its own, else of the response; null if no "
            "response could be read",
            "",
            True,
        ),
    ] = None
    error_name: Annotated[str | None, Meaning("string", "its name; NONE for 0", "", True)] = None


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


GROUP_COLUMNS: tuple[Column, ...] = (*CARRIED_COLUMNS, *columns_of(GroupEvent))
"""The columns copied from the request's row, and the fields of :class:`GroupEvent`."""
