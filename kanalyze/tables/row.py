"""The row contract: one row per request, every column with its type, unit and meaning.

In: nothing. Out: :class:`Row` and its nested types, and :data:`COLUMNS`, from which CSV, JSON
Lines, Parquet, Arrow, pandas and the documentation are made.

The columns are defined once, in the annotations of :class:`Row`; everything else is derived.
"""

# No "from __future__ import annotations": it makes annotations texts, which would have to be
# compiled at every start to make the columns.

import typing
from typing import Annotated, Literal, TypeAlias

from kanalyze.common.named_tuples import NamedTuple

__all__ = [
    "CAPTURE",
    "CAPTURE_POINT",
    "CLIENT_ID",
    "COLUMNS",
    "CONNECTION",
    "CONNECTION_NUMBER",
    "PRINCIPAL",
    "PROXIED_CLIENT_IP",
    "PROXIED_CLIENT_PORT",
    "PROXIED_TARGET",
    "PROXY",
    "TOPIC",
    "TOPIC_ID",
    "AnyRow",
    "Column",
    "ErrorItem",
    "PartitionItem",
    "Row",
    "Status",
    "columns_of",
    "time_name",
    "with_times",
]

AnyRow: TypeAlias = tuple[typing.Any, ...]
"""A row of any table: a NamedTuple whose fields are the table's columns."""

Status: TypeAlias = Literal["ok", "error", "one_way", "unanswered", "orphan_response", "malformed"]


class Meaning(NamedTuple):
    """Type, meaning and unit of a column, for use in an annotation."""

    type: str
    text: str
    unit: str = ""
    nullable: bool = False
    is_time: bool = False


def _nullable_time(text: str) -> Meaning:
    return Meaning("int64", text, "ns", nullable=True, is_time=True)


class Column(NamedTuple):
    """One column of a table.

    ``type`` is one of ``string int16 int32 int64 bool``, ``list<string>``, or ``list<struct>``
    with the struct's columns in ``fields``. A column with ``is_time`` is a Unix time in ns; its
    name ends in ``_ns``. For each of these, Arrow and Parquet also have a column of type
    ``timestamp``, whose ``source`` is the column in ns (see :func:`with_times`).
    """

    name: str
    type: str
    unit: str
    nullable: bool
    meaning: str
    fields: "tuple[Column, ...]" = ()
    is_time: bool = False
    source: str = ""


CAPTURE = Meaning("string", "the input as given; live:IFACE for an interface")
CONNECTION = Meaning("string", "CLIENT_IP:PORT>BROKER_IP:PORT, IPv6 addresses in brackets")
CONNECTION_NUMBER = Meaning(
    "int64",
    "1 for the first TCP connection on that pair of addresses, 2 when the ports are used again",
)
CLIENT_ID = Meaning("string", "the client id in the request", nullable=True)
PRINCIPAL = Meaning(
    "string", "the user of SASL/PLAIN or SCRAM, when seen; never a secret", nullable=True
)
PROXY = Meaning(
    "string",
    "what proxies put before the protocol: proxy-v1, proxy-v2, http-connect, socks4, socks5; "
    "several, in their order, with + between them; null if nothing was seen",
    nullable=True,
)
PROXIED_CLIENT_IP = Meaning(
    "string",
    "address of the client that the PROXY header names; client_ip is a proxy's; null without "
    "one, or if it names none (LOCAL, UNKNOWN)",
    nullable=True,
)
PROXIED_CLIENT_PORT = Meaning("int32", "port of that client", nullable=True)
PROXIED_TARGET = Meaning(
    "string",
    "HOST:PORT that the client asked a proxy for (HTTP CONNECT, SOCKS); broker_ip is the proxy's",
    nullable=True,
)
CAPTURE_POINT = Meaning(
    "string",
    "where the capture was taken, judged by the round trips to both ends: client or broker "
    "(there, or less than 1 ms away), between; host: both ends have one address; null if the round "
    "trips do not show it",
    nullable=True,
)
TOPIC = Meaning("string", "topic name; null if only its id is known", nullable=True)
TOPIC_ID = Meaning("string", "topic id in Kafka's URL-safe base64", nullable=True)
"""Columns that several tables have."""


class ErrorItem(NamedTuple):
    """One non-zero error code of a response."""

    topic: Annotated[str | None, Meaning("string", "topic it concerns", nullable=True)]
    partition: Annotated[int | None, Meaning("int32", "partition it concerns", nullable=True)]
    code: Annotated[int, Meaning("int16", "error code, not 0")]
    name: Annotated[str, Meaning("string", "its name in Kafka, such as NOT_LEADER_OR_FOLLOWER")]


