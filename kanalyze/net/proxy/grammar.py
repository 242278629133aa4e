"""The prefixes that proxies put before a protocol: PROXY protocol, HTTP CONNECT, SOCKS.

In: the first bytes of both directions of a connection. Out: :class:`Prefix`, or that more bytes are
needed.

==============  ====================================================================================
``proxy-v1``    PROXY protocol, version 1: a line of text, from the end that opened the connection
``proxy-v2``    PROXY protocol, version 2: 16 bytes, addresses, and what else the length covers
``http-connect``  RFC 9110, section 9.3.6: a request, perhaps repeated with credentials, and a 2xx
``socks5``      RFC 1928, with no authentication or a password (RFC 1929), and the replies
``socks4``      SOCKS 4 and 4a: a request, and the reply
==============  ====================================================================================

Every prefix is checked to its end, so that no other protocol is taken for one: SOCKS begins with
one byte that the size of a Kafka message can begin with, too. Prefixes may follow each other. If a
hole comes within a prefix, it ends there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.streams import PrefixPart
from kanalyze.model.tcp import Endpoint, ip_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.model.streams import PartKind

MAX_HEAD_BYTES: Final = 1 << 17
"""More than the longest prefix of version 2 and a request of HTTP take."""
_MAX_LAYERS: Final = 4
_MAX_V1_BYTES: Final = 107
_MAX_HTTP_BYTES: Final = 1 << 14
"""Of a request or response of HTTP, without its content."""
_MAX_ROUNDS: Final = 4
"""How often a client of HTTP may ask: the answers before the last ask for credentials."""
_BLANK_LINE: Final = b"\r\n\r\n"

# Texts of patterns: compiled when the first connection needs one, which most captures never do.
_V1: Final = b"PROXY "
_V1_LINE: Final = (
    rb"PROXY (?:TCP([46]) ([0-9A-Fa-f:.]{2,45}) ([0-9A-Fa-f:.]{2,45}) ([0-9]{1,5}) ([0-9]{1,5})"
    rb"|UNKNOWN(?: ([^\r\n]*))?)"
)
_V2: Final = b"\r\n\r\n\0\r\nQUIT\n"
_V2_BYTES: Final = 16
_V2_LOCAL, _V2_PROXY = 0x20, 0x21
_V2_ADDRESS_BYTES: Final = {1: 4, 2: 16}
"""By the upper half of the byte for family and transport: IPv4, IPv6."""

_CONNECT: Final = b"CONNECT "
_CONNECT_LINE: Final = rb"CONNECT ([!-~]+@)?([!-?A-~]{1,300}) HTTP/1\.[01]"
_STATUS: Final = b"HTTP/1."
_STATUS_LINE: Final = rb"HTTP/1\.[01] ([0-9]{3})(?: ([^\r\n]*))?"
_CONTENT_LENGTH: Final = rb"(?i)content-length:[ \t]*([0-9]{1,5})[ \t]*"
_HAS_SECRETS: Final = rb"(?i)(?:proxy-)?authorization|cookie"

_SOCKS5, _SOCKS4 = 5, 4
_NO_AUTHENTICATION, _PASSWORD, _NO_METHOD = 0, 2, 0xFF
_CONNECT_COMMAND: Final = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_MAX_NAME_BYTES: Final = 255
_SOCKS4_REPLIES: Final = range(0x5A, 0x5E)
_SOCKS4_GRANTED: Final = 0x5A
_CONTROL: Final = rb"[\x00-\x1f\x7f]"


class Head(NamedTuple):
    """The first bytes of a direction, up to the first hole."""

    data: bytes
    is_over: bool
    """Whether no byte can follow: there is a hole, the connection is closed, or it is too much."""


class Layer(NamedTuple):
    """What one proxy put before the rest."""

    kind: str
    client: Endpoint | None = None
    target: str | None = None


class Prefix(NamedTuple):
    """What came before the protocol. Pairs are: of the end that began with it, of the other."""

    layers: tuple[Layer, ...]
    """In the order on the wire; empty if there is no prefix."""
    ends: tuple[int, int]
    """The stream offsets behind it; perhaps more than was captured."""
    parts: tuple[tuple[PrefixPart, ...], tuple[PrefixPart, ...]]


class _MoreNeeded(Exception):
    """The next bytes may decide."""


class _Broken(Exception):
    """The next bytes are missing."""


class _PrefixCursor:
    """A place in the first bytes of one direction."""

    __slots__ = ("at", "data", "is_over", "parts")

    def __init__(self, head: Head) -> None:
        self.data, self.is_over = head
        self.at = 0
        self.parts: list[PrefixPart] = []

    def starts_with(self, literal: bytes) -> bool:
        """Return true if the next bytes are these; raises _MoreNeeded while they may be."""
        found = self.data[self.at : self.at + len(literal)]
        if found == literal:
            return True
        if not self.is_over and literal.startswith(found):
            raise _MoreNeeded
        return False

    def require(self, size: int) -> None:
        """Return if there are this many bytes; raises _MoreNeeded or _Broken."""
        if len(self.data) - self.at < size:
            self.want()

    def want(self) -> None:
        """Ask for more bytes: raises _MoreNeeded or _Broken."""
        raise _Broken if self.is_over else _MoreNeeded

    def take(self, size: int, kind: PartKind | None = None) -> bytes:
        """Return the next bytes; raises _MoreNeeded or _Broken."""
        self.require(size)
        if kind is not None:
            self.note(self.at, self.at + size, kind)
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        """Return the next byte; raises _MoreNeeded or _Broken."""
        return self.take(1)[0]

    def note(self, begin: int, end: int, kind: PartKind) -> None:
        """Note a part."""
        if begin < end:
            self.parts.append(PrefixPart(begin, end, kind))

    def break_off(self) -> None:
        """End where the next byte is missing."""
        end = max(self.at, len(self.data))
        self.note(self.at, end, "text")
        self.at = end


def read_prefix(sender: Head, other: Head) -> Prefix | None:
    """Return the prefix that a connection begins with; None if more bytes may decide.

    Args:
        sender: the end that opened the connection, or may have.
        other: the other end.
    """
    cursors = _PrefixCursor(sender), _PrefixCursor(other)
    layers: list[Layer] = []
    try:
        while len(layers) < _MAX_LAYERS:
            marks = [(cursor.at, len(cursor.parts)) for cursor in cursors]
            layer = _layer(*cursors)
            if layer is None:
                for cursor, (at, parts) in zip(cursors, marks, strict=True):
                    cursor.at = at
                    del cursor.parts[parts:]
                break
            layers.append(layer)
    except _MoreNeeded:
        return None
    first, second = cursors
    return Prefix(tuple(layers), (first.at, second.at), (tuple(first.parts), tuple(second.parts)))


def may_have_secrets(data: bytes) -> bool:
    """Return true if the first bytes of a direction may be followed by credentials of a proxy."""
    return data[:1] == b"\5" or (bool(data) and data.startswith(_CONNECT[: len(data)]))


def _layer(sender: _PrefixCursor, other: _PrefixCursor) -> Layer | None:
    """Return the next layer; None if there is none; raises _MoreNeeded."""
    first = sender.data[sender.at : sender.at + 1]
    if not first:
        if sender.is_over or not (sender.at or _may_answer(other)):
            return None
        raise _MoreNeeded
    read = _READERS.get(first[0])
    if read is None:
        return None
    return read(sender, other)


def _may_answer(other: _PrefixCursor) -> bool:
    """Return true if a direction may begin with a proxy's reply, while the request is not seen."""
    head = other.data[:2]
    is_socks = head[:1] == b"\5" or (head[:1] == b"\0" and head[1:] in _SOCKS4_BEGINNINGS)
    return bool(head) and (is_socks or other.data.startswith(_STATUS[: len(other.data)]))


