"""Makes records fields with encoders of other projects, and fields that those never write."""

from __future__ import annotations

import struct
import warnings
from typing import TYPE_CHECKING, Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # importlib.resources, in kafka-python
    from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBatch
    from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AioMessages
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder
    from kafka.record.util import calc_crc32, calc_crc32c

from kanalyze.kafka.records.batches import RecordSet

if TYPE_CHECKING:
    from kanalyze.kafka.records.batches import RecordBatch
    from kanalyze.kafka.records.types import DecompressionLimits, Record, RecordProblem

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ROOM = 1 << 26
TIME_MS = 1_700_000_000_000

Item = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Offset, timestamp, key, value, headers."""

ITEMS: list[Item] = [
    (0, TIME_MS, b"key", b"value", []),
    (1, TIME_MS + 5, None, b"no key", [("h", b"1"), ("h", None), ("", b"")]),
    (2, TIME_MS - 70_000, b"gone", None, []),
    (3, TIME_MS + 99, b"", b"", [("größe", bytes(range(256)))]),
    (4, TIME_MS, b"k" * 300, b"v" * 5000, []),
]


def batch_of(
    items: list[Item] = ITEMS,
    codec: int = 0,
    *,
    transactional: bool = False,
    producer: tuple[int, int, int] = (-1, -1, -1),
    builder: Any = DefaultRecordBatchBuilder,
) -> bytes:
    """Return a batch of magic 2; ``producer`` is id, epoch and first sequence number."""
    made = builder(2, codec, transactional, *producer, ROOM)
    for offset, time, key, value, headers in items:
        made.append(offset, time, key, value, headers)
    return bytes(made.build())


def messages_of(
    magic: int, items: list[Item] = ITEMS, codec: int = 0, *, builder: Any = None
) -> bytes:
    """Return a message set of magic 0 or 1; headers are left out."""
    made = (builder or LegacyRecordBatchBuilder)(magic, codec, ROOM)
    for offset, time, key, value, _ in items:
        made.append(offset, time, key, value)
    return bytes(made.build())


def wrapped(
    magic: int, codec: int, value: bytes, *, offset: int = 0, time: int = -1, flags: int = 0
) -> bytes:
    """Return one message with that value, marked as compressed."""
    content = struct.pack(">bB", magic, codec | flags)
    if magic:
        content += struct.pack(">q", time)
    content += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(content) + 4, calc_crc32(content)) + content


def changed(batch: bytes, layout: str, at: int, value: Any) -> bytes:
    """Return a batch of magic 2 with a field of its header changed, and the right checksum."""
    data = bytearray(batch)
    struct.pack_into(layout, data, at, value)
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def with_flags(batch: bytes, flags: int) -> bytes:
    """Return a batch with more bits of its attributes set."""
    return changed(batch, ">h", 21, struct.unpack_from(">h", batch, 21)[0] | flags)


def compressed(codec: int, payload: bytes, *, count: int) -> bytes:
    """Return a batch whose records are those bytes, marked as compressed with ``codec``."""
    empty = batch_of(ITEMS[:1])[:61]
    body = changed(empty + payload, ">i", 8, 49 + len(payload))
    return changed(with_flags(body, codec), ">i", 57, count)


def read(
    data: bytes, limits: DecompressionLimits | None = None
) -> tuple[list[tuple[RecordBatch, list[Record]]], list[RecordProblem]]:
    """Read everything; return batches with their records, and every problem."""
    found = RecordSet(data, limits)
    batches = [(batch, list(batch.records())) for batch in found]
    problems = [problem for batch, _ in batches for problem in batch.problems]
    return batches, problems + found.problems


def records_in(data: bytes) -> list[Record]:
    """Read records, and check that they have no problems."""
    batches, problems = read(data)
    assert problems == []
    assert all(batch.crc_ok for batch, _ in batches)
    return [record for _, records in batches for record in records]


def as_item(record: Record) -> Item:
    headers = [(key.decode(), value) for key, value in record.headers]
    assert record.timestamp_ms is not None
    return record.offset, record.timestamp_ms, record.key, record.value, headers


__all__ = [
    "CODECS",
    "ITEMS",
    "TIME_MS",
    "AioBatch",
    "AioMessages",
    "DefaultRecordBatchBuilder",
    "Item",
    "LegacyRecordBatchBuilder",
    "as_item",
    "batch_of",
    "changed",
    "compressed",
    "messages_of",
    "read",
    "records_in",
    "with_flags",
    "wrapped",
]
