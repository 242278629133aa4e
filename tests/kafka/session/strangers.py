"""Conversations in other protocols that look as much like Kafka as possible: (side, bytes) turns.

A number in place of the bytes is the number of bytes that the capture lost.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from tests.support.streams import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

Turns: TypeAlias = "list[tuple[int, bytes | int]]"

_pack = struct.pack


def zookeeper(noise: Random) -> Turns:
    """Requests whose xid rises through Kafka's API keys: 0x000A0000 is key 10, version 0."""
    xid = noise.choice([1, 65_530, 0x30000, 0xA0000, 0xC0000, 0xF0000, 0x110000, 0x120000]) - 2
    turns: Turns = []
    for _ in range(12):
        operation = noise.choice([3, 4, 4, 8, 12])
        path = noise.choice([b"/a", b"/brokers/ids", b"/brokers/topics/" + b"t" * 20])
        head = _pack(">iii", xid, operation, len(path))
        turns.append((0, frame_of(head + path + bytes([noise.random() < 0.2]))))
        turns.append((1, frame_of(_pack(">iqi", xid, 900, 0) + noise.randbytes(68))))
        xid += 1
    return turns


def zookeeper_for_long(noise: Random) -> Turns:
    """Requests that look like one Kafka frame of megabytes if they are read two bytes off.

    The path is then the client id. Another request, also two bytes off, begins at the frame's end.
    """
    path = b"/brokers/topics/" + noise.choice([b"t" * 20, b"u" * 44])
    first = noise.choice([3, 18])
    reads = [
        frame_of(_pack(">iii", first + number, 4, len(path)) + path + b"\0")
        for number in range(70_000)
    ]
    return [(0, b"".join(reads[at : at + 500])) for at in range(0, len(reads), 500)]


def zookeeper_one_way(noise: Random) -> Turns:
    return [turn for turn in zookeeper(noise) if turn[0] == 0]


def thrift_framed(noise: Random) -> Turns:
    """The old binary protocol: the length of a name is where Kafka has key and version."""
    turns: Turns = []
    for number in range(10):
        name = noise.choice([b"get", b"ping", b"listTables"])
        head = _pack(">i", len(name)) + name
        turns.append((0, frame_of(head + b"\x01" + _pack(">i", number) + b"\0")))
        turns.append((1, frame_of(head + b"\x02" + _pack(">i", number) + b"\0")))
    return turns


def typed_messages(noise: Random) -> Turns:
    """Length, type, version, number, zeros; and responses that begin the same way."""
    kind, version = noise.randrange(80), noise.randrange(4)
    turns: Turns = []
    for number in range(12):
        head = _pack(">hhi", kind, version, number)
        for side in (0, 1):
            turns.append((side, frame_of(head + bytes(noise.randrange(40)))))
    return turns


def small_messages(noise: Random) -> Turns:
    makers: list[Callable[[int], bytes]] = [
        noise.randbytes,
        bytes,
        lambda size: _pack(">hhi", noise.randrange(20), noise.randrange(5), size) + bytes(size),
        lambda size: _pack(">iii", noise.randrange(20) << 16, 7, size) + b"a" * size,
    ]
    return [
        (number % 2, frame_of(noise.choice(makers)(noise.choice([0, 4, 8, 10, 14, 18, 28, 60]))))
        for number in range(20)
    ]


def small_numbers(noise: Random) -> Turns:
    width = noise.choice([">i", ">h", ">q", "<i"])
    return [
        (side, b"".join(_pack(width, noise.choice([0, 0, 1, 2, 12, 20])) for _ in range(800)))
        for side in (0, 1, 0)
    ]


def counters(noise: Random) -> Turns:
    first = noise.randrange(60)
    return [(0, b"".join(_pack(">i", first + number) for number in range(3000)))]


def http2_frames(noise: Random) -> Turns:
    """DATA frames of stream 1 with gRPC messages in them."""
    turns: Turns = []
    for number in range(6):
        message = b"\0" + _pack(">I", 9) + noise.randbytes(9)
        turns.append((number % 2, (b"\0\0\x0e\0\0" + _pack(">I", 1) + message) * 5))
    return turns


def dns(noise: Random) -> Turns:
    turns: Turns = []
    for _ in range(6):
        question = b"\7example\3com\0\0\1\0\1"
        number = noise.randrange(65536)
        query = _pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + question
        response = _pack(">HHHHHH", number, 0x8180, 1, 1, 0, 0) + question
        response += b"\xc0\x0c\0\1\0\1\0\0\1\0\0\4\1\2\3\4"
        turns += [(0, _pack(">H", len(query)) + query), (1, _pack(">H", len(response)) + response)]
    return turns


def mongodb(noise: Random) -> Turns:
    turns: Turns = []
    for number in range(6):
        for side, response_to in ((0, 0), (1, number)):
            body = _pack("<iii", number + 100 * side, response_to, 2013) + bytes(4) + b"\0"
            body += noise.randbytes(40)
            turns.append((side, _pack("<i", len(body) + 4) + body))
    return turns


def java_objects(_: Random) -> Turns:
    stream = b"sr\0\x11java.lang.Integer\x12\xe2\xa0\xa4\xf7\x81\x878\2\0\1I\0\5value"
    return [(0, b"\xac\xed\0\5"), (1, b"\xac\xed\0\5"), (0, b"w\4\0\0\0\1" + stream * 4)]


def text_lines(noise: Random) -> Turns:
    return [
        (number % 2, b'{"id": %d, "name": "%s"}\n' % (number, b"x" * noise.randrange(30)))
        for number in range(30)
    ]


def text_frames(_: Random) -> Turns:
    return [(number % 2, frame_of(b'{"id": %d}' % number)) for number in range(30)]


def few_bytes(noise: Random) -> Turns:
    """Fewer bytes than a request's header, and nothing after them."""
    words = [
        b"GET /\r\n\r\n\r\n\r\n",
        b"PING\r\nPING\r\n",
        b"HELO a.b.c\r\n",
        b"\0\0\0\x14" + bytes(8),
    ]
    return [(0, noise.choice(words))]


def noise_bytes(noise: Random) -> Turns:
    most = noise.choice([1, 2, 5, 12, 13, 14, 20, 100, 1000, 20_000])
    return [
        (noise.randrange(2), noise.randbytes(noise.randrange(1, most + 1)))
        for _ in range(noise.randrange(1, 5))
    ]


def noise_with_losses(noise: Random) -> Turns:
    turns: Turns = []
    for _ in range(3):
        turns.append((noise.randrange(2), noise.randbytes(noise.randrange(1, 3000))))
        turns.append((noise.randrange(2), noise.randrange(1, 5000)))
    return turns


def one_byte_again_and_again(noise: Random) -> Turns:
    byte = noise.choice([b"\0", b"\xff", b"\x05", b"\x01"])
    return [(noise.randrange(2), byte * noise.randrange(1, 5000)) for _ in range(3)]


ALL = (
    zookeeper,
    zookeeper_one_way,
    thrift_framed,
    typed_messages,
    small_messages,
    small_numbers,
    counters,
    http2_frames,
    dns,
    mongodb,
    java_objects,
    text_lines,
    text_frames,
    few_bytes,
    noise_bytes,
    noise_with_losses,
    one_byte_again_and_again,
)