_SOCKS4_BEGINNINGS: Final = (b"", *(bytes([code]) for code in _SOCKS4_REPLIES))


# -- PROXY protocol -------------------------------------------------------------------------------


def _proxy_v1(sender: _PrefixCursor, _other: _PrefixCursor) -> Layer | None:
    if not sender.starts_with(_V1):
        return None
    begin = sender.at
    end = sender.data.find(b"\r\n", begin, begin + _MAX_V1_BYTES)
    if end < 0:
        if len(sender.data) - begin >= _MAX_V1_BYTES:
            return None
        if not sender.is_over:
            raise _MoreNeeded
        sender.at += len(_V1)
        sender.break_off()
        return Layer("proxy-v1")
    line = re.compile(_V1_LINE).fullmatch(sender.data, begin, end)
    if line is None:
        return None
    sender.at = end + 2
    if line[1] is None:
        sender.note(*line.span(6), "text")
        return Layer("proxy-v1")
    packed = _packed(line[2], is_ipv6=line[1] == b"6")
    ports = int(line[4]), int(line[5])
    if packed is None or _packed(line[3], is_ipv6=line[1] == b"6") is None or max(ports) > 0xFFFF:
        return None
    sender.note(*line.span(2), "address text")
    sender.note(*line.span(3), "address text")
    return Layer("proxy-v1", Endpoint(_address_text(packed), ports[0]))


