"""Recognizes a TLS stream by its records.

In: bytes of one direction. Out: true if they are TLS records; who sent them. This module must not
know what is inside a record beyond the type of a handshake's first message.
"""

from __future__ import annotations

from kanalyze.model.tls_record import (
    ALERT,
    HANDSHAKE_RECORD,
    HEADER_BYTES,
    find_record,
    looks_like_record,
    record_bytes,
)

__all__ = ["find_records", "is_alert", "is_client_hello", "records_fit"]

_CLIENT_HELLO = 1
_MOST_CANDIDATES = 4096
_CHAIN = 3
"""Headers in a row that prove TLS wherever they begin. By chance a header fits one byte in
2^21; three of them, each where the one before says, one in 2^64."""


def is_client_hello(head: bytes | memoryview) -> bool:
    """Return true if a stream begins with a ClientHello (RFC 8446 section 4: handshake type 1)."""
    return (
        len(head) > HEADER_BYTES
        and looks_like_record(head)
        and head[0] == HANDSHAKE_RECORD
        and head[HEADER_BYTES] == _CLIENT_HELLO
    )


def is_alert(head: bytes | memoryview) -> bool:
    """Return true if a stream begins with an alert: a server's reply to a client without TLS."""
    return looks_like_record(head) and head[0] == ALERT


def records_fit(view: bytes | memoryview) -> bool:
    """Return true if the bytes are records from the first one to the last."""
    at = 0
    while at + HEADER_BYTES <= len(view):
        size = _size_at(view, at)
        if size is None:
            return False
        at += size
    return at > 0


def find_records(view: memoryview) -> int | None:
    """Return where records begin in bytes that begin anywhere; None if there are none.

    A record counts if two more follow it, each where the length before it says. Time: one
    pass, and three headers for each of at most 4096 candidates.
    """
    at = find_record(view)
    for _ in range(_MOST_CANDIDATES):
        if at is None or _chain_at(view, at):
            return at
        at = find_record(view, at + 1)
    return None


def _chain_at(view: memoryview, at: int) -> bool:
    for _ in range(_CHAIN):
        size = _size_at(view, at)
        if size is None:
            return False
        at += size
    return True


def _size_at(view: bytes | memoryview, at: int) -> int | None:
    """Return the size of the record at a place; None if the bytes there are no header of one."""
    return record_bytes(view, at) if looks_like_record(view[at : at + HEADER_BYTES]) else None
