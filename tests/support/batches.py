"""Makes the bytes of record batches and message sets; the records inside are zeros."""

from __future__ import annotations

import struct


def batch(
    count: int = 3,
    *,
    base_offset: int = 0,
    payload: int = 100,
    attributes: int = 0,
    length: int | None = None,
    magic: int = 2,
    times: tuple[int, int] = (1_700_000_000_000, 1_700_000_000_500),
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Return a batch of magic 2; ``length``, if given, is a wrong length in its header.

    ``producer`` is its id, its epoch, and the sequence number of the first record.
    """
    head = struct.pack(
        ">qiibIhiqqqhii",
        base_offset,
        49 + payload if length is None else length,
        0,
        magic,
        0,
        attributes,
        max(count - 1, 0),
        *times,
        *producer,
        count,
    )
    return head + bytes(payload)


def message(
    magic: int, *, offset: int = 0, attributes: int = 0, value: bytes = b"value", time: int = 1000
) -> bytes:
    """Return an entry of a message set, its key null."""
    content = struct.pack(">bB", magic, attributes)
    if magic == 1:
        content += struct.pack(">q", time)
    content += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(content) + 4, 0) + content