def _proxy_v2(sender: _PrefixCursor, _other: _PrefixCursor) -> Layer | None:
    if not sender.starts_with(_V2):
        return None
    begin = sender.at
    try:
        sender.require(_V2_BYTES)
    except _Broken:
        sender.at += len(_V2)
        sender.break_off()
        return Layer("proxy-v2")
    command, family, *length = sender.data[begin + len(_V2) : begin + _V2_BYTES]
    if command not in (_V2_LOCAL, _V2_PROXY):
        return None
    sender.at += _V2_BYTES
    end = sender.at + int.from_bytes(length)
    client = None
    size = _V2_ADDRESS_BYTES.get(family >> 4, 0)
    if size and end - sender.at >= 2 * size + 4:
        try:
            address = sender.take(size, "address")
            sender.take(size, "address")
            port = int.from_bytes(sender.take(4)[:2])
        except _Broken:
            pass  # the snap length: the length of the whole is known all the same
        else:
            if command == _V2_PROXY:
                client = Endpoint(_address_text(address), port)
    sender.note(sender.at, end, "bytes")
    sender.at = end
    return Layer("proxy-v2", client)


def _packed(text: bytes, *, is_ipv6: bool) -> bytes | None:
    """Return an address as bytes; None if it is no address of this family."""
    from socket import (  # imported late: slow, and few are behind proxies
        AF_INET,
        AF_INET6,
        inet_pton,
    )

    try:
        return inet_pton(AF_INET6 if is_ipv6 else AF_INET, text.decode("ascii"))
    except OSError:
        return None


def _address_text(packed: bytes) -> str:
    number = int.from_bytes(packed)
    return ip_text(number >> 64, number & ((1 << 64) - 1), is_ipv6=len(packed) > 4)


# -- HTTP CONNECT ---------------------------------------------------------------------------------


def _http_connect(sender: _PrefixCursor, other: _PrefixCursor) -> Layer | None:
    for _ in range(_MAX_ROUNDS):
        if not sender.starts_with(_CONNECT):
            return None
        target: str | None = None
        try:
            begin = sender.at
            lines = _http_lines(sender)
            request = lines and re.fullmatch(_CONNECT_LINE, lines[0])
            if not request:
                return None
            target = request[2].decode("ascii")
            sender.note(*_moved(request.span(1), begin), "secret")
            sender.note(*_moved(_host_span(request), begin), "host")
            _note_headers(sender, lines, begin)
        except _Broken:
            sender.at += len(_CONNECT)
            sender.break_off()
        status = _http_status(other)
        if status is None:
            # Of one direction nothing was captured, or not all of both: then the other proves it.
            return Layer("http-connect", target=target) if target is not None else None
        if 200 <= status < 300:
            return Layer("http-connect", target=target)
        if not 100 <= status < 600:
            return None
    return None


