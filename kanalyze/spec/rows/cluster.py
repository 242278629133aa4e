"""The row contracts of ``groups``, ``metadata`` and ``changes``: what exchanges say of a cluster.

In: nothing. Out: :class:`GroupEvent`, :class:`MetadataEntry` and :class:`Change`, and the columns
of their tables, which begin with columns of the request's row.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from typing import Annotated

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import (
    Column,
    Float64,
    Int16,
    Int32,
    Int64,
    Milliseconds,
    Time,
    columns_of,
)
from kanalyze.spec.rows.requests import COLUMNS, Topic, TopicId

REQUEST_ID = Column(
    "request_id",
    "int64",
    "",
    False,
    "number of the request's row in the table requests, from 1",
)

CARRIED_NAMES = (
    *("capture", "connection", "connection_number", "client_ip", "broker_ip", "broker_port"),
    *("client_software_name", "client_software_version", "client_id", "principal"),
    *("api_key", "api_name", "api_version", "correlation_id"),
    *("request_start_ns", "request_end_ns", "response_start_ns", "response_end_ns"),
    *("latency_ns", "waited", "request_packet", "response_packet", "status"),
)
"""The columns that a line copies unchanged from its request's row."""
_BY_NAME = {column.name: column for column in COLUMNS}
CARRIED_COLUMNS: tuple[Column, ...] = (REQUEST_ID, *(_BY_NAME[name] for name in CARRIED_NAMES))


class AssignedPartition(NamedTuple):
    """One partition that is assigned to a member."""

    topic: Topic
    topic_id: TopicId
    partition: Annotated[Int32, "partition index"]


class GroupEvent(NamedTuple):
    """The facts about a group in an exchange, without the columns of the exchange's row."""

    event: Annotated[
        str,
        "join, sync, leave, heartbeat, commit or fetch_offsets; newer groups (KIP-848, share, "
        "streams) have only heartbeats: epoch 0 is a join, a negative one a leave",
    ]
    group_id: Annotated[str | None, "the group"]
    member_id: Annotated[str | None, "the member, from the response or else the request"] = None
    group_instance_id: Annotated[str | None, "of a static member"] = None
    generation_id: Annotated[
        Int32 | None,
        "join: the new one; sync, heartbeat, commit: the one that the member sent (a commit of "
        "a newer group: the member's epoch)",
    ] = None
    member_epoch: Annotated[Int32 | None, "newer groups: the epoch in the response"] = None
    sent_member_epoch: Annotated[
        Int32 | None,
        "newer groups: the epoch in the request; 0 joins, -1 leaves, -2 leaves for a while",
    ] = None
    protocol_type: Annotated[str | None, "consumer, connect, ...; null if not sent"] = None
    protocol_name: Annotated[str | None, "the assignor that was chosen"] = None
    protocols: Annotated[tuple[str, ...], "join: the assignors that the member offers"] = ()
    leader: Annotated[str | None, "join: the member that assigns"] = None
    is_leader: Annotated[
        bool | None, "join: the member is the leader; sync: it sends assignments"
    ] = None
    member_count: Annotated[
        Int32 | None,
        "members of the group; known only for the leader's join (the members in its response) "
        "and sync (the members that it assigns to)",
    ] = None
    session_timeout_ms: Annotated[Milliseconds | None, "join"] = None
    rebalance_timeout_ms: Annotated[Milliseconds | None, "join, and heartbeats that have it"] = None
    heartbeat_interval_ms: Annotated[
        Milliseconds | None, "newer groups: as the broker requires"
    ] = None
    subscribed_count: Annotated[
        Int32 | None, "topics that the member subscribes to by name; null if not sent"
    ] = None
    subscribed_topics: Annotated[
        tuple[str, ...], "the first 1000 of them; only for members of consumer groups"
    ] = ()
    subscribed_regex: Annotated[str | None, "newer groups: pattern of subscribed topics"] = None
    owned_count: Annotated[
        Int32 | None, "partitions (streams: tasks) that the member says it owns; null if not sent"
    ] = None
    assigned_count: Annotated[
        Int32 | None,
        "partitions (streams: active tasks) that the response assigns to the member; null if "
        "it has no assignment",
    ] = None
    assigned: Annotated[
        tuple[AssignedPartition, ...], "the first 1000 of them; empty for streams"
    ] = ()
    reason: Annotated[str | None, "join, leave: the client's reason"] = None
    rack_id: Annotated[
        str | None, "join, and heartbeats of newer groups: rack that the member says it is in"
    ] = None
    topic: Topic = None
    topic_id: TopicId = None
    partition: Annotated[Int32 | None, "commit, fetch_offsets: partition index"] = None
    committed_offset: Annotated[
        Int64 | None,
        "commit: the committed offset; fetch_offsets: the stored offset, null if there is none",
    ] = None
    committed_leader_epoch: Annotated[
        Int32 | None, "leader epoch of the last record before that offset"
    ] = None
    error_code: Annotated[
        Int16 | None,
        "of the member or partition if it has its own, else of the response; null if no "
        "response could be read",
    ] = None
    error_name: Annotated[str | None, "its name; NONE for 0"] = None


