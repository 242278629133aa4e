"""The row contract of records: one row per record, every column with its type, unit and meaning.

In: nothing. Out: :class:`RecordRow` and :data:`RECORD_COLUMNS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.tables.row import (
    CAPTURE,
    CLIENT_ID,
    CONNECTION,
    CONNECTION_NUMBER,
    TOPIC,
    TOPIC_ID,
    Meaning,
    columns_of,
)

if TYPE_CHECKING:
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.row import Column

__all__ = [
    "RECORD_COLUMNS",
    "VALUE_COLUMNS",
    "WHOLE_CAPTURE_COLUMNS",
    "HeaderItem",
    "RecordRow",
    "columns_of_records",
    "rows_of",
]


class HeaderItem(NamedTuple):
    """One header of a record."""

    key: Annotated[str, Meaning("string", "its name; bytes that are not UTF-8 as \\xNN")]
    value: Annotated[str | None, Meaning("string", "like the column value", nullable=True)]
    encoding: Annotated[
        str | None, Meaning("string", "of the value: text, base64 or escaped", nullable=True)
    ]


def _schema_id(part: str) -> Meaning:
    text = (
        f"schema id of the {part} in Confluent's wire format: the byte 0 and a positive number of "
        f"4 bytes, at its beginning or in the header __{part}_schema_id; other data may look like "
        "this by chance"
    )
    return Meaning("int32", text, nullable=True)


def _schema_guid(part: str) -> Meaning:
    text = f"schema GUID of the {part}, from the header __{part}_schema_id"
    return Meaning("string", text, nullable=True)


class RecordRow(NamedTuple):
    """One record, with its position on the wire and the fields of its batch."""

    capture: Annotated[str, CAPTURE]
    connection: Annotated[str, CONNECTION]
    connection_number: Annotated[int, CONNECTION_NUMBER]
    packet: Annotated[
        int | None,
        Meaning(
            "int64",
            "number in the capture, from 1, of the packet with the first byte of the message",
            nullable=True,
        ),
    ]
    time_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "time of the packet with the first byte of the message; null if it has none",
            "ns",
            nullable=True,
            is_time=True,
        ),
    ]
    api_name: Annotated[
        str,
        Meaning(
            "string", "Produce, Fetch or ShareFetch; in Kafka 0.7 also MultiProduce or MultiFetch"
        ),
    ]
    client_id: Annotated[str | None, CLIENT_ID]
    topic: Annotated[str | None, TOPIC]
    topic_id: Annotated[str | None, TOPIC_ID]
    partition: Annotated[
        int | None,
        Meaning("int32", "partition index; null if the message could not be read", nullable=True),
    ]
    error_code: Annotated[
        int | None, Meaning("int16", "of this partition; null without a response", nullable=True)
    ]
    record_index: Annotated[
        int | None,
        Meaning("int64", "index in the message's records of this partition, from 0", nullable=True),
    ]
    offset: Annotated[
        int | None,
        Meaning(
            "int64",
            "offset in the log; Produce: from the broker's response, null if the response does not "
            "have it; Kafka 0.7: position in bytes; inside a compressed message, that message's",
            nullable=True,
        ),
    ]
    timestamp_ms: Annotated[
        int | None, Meaning("int64", "Unix time in ms; null if there is none", "ms", nullable=True)
    ]
    timestamp_type: Annotated[
        str | None,
        Meaning(
            "string",
            "create (by the producer) or append (by the broker); null in magic 0",
            "",
            True,
        ),
    ]
    key_bytes: Annotated[
        int | None, Meaning("int64", "size of the key; null for a null key", "B", nullable=True)
    ]
    value_bytes: Annotated[
        int | None,
        Meaning("int64", "size of the value; null for a null value (tombstone)", "B", True),
    ]
    header_count: Annotated[int | None, Meaning("int32", "headers of the record", nullable=True)]
    key: Annotated[str | None, Meaning("string", "the key, as key_encoding says", nullable=True)]
    key_encoding: Annotated[
        str | None,
        Meaning("string", "text; or base64 or escaped for bytes that are not text", nullable=True),
    ]
    value: Annotated[
        str | None, Meaning("string", "the value, as value_encoding says", nullable=True)
    ]
    value_encoding: Annotated[
        str | None,
        Meaning(
            "string",
            "text; or base64 or escaped for bytes that are not text; hidden for credentials in the "
            "controllers' metadata log",
            nullable=True,
        ),
    ]
    headers: Annotated[list[HeaderItem], Meaning("list<struct>", "the headers, in their order")]
    codec: Annotated[
        str | None,
        Meaning("string", "none, gzip, snappy, lz4, zstd or unknown", nullable=True),
    ]
    magic: Annotated[int | None, Meaning("int16", "format of the batch: 0, 1 or 2", nullable=True)]
    batch_base_offset: Annotated[
        int | None,
        Meaning(
            "int64",
            "in the header of the batch; producers mostly send 0; "
            "of a compressed message (magic 0 and 1): that of the last message inside; "
            "Kafka 0.7: position of the message in bytes, null in Produce",
            nullable=True,
        ),
    ]
    batch_bytes: Annotated[
        int | None,
        Meaning("int64", "bytes of the batch on the wire, with its header", "B", nullable=True),
    ]
    batch_record_count: Annotated[
        int | None,
        Meaning("int32", "records in the header of the batch; null below magic 2", nullable=True),
    ]
    partition_leader_epoch: Annotated[
        int | None, Meaning("int32", "leader epoch from the broker; null if none", nullable=True)
    ]
    producer_id: Annotated[int | None, Meaning("int64", "of an idempotent producer", nullable=True)]
    producer_epoch: Annotated[
        int | None, Meaning("int16", "of an idempotent producer", nullable=True)
    ]
    sequence: Annotated[
        int | None, Meaning("int32", "of the record, by an idempotent producer", nullable=True)
    ]
    is_transactional: Annotated[
        bool | None, Meaning("bool", "written in a transaction", nullable=True)
    ]
    is_control: Annotated[
        bool | None, Meaning("bool", "a control record of the broker, not a user's", nullable=True)
    ]
    control_type: Annotated[
        str | None,
        Meaning("string", "abort, commit, leader_change, ...; unknown for others", nullable=True),
    ]
    delete_horizon_ms: Annotated[
        int | None,
        Meaning("int64", "time when tombstones and markers may be deleted", "ms", nullable=True),
    ]
    crc_ok: Annotated[bool | None, Meaning("bool", "the checksum matches the bytes", nullable=True)]
    problem: Annotated[
        str | None,
        Meaning(
            "string",
            "why records are missing here; a row with a problem has no record",
            nullable=True,
        ),
    ]
    key_schema_id: Annotated[int | None, _schema_id("key")]
    value_schema_id: Annotated[int | None, _schema_id("value")]
    key_schema_guid: Annotated[str | None, _schema_guid("key")]
    value_schema_guid: Annotated[str | None, _schema_guid("value")]
    trace_id: Annotated[
        str | None,
        Meaning("string", "trace id of the header traceparent (W3C Trace Context)", nullable=True),
    ]
    parent_span_id: Annotated[
        str | None, Meaning("string", "parent id of the header traceparent", nullable=True)
    ]
    header_names: Annotated[
        list[str],
        Meaning(
            "list<string>",
            "names of the headers, in their order; bytes that are not UTF-8 as \\xNN",
        ),
    ]
    is_aborted: Annotated[
        bool | None,
        Meaning(
            "bool",
            "belongs to an aborted transaction: by the aborted transactions that a read_committed "
            "Fetch response lists, otherwise by the producer's next control record in the same "
            "response; null if neither tells, in Produce and ShareFetch, and for control records",
            nullable=True,
        ),
    ]
    is_acquired: Annotated[
        bool | None,
        Meaning(
            "bool",
            "ShareFetch: the response gives the record to this consumer; null for others",
            nullable=True,
        ),
    ]
    delivery_count: Annotated[
        int | None,
        Meaning(
            "int32", "ShareFetch: deliveries of an acquired record, with this one", nullable=True
        ),
    ]
    produced_time_ns: Annotated[
        int | None,
        Meaning(
            "int64",
            "fetched: time of the packet with the first byte of the Produce request that appended "
            "the record, by topic, partition and offset; null if the capture does not have that "
            "request and its response, for compressed message sets (magic 0 and 1), if several "
            "requests got the offset, or if the batch was dropped from memory, which can happen "
            "beyond 262,144 batches",
            "ns",
            nullable=True,
            is_time=True,
        ),
    ]
    delay_ns: Annotated[
        int | None,
        Meaning("int64", "fetched: time_ns - produced_time_ns", "ns", nullable=True),
    ]
    found_in: Annotated[
        str | None,
        Meaning(
            "string",
            "with --search: the parts that have the bytes, and the position of the first in each: "
            "key@0, value@17, header NAME@4",
            nullable=True,
        ),
    ]


RECORD_COLUMNS: tuple[Column, ...] = columns_of(RecordRow)
"""The columns of :class:`RecordRow`, in the order of its fields."""

VALUE_COLUMNS = frozenset({"key", "key_encoding", "value", "value_encoding", "headers"})
"""Columns with users' data: null or empty unless values are requested."""

