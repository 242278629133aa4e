"""The row contract of records: one row per record, every column with its type, unit and meaning.

In: nothing. Out: :class:`RecordRow` and :data:`RECORD_COLUMNS`. This module must not know how a row
is made or where it goes.
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
        int,
        Meaning(
            "int64", "time of the packet with the first byte of the message", "ns", is_time=True
        ),
    ]
    api_name: Annotated[
        str, Meaning("string", "Produce or Fetch; in Kafka 0.7 also MultiProduce or MultiFetch")
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


RECORD_COLUMNS: tuple[Column, ...] = columns_of(RecordRow)
"""The columns of :class:`RecordRow`, in the order of its fields."""

VALUE_COLUMNS = frozenset({"key", "key_encoding", "value", "value_encoding", "headers"})
"""Columns with users' data: null or empty unless values are asked for."""


def columns_of_records(*, values: bool) -> tuple[Column, ...]:
    """Return the columns of a table of records; with ``values``, also those with users' data."""
    return tuple(column for column in RECORD_COLUMNS if values or column.name not in VALUE_COLUMNS)


_PLAIN = [column for column in RECORD_COLUMNS if column.name != "headers"]
_HEADERS_AT = RecordRow._fields.index("headers")
_HEADERS = [RECORD_COLUMNS[_HEADERS_AT]]


def rows_of(block: RowBlock) -> list[RecordRow]:
    """Return the rows of a block of records as objects."""
    values: list[list[Any]] = block.values(_PLAIN)
    headers = [list(map(HeaderItem._make, items)) for items in block.values(_HEADERS)[0]]
    values.insert(_HEADERS_AT, headers)
    return list(map(RecordRow._make, zip(*values, strict=True)))
