"""The row contract of records: one row per record, every column with its type, unit and meaning.

In: nothing. Out: :class:`RecordRow` and :data:`RECORD_COLUMNS`.
"""

# No "from __future__ import annotations": see kanalyze.spec.columns.

from typing import Annotated

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spec.columns import Bytes, Column, Int16, Int32, Int64, Nanoseconds, Time, columns_of
from kanalyze.spec.rows.requests import (
    Capture,
    ClientId,
    Connection,
    ConnectionNumber,
    Topic,
    TopicId,
)


class HeaderItem(NamedTuple):
    """One header of a record."""

    key: Annotated[str, "its name; bytes that are not UTF-8 as \\xNN"]
    value: Annotated[str | None, "like the column value"]
    encoding: Annotated[str | None, "of the value: text, base64 or escaped"]


class RecordRow(NamedTuple):
    """One record, with its position on the wire and the fields of its batch."""

    capture: Capture
    connection: Connection
    connection_number: ConnectionNumber
    packet: Annotated[
        Int64 | None,
        "number in the capture, from 1, of the packet with the first byte of the message",
    ]
    time_ns: Annotated[
        Time | None, "time of the packet with the first byte of the message; null if it has none"
    ]
    api_name: Annotated[
        str, "Produce, Fetch or ShareFetch; in Kafka 0.7 also MultiProduce or MultiFetch"
    ]
    client_id: ClientId
    topic: Topic
    topic_id: TopicId
    partition: Annotated[Int32 | None, "partition index; null if the message could not be read"]
    error_code: Annotated[Int16 | None, "of this partition; null without a response"]
    record_index: Annotated[
        Int64 | None, "index in the message's records of this partition, from 0"
    ]
    offset: Annotated[
        Int64 | None,
        "offset in the log; Produce: from the broker's response, null if the response does not "
        "have it; Kafka 0.7: position in bytes; inside a compressed message, that message's",
    ]
    timestamp_ms: Annotated[Int64 | None, "Unix time in ms; null if there is none", "ms"]
    timestamp_type: Annotated[
        str | None, "create (by the producer) or append (by the broker); null in magic 0"
    ]
    key_bytes: Annotated[Bytes | None, "size of the key; null for a null key"]
    value_bytes: Annotated[Bytes | None, "size of the value; null for a null value (tombstone)"]
    header_count: Annotated[Int32 | None, "headers of the record"]
    key: Annotated[str | None, "the key, as key_encoding says"]
    key_encoding: Annotated[
        str | None,
        "text; base64 or escaped for bytes that are not text; avro, protobuf or json for JSON that "
        "was made of bytes by a schema (--schemas)",
    ]
    value: Annotated[str | None, "the value, as value_encoding says"]
    value_encoding: Annotated[
        str | None,
        "text; base64 or escaped for bytes that are not text; avro, protobuf or json for JSON that "
        "was made of bytes by a schema (--schemas); hidden for credentials in the controllers' "
        "metadata log",
    ]
    headers: Annotated[list[HeaderItem], "the headers, in their order"]
    codec: Annotated[str | None, "none, gzip, snappy, lz4, zstd or unknown"]
    magic: Annotated[Int16 | None, "format of the batch: 0, 1 or 2"]
    batch_base_offset: Annotated[
        Int64 | None,
        "in the header of the batch; producers mostly send 0; of a compressed message (magic 0 "
        "and 1): that of the last message inside; Kafka 0.7: position of the message in bytes, "
        "null in Produce",
    ]
    batch_bytes: Annotated[Bytes | None, "bytes of the batch on the wire, with its header"]
    batch_record_count: Annotated[
        Int32 | None, "records in the header of the batch; null below magic 2"
    ]
    partition_leader_epoch: Annotated[Int32 | None, "leader epoch from the broker; null if none"]
    producer_id: Annotated[Int64 | None, "of an idempotent producer"]
    producer_epoch: Annotated[Int16 | None, "of an idempotent producer"]
    sequence: Annotated[Int32 | None, "of the record, by an idempotent producer"]
    is_transactional: Annotated[bool | None, "written in a transaction"]
    is_control: Annotated[bool | None, "a control record of the broker, not a user's"]
    control_type: Annotated[str | None, "abort, commit, leader_change, ...; unknown for others"]
    delete_horizon_ms: Annotated[
        Int64 | None, "time when tombstones and markers may be deleted", "ms"
    ]
    crc_ok: Annotated[bool | None, "the checksum matches the bytes"]
    problem: Annotated[
        str | None, "why records are missing here; a row with a problem has no record"
    ]
    key_schema_id: Annotated[
        Int32 | None,
        "schema id of the key in Confluent's wire format: the byte 0 and a positive number of "
        "4 bytes, at its beginning or in the header __key_schema_id; other data may look like "
        "this by chance",
    ]
    value_schema_id: Annotated[
        Int32 | None,
        "schema id of the value in Confluent's wire format: the byte 0 and a positive number "
        "of 4 bytes, at its beginning or in the header __value_schema_id; other data may look "
        "like this by chance",
    ]
    key_schema_guid: Annotated[
        str | None, "schema GUID of the key, from the header __key_schema_id"
    ]
    value_schema_guid: Annotated[
        str | None, "schema GUID of the value, from the header __value_schema_id"
    ]
    trace_id: Annotated[str | None, "trace id of the header traceparent (W3C Trace Context)"]
    parent_span_id: Annotated[str | None, "parent id of the header traceparent"]
    header_names: Annotated[
        list[str], "names of the headers, in their order; bytes that are not UTF-8 as \\xNN"
    ]
    is_aborted: Annotated[
        bool | None,
        "belongs to an aborted transaction: by the aborted transactions that a read_committed "
        "Fetch response lists, otherwise by the producer's next control record in the same "
        "response; null if neither tells, in Produce and ShareFetch, and for control records",
    ]
    is_acquired: Annotated[
        bool | None, "ShareFetch: the response gives the record to this consumer; null for others"
    ]
    delivery_count: Annotated[
        Int32 | None, "ShareFetch: deliveries of an acquired record, with this one"
    ]
    produced_time_ns: Annotated[
        Time | None,
        "fetched: time of the packet with the first byte of the Produce request that appended "
        "the record, by topic, partition and offset; null if the capture does not have that "
        "request and its response, for compressed message sets (magic 0 and 1), if several "
        "requests got the offset, or if the batch was dropped from memory, which can happen "
        "beyond 262,144 batches",
    ]
    delay_ns: Annotated[Nanoseconds | None, "fetched: time_ns - produced_time_ns"]
    found_in: Annotated[
        str | None,
        "with --search: the parts that have the bytes, and the position of the first in each: "
        "key@0, value@17, header NAME@4",
    ]
    key_schema_subject: Annotated[
        str | None,
        "with --schemas: the subject of the key's schema; of several, that of the topic "
        "(TOPIC-key), else the first; null without one",
    ]
    key_schema_version: Annotated[Int32 | None, "with --schemas: its version of that subject"]
    value_schema_subject: Annotated[
        str | None,
        "with --schemas: the subject of the value's schema; of several, that of the topic "
        "(TOPIC-value), else the first; null without one",
    ]
    value_schema_version: Annotated[Int32 | None, "with --schemas: its version of that subject"]


RECORD_COLUMNS: tuple[Column, ...] = columns_of(RecordRow)
"""The columns of :class:`RecordRow`, in the order of its fields."""

VALUE_COLUMNS = frozenset({"key", "key_encoding", "value", "value_encoding", "headers"})
"""Columns with users' data: null or empty unless values are requested."""

WHOLE_CAPTURE_COLUMNS = frozenset(
    {"produced_time_ns", "delay_ns", "found_in"}
    | {f"{part}_schema_{name}" for part in ("key", "value") for name in ("subject", "version")}
)
"""Columns that only ``kanalyze records`` and ``kanalyze.records`` have: they need the requests of
all connections in order, a search, or schemas."""


def columns_of_records(*, values: bool, is_table: bool = False) -> tuple[Column, ...]:
    """Return the columns of records; with ``values``, also those with users' data.

    ``is_table``: without :data:`WHOLE_CAPTURE_COLUMNS`, as in tables of SQL and Spark.
    """
    excluded = frozenset() if values else VALUE_COLUMNS
    if is_table:
        excluded |= WHOLE_CAPTURE_COLUMNS
    return tuple(column for column in RECORD_COLUMNS if column.name not in excluded)