def _http_status(other: _PrefixCursor) -> int | None:
    """Read a response, and its content if it refuses; return its status, None if it is missing.

    Returns 0 if it is no response.
    """
    try:
        other.require(1)
        if not other.starts_with(_STATUS):
            return 0
        begin = other.at
        lines = _http_lines(other)
        line = lines and re.fullmatch(_STATUS_LINE, lines[0])
        if not line:
            return 0
        if line[2] is not None:
            other.note(*_moved(line.span(2), begin), "text")
        _note_headers(other, lines, begin)
        status = int(line[1])
        if status < 200:
            return _http_status(other) if status >= 100 and other.at < _MAX_HTTP_BYTES else 0
        if status >= 300:
            found = (re.fullmatch(_CONTENT_LENGTH, line) for line in lines)
            lengths = [match[1] for match in found if match]
            other.take(int(lengths[0]) if lengths else 0, "bytes")
    except _Broken:
        other.break_off()
        return None
    return status


def _http_lines(cursor: _PrefixCursor) -> list[bytes]:
    """Return the lines of a request or response, and go behind them; none if it is too long.

    Raises _MoreNeeded or _Broken.
    """
    begin = cursor.at
    end = cursor.data.find(_BLANK_LINE, begin, begin + _MAX_HTTP_BYTES)
    if end < 0:
        if len(cursor.data) - begin < _MAX_HTTP_BYTES:
            cursor.want()
        return []
    cursor.at = end + len(_BLANK_LINE)
    return cursor.data[begin:end].split(b"\r\n")


def _note_headers(cursor: _PrefixCursor, lines: list[bytes], begin: int) -> None:
    """Note the header lines of a message that begins at ``begin``, without the first line."""
    at = begin + len(lines[0]) + 2
    kind: PartKind = "text"
    for line in lines[1:]:
        name, colon, _ = line.partition(b":")
        if re.fullmatch(_CONTENT_LENGTH, line) is None:
            if line[:1] not in (b" ", b"\t"):  # else it continues the line before
                kind = "secret" if re.fullmatch(_HAS_SECRETS, name) else "text"
            cursor.note(at, at + len(name), "text" if colon else kind)
            cursor.note(at + len(name) + len(colon), at + len(line), kind)
        at += len(line) + 2


def _host_span(request: re.Match[bytes]) -> tuple[int, int]:
    """Return where the host is, without brackets and port."""
    begin, end = request.span(2)
    host, colon, port = request[2].rpartition(b":")
    if colon and port.isdigit():
        end = begin + len(host)
    if request[2].startswith(b"[") and request.string[end - 1 : end] == b"]":
        return begin + 1, end - 1
    return begin, end


def _moved(span: tuple[int, int], by: int) -> tuple[int, int]:
    return span[0] + by, span[1] + by


# -- SOCKS ----------------------------------------------------------------------------------------


def _socks5(sender: _PrefixCursor, other: _PrefixCursor) -> Layer | None:
    layer: Layer | None = None
    is_whole = True
    try:
        layer = _socks5_request(sender, other)
        if layer is None or layer.target is None:
            return layer
    except _Broken:
        sender.break_off()
        is_whole = False
    try:
        reply = other.take(3)
        if reply[0] != _SOCKS5 or reply[2] or _socks5_address(other) is None:
            return None
    except _Broken:
        other.break_off()
        return layer if is_whole else None
    return layer or Layer("socks5")


def _socks5_request(sender: _PrefixCursor, other: _PrefixCursor) -> Layer | None:
    """Read up to the request, which the reply follows; without a target if the proxy refuses.

    Raises _MoreNeeded or _Broken.
    """
    methods = sender.take(sender.take(2)[1])
    method = _socks5_method(sender, other) if methods else -1
    if method == _NO_METHOD:
        return Layer("socks5")
    if method not in (_NO_AUTHENTICATION, _PASSWORD) or method not in methods:
        return None  # or what follows is protected in a way that cannot be read here
    if method == _PASSWORD:
        if sender.byte() != 1 or not sender.take(sender.byte(), "name"):
            return None
        sender.take(sender.byte(), "secret")
        if not _is_accepted(other):
            return Layer("socks5")
    if sender.take(3) != bytes((_SOCKS5, _CONNECT_COMMAND, 0)):
        return None
    target = _socks5_address(sender)
    return None if target is None else Layer("socks5", target=str(target))