class PartitionItem(NamedTuple):
    """One partition that a request produced to, fetched from, committed, or asked about.

    Or a topic as a whole, if the request or response names it without a partition.
    """

    topic: Annotated[str | None, TOPIC]
    topic_id: Annotated[str | None, TOPIC_ID]
    partition: Annotated[
        int | None,
        Meaning("int32", "partition index; null for the topic as a whole", nullable=True),
    ]
    record_count: Annotated[
        int | None,
        Meaning(
            "int64",
            "records, from batch headers; null if no header has the number",
            nullable=True,
        ),
    ]
    record_bytes: Annotated[
        int | None, Meaning("int64", "bytes of the records field", "B", nullable=True)
    ]
    base_offset: Annotated[
        int | None,
        Meaning(
            "int64",
            "Produce: assigned by the broker; Fetch: of the first record, null if it is in a "
            "compressed message of magic 0 or 1; "
            "OffsetCommit, OffsetFetch, ListOffsets and others: the offset",
            nullable=True,
        ),
    ]
    high_watermark: Annotated[int | None, Meaning("int64", "from the response", nullable=True)]
    codec: Annotated[
        str | None,
        Meaning("string", "none, gzip, snappy, lz4, zstd, or mixed", nullable=True),
    ]
    error_code: Annotated[
        int | None,
        Meaning("int16", "of this partition; null if no response has it", nullable=True),
    ]


class Row(NamedTuple):
    """One request and its response, as seen on the wire."""

    capture: Annotated[str, CAPTURE]
    connection: Annotated[str, CONNECTION]
    connection_number: Annotated[int, CONNECTION_NUMBER]
    client_ip: Annotated[str, Meaning("string", "IP address of the client")]
    broker_ip: Annotated[str, Meaning("string", "IP address of the broker")]
    client_port: Annotated[int, Meaning("int32", "TCP port of the client")]
    broker_port: Annotated[int, Meaning("int32", "TCP port of the broker")]
    client_software_name: Annotated[
        str | None,
        Meaning("string", "from ApiVersions v3+ on the same connection", nullable=True),
    ]
    client_software_version: Annotated[
        str | None,
        Meaning("string", "from ApiVersions v3+ on the same connection", nullable=True),
    ]
    principal: Annotated[str | None, PRINCIPAL]
    wire: Annotated[str, Meaning("string", "kafka or kafka-0.7")]
    api_key: Annotated[
        int | None,
        Meaning(
            "int16",
            "in kafka-0.7 the request type; null for an orphan response",
            nullable=True,
        ),
    ]
    api_version: Annotated[
        int | None, Meaning("int16", "0 in kafka-0.7; null for an orphan response", nullable=True)
    ]
    api_name: Annotated[
        str | None,
        Meaning("string", "Produce, Fetch, ... as in Kafka's definitions", nullable=True),
    ]
    correlation_id: Annotated[
        int | None, Meaning("int32", "pairs a response with its request", nullable=True)
    ]
    client_id: Annotated[str | None, CLIENT_ID]
    request_start_ns: Annotated[
        int | None,
        _nullable_time("time of the packet with the request's first byte"),
    ]
    request_end_ns: Annotated[
        int | None,
        _nullable_time("time of the packet with the request's last byte"),
    ]
    response_start_ns: Annotated[
        int | None,
        _nullable_time("time of the packet with the response's first byte"),
    ]
    response_end_ns: Annotated[
        int | None,
        _nullable_time("time of the packet with the response's last byte"),
    ]
    latency_ns: Annotated[
        int | None, Meaning("int64", "response_start_ns - request_end_ns", "ns", nullable=True)
    ]
    total_time_ns: Annotated[
        int | None, Meaning("int64", "response_end_ns - request_start_ns", "ns", nullable=True)
    ]
    request_bytes: Annotated[
        int | None, Meaning("int64", "with the 4-byte size prefix", "B", nullable=True)
    ]
    response_bytes: Annotated[
        int | None, Meaning("int64", "with the 4-byte size prefix", "B", nullable=True)
    ]
    request_packet: Annotated[
        int | None,
        Meaning(
            "int64",
            "number in the capture, from 1, of the packet with the request's first byte",
            nullable=True,
        ),
    ]
    response_packet: Annotated[
        int | None,
        Meaning(
            "int64",
            "number in the capture, from 1, of the packet with the response's first byte",
            nullable=True,
        ),
    ]
    status: Annotated[
        Status,
        Meaning(
            "string",
            "ok, error, one_way (no response is due), unanswered, orphan_response or malformed",
        ),
    ]
    error_code: Annotated[
        int | None,
        Meaning(
            "int16",
            "the first that is not zero, in wire order; 0 if there is none; "
            "null if no response could be read",
            nullable=True,
        ),
    ]
    error_name: Annotated[
        str | None, Meaning("string", "name of error_code; NONE for 0", nullable=True)
    ]
    errors: Annotated[list[ErrorItem], Meaning("list<struct>", "every non-zero error code")]
    throttle_time_ms: Annotated[
        int | None, Meaning("int32", "throttle time in the response", "ms", True)
    ]
    partitions: Annotated[
        list[PartitionItem],
        Meaning("list<struct>", "what was produced to, fetched from, committed, or asked about"),
    ]
    record_count: Annotated[
        int | None,
        Meaning("int64", "sum over partitions; null if one is unknown", nullable=True),
    ]
    record_bytes: Annotated[int | None, Meaning("int64", "sum over partitions", "B", True)]
    acks: Annotated[int | None, Meaning("int16", "Produce: 0, 1, or -1 for all", "", True)]
    max_wait_ms: Annotated[
        int | None, Meaning("int32", "Fetch: the longest wait for min_bytes", "ms", True)
    ]
    min_bytes: Annotated[
        int | None, Meaning("int32", "Fetch: the broker may wait for this many bytes", "B", True)
    ]
    waited: Annotated[
        bool | None,
        Meaning(
            "bool",
            "Fetch: the response was held back by max_wait/min_bytes, not by work; "
            "ShareFetch, JoinGroup, SyncGroup, heartbeats: it waited for records or members; "
            "false for APIs that never wait, and for a request that took longer than its longest "
            "wait (waited_ns); null if unknown",
            nullable=True,
        ),
    ]
    group_id: Annotated[str | None, Meaning("string", "consumer group", nullable=True)]
    member_id: Annotated[str | None, Meaning("string", "member of the group", nullable=True)]
    transactional_id: Annotated[
        str | None, Meaning("string", "of a transactional producer", nullable=True)
    ]
    anomalies: Annotated[list[str], Meaning("list<string>", "kinds of anomalies in this exchange")]
    capture_point: Annotated[str | None, CAPTURE_POINT]
    request_send_ns: Annotated[
        int | None,
        Meaning("int64", "request_end_ns - request_start_ns: sending the request", "ns", True),
    ]
    broker_network_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "part of latency_ns: network from the capture point to the broker and back, the "
            "shortest round trip of the connection so far; null if none was measured",
            "ns",
            nullable=True,
        ),
    ]
    retransmission_wait_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "part of latency_ns: until bytes of the request were retransmitted for the last time",
            "ns",
            nullable=True,
        ),
    ]
    pipeline_wait_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "part of latency_ns: waiting for the previous response of the connection, which a "
            "broker sends first; 0 if responses come in another order than requests",
            "ns",
            nullable=True,
        ),
    ]
    broker_time_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "rest of latency_ns: in the broker, without waiting on purpose (waited_ns); "
            "its own RequestQueueTime, LocalTime, RemoteTime and ResponseQueueTime",
            "ns",
            nullable=True,
        ),
    ]
    response_send_ns: Annotated[
        int | None,
        Meaning("int64", "response_end_ns - response_start_ns: sending the response", "ns", True),
    ]
    client_network_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "network from the capture point to the client and back, the shortest round trip of the "
            "connection so far: what the client waits in addition to total_time_ns",
            "ns",
            nullable=True,
        ),
    ]
    retransmitted_packets: Annotated[
        int | None,
        Meaning(
            "int64",
            "retransmitted packets of the connection, by either end, from the first packet of the "
            "request to the last of the response",
            nullable=True,
        ),
    ]
    zero_windows: Annotated[
        int | None,
        Meaning(
            "int64",
            "packets with a receive window of 0, counted as in retransmitted_packets",
            nullable=True,
        ),
    ]
    proxy: Annotated[str | None, PROXY]
    proxied_client_ip: Annotated[str | None, PROXIED_CLIENT_IP]
    proxied_client_port: Annotated[int | None, PROXIED_CLIENT_PORT]
    proxied_target: Annotated[str | None, PROXIED_TARGET]
    waited_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "part of latency_ns: held back by the broker on purpose, up to the longest wait of the "
            "request; 0 if it did not wait; null if unknown",
            "ns",
            nullable=True,
        ),
    ]

    @property
    def began_ns(self) -> int | None:
        """When the request began, or a response without a request, in ns since 1970.

        None if neither time is known.
        """
        return self.response_start_ns if self.request_start_ns is None else self.request_start_ns


