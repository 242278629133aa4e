"""The row contracts of views that sum up other tables.

In: nothing. Out: :class:`Flow`, :class:`Lag` and :class:`Replication`, and their columns.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from typing import Annotated

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import Bytes, Column, Int32, Int64, Nanoseconds, Time, columns_of
from kanalyze.spec.rows.requests import ClientId, Principal, Topic


class Flow(NamedTuple):
    """What one client has sent and got: for a group, about a topic, in one direction, at a broker.

    Sums over all lines are those over all requests.
    """

    traffic: Annotated[
        str,
        "client; mirror (MirrorMaker 2, by its client ids); replica: between brokers; controller: "
        "to and between controllers. By API and client id; other requests of such connections "
        "belong to them",
    ]
    direction: Annotated[str, "produce, fetch, or other: requests without records"]
    client_id: ClientId
    client_ip: Annotated[str, "IP address of the client"]
    principal: Principal
    group_id: Annotated[
        str | None,
        "consumer group: that of the request, or the one that the client (client id, address and "
        "user) sends requests for; null if it sends requests for none, or for several",
    ]
    client_software_name: Annotated[str | None, "from ApiVersions v3+ on the same connection"]
    client_software_version: Annotated[str | None, "from ApiVersions v3+ on the same connection"]
    topic: Topic
    topic_id: Annotated[str | None, "id of a topic whose name is not known"]
    broker_ip: Annotated[str, "IP address of the broker"]
    broker_port: Annotated[Int32, "TCP port of the broker"]
    requests: Annotated[
        Int64, "requests; one that names several topics counts in the line of each of them"
    ]
    errors: Annotated[Int64, "those with an error code of this topic, or of the whole request"]
    record_count: Annotated[
        Int64, "records, without refused ones; from batch headers, where these are in the capture"
    ]
    record_bytes: Annotated[Bytes, "bytes of record batches, without refused ones"]
    request_bytes: Annotated[
        Bytes,
        "bytes of requests on the wire; those of a request with several topics are divided by "
        "their bytes of records, evenly if there are none",
    ]
    response_bytes: Annotated[Bytes, "bytes of responses on the wire, divided likewise"]
    first_time_ns: Annotated[Time | None, "begin of the first request"]
    last_time_ns: Annotated[Time | None, "begin of the last request"]


FLOW_COLUMNS: tuple[Column, ...] = columns_of(Flow)
"""The columns of :class:`Flow`, in the order of its fields."""
FLOW_KEYS = Flow._fields[: Flow._fields.index("requests")]
"""The columns that tell flows apart; the others are sums."""


class Lag(NamedTuple):
    """How far a consumer group is behind in a partition, as of one second.

    There is a line for each second in which something new was told of it: another end of the log,
    an offset, or whom the partition is assigned to.
    """

    group_id: Annotated[str, "consumer group"]
    topic: Annotated[str, "topic; its id if its name is not known"]
    partition: Annotated[Int32 | None, "partition index"]
    time_ns: Annotated[Time, "the latest response that told something in this second"]
    committed_offset: Annotated[
        Int64 | None,
        "offset that the group committed, or that a broker says it has; those of a transaction "
        "count when they are sent; null: see unknown",
    ]
    log_end_offset: Annotated[
        Int64 | None,
        "end of the log as far as told: highest offset of what producers were told and of the "
        "high watermarks that anyone fetched; null: nobody was told",
    ]
    lag: Annotated[Int64 | None, "log_end_offset - committed_offset in records; null: see unknown"]
    lag_ns: Annotated[
        Nanoseconds | None,
        "how long ago the log grew beyond the committed offset; 0 if the lag is 0; null: see "
        "unknown",
    ]
    member_id: Annotated[
        str | None,
        "member that the partition is assigned to; null: none, it left, or the capture does not "
        "have it",
    ]
    client_id: Annotated[str | None, "client id of that member"]
    client_ip: Annotated[str | None, "address of that member"]
    unknown: Annotated[
        str | None,
        "why lag or lag_ns is null. none_committed: the group has no offset; no_offset_seen: "
        "nobody sent or asked for one; no_log_end_seen: nobody produced or fetched; "
        "log_end_is_old: the offset is beyond the log end that was told; "
        "produced_before_capture: lag_ns alone is null",
    ]


LAG_COLUMNS: tuple[Column, ...] = columns_of(Lag)
"""The columns of :class:`Lag`, in the order of its fields."""


class Replication(NamedTuple):
    """What one follower has fetched from one leader, by one of its fetchers."""

    follower_id: Annotated[Int32, "node id of the follower, from its client id"]
    client_id: Annotated[str, "client id of the fetcher, such as broker-2-fetcher-0"]
    client_ip: Annotated[str, "IP address of the follower"]
    broker_ip: Annotated[str, "IP address of the leader"]
    broker_port: Annotated[Int32, "TCP port of the leader"]
    fetches: Annotated[Int64, "requests"]
    errors: Annotated[Int64, "requests with an error code"]
    partitions: Annotated[Int64 | None, "different partitions that fetches name, or inherit"]
    partition_errors: Annotated[Int64 | None, "error codes of partitions"]
    record_count: Annotated[Int64, "records"]
    record_bytes: Annotated[Bytes, "bytes of record batches"]
    response_bytes: Annotated[Bytes, "bytes of responses on the wire"]
    mean_gap_ns: Annotated[
        Nanoseconds | None,
        "mean time from the begin of a fetch to that of the next on its connection; a follower "
        "that takes longer than replica.lag.time.max.ms leaves the replicas in sync",
    ]
    longest_gap_ns: Annotated[Nanoseconds | None, "longest of these times"]
    longest_latency_ns: Annotated[
        Nanoseconds | None, "longest latency of a fetch that was not held back on purpose"
    ]
    first_time_ns: Annotated[Time | None, "begin of the first fetch"]
    last_time_ns: Annotated[Time | None, "begin of the last fetch"]


REPLICATION_COLUMNS: tuple[Column, ...] = columns_of(Replication)
"""The columns of :class:`Replication`, in the order of its fields."""
