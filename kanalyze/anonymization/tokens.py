"""Anonymizes SASL tokens: the user becomes a stand-in, secrets are blanked, the form stays.

In: a token. Out: one of the same length.

Enough of the form stays for a reader to recognize the mechanism: PLAIN (RFC 4616), SCRAM
(RFC 5802), OAUTHBEARER (RFC 7628), and the first token of GSSAPI (RFC 2743). A token of unknown
form is blanked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.kafka.session.sasl import looks_like_gssapi

if TYPE_CHECKING:
    from kanalyze.anonymization.stand_ins import StandIns

__all__ = ["blank", "raw_token", "token"]

_FILL: Final = b"x"
_WRAPPED: Final = b"\x05\x04"
_FIELD_ENDS: Final = b",="
_NAMES: Final = (b"a", b"n")
_FLAGS: Final = (b"", b"n", b"y")
_SCRAM_STARTS: Final = (b"n,", b"y,", b"p=", b"c=", b"r=", b"v=", b"e=")
_SHORTEST_FIRST: Final = 3


def blank(size: int) -> bytes:
    """Return the replacement for ``size`` bytes of content."""
    return _FILL * size


def token(content: bytes, stand_ins: StandIns) -> bytes:
    """Return a token with a stand-in for the user, and all else blanked."""
    if content.count(b"\0") == 2:
        authorized, user, password = content.split(b"\0")
        names = stand_ins.name(authorized), stand_ins.name(user)
        return b"\0".join((*names, blank(len(password))))
    if content.startswith(_SCRAM_STARTS):
        return b",".join(_attribute(part, stand_ins) for part in content.split(b","))
    if content.startswith(b"{"):
        return b"{" + blank(len(content) - 1)
    if content == b"\x01":
        return content
    if content.startswith(_WRAPPED):
        return _WRAPPED + blank(len(content) - len(_WRAPPED))
    if looks_like_gssapi(content, len(content)):
        return _gssapi(content)
    return blank(len(content))


def _attribute(part: bytes, stand_ins: StandIns) -> bytes:
    """Return an attribute of SCRAM, such as ``n=user``."""
    if part in _FLAGS:
        return part
    if part[1:2] != b"=" or not part[:1].isalpha():
        return blank(len(part))
    key, value = part[:1], part[2:]
    if key in _NAMES:
        stand_in = stand_ins.name(value)
        is_plain = not any(byte in _FIELD_ENDS for byte in value + stand_in)
        return key + b"=" + (stand_in if is_plain else blank(len(value)))
    if key == b"i" and value.isdigit():
        return part
    return key + b"=" + blank(len(value))


def _gssapi(content: bytes) -> bytes:
    """Return the first token of GSSAPI with only the tag, the length and the mechanism kept."""
    length = content[1]
    at = 2 + (length & 0x7F if length > 0x80 else 0)
    end = at + 2 + content[at + 1]
    return content[:end] + blank(len(content) - end)


def raw_token(
    mechanism: bytes | None, user: bytes | None, token_index: int, size: int, *, is_clients: bool
) -> bytes:
    """Return a replacement for a token whose content is unknown, in the form of its mechanism.

    Args:
        mechanism: as in SaslHandshake; None if unknown.
        user: the stand-in of the user; None if the user is unknown.
        token_index: number of tokens that this end sent before.
        size: bytes of the token.
        is_clients: whether the client sent it.
    """
    head = b""
    mechanism = mechanism or b""
    if mechanism == b"PLAIN" and is_clients:
        head = b"\0" + (user or b"") + b"\0"
    elif mechanism.startswith(b"SCRAM-"):
        first = b"n,,n=" + (user or b"") + b",r=" if is_clients else b"r="
        head = first if token_index == 0 else (b"c=" if is_clients else b"v=")
    elif mechanism == b"OAUTHBEARER":
        head = (b"n,," if is_clients else b"{") if size > _SHORTEST_FIRST else b"\x01"
    elif mechanism == b"GSSAPI":
        head = _WRAPPED
    return head + blank(size - len(head)) if len(head) <= size else blank(size)
