"""Who logs in: the user name in a SASL token, and nothing else of it.

In: the bytes of one token. Out: a user name or None. Tokens are secrets: this module keeps none,
returns no part of one but the name, and must not be given a place to write to.
"""

from __future__ import annotations

__all__ = ["looks_like_gssapi", "principal_of"]

_LONGEST_NAME_BYTES = 1024


def principal_of(mechanism: str | None, token: bytes) -> str | None:
    """Return the user that a client's SASL token names, or None when it names none.

    Args:
        mechanism: as in SaslHandshake (``PLAIN``, ``SCRAM-SHA-256``, ...), None when not seen.
        token: one token of the client.

    PLAIN is ``[authzid] NUL authcid NUL password`` (RFC 4616); the first message of SCRAM is
    ``n,[a=authzid],n=user,r=nonce`` (RFC 5802), ``=2C`` and ``=3D`` standing for ``,`` and ``=``.
    """
    if mechanism == "PLAIN":
        return _plain(token)
    if mechanism is not None and mechanism.startswith("SCRAM-"):
        return _scram(token)
    return None


_APPLICATION_0 = 0x60
_OBJECT_IDENTIFIER = 0x06
_LONGEST_OID_BYTES = 32


def looks_like_gssapi(head: bytes | memoryview, size: int) -> bool:
    """Tell whether a token of ``size`` bytes that starts with ``head`` opens a GSSAPI login.

    Clients of Kafka 0.9 log in so with no SaslHandshake before. RFC 2743 section 3.1: the tag
    0x60, the DER length of all that follows, and the mechanism's object identifier.
    """
    if len(head) < 8 or head[0] != _APPLICATION_0:
        return False
    length, at = head[1], 2
    if length > 0x80:
        count = length & 0x7F
        if count > 4:
            return False
        at += count
        length = int.from_bytes(head[2:at], "big")
    if length != size - at or len(head) < at + 2:
        return False
    return head[at] == _OBJECT_IDENTIFIER and 0 < head[at + 1] <= _LONGEST_OID_BYTES


def _plain(token: bytes) -> str | None:
    parts = token.split(b"\0", 3)
    return _name(parts[1]) if len(parts) == 3 else None


def _scram(token: bytes) -> str | None:
    fields = token.split(b",", 4)
    if len(fields) < 4 or fields[0] not in (b"n", b"y") or not fields[2].startswith(b"n="):
        return None
    name = _name(fields[2][2:])
    return None if name is None else name.replace("=2C", ",").replace("=3D", "=")


def _name(raw: bytes) -> str | None:
    if not raw or len(raw) > _LONGEST_NAME_BYTES:
        return None
    return raw.decode("utf-8", "backslashreplace")