class MetadataEntry(NamedTuple):
    """A broker, the leader of a partition, a coordinator, or versions, as a response names it."""

    kind: Annotated[
        str,
        "broker, controller (named by a controller's own listener), coordinator, partition, "
        "topic (if it has no partitions, or an error), or versions (of an ApiVersions response)",
    ]
    cluster_id: Annotated[str | None, "broker, controller"] = None
    node_id: Annotated[Int32 | None, "broker, controller, coordinator: its id; null for none"] = (
        None
    )
    host: Annotated[str | None, "address advertised to clients"] = None
    port: Annotated[Int32 | None, "advertised TCP port"] = None
    rack: Annotated[str | None, "broker"] = None
    is_controller: Annotated[
        bool | None,
        "broker: whether this response names it as the controller (in KRaft clusters this may "
        "be any broker); a change of this column alone gives no line",
    ] = None
    is_fenced: Annotated[bool | None, "broker: DescribeCluster v2+"] = None
    key_type: Annotated[str | None, "coordinator: group, transaction or share"] = None
    key: Annotated[str | None, "coordinator: the group, the transactional id, ..."] = None
    topic: Topic = None
    topic_id: TopicId = None
    partition: Annotated[Int32 | None, "partition index"] = None
    leader_id: Annotated[Int32 | None, "partition: node id of its leader; null for none"] = None
    leader_epoch: Annotated[Int32 | None, "epoch of that leader; null if not given"] = None
    replica_count: Annotated[Int32 | None, "number of replicas; null if not given"] = None
    isr_count: Annotated[Int32 | None, "number of replicas in sync; null if not given"] = None
    offline_count: Annotated[Int32 | None, "number of replicas offline; Metadata v5+"] = None
    error_code: Annotated[Int16 | None, "of the topic, partition or coordinator"] = None
    error_name: Annotated[str | None, "its name; NONE for 0"] = None
    announced: Annotated[
        str | None,
        "versions: the oldest and newest version of each API, by its key: 0:3-13 1:4-17",
    ] = None


class Change(NamedTuple):
    """One setting that a request asks to change, or a resource that it creates or deletes."""

    action: Annotated[
        str,
        "create, delete, set (also of values that were never set), reset (to the default), append, "
        "subtract, alter, cancel, elect, register, unregister, renew or expire",
    ]
    resource_type: Annotated[
        str,
        "topic, topic_config, broker_config, broker_logger_config, client_metrics_config, "
        "group_config, acl, quota, user (SCRAM), delegation_token, group, offsets, records, "
        "reassignment, leader, feature, broker, raft_voter; and of brokers and controllers "
        "themselves: in_sync_replicas, controller (who was elected, told to each voter)",
    ]
    resource: Annotated[
        str | None,
        "its name; of a partition TOPIC-N, of offsets the group, of a token its owner, of a quota "
        "its entity; null if the messages have none, and for a token that only a secret names",
    ]
    setting: Annotated[
        str | None, "what of it changes, such as retention.ms; null for all of it"
    ] = None
    value: Annotated[
        str | None,
        "what it becomes; [hidden] for a secret; null for nothing, for the default, or if unknown",
    ] = None
    is_trial: Annotated[bool, "the request only asks whether it could be done"] = False
    error_code: Annotated[
        Int16 | None, "of the change; 0 if it was made; null if no response could be read"
    ] = None
    error_name: Annotated[str | None, "its name; NONE for 0"] = None


class ClientMetric(NamedTuple):
    """One number of a client's own metrics, as it pushed it to a broker (KIP-714)."""

    client_instance_id: Annotated[
        str | None, "id that the broker gave to this client, in Kafka's URL-safe base64"
    ]
    is_last: Annotated[bool, "the client says that it ends"]
    metric: Annotated[
        str | None, "its name, such as org.apache.kafka.producer.node.request.latency.max"
    ] = None
    labels: Annotated[
        str | None, 'its attributes as JSON, such as {"node_id": "1"}; null: it has none'
    ] = None
    value: Annotated[
        Float64 | None,
        "the number; of histograms and summaries the sum of what they count; null: it has none, as "
        "a gauge (NaN) that has measured nothing",
    ] = None
    observations: Annotated[
        Int64 | None, "how many a histogram or summary counts; null for others"
    ] = None
    lowest: Annotated[Float64 | None, "the least of these; null: not told"] = None
    highest: Annotated[Float64 | None, "the most of these; null: not told"] = None
    kind: Annotated[str | None, "gauge, sum, histogram, exponential_histogram or summary"] = None
    temporality: Annotated[
        str | None,
        "delta: since the push before; cumulative: since the client began; null for others",
    ] = None
    unit: Annotated[str | None, "unit; null: Java's clients tell none"] = None
    time_ns: Annotated[Time | None, "time of the number, by the clock of the client"] = None
    start_time_ns: Annotated[
        Time | None, "time of the begin of what it counts, by the clock of the client"
    ] = None
    resource: Annotated[
        str | None, "what the client says of itself, as JSON, such as its group; null: nothing"
    ] = None
    problem: Annotated[
        str | None,
        "why there is no number: unknown_codec, bad_compression, decompressed_too_large (4 MiB), "
        "malformed, or too_many_numbers (10,000 of a push); null: there is one",
    ] = None
    error_code: Annotated[
        Int16 | None, "the broker's answer; 0 if it took the push; null: no response could be read"
    ] = None


GROUP_COLUMNS: tuple[Column, ...] = (*CARRIED_COLUMNS, *columns_of(GroupEvent))
METADATA_COLUMNS: tuple[Column, ...] = (*CARRIED_COLUMNS, *columns_of(MetadataEntry))
CHANGE_COLUMNS: tuple[Column, ...] = (*CARRIED_COLUMNS, *columns_of(Change))
CLIENT_METRIC_COLUMNS: tuple[Column, ...] = (*CARRIED_COLUMNS, *columns_of(ClientMetric))
"""The columns copied from the request's row, and the fields of the row type."""
