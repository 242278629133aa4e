"""Recognizes the tokens that open a login by GSSAPI (Kerberos).

In: the first bytes of a token. Out: whether it is one.
"""

from __future__ import annotations

_APPLICATION_0 = 0x60
_OBJECT_IDENTIFIER = 0x06
_LONGEST_OID_BYTES = 32
_MECHANISMS = (
    bytes.fromhex("06092a864886f712010202"),  # Kerberos 5, RFC 4121 section 4.1
    bytes.fromhex("06062b0601050502"),  # SPNEGO, RFC 4178 section 3.1
)
"""Object identifiers of mechanisms, as DER."""


def looks_like_gssapi(head: bytes | memoryview, size: int) -> bool:
    """Return true if a token of ``size`` bytes that starts with ``head`` opens a GSSAPI login.

    Clients of Kafka 0.9 log in this way, without a SaslHandshake. RFC 2743 section 3.1: the tag
    0x60, the DER length of all that follows, and the mechanism's object identifier.
    """
    at, length = _der_length(head)
    if not at or length != size - at or len(head) < at + 2:
        return False
    return head[at] == _OBJECT_IDENTIFIER and 0 < head[at + 1] <= _LONGEST_OID_BYTES


def _der_length(head: bytes | memoryview) -> tuple[int, int]:
    """Return the position after the length of a GSSAPI token, and the length; 0 if it is none."""
    if len(head) < 8 or head[0] != _APPLICATION_0:
        return 0, 0
    length, at = head[1], 2
    if length > 0x80:
        count = length & 0x7F
        if count > 4:
            return 0, 0
        at += count
        length = int.from_bytes(head[2:at], "big")
    return at, length


def names_mechanism(head: bytes | memoryview) -> bool:
    """Return true if a token names a usual mechanism of GSSAPI, whatever its length says."""
    at, _ = _der_length(head)
    return bool(at) and bytes(head[at : at + 16]).startswith(_MECHANISMS)
