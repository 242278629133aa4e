"""Recognizes a TLS stream by its records.

In: bytes of one direction. Out: true if they are TLS records; who sent them.
"""

from __future__ import annotations

from kanalyze.model.tls import ALERT, HANDSHAKE_RECORD, HEADER_BYTES, looks_like_record, record_at

__all__ = ["is_alert", "is_client_hello", "records_fit"]

_CLIENT_HELLO = 1


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
        size = record_at(view, at)
        if size is None:
            return False
        at += size
    return at > 0
