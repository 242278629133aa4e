"""The row contract: one row per request, every column with its type, unit and meaning.

In: nothing. Out: :class:`Row` and its nested types, and :data:`COLUMNS`, from which CSV, JSON
Lines, Parquet, Arrow, pandas and the documentation are made.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from typing import Annotated, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import (
    Bytes,
    Column,
    Int16,
    Int32,
    Int64,
    Milliseconds,
    Nanoseconds,
    Time,
    columns_of,
    from_field,
)

Status: TypeAlias = Literal["ok", "error", "one_way", "unanswered", "orphan_response", "malformed"]
ConnectionEnd: TypeAlias = Literal["fin", "reset", "open", "reused", "limit", "idle"]
"""Why a connection has no more updates: both ends sent a FIN; one sent a RST; the capture ended
first; a new connection used the ports before this one was closed; too many were open; it was silent
for too long."""

Capture: TypeAlias = Annotated[str, "the input as given; live:IFACE for an interface"]
Connection: TypeAlias = Annotated[str, "CLIENT_IP:PORT>BROKER_IP:PORT, IPv6 addresses in brackets"]
ConnectionNumber: TypeAlias = Annotated[
    Int64,
    "1 for the first TCP connection on that pair of addresses, 2 when the ports are used again",
]
ClientId: TypeAlias = Annotated[str | None, "the client id in the request"]
Principal: TypeAlias = Annotated[
    str | None, "the user of SASL/PLAIN or SCRAM, when seen; never a secret"
]
Proxy: TypeAlias = Annotated[
    str | None,
    "what proxies put before the protocol: proxy-v1, proxy-v2, http-connect, socks4, socks5; "
    "several, in their order, with + between them; null if nothing was seen",
]
ProxiedClientIp: TypeAlias = Annotated[
    str | None,
    "address of the client that the PROXY header names; client_ip is a proxy's; null without "
    "one, or if it names none (LOCAL, UNKNOWN)",
]
ProxiedClientPort: TypeAlias = Annotated[Int32 | None, "port of that client"]
ProxiedTarget: TypeAlias = Annotated[
    str | None,
    "HOST:PORT that the client asked a proxy for (HTTP CONNECT, SOCKS); broker_ip is the proxy's",
]
CapturePoint: TypeAlias = Annotated[
    str | None,
    "where the capture was taken, judged by the round trips to both ends: client or broker "
    "(there, or less than 1 ms away), between; host: both ends have one address; null if the "
    "round trips do not show it",
]
Topic: TypeAlias = Annotated[str | None, "topic name; null if only its id is known"]
TopicId: TypeAlias = Annotated[str | None, "topic id in Kafka's URL-safe base64"]
"""Columns that several tables have."""


class ErrorItem(NamedTuple):
    """One non-zero error code of a response."""

    topic: Annotated[str | None, "topic it concerns"]
    partition: Annotated[Int32 | None, "partition it concerns"]
    code: Annotated[Int16, "error code, not 0"]
    name: Annotated[str, "its name in Kafka, such as NOT_LEADER_OR_FOLLOWER"]


class PartitionItem(NamedTuple):
    """One partition that a request produced to, fetched from, committed, or asked about.

    Or a topic as a whole, if the request or response names it without a partition.
    """

    topic: Topic
    topic_id: TopicId
    partition: Annotated[Int32 | None, "partition index; null for the topic as a whole"]
    record_count: Annotated[
        Int64 | None, "records, from batch headers; null if no header has the number"
    ]
    record_bytes: Annotated[Bytes | None, "bytes of the records field"]
    base_offset: Annotated[
        Int64 | None,
        "Produce: assigned by the broker; Fetch: of the first record, null if it is in a "
        "compressed message of magic 0 or 1; OffsetCommit, OffsetFetch, ListOffsets and "
        "others: the offset",
    ]
    high_watermark: Annotated[Int64 | None, "from the response"]
    codec: Annotated[str | None, "none, gzip, snappy, lz4, zstd, or mixed"]
    error_code: Annotated[Int16 | None, "of this partition; null if no response has it"]
    producer_id: Annotated[
        Int64 | None,
        "of the first batch that was produced or fetched; null if its producer is not idempotent, "
        "and in magic 0 and 1",
    ]
    producer_epoch: Annotated[Int16 | None, "of the first batch; null as producer_id"]
    base_sequence: Annotated[
        Int32 | None,
        "of the first batch: how many records its producer had written to the partition before, "
        "modulo 2^31; a batch that is sent again has the same; null as producer_id, and in "
        "control batches",
    ]
    preferred_read_replica: Annotated[
        Int32 | None,
        "node id of the replica that the leader tells a consumer to fetch from, because it is in "
        "the consumer's rack (KIP-392, Fetch v11+); null if it names none",
    ]


class Row(NamedTuple):
    """One request and its response, as seen on the wire."""

    capture: Capture
    connection: Connection
    connection_number: ConnectionNumber
    client_ip: Annotated[str, "IP address of the client"]
    broker_ip: Annotated[str, "IP address of the broker"]
    client_port: Annotated[Int32, "TCP port of the client"]
    broker_port: Annotated[Int32, "TCP port of the broker"]
    client_software_name: Annotated[str | None, "from ApiVersions v3+ on the same connection"]
    client_software_version: Annotated[str | None, "from ApiVersions v3+ on the same connection"]
    principal: Principal
    wire: Annotated[str, "kafka or kafka-0.7"]
    api_key: Annotated[Int16 | None, "in kafka-0.7 the request type; null for an orphan response"]
    api_version: Annotated[Int16 | None, "0 in kafka-0.7; null for an orphan response"]
    api_name: Annotated[str | None, "Produce, Fetch, ... as in Kafka's definitions"]
    correlation_id: Annotated[Int32 | None, "pairs a response with its request"]
    client_id: ClientId
    request_start_ns: Annotated[Time | None, "time of the packet with the request's first byte"]
    request_end_ns: Annotated[Time | None, "time of the packet with the request's last byte"]
    response_start_ns: Annotated[Time | None, "time of the packet with the response's first byte"]
    response_end_ns: Annotated[Time | None, "time of the packet with the response's last byte"]
    latency_ns: Annotated[Nanoseconds | None, "response_start_ns - request_end_ns"]
    total_time_ns: Annotated[Nanoseconds | None, "response_end_ns - request_start_ns"]
    request_bytes: Annotated[Bytes | None, "with the 4-byte size prefix"]
    response_bytes: Annotated[Bytes | None, "with the 4-byte size prefix"]
    request_packet: Annotated[
        Int64 | None, "number in the capture, from 1, of the packet with the request's first byte"
    ]
    response_packet: Annotated[
        Int64 | None, "number in the capture, from 1, of the packet with the response's first byte"
    ]
    status: Annotated[
        Status, "ok, error, one_way (no response is due), unanswered, orphan_response or malformed"
    ]
    error_code: Annotated[
        Int16 | None,
        "the first that is not zero, in wire order; 0 if there is none; null if no response "
        "could be read",
    ]
    error_name: Annotated[str | None, "name of error_code; NONE for 0"]
    errors: Annotated[list[ErrorItem], "every non-zero error code"]
    throttle_time_ms: Annotated[
        Milliseconds | None, "throttle time in the response", from_field("*.ThrottleTimeMs")
    ]
    partitions: Annotated[
        list[PartitionItem], "what was produced to, fetched from, committed, or asked about"
    ]
    record_count: Annotated[Int64 | None, "sum over partitions; null if one is unknown"]
    record_bytes: Annotated[Bytes | None, "sum over partitions"]
    acks: Annotated[Int16 | None, "Produce: 0, 1, or -1 for all", from_field("ProduceRequest.Acks")]
    max_wait_ms: Annotated[
        Milliseconds | None,
        "Fetch: the longest wait for min_bytes",
        from_field("FetchRequest.MaxWaitMs", "ShareFetchRequest.MaxWaitMs"),
    ]
    min_bytes: Annotated[
        Int32 | None,
        "Fetch: the broker may wait for this many bytes",
        "B",
        from_field("FetchRequest.MinBytes", "ShareFetchRequest.MinBytes"),
    ]
    waited: Annotated[
        bool | None,
        "Fetch: the response was held back by max_wait/min_bytes, not by work; ShareFetch, "
        "JoinGroup, SyncGroup, heartbeats: it waited for records or members; false for APIs "
        "that never wait, and for a request that took longer than its longest wait "
        "(waited_ns); null if unknown",
    ]
    group_id: Annotated[str | None, "consumer group", from_field("*.GroupId", entity="groupId")]
    member_id: Annotated[str | None, "member of the group", from_field("*.MemberId")]
    transactional_id: Annotated[
        str | None,
        "of a transactional producer",
        from_field("*.TransactionalId", entity="transactionalId"),
    ]
    anomalies: Annotated[list[str], "kinds of anomalies in this exchange"]
    capture_point: CapturePoint
    request_send_ns: Annotated[
        Nanoseconds | None, "request_end_ns - request_start_ns: sending the request"
    ]
    broker_network_ns: Annotated[
        Nanoseconds | None,
        "part of latency_ns: network from the capture point to the broker and back, the "
        "shortest round trip of the connection so far; null if none was measured",
    ]
    retransmission_wait_ns: Annotated[
        Nanoseconds | None,
        "part of latency_ns: until bytes of the request were retransmitted for the last time",
    ]
    pipeline_wait_ns: Annotated[
        Nanoseconds | None,
        "part of latency_ns: waiting for the previous response of the connection, which a "
        "broker sends first; 0 if responses come in another order than requests",
    ]
    broker_time_ns: Annotated[
        Nanoseconds | None,
        "rest of latency_ns: in the broker, without waiting on purpose (waited_ns); its own "
        "RequestQueueTime, LocalTime, RemoteTime and ResponseQueueTime",
    ]
    response_send_ns: Annotated[
        Nanoseconds | None, "response_end_ns - response_start_ns: sending the response"
    ]
    client_network_ns: Annotated[
        Nanoseconds | None,
        "network from the capture point to the client and back, the shortest round trip of the "
        "connection so far: what the client waits in addition to total_time_ns",
    ]
    retransmitted_packets: Annotated[
        Int64 | None,
        "retransmitted packets of the connection, by either end, from the first packet of the "
        "request to the last of the response",
    ]
    zero_windows: Annotated[
        Int64 | None, "packets with a receive window of 0, counted as in retransmitted_packets"
    ]
    proxy: Proxy
    proxied_client_ip: ProxiedClientIp
    proxied_client_port: ProxiedClientPort
    proxied_target: ProxiedTarget
    waited_ns: Annotated[
        Nanoseconds | None,
        "part of latency_ns: held back by the broker on purpose, up to the longest wait of the "
        "request; 0 if it did not wait; null if unknown",
    ]
    rack_id: Annotated[
        str | None,
        "rack that the client says it is in, in Fetch v11+ and the heartbeats of newer groups; "
        "empty or null if it says none",
        from_field(
            "FetchRequest.RackId",
            "ConsumerGroupHeartbeatRequest.RackId",
            "ShareGroupHeartbeatRequest.RackId",
            "StreamsGroupHeartbeatRequest.RackId",
            is_newer=True,
        ),
    ]

    @property
    def began_ns(self) -> int | None:
        """When the request began, or a response without a request, in ns since 1970.

        None if neither time is known.
        """
        return self.response_start_ns if self.request_start_ns is None else self.request_start_ns


COLUMNS: tuple[Column, ...] = columns_of(Row)
"""The columns of :class:`Row`, in the order of its fields."""
SESSION_COLUMNS: tuple[Column, ...] = (
    Column("session_list", "int64", "", True, "number of a list of partitions; null for none"),
    next(column for column in COLUMNS if column.name == "partitions")._replace(
        name="session_partitions", meaning="the list, in the first row that has its number"
    ),
)
"""No columns of rows for others: what rows of a report have in place of partitions that a request
only inherits of its fetch session. The list has all partitions of the session, also those that the
request or its response names."""