def columns_of(row_type: type[NamedTuple]) -> tuple[Column, ...]:
    """Return the columns that the annotations of a row type declare, in order."""
    hints = typing.get_type_hints(row_type, include_extras=True)
    return tuple(_column(name, hint) for name, hint in hints.items())


def _column(name: str, hint: typing.Any) -> Column:
    python_type, meaning = typing.get_args(hint)
    fields: tuple[Column, ...] = ()
    if meaning.type == "list<struct>":
        fields = columns_of(typing.get_args(python_type)[0])
    return Column(
        name, meaning.type, meaning.unit, meaning.nullable, meaning.text, fields, meaning.is_time
    )


def time_name(name: str) -> str:
    """Return the name of the timestamp column for a column ``name`` of Unix times.

    ``_ns`` is replaced by ``_time``: ``request_start_time``; but ``time`` is not repeated.
    """
    stem = name.removesuffix("_ns")
    return stem if stem.split("_")[-1] == "time" else f"{stem}_time"


def with_times(columns: "typing.Iterable[Column]") -> tuple[Column, ...]:
    """Return columns with a timestamp column after each column of Unix times."""
    all_columns = []
    for column in columns:
        all_columns.append(column)
        if column.is_time:
            meaning = f"{column.name} as a timestamp, in UTC"
            name = time_name(column.name)
            all_columns.append(
                Column(name, "timestamp", "", column.nullable, meaning, source=column.name)
            )
    return tuple(all_columns)


COLUMNS: tuple[Column, ...] = columns_of(Row)
"""The columns of :class:`Row`, in the order of its fields."""
