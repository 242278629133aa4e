"""Valid captures for the mutator: windows of the repository's captures, and other kinds.

In: nothing. Out: short captures, always the same and in the same order.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import sys
from typing import TYPE_CHECKING

import lz4.frame

from tests.fuzz.shapes import CAPTURE
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.captures import NAMES, path
from tests.support.packets import (
    START_NS,
    SYN,
    Blocks,
    Packet,
    ethernet,
    ipv4,
    pcap_file,
    pcapng_file,
    segment,
    tcp,
    timed,
)
from tests.support.traffic import (
    Line,
    capture_of,
    fetch,
    fetch_answer,
    produce,
    produce_answer,
)
from tests.support.wrapped import wrapped

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WINDOW_PACKETS = 24
_WINDOWS = 4
_LONGEST_CAPTURE_BYTES = 16_384
_PACKET_BLOCK = b"\x06\x00\x00\x00"
_WRAPPED_AT_ONCE = 14
_FRAGMENT_BYTES = 24
_PAIRS = 12
_LONG_TALKS = ((3, 4), (7, 11), (9, 12), (10, 16), (13, 17))
"""Versions of Produce and Fetch."""
_MORE_FRAGMENTS = 0x2000


@functools.cache
def captures() -> list[bytes]:
    """Return short captures, some of them compressed."""
    made = [window for name in NAMES for window in _windows(path(name).read_bytes())]
    made += [
        pcap_file(timed(_old_talk())),
        _every_block("<"),
        _every_block(">") + _every_block("<"),
    ]
    made += [pcap_file(timed(_fragments())), *_tunnels(), pcapng_file(timed(_new_talk()), ">")]
    made += [_long_talk(version) for version in _LONG_TALKS]
    return made + _compressed(made)


def _long_talk(versions: tuple[int, int]) -> bytes:
    """Return many similar requests and responses, which are read by columns."""
    packets: list[bytes] = []
    line = Line(packets).open()
    for number in range(_PAIRS):
        line.client(produce(number, versions[0])).broker(produce_answer(number, versions[0]))
    for number in range(_PAIRS, 2 * _PAIRS):
        line.client(fetch(number, versions[1])).broker(fetch_answer(number, versions[1]))
    line.close()
    return capture_of(packets)


def _windows(data: bytes) -> Iterator[bytes]:
    parts = CAPTURE.split(data)
    # The head of a pcapng is its section, with the interfaces right after it.
    is_blocks = data[:4] == b"\x0a\x0d\x0d\x0a"
    head = 1
    while is_blocks and parts[head][:4] == b"\x01\x00\x00\x00":
        head += 1
    step = max(1, (len(parts) - head) // _WINDOWS)
    for start in range(head, len(parts), step):
        window = b"".join(parts[:head])
        has_packets = False
        for part in parts[start : start + _WINDOW_PACKETS]:
            if len(window) + len(part) <= _LONGEST_CAPTURE_BYTES:
                window += part
                has_packets |= not is_blocks or part[:4] == _PACKET_BLOCK
        if has_packets:
            yield window


def _compressed(plain: list[bytes]) -> list[bytes]:
    """Return some captures compressed, in every format that captures are stored in."""
    some = plain[:: len(plain) // 4]
    made = [gzip.compress(found, mtime=0) for found in some]
    made += [zstd.compress(found) for found in some]
    made += [lz4.frame.compress(found) for found in some]
    made += [bz2.compress(found) for found in some]
    made += [lzma.compress(found) for found in some]
    # Concatenated pieces, and data that compresses far better than any capture.
    head, rest = some[0][:99], some[0][99:]
    made.append(gzip.compress(head, mtime=0) + gzip.compress(rest, mtime=0))
    made.append(zstd.compress(head) + b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zstd.compress(rest))
    made.append(zstd.compress(some[0] + bytes(1 << 20)))
    return made


def _talk(turns: Iterable[tuple[bool, bytes]]) -> Iterator[bytes]:
    sequences = {True: 1000, False: 5000}
    for to_broker in (True, False):
        yield segment(to_broker=to_broker, seq=sequences[to_broker] - 1, flags=SYN)
    for to_broker, data in turns:
        yield segment(
            to_broker=to_broker,
            seq=sequences[to_broker],
            ack=sequences[not to_broker],
            payload=data,
        )
        sequences[to_broker] += len(data)


def _new_talk() -> Iterator[bytes]:
    for number in range(4):
        yield from _talk([(True, k.heartbeat(number)), (False, k.heartbeat_answer(number))])


def _old_talk() -> Iterator[bytes]:
    fetches = [(True, old.produce()), (True, old.fetch(64)), (False, old.fetched(old.message()))]
    return _talk([*fetches, (True, old.offsets()), (False, old.offsets_answer(64, 0))] * 2)


def _fragments() -> Iterator[bytes]:
    """Yield packets in fragments: in order, out of order, and some twice."""
    for number in range(3):
        whole = tcp(seq=1000 + 44 * number, payload=k.heartbeat(number).ljust(44, b"x"))
        parts = [
            ethernet(
                ipv4(
                    whole[at : at + _FRAGMENT_BYTES],
                    fragment=at // 8
                    | (_MORE_FRAGMENTS if at + _FRAGMENT_BYTES < len(whole) else 0),
                )
            )
            for at in range(0, len(whole), _FRAGMENT_BYTES)
        ]
        yield from (parts, parts[::-1], parts + parts[:2])[number]


def _tunnels() -> Iterator[bytes]:
    """Yield segments in every encapsulation, with an interface for each link type."""
    found = list(wrapped().values())
    kinds = sorted({one.link_type for one in found})
    blocks = Blocks()
    head = blocks.section() + b"".join(map(blocks.interface, kinds))
    for first in range(0, len(found), _WRAPPED_AT_ONCE):
        yield head + b"".join(
            blocks.enhanced(Packet(one.data), START_NS // 1000, kinds.index(one.link_type))
            for one in found[first : first + _WRAPPED_AT_ONCE]
        )


def _every_block(order: str) -> bytes:
    """Return a pcapng with every block and most options that readers read."""
    blocks = Blocks(order)
    options = b"".join(
        blocks.option(code, value)
        for code, value in (
            (1, b"a comment"),
            (2, b"eth0"),
            (3, b"the first"),
            (9, b"\x09"),
            (11, b"\0tcp"),
            (12, b"Linux"),
            (14, blocks.pack("q", -5)),
            (0, b""),
        )
    )
    packets = [Packet(data) for data in _old_talk()]
    names = blocks.pack("HH", 1, 9) + b"\x0a\0\0\x01host\0".ljust(12, b"\0")
    names += blocks.pack("HH", 2, 19) + bytes(15) + b"\x01me\0" + b"\0" + bytes(4)
    counts = blocks.option(4, blocks.pack("Q", 9)) + blocks.option(5, blocks.pack("Q", 2))
    secrets = blocks.pack("II", 0x544C534B, 20) + b"CLIENT_RANDOM aa bb\n"
    return b"".join(
        (
            blocks.section(),
            blocks.interface(options=options),
            blocks.interface(113, snap_bytes=96),
            blocks.block(4, names),
            blocks.block(10, secrets),
            *(blocks.enhanced(packet, packet.time_ns) for packet in packets[:4]),
            blocks.simple(packets[4]),
            blocks.obsolete(packets[5], packets[5].time_ns),
            blocks.block(0xBAD, b"custom" + options),
            blocks.statistics(0, counts + options),
        )
    )
