"""Tells a TLS stream by its first bytes.

In: the first bytes of one direction. Out: whether they are a TLS record. This module must not
know what is inside a record.
"""

from __future__ import annotations

__all__ = ["looks_like_tls"]

_CONTENT_TYPES = (20, 21, 22, 23)
_LONGEST_RECORD_BYTES = 16384 + 2048


def looks_like_tls(head: bytes | memoryview) -> bool:
    """Tell whether a stream that starts with ``head`` is TLS.

    A record begins with its content type (20 change_cipher_spec, 21 alert, 22 handshake, 23
    application data), the legacy version 3.0 to 3.4, and a length of at most 2^14 + 2048
    (RFC 8446 section 5.1, RFC 5246 section 6.2.1). Taken as a Kafka size, a handshake would be
    369 MB and more, which no broker accepts.
    """
    if len(head) < 5:
        return False
    length = head[3] << 8 | head[4]
    return (
        head[0] in _CONTENT_TYPES
        and head[1] == 3
        and head[2] <= 4
        and 0 < length <= _LONGEST_RECORD_BYTES
    )
