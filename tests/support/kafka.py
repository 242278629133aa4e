"""Kafka messages written by hand, as the protocol document lays them out."""

from __future__ import annotations

import struct

from crc32c import crc32c

PRODUCE, FETCH, METADATA, HEARTBEAT, LIST_GROUPS = 0, 1, 3, 12, 16
CONTROLLED_SHUTDOWN, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 7, 17, 18, 36


def string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def request(
    api_key: int,
    api_version: int,
    correlation_id: int,
    body: bytes = b"",
    *,
    client_id: str | None = "test",
    tags: bytes = b"",
) -> bytes:
    """A request frame; ``tags`` is the header's tag section, for header version 2."""
    head = struct.pack(">hhi", api_key, api_version, correlation_id)
    frame = head + string(client_id) + tags + body
    return struct.pack(">i", len(frame)) + frame


def response(correlation_id: int, body: bytes = b"", *, tags: bytes = b"") -> bytes:
    frame = struct.pack(">i", correlation_id) + tags + body
    return struct.pack(">i", len(frame)) + frame


def heartbeat(correlation_id: int, group: str = "g", **header: str | None) -> bytes:
    """Heartbeat v0: group, generation, member."""
    body = string(group) + struct.pack(">i", 1) + string("m")
    return request(HEARTBEAT, 0, correlation_id, body, **header)  # type: ignore[arg-type]


def heartbeat_answer(correlation_id: int, error_code: int = 0) -> bytes:
    return response(correlation_id, struct.pack(">h", error_code))


def record_batch(
    records: int = 1,
    size: int = 20,
    base_offset: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """The 61 bytes of a magic 2 batch header and ``size`` bytes that stand for its records.

    ``producer`` is its id, its epoch, and the sequence number of the first record.
    """
    batch = (
        struct.pack(
            ">qiibIhiqqqhii",
            base_offset,
            49 + size,
            0,
            2,
            0,
            0,
            records - 1,
            0,
            0,
            *producer,
            records,
        )
        + b"\x01" * size
    )
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def produce(
    correlation_id: int, acks: int, *, version: int = 3, topic: str = "t", records: bytes = b""
) -> bytes:
    """Produce v0 to v8: (transactional id from v3,) acks, timeout, one topic, partition 0."""
    records = records or record_batch()
    body = string(None) if version >= 3 else b""
    body += struct.pack(">hii", acks, 1000, 1) + string(topic)
    body += struct.pack(">iii", 1, 0, len(records)) + records
    return request(PRODUCE, version, correlation_id, body)


def produce_answer(correlation_id: int, *, version: int = 3, error_code: int = 0) -> bytes:
    partition = struct.pack(">ihq", 0, error_code, 42)
    if version >= 2:
        partition += struct.pack(">q", -1)
    if version >= 5:
        partition += struct.pack(">q", 0)
    body = struct.pack(">i", 1) + string("t") + struct.pack(">i", 1) + partition
    if version >= 1:
        body += struct.pack(">i", 0)
    return response(correlation_id, body)


def compact(text: str) -> bytes:
    raw = text.encode()
    return bytes([len(raw) + 1]) + raw


def api_versions(
    correlation_id: int, version: int = 3, name: str = "lib", number: str = "1.2"
) -> bytes:
    """ApiVersions v3 and up: client software name and version, tag section."""
    if version < 3:
        return request(API_VERSIONS, version, correlation_id)
    body = compact(name) + compact(number) + b"\0"
    return request(API_VERSIONS, version, correlation_id, body, tags=b"\0")


def api_versions_answer_v0(correlation_id: int, error_code: int = 0) -> bytes:
    """Version 0: error code, and one API."""
    return response(correlation_id, struct.pack(">hihhh", error_code, 1, 18, 0, 4))
