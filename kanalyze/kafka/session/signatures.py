"""Names the protocol of a connection that is not Kafka, by its first bytes.

In: the first bytes of both directions, some hundred. Out: a protocol's name.

The name is a guess, made once per connection and used for counts. A protocol is named only if the
bytes are as its document requires; in doubt the name is ``unknown``.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from kanalyze.kafka.session.gssapi import names_mechanism
from kanalyze.model.tls import looks_like_record

if TYPE_CHECKING:
    from collections.abc import Callable

_INT32 = struct.Struct(">i").unpack_from
_MIN_ZEROS = 8
_MIN_BYTES = 4
"""No protocol is named by fewer bytes."""

# RFC 9112 sections 3 and 4; the connection preface of HTTP/2, RFC 9113 section 3.4.
_HTTP = re.compile(
    rb"(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|CONNECT|TRACE) [!-~]+ HTTP/1\.[01]\r?\n"
    rb"|(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|CONNECT|TRACE) [!-~]{200}"
    rb"|HTTP/1\.[01] [1-5][0-9][0-9][ \r\n]"
    rb"|PRI \* HTTP/2\.0\r\n\r\nSM\r\n\r\n"
)
# RFC 4253 section 4.2.
_SSH = re.compile(rb"SSH-(?:1\.[0-9]+|2\.0)-[ -~]+")
# AMQP 0-9-1 section 4.2.2, AMQP 1.0 section 2.2: the name, an id, three parts of a version.
_AMQP = re.compile(rb"AMQP[\x00-\x03][\x00-\x09]{3}")
# Redis serialization protocol: an array of bulk strings, or a reply; or the bare word PING.
_REDIS = re.compile(
    rb"\*[0-9]{1,7}\r\n\$[0-9]{1,9}\r\n|\+(?:OK|PONG|QUEUED)\r\n|-(?:ERR|NOAUTH|WRONGPASS|MOVED) "
    rb"|\$(?:-1|[0-9]{1,9})\r\n|PING\r\n"
)
# NATS client protocol: the server's first line.
_NATS = re.compile(rb"INFO \{[ -~]*\"(?:server_id|version|max_payload)\"")
# memcached protocol.txt: commands and replies.
_MEMCACHED = re.compile(
    rb"(?:gets?|set|add|replace|append|prepend|cas|delete|incr|decr|touch) [!-~]{1,250}[ \r]"
    rb"|(?:stats|version|flush_all)\r\n|VALUE [!-~]+ [0-9]+ [0-9]+|STORED\r\n|STAT [!-~]+ "
)
# RFC 5321 sections 4.1.1.1 and 4.2, RFC 959 section 4: greetings, and the replies to them.
_SMTP = re.compile(rb"(?:EHLO|HELO) [!-~]+\r\n|220[ -][^\r\n]*E?SMTP", re.IGNORECASE)
_FTP = re.compile(rb"220[ -][^\r\n]*FTP|USER [!-~]+\r\n", re.IGNORECASE)
# ZooKeeper administrator's guide, "The Four Letter Words"; imok answers ruok.
_FOUR_LETTERS = re.compile(
    rb"(?:conf|cons|crst|dump|envi|ruok|imok|srst|srvr|stat|wchs|wchc|wchp|dirs|mntr|isro|hash)\n?\Z"
)


def _is_zookeeper(head: bytes) -> bool:
    """Check for zookeeper.jute: ConnectRequest and ConnectResponse, or a ping.

    The first two have protocol version 0 and a password of 16 bytes at the end, with or without
    the read-only flag; a ping has xid -2.
    """
    if _FOUR_LETTERS.match(head):
        return True
    if len(head) < 12:
        return False
    size = _INT32(head)[0]
    if head[4:8] == b"\xff\xff\xff\xfe":
        return (size == 8 and head[8:12] == b"\0\0\0\x0b") or (size == 16 and len(head) >= 20)
    password_at = {44: 28, 45: 28, 36: 20, 37: 20}.get(size, 0)
    if not password_at or head[4:8] != bytes(4):
        return False
    return head[password_at : password_at + 4] == b"\0\0\0\x10"


_PG_CODES = {196608, 196610, 80877102, 80877103, 80877104}
_PG_TYPES = frozenset(b"123ABCDEFGHIKNPQRSTVWXZcdfnpst")


def _is_postgresql(head: bytes) -> bool:
    """Check for "Message Formats" of the frontend/backend protocol.

    A startup packet begins with its length and 3.0, 3.2, or one of the codes for cancel, SSL and
    GSSAPI; later messages with a letter and a length, of which two in a row are required.
    """
    if len(head) >= 8 and 8 <= _INT32(head)[0] <= 10_000 and _INT32(head, 4)[0] in _PG_CODES:
        return True
    at, count = 0, 0
    while at + 5 <= len(head) and head[at] in _PG_TYPES:
        length = _INT32(head, at + 1)[0]
        if not 4 <= length <= 1 << 24:
            return False
        count += 1
        at += 1 + length
    return count > 1 and (at >= len(head) or at + 5 > len(head))


def _is_mysql(head: bytes) -> bool:
    """Check for the server's initial handshake packet.

    3 bytes of length, low one first, sequence 0, protocol version 10, a version's text that NUL
    ends, a thread id and 8 bytes of salt, and a zero byte.
    """
    if len(head) < 20 or head[3] != 0 or head[4] != 10:
        return False
    length = int.from_bytes(head[:3], "little")
    end = head.find(b"\0", 5, 5 + 64)
    if not 30 <= length <= 512 or end < 6 or not head[5:6].isdigit():
        return False
    return head[5:end].isascii() and len(head) > end + 13 and head[end + 13] == 0


_MONGO_CODES = {1, 2004, 2010, 2011, 2012, 2013}


def _is_mongodb(head: bytes) -> bool:
    """Check for "Standard Message Header" of the MongoDB wire protocol.

    Length, request id, the id answered and opcode, all int32 with the low byte first.
    """
    if len(head) < 20:
        return False
    length, _, answered, code = struct.unpack_from("<iiii", head)
    if not 20 <= length <= 48_000_000 or code not in _MONGO_CODES or answered < 0:
        return False
    return code != 1 or int.from_bytes(head[16:20], "little") < 16


def _is_cassandra(head: bytes) -> bool:
    """Check for section 2 of the CQL native protocol.

    Version 3 to 5, flags, stream, opcode, length; the first frame is STARTUP with CQL_VERSION, or
    OPTIONS with no body.
    """
    if len(head) < 9 or head[0] not in (3, 4, 5) or head[1] > 0x1F:
        return False
    if head[4] == 1:
        return b"CQL_VERSION" in head[9:64]
    return head[4] == 5 and head[5:9] == bytes(4)


def _is_gssapi(head: bytes) -> bool:
    """Check for a token that opens a login of Kafka 0.9: RFC 2743 section 3.1, behind its size."""
    return head[:2] == b"\0\0" and names_mechanism(head[4:])


def _is_dns(head: bytes) -> bool:
    """Check for RFC 1035 sections 4.1 and 4.2.2, RFC 7766.

    A length, then a header with one question, and a name that ends within 255 bytes, of class IN.
    """
    if len(head) < 2 + 12 + 5:
        return False
    length, _, flags, questions, answers = struct.unpack_from(">HHHHH", head)
    if length < 17 or questions != 1 or answers > 512 or flags & 0x0040 or flags >> 11 & 15:
        return False
    at = 14
    while at < len(head) and 0 < head[at] < 64:
        at += head[at] + 1
    return at + 5 <= len(head) and head[at] == 0 and head[at + 3 : at + 5] == b"\0\x01"


def _matches(pattern: re.Pattern[bytes]) -> Callable[[bytes], bool]:
    return lambda head: pattern.match(head) is not None


# The surest checks come first; those for text, which other protocols may begin with, last.
_TESTS: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    ("tls", looks_like_record),
    ("http", _matches(_HTTP)),
    ("ssh", _matches(_SSH)),
    ("amqp", _matches(_AMQP)),
    ("gssapi", _is_gssapi),
    ("zookeeper", _is_zookeeper),
    ("postgresql", _is_postgresql),
    ("mysql", _is_mysql),
    ("mongodb", _is_mongodb),
    ("cassandra", _is_cassandra),
    ("nats", _matches(_NATS)),
    ("redis", _matches(_REDIS)),
    ("memcached", _matches(_MEMCACHED)),
    ("smtp", _matches(_SMTP)),
    ("ftp", _matches(_FTP)),
    ("dns", _is_dns),
)

PROTOCOLS = (*(name for name, _ in _TESTS), "zeros", "none", "unknown")
"""All names that :func:`guess_protocol` gives: ``zeros`` is a connection in which nothing but zero
bytes was seen, ``none`` one without any payload, ``unknown`` every other one."""


def guess_protocol(first: bytes, second: bytes) -> str:
    """Return the name of the protocol that two directions begin with, one of ``PROTOCOLS``.

    Args:
        first: the first bytes captured of one direction, at most some hundred; may be empty. They
            need not be the stream's first bytes.
        second: the same of the other direction.

    ``tls`` is a connection that begins with it: one that asks for it by a message of its own
    (PostgreSQL, SMTP) keeps that protocol's name.
    """
    heads = [head for head in (first, second) if head]
    if not heads:
        return "none"
    if max(map(len, heads)) >= _MIN_BYTES:
        for name, matches in _TESTS:
            for head in heads:
                if matches(head):
                    return name
    if all(len(head) >= _MIN_ZEROS and not any(head) for head in heads):
        return "zeros"
    return "unknown"


_TEXTS = {
    **dict.fromkeys(
        (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN"), "HTTP"
    ),
    **dict.fromkeys((b"HTTP", b"TRAC", b"PRI "), "HTTP"),
    **dict.fromkeys((b"PROX", b"\r\n\r\n"), "PROXY protocol"),
    **dict.fromkeys((b"220 ", b"220-", b"EHLO", b"HELO"), "SMTP or FTP"),
    b"SSH-": "SSH",
    b"AMQP": "AMQP",
    b"INFO": "NATS",
    b"PING": "Redis",
}
"""What a protocol of text may begin with: four bytes, where Kafka has a size."""


def describe_size(size: int, speaker: str | None) -> str:
    """Return what an impossible size is, if it is known text, or a record of TLS; else nothing.

    No other text is shown, because it may be of a record, or of a password.

    Args:
        size: the four bytes, as Kafka reads them.
        speaker: who sent them as the first bytes of a stream; None if they came later.
    """
    data = size.to_bytes(4, "big", signed=True)
    protocol, what = _TEXTS.get(data), f'the text "{data.decode("ascii", "replace")}"'
    if protocol is None:
        if not looks_like_record(data + b"\1"):  # the length's second byte is not in the size
            return ""
        protocol, what = "TLS", "the beginning of a TLS record"
    elif data == b"\r\n\r\n":
        what = "two empty lines"
    says = "" if speaker is None else f": {speaker} speaks {protocol}"
    return f", {what}{says}"