WHOLE_CAPTURE_COLUMNS = frozenset({"produced_time_ns", "delay_ns", "found_in"})
"""Columns that only ``kanalyze records`` and ``kanalyze.records`` have: they need the requests of
all connections in order, or a search."""


def columns_of_records(*, values: bool, is_table: bool = False) -> tuple[Column, ...]:
    """Return the columns of records; with ``values``, also those with users' data.

    ``is_table``: without :data:`WHOLE_CAPTURE_COLUMNS`, as in tables of SQL and Spark.
    """
    excluded = frozenset() if values else VALUE_COLUMNS
    if is_table:
        excluded |= WHOLE_CAPTURE_COLUMNS
    return tuple(column for column in RECORD_COLUMNS if column.name not in excluded)


_PLAIN = [column for column in RECORD_COLUMNS if column.name != "headers"]
_HEADERS_AT = RecordRow._fields.index("headers")
_HEADERS = [RECORD_COLUMNS[_HEADERS_AT]]


def rows_of(block: RowBlock) -> list[RecordRow]:
    """Return the rows of a block of records as objects."""
    values: list[list[Any]] = block.values(_PLAIN)
    headers = [list(map(HeaderItem._make, items)) for items in block.values(_HEADERS)[0]]
    values.insert(_HEADERS_AT, headers)
    return list(map(RecordRow._make, zip(*values, strict=True)))
