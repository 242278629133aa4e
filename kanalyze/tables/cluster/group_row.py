"""The row contract of groups: one line per event of a group that says something.

In: nothing. Out: :class:`GroupEvent` and :data:`GROUP_COLUMNS`. This module must not know how a
line is made or where it goes.
"""

# No "from __future__ import annotations": see kanalyze.tables.row.

from typing import Annotated

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.tables.cluster.carried import CARRIED_COLUMNS
from kanalyze.tables.row import TOPIC, TOPIC_ID, Column, Meaning, columns_of

__all__ = ["GROUP_COLUMNS", "AssignedPartition", "GroupEvent"]


class AssignedPartition(NamedTuple):
    """One partition that a member is given."""

    topic: Annotated[str | None, TOPIC]
    topic_id: Annotated[str | None, TOPIC_ID]
    partition: Annotated[int, Meaning("int32", "partition index")]


class GroupEvent(NamedTuple):
    """The facts about a group in an exchange, without those in the row of the exchange."""

    event: Annotated[
        str,
        Meaning(
            "string",
            "join, sync, leave, heartbeat, commit or fetch_offsets; of the newer groups (KIP-848, "
            "share, streams), where all is a heartbeat: join for epoch 0, leave for one below",
        ),
    ]
    group_id: Annotated[str | None, Meaning("string", "the group", "", True)]
    member_id: Annotated[
        str | None,
        Meaning("string", "the member, as the response names it, else the request", "", True),
    ] = None
    group_instance_id: Annotated[str | None, Meaning("string", "of a static member", "", True)] = (
        None
    )
    generation_id: Annotated[
        int | None,
        Meaning(
            "int32",
            "join: the new one; sync, heartbeat, commit: the one that the member believes in "
            "(of a commit by a member of a newer group its epoch)",
            "",
            True,
        ),
    ] = None
    member_epoch: Annotated[
        int | None, Meaning("int32", "newer groups: as the broker answered", "", True)
    ] = None
    sent_member_epoch: Annotated[
        int | None,
        Meaning(
            "int32",
            "newer groups: as the member sent; 0 joins, -1 leaves, -2 leaves for a while",
            "",
            True,
        ),
    ] = None
    protocol_type: Annotated[
        str | None, Meaning("string", "consumer, connect, ...; null where not given", "", True)
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
            "members of the group, as the leader learns it (join) or assigns (sync); "
            "null for all others",
            "",
            True,
        ),
    ] = None
    session_timeout_ms: Annotated[int | None, Meaning("int32", "join", "ms", True)] = None
    rebalance_timeout_ms: Annotated[
        int | None, Meaning("int32", "join, and heartbeats that tell it", "ms", True)
    ] = None
    heartbeat_interval_ms: Annotated[
        int | None, Meaning("int32", "newer groups: as the broker wants it", "ms", True)
    ] = None
    subscribed_count: Annotated[
        int | None,
        Meaning("int32", "topics that the member wants by name; null where not given", "", True),
    ] = None
    subscribed_topics: Annotated[
        tuple[str, ...],
        Meaning("list<string>", "the first 1000 of them; of a consumer group's member"),
    ] = ()
    subscribed_regex: Annotated[
        str | None, Meaning("string", "newer groups: topics that the member wants", "", True)
    ] = None
    owned_count: Annotated[
        int | None,
        Meaning(
            "int32",
            "partitions (streams: tasks) that the member says it holds; null where not given",
            "",
            True,
        ),
    ] = None
    assigned_count: Annotated[
        int | None,
        Meaning(
            "int32",
            "partitions (streams: active tasks) that the answer gives the member; null where it "
            "tells nothing of them",
            "",
            True,
        ),
    ] = None
    assigned: Annotated[
        tuple[AssignedPartition, ...],
        Meaning("list<struct>", "the first 1000 of them; of streams none"),
    ] = ()
    reason: Annotated[
        str | None, Meaning("string", "join, leave: why, as the client says", "", True)
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
            "commit: the offset to be kept; fetch_offsets: the one that is, null for none",
            "",
            True,
        ),
    ] = None
    committed_leader_epoch: Annotated[
        int | None, Meaning("int32", "of the last record before that offset", "", True)
    ] = None
    error_code: Annotated[
        int | None,
        Meaning(
            "int16",
            "of the event: of the member or partition where it has its own, else of the answer; "
            "null when no response could be read",
            "",
            True,
        ),
    ] = None
    error_name: Annotated[str | None, Meaning("string", "its name; NONE for 0", "", True)] = None


GROUP_COLUMNS: tuple[Column, ...] = (*CARRIED_COLUMNS, *columns_of(GroupEvent))
"""What a line has of its request's row, and the fields of :class:`GroupEvent`."""
