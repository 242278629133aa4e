"""IP packets in fragments.

In: packets. Out: packets, each IP packet in two or more.

RFC 791, section 3.2 (IPv4); RFC 8200, section 4.5 (IPv6). Fragments begin at multiples of 8 bytes
of the payload that is cut. All fragments have the time of the original packet, where nothing else
is said.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

from tests.support.disorder.packet import (
    IPV4,
    IPV6,
    IPV6_HEADER_BYTES,
    Packet,
    network,
    sum_ipv4,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

_FRAGMENT_HEADER = 44
_MAX_CUTS = 4


def fragmented(packets: list[Packet], noise: Random) -> list[Packet]:
    """Every IP packet in up to five fragments, in order."""
    return [part for parts in _all_parts(packets, noise) for part in parts]


def fragmented_backwards(packets: list[Packet], noise: Random) -> list[Packet]:
    """Every IP packet in up to five fragments, the last one first, as Linux once sent them."""
    return [part for parts in _all_parts(packets, noise) for part in reversed(parts)]


def fragmented_and_shuffled(packets: list[Packet], noise: Random) -> list[Packet]:
    """Every IP packet in up to five fragments, in any order."""
    found = []
    for parts in _all_parts(packets, noise):
        found += noise.sample(parts, len(parts))
    return found


def fragmented_and_doubled(packets: list[Packet], noise: Random) -> list[Packet]:
    """Every IP packet in up to five fragments, some of them twice, one after the other."""
    found = []
    for parts in _all_parts(packets, noise):
        # Not the last: a fragment that comes again after its datagram is whole begins another.
        for index, part in enumerate(parts):
            again = index + 1 < len(parts) and noise.random() < 0.5
            found += [part, part] if again else [part]
    return found


def fragments_interleaved(packets: list[Packet], noise: Random) -> list[Packet]:
    """Every IP packet in up to five fragments; those of two packets at a time are mixed.

    The last fragments stay in the order of their packets, so packets are whole in that order. Those
    of the second packet that come before the last of the first one have the first one's time: times
    do not go back, so files that they are spread over are merged in the order they have here.
    """
    found: list[Packet] = []
    waiting: list[Packet] | None = None
    for parts in _all_parts(packets, noise):
        if waiting is None:
            waiting = parts
            continue
        time_ns = min(waiting[-1].time_ns, parts[-1].time_ns)
        mixed = [part._replace(time_ns=time_ns) for part in waiting[:-1] + parts[:-1]]
        noise.shuffle(mixed)
        found += [*mixed, waiting[-1], parts[-1]]
        waiting = None
    return found + (waiting or [])


def _all_parts(packets: Sequence[Packet], noise: Random) -> Iterator[list[Packet]]:
    first = noise.randrange(1 << 16)
    for number, packet in enumerate(packets, first):
        kind, at = network(packet)
        if kind == IPV4:
            yield _ipv4_parts(packet, at, number & 0xFFFF, noise)
        elif kind == IPV6:
            yield _ipv6_parts(packet, at, number, noise)
        else:
            yield [packet]


def _ipv4_parts(packet: Packet, at: int, number: int, noise: Random) -> list[Packet]:
    head_bytes = (packet.data[at] & 15) * 4
    total = int.from_bytes(packet.data[at + 2 : at + 4], "big") or packet.wire_bytes - at
    body_at = at + head_bytes
    found = []
    for begin, end, more in _edges(total - head_bytes, noise):
        head = bytearray(packet.data[at:body_at])
        place = begin // 8 | (0x2000 if more else 0)
        struct.pack_into(">HHH", head, 2, head_bytes + end - begin, number, place)
        sum_ipv4(head, head_bytes)
        found.append(_part(packet, packet.data[:at] + head, body_at, begin, end))
    return found


def _ipv6_parts(packet: Packet, at: int, number: int, noise: Random) -> list[Packet]:
    size = int.from_bytes(packet.data[at + 4 : at + 6], "big")
    body_at = at + IPV6_HEADER_BYTES
    found = []
    for begin, end, more in _edges(size, noise):
        head = bytearray(packet.data[at:body_at])
        following = head[6]
        struct.pack_into(">HB", head, 4, 8 + end - begin, _FRAGMENT_HEADER)
        shim = struct.pack(">BBHI", following, 0, begin | more, number)
        found.append(_part(packet, packet.data[:at] + head + shim, body_at, begin, end))
    return found


def _part(packet: Packet, head: bytes, body_at: int, begin: int, end: int) -> Packet:
    body = packet.data[body_at + begin : body_at + end]
    return packet._replace(data=head + body, wire_bytes=len(head) + end - begin)


def _edges(size: int, noise: Random) -> list[tuple[int, int, bool]]:
    """Where fragments of a body begin and end, and whether more follow."""
    places = range(8, size, 8)
    cuts = (
        {noise.choice(places) for _ in range(noise.randrange(1, _MAX_CUTS + 1))} if places else ()
    )
    edges = [0, *sorted(cuts), size]
    return [(b, e, e < size) for b, e in itertools.pairwise(edges)]
