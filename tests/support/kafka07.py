"""Messages of Kafka 0.7 written by hand, in its wire format."""

from __future__ import annotations

import struct
import zlib

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)


def message(payload: bytes = b"hello", *, magic: int = 1, codec: int = 0) -> bytes:
    head = bytes([magic, codec]) if magic else b"\0"
    body = head + struct.pack(">I", zlib.crc32(payload)) + payload
    return struct.pack(">i", len(body)) + body


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def place(topic: str = "orders", partition: int = 0) -> bytes:
    raw = topic.encode()
    return struct.pack(">h", len(raw)) + raw + struct.pack(">i", partition)


def request(kind: int, *parts: bytes) -> bytes:
    count = struct.pack(">h", len(parts)) if kind in (MULTIFETCH, MULTIPRODUCE) else b""
    return sized(struct.pack(">h", kind) + count + b"".join(parts))


def produce_part(messages: bytes, topic: str = "orders", partition: int = 0) -> bytes:
    return place(topic, partition) + sized(messages)


def fetch_part(
    offset: int, topic: str = "orders", partition: int = 0, max_size: int = 65536
) -> bytes:
    return place(topic, partition) + struct.pack(">qi", offset, max_size)


def produce(messages: bytes | None = None, **at: int | str) -> bytes:
    part = produce_part(message() if messages is None else messages, **at)  # type: ignore[arg-type]
    return request(PRODUCE, part)


def fetch(offset: int, **at: int | str) -> bytes:
    return request(FETCH, fetch_part(offset, **at))  # type: ignore[arg-type]


def offsets(time_ms: int = -1, number: int = 1) -> bytes:
    return request(OFFSETS, place() + struct.pack(">qi", time_ms, number))


def fetched(messages: bytes = b"", error_code: int = 0) -> bytes:
    return sized(struct.pack(">h", error_code) + messages)


def offsets_answer(*found: int, error_code: int = 0) -> bytes:
    return sized(struct.pack(f">hi{len(found)}q", error_code, len(found), *found))
