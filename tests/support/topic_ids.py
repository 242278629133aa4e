"""Messages with topic ids, written by hand, as the protocol document lays them out."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support import kafka as k

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC_ID = bytes(range(16))


def produce(correlation_id: int, topic_id: bytes = TOPIC_ID) -> bytes:
    """Produce v13: a topic by its id, partition 0."""
    records = k.record_batch()
    part = struct.pack(">i", 0) + bytes([len(records) + 1]) + records + b"\0"
    body = b"\0" + struct.pack(">hi", 1, 1000) + b"\x02" + topic_id + b"\x02" + part + b"\0\0"
    return k.request(k.PRODUCE, 13, correlation_id, body, tags=b"\0")


def produce_answer(correlation_id: int, topic_id: bytes = TOPIC_ID) -> bytes:
    part = struct.pack(">ihqqq", 0, 0, 42, -1, 0) + b"\x01\0\0"
    body = b"\x02" + topic_id + b"\x02" + part + b"\0" + struct.pack(">i", 0) + b"\0"
    return k.response(correlation_id, body, tags=b"\0")


def metadata(correlation_id: int) -> bytes:
    """Metadata v13 for all topics."""
    return k.request(k.METADATA, 13, correlation_id, b"\0\x01\0\0", tags=b"\0")


def metadata_answer(correlation_id: int, name: str, topic_id: bytes = TOPIC_ID) -> bytes:
    topic = struct.pack(">h", 0) + k.compact(name) + topic_id + b"\0\x01" + struct.pack(">i", 0)
    body = struct.pack(">i", 0) + b"\x01\0" + struct.pack(">i", 1) + b"\x02" + topic + b"\0"
    return k.response(correlation_id, body + struct.pack(">h", 0) + b"\0", tags=b"\0")


def fetch(
    correlation_id: int,
    session_id: int,
    epoch: int,
    topics: dict[str, list[int]] | None = None,
    forgotten: dict[str, list[int]] | None = None,
) -> bytes:
    """Fetch v7."""
    body = struct.pack(">iiiibii", -1, 500, 1, 1 << 20, 0, session_id, epoch)
    body += struct.pack(">i", len(topics or {}))
    for topic, partitions in (topics or {}).items():
        body += k.string(topic) + struct.pack(">i", len(partitions))
        body += b"".join(struct.pack(">iqqi", index, 0, 0, 1 << 20) for index in partitions)
    body += struct.pack(">i", len(forgotten or {}))
    for topic, partitions in (forgotten or {}).items():
        body += k.string(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return k.request(k.FETCH, 7, correlation_id, body)


def fetch_answer(
    correlation_id: int,
    session_id: int,
    topics: dict[str, list[int]] | None = None,
    error_code: int = 0,
    records: Sequence[bytes | None] = (b"",),
) -> bytes:
    """Fetch v7; each partition has the error code, and one of the records by its number."""
    body = struct.pack(">ihii", 0, 0, session_id, len(topics or {}))
    for topic, partitions in (topics or {}).items():
        body += k.string(topic) + struct.pack(">i", len(partitions))
        for index in partitions:
            batch = records[index % len(records)]
            size = -1 if batch is None else len(batch)
            body += struct.pack(">ihqqqii", index, error_code, 9, 9, 0, -1, size) + (batch or b"")
    return k.response(correlation_id, body)