def _socks5_method(sender: _PrefixCursor, other: _PrefixCursor) -> int:
    """Return the method that the proxy chose; if that is missing, the one that the client uses."""
    try:
        version, method = other.take(2)
    except _Broken:
        other.break_off()
        sender.require(1)
        return _PASSWORD if sender.data[sender.at] == 1 else _NO_AUTHENTICATION
    return method if version == _SOCKS5 else -1


def _is_accepted(other: _PrefixCursor) -> bool:
    """Return true if the proxy accepts the password; true if its answer is missing."""
    try:
        return other.take(2)[1] == 0
    except _Broken:
        other.break_off()
        return True


def _socks5_address(cursor: _PrefixCursor) -> Endpoint | None:
    """Read an address and a port; None if it is none; raises _MoreNeeded or _Broken."""
    kind = cursor.byte()
    if kind == _NAME:
        name = cursor.take(cursor.byte(), "host")
        if not name or re.search(_CONTROL, name):
            return None
        host = name.decode("utf-8", "backslashreplace")
    elif kind in (_IPV4, _IPV6):
        host = _address_text(cursor.take(4 if kind == _IPV4 else 16, "address"))
    else:
        return None
    return Endpoint(host, int.from_bytes(cursor.take(2)))


def _socks4(sender: _PrefixCursor, other: _PrefixCursor) -> Layer | None:
    """Read SOCKS 4 or 4a; the reply has to be there, because the request has little of its own."""
    try:
        request = sender.take(4)
        if request[1] != _CONNECT_COMMAND:
            return None
        address = sender.take(4)
        has_name = address[:3] == bytes(3) and address[3]
        if not has_name:
            sender.note(sender.at - 4, sender.at, "address")
        if _terminated(sender, "name") is None:
            return None
        host = _address_text(address)
        if has_name:
            name = _terminated(sender, "host")
            if not name:
                return None
            host = name.decode("utf-8", "backslashreplace")
        reply = other.take(4)
        if reply[0] or reply[1] not in _SOCKS4_REPLIES:
            return None
        other.take(4, "address")
    except _Broken:
        return None
    if reply[1] != _SOCKS4_GRANTED:
        return Layer("socks4")
    return Layer("socks4", target=str(Endpoint(host, int.from_bytes(request[2:]))))


def _terminated(cursor: _PrefixCursor, kind: PartKind) -> bytes | None:
    """Read a text up to a zero byte; None if it is none; raises _MoreNeeded or _Broken."""
    begin = cursor.at
    end = cursor.data.find(b"\0", begin, begin + _MAX_NAME_BYTES + 1)
    text = cursor.data[begin : begin + _MAX_NAME_BYTES + 1 if end < 0 else end]
    if re.search(_CONTROL, text) or len(text) > _MAX_NAME_BYTES:
        return None
    if end < 0:
        cursor.want()
    cursor.note(begin, end, kind)
    cursor.at = end + 1
    return text


_READERS: Final[dict[int, Callable[[_PrefixCursor, _PrefixCursor], Layer | None]]] = {
    _V1[0]: _proxy_v1,
    _V2[0]: _proxy_v2,
    _CONNECT[0]: _http_connect,
    _SOCKS5: _socks5,
    _SOCKS4: _socks4,
}
"""By the first byte."""
BEGINNINGS: Final = frozenset(_READERS)
"""The bytes that a prefix begins with."""
ANSWERS: Final = frozenset((_STATUS[0], _SOCKS5, 0))
"""The bytes that the answer to a prefix begins with."""
