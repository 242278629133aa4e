"""Anonymizes contents with a form of their own: SASL tokens, data of group members, prefixes.

In: a token; a field of JoinGroup, SyncGroup or DescribeGroups; the bytes that a proxy put before a
protocol. Out: bytes of the same length and, as far as it is known, of the same form.

Enough of a token stays for a reader to recognize the mechanism: PLAIN (RFC 4616), SCRAM (RFC 5802),
OAUTHBEARER (RFC 7628), and the first token of GSSAPI (RFC 2743). Subscriptions and assignments are
parsed, in the format of the consumer protocol. A prefix is read as the same prefix, with stand-ins
for addresses, host names and users. Contents of unknown form are blank.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from kanalyze.kafka.session.gssapi import looks_like_gssapi

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.anonymization.stand_ins import StandIns
    from kanalyze.model.streams import PartKind, PrefixBytes

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


def member_data(content: bytes, stand_ins: StandIns, *, is_subscription: bool) -> bytes:
    """Return the subscription or the assignment of a member, with stand-ins for topics and rack.

    Both are parsed in the format of the consumer protocol (see
    :mod:`kanalyze.kafka.codec.embedded_protocols`). Content in any other format is blanked.
    """
    member = _Member(content, stand_ins)
    if member.read(is_subscription=is_subscription):
        return b"".join(member.pieces)
    return blank(len(content))


class _Member:
    """Parses a subscription or an assignment into ``pieces`` of the anonymized content."""

    def __init__(self, content: bytes, stand_ins: StandIns) -> None:
        self._content = content
        self._stand_ins = stand_ins
        self._at = 0
        self.pieces: list[bytes] = []

    def read(self, *, is_subscription: bool) -> bool:
        """Parse the content; return whether it has the expected format."""
        try:
            version = self._number(2)
            if version < 0:
                return False
            if is_subscription:
                self._each(self._name)
            else:
                self._each(self._partitions)
            self._user_data()
            if is_subscription:
                self._newer(version)
        except IndexError:
            return False
        if self._at == len(self._content):
            return True
        if version <= 3:
            return False
        self.pieces.append(bytes(len(self._content) - self._at))
        return True

    def _newer(self, version: int) -> None:
        """Read the fields that versions 1 to 3 added to a subscription."""
        if version >= 1:
            self._each(self._partitions)
        if version >= 2:
            self._number(4)
        if version >= 3:
            self._name()

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._content):
            raise IndexError
        piece = self._content[self._at : end]
        self._at = end
        return piece

    def _number(self, size: int) -> int:
        number_bytes = self._take(size)
        self.pieces.append(number_bytes)
        return int.from_bytes(number_bytes, signed=True)

    def _each(self, read: Callable[[], None]) -> None:
        count = self._number(4)
        if not 0 <= count <= len(self._content):
            raise IndexError
        for _ in range(count):
            read()

    def _name(self) -> None:
        size = self._number(2)
        if size >= 0:
            self.pieces.append(self._stand_ins.name(self._take(size)))

    def _partitions(self) -> None:
        self._name()
        count = self._number(4)
        if count < 0:
            raise IndexError
        self.pieces.append(self._take(4 * count))

    def _user_data(self) -> None:
        size = self._number(4)
        if size > 0:
            self.pieces.append(blank(len(self._take(size))))


_ADDRESS_BYTES = (4, 16)


def anonymous_prefix(prefix: PrefixBytes, stand_ins: StandIns) -> bytes:
    """Return the anonymous bytes of a prefix."""
    data = bytearray(prefix.data)
    for part in prefix.parts:
        original = prefix.data[part.begin : part.end]
        data[part.begin : part.begin + len(original)] = _stand_in(original, part.kind, stand_ins)
    return bytes(data)


def _stand_in(original: bytes, kind: PartKind, stand_ins: StandIns) -> bytes:
    if kind == "address text":
        return stand_ins.address_text(original)
    if kind == "host":
        is_address = _is_address(original)
        return stand_ins.address_text(original) if is_address else stand_ins.host(original)
    if kind == "name":
        return stand_ins.name(original)
    if kind == "address" and len(original) in _ADDRESS_BYTES:
        return stand_ins.address(original)
    return (b"x" if kind in ("secret", "text") else b"\0") * len(original)


def _is_address(host: bytes) -> bool:
    try:
        ipaddress.ip_address(host.decode("ascii"))
    except ValueError:  # UnicodeDecodeError is one, too
        return False
    return True
