"""Recognizes a TLS stream by its records.

In: bytes of one direction. Out: true if they are TLS records; who sent them. This module must not
know what is inside a record beyond the type of a handshake's first message.
"""

from __future__ import annotations

from kanalyze.kafka.session.header_candidates import tls_records

__all__ = ["find_records", "is_alert", "is_client_hello", "looks_like_tls", "records_fit"]

_CONTENT_TYPES = (20, 21, 22, 23)
_ALERT, _HANDSHAKE = 21, 22
_CLIENT_HELLO = 1
_HEAD_BYTES = 5
_LONGEST_RECORD_BYTES = 16384 + 2048
_CHAIN = 3
"""Headers in a row that prove TLS wherever they begin. By chance a header fits one byte in
2^21; three of them, each where the one before says, one in 2^64."""


def looks_like_tls(head: bytes | memoryview) -> bool:
    """Return true if a stream that starts with ``head`` is TLS.

    A record begins with its content type (20 change_cipher_spec, 21 alert, 22 handshake, 23
    application data), the legacy version 3.0 to 3.4, and a length of at most 2^14 + 2048
    (RFC 8446 section 5.1, RFC 5246 section 6.2.1). Taken as a Kafka size, a handshake would be
    369 MB and more, which no broker accepts.
    """
    if len(head) < _HEAD_BYTES:
        return False
    length = head[3] << 8 | head[4]
    return (
        head[0] in _CONTENT_TYPES
        and head[1] == 3
        and head[2] <= 4
        and 0 < length <= _LONGEST_RECORD_BYTES
    )


def is_client_hello(head: bytes | memoryview) -> bool:
    """Return true if a stream begins with a ClientHello (RFC 8446 section 4: handshake type 1)."""
    return (
        len(head) > _HEAD_BYTES
        and looks_like_tls(head)
        and head[0] == _HANDSHAKE
        and head[_HEAD_BYTES] == _CLIENT_HELLO
    )


def is_alert(head: bytes | memoryview) -> bool:
    """Return true if a stream begins with an alert: a server's reply to a client without TLS."""
    return looks_like_tls(head) and head[0] == _ALERT


def records_fit(view: bytes | memoryview) -> bool:
    """Return true if the bytes are records from the first one to the last."""
    at = 0
    while at + _HEAD_BYTES <= len(view):
        if not looks_like_tls(view[at : at + _HEAD_BYTES]):
            return False
        at += _HEAD_BYTES + (view[at + 3] << 8 | view[at + 4])
    return at > 0


def find_records(view: memoryview) -> int | None:
    """Return where records begin in bytes that begin anywhere; None if there are none.

    A record counts if two more follow it, each where the length before it says. Time: one
    pass, and three headers for each of at most 4096 candidates.
    """
    limit = len(view) - _HEAD_BYTES + 1
    if limit <= 0:
        return None
    for index in tls_records(view, limit, min(_CONTENT_TYPES), max(_CONTENT_TYPES)):
        if _chain_at(view, index):
            return index
    return None


def _chain_at(view: memoryview, at: int) -> bool:
    for _ in range(_CHAIN):
        if not looks_like_tls(view[at : at + _HEAD_BYTES]):
            return False
        at += _HEAD_BYTES + (view[at + 3] << 8 | view[at + 4])
    return True
