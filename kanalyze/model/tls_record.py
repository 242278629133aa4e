"""The header of a TLS record: how to recognize it, and the record's size.

In: bytes. Out: whether a record may begin there, its size.

A header is the content type (20 to 23), the legacy version 3.0 to 3.4 and the length of the body
(RFC 8446 section 5.1, RFC 5246 section 6.2.1). Random bytes look like one once in 2^23. Its first
four bytes, read as a Kafka frame size, are 335 MB and more, which no broker accepts.
"""

from __future__ import annotations

import re
from typing import Final

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    MAX_BODY_BYTES = (1 << 14) + 2048  # of TLS 1.2; TLS 1.3 allows 256 beyond 2^14

__all__ = ["ALERT", "APPLICATION_DATA", "CHANGE_CIPHER_SPEC", "HANDSHAKE_RECORD", "HEADER_BYTES"]
__all__ += ["find_record", "find_records", "looks_like_record", "record_at", "record_bytes"]
__all__ += ["size_by_header"]

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE_RECORD, APPLICATION_DATA = range(20, 24)
"""Content types."""

HEADER_BYTES: Final = 5
_CHAIN: Final = 3
"""Headers in a row that prove TLS at any position. Random bytes look like a header at one position
in 2^23, and like three headers, each where the one before it says, at one in 2^69."""
_MAX_CANDIDATES: Final = 4096
_HEADER: Final = re.compile(rb"[\x14-\x17](?=\x03[\x00-\x04][\x00-\x48].)", re.DOTALL)
"""Matches each byte that may be the first of a header. Of the length it checks only the high byte,
so that it may be up to 255 too large."""


def record_bytes(data: bytes | bytearray | memoryview, at: int = 0) -> int | None:
    """Return the size of the record at ``at``, with its header; None if no header is there.

    The header's five bytes have to be in ``data``.
    """
    size = size_by_header(data[at], data[at + 1], data[at + 2], data[at + 3] << 8 | data[at + 4])
    return None if size < 0 else size


def size_by_header(kind: int, major: int, minor: int, body_bytes: int) -> int:
    """Return the size of a record, with its header, from the header's fields; -1 for no header."""
    if not 20 <= kind <= 23 or major != 3 or minor > 4 or body_bytes > MAX_BODY_BYTES:
        return -1
    return 5 + body_bytes


def looks_like_record(head: bytes | bytearray | memoryview) -> bool:
    """Return true if these bytes may be the beginning of a record that is not empty."""
    return len(head) >= HEADER_BYTES and (record_bytes(head) or 0) > HEADER_BYTES


def record_at(data: bytes | bytearray | memoryview, at: int) -> int | None:
    """Return the size of the record at ``at``; None if the bytes there do not look like one."""
    return record_bytes(data, at) if looks_like_record(data[at : at + HEADER_BYTES]) else None


def find_record(data: bytearray | memoryview, begin: int = 0) -> int | None:
    """Return the first index from ``begin`` on that looks like a record; None if there is none.

    The whole header has to be in ``data``.
    """
    match = _HEADER.search(data, begin)
    while match is not None:
        at = match.start()
        if looks_like_record(data[at : at + HEADER_BYTES]):
            return at
        match = _HEADER.search(data, at + 1)
    return None


def find_records(data: bytearray | memoryview) -> int | None:
    """Return the index of the first record in bytes that may begin within one; None without one.

    A record counts if two more follow it, each where the length before it says. Time: one
    pass, and three headers for each of at most 4096 candidates.
    """
    at = find_record(data)
    for _ in range(_MAX_CANDIDATES):
        if at is None or _is_chain(data, at):
            return at
        at = find_record(data, at + 1)
    return None


def _is_chain(data: bytearray | memoryview, at: int) -> bool:
    for _ in range(_CHAIN):
        size = record_at(data, at)
        if size is None:
            return False
        at += size
    return True
