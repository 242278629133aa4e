"""Bytes that come more than once: duplicates, retransmissions, probes, overlaps.

In: packets. Out: packets, with more copies of their bytes.

Copies are inserted after packets that were there, with the same time: times still rise, and the
first copy of each byte stays where it was, unless a function does otherwise.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tests.support.disorder.flows import chains, with_payload
from tests.support.disorder.packet import ACK, FIN, RST, SYN, dissect_all, rebuild

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from tests.support.disorder.packet import Direction, Packet

_MAX_PAYLOAD_BYTES = 65_000
"""An IPv4 packet holds a little more, with the largest headers."""
_MAX_BACK_BYTES = 4096
_FARTHEST = 20
_OFTEN, _SELDOM = 0.3, 0.1


def twice_at_once(packets: list[Packet], _: Random) -> list[Packet]:
    """Every packet twice, as a capture on all interfaces may have it."""
    return [packet for packet in packets for _ in range(2)]


def sent_again(packets: list[Packet], noise: Random) -> list[Packet]:
    """Some packets again, up to 20 packets later: retransmissions, of SYN and FIN too."""
    copies = []
    for index, segment in enumerate(dissect_all(packets)):
        if segment is None or noise.random() > _OFTEN:
            continue
        if segment.length or segment.flags & (SYN | FIN):
            again = rebuild(segment, sent_again=noise.randrange(1, 99))
            copies.append((_later(index, packets, noise), again))
    return _inserted(packets, copies)


def other_bytes_again(packets: list[Packet], noise: Random) -> list[Packet]:
    """Some payloads again, up to 20 packets later, with other bytes: the first copy counts."""
    copies = []
    for index, segment in with_payload(packets):
        if noise.random() < _OFTEN:
            other = noise.randbytes(len(segment.payload))
            wrong = rebuild(segment, payload=other, length=segment.length, sent_again=7)
            copies.append((_later(index, packets, noise), wrong))
    return _inserted(packets, copies)


def probed(packets: list[Packet], noise: Random) -> list[Packet]:
    """Keep-alive probes: one byte before the next sequence number (RFC 9293, section 3.8.4).

    It is the byte that was there, or, as in old stacks, any byte in the place of a SYN. An end that
    has sent a FIN sends no more probes.
    """
    copies = []
    last: dict[Direction, tuple[int, bytes]] = {}
    for index, segment in enumerate(dissect_all(packets)):
        if segment is None:
            continue
        mine, after = segment.direction, segment.next_sequence
        if segment.flags & (FIN | RST):
            last.pop(mine, None)
        elif segment.flags & SYN:
            last[mine] = ((after + 1) & 0xFFFFFFFF, b"\0")
        elif segment.length:
            last[mine] = (after, segment.payload[-1:] if segment.is_whole else b"")
        known, old = last.get(mine, (0, b""))
        if old and known == after and noise.random() < _OFTEN:
            probe = rebuild(segment, payload=old, sequence=after - 1, flags=ACK)
            copies.append((index, probe))
    return _inserted(packets, copies)


def acknowledged_again(packets: list[Packet], noise: Random) -> list[Packet]:
    """Some bare acknowledgments up to four times: the sign of a loss, where there was none."""
    copies = []
    for index, segment in enumerate(dissect_all(packets)):
        if segment is None or segment.length or segment.flags != ACK or noise.random() > _OFTEN:
            continue
        copies += [(index, rebuild(segment, sent_again=n)) for n in range(noise.randrange(1, 4))]
    return _inserted(packets, copies)


def two_again_as_one(packets: list[Packet], noise: Random) -> list[Packet]:
    """Two segments that follow each other, sent again as one, up to 20 packets later."""
    copies = []
    for chain in chains(packets):
        for before, link in itertools.pairwise(chain):
            both = before.segment.payload + link.segment.payload
            if len(both) <= _MAX_PAYLOAD_BYTES and noise.random() < _OFTEN:
                first = before.segment.sequence
                again = rebuild(link.segment, payload=both, sequence=first, sent_again=5)
                copies.append((_later(link.place, packets, noise), again))
    return _inserted(packets, copies)


def extended_backwards(packets: list[Packet], noise: Random) -> list[Packet]:
    """Segments begin with bytes that were sent before."""
    return _overlapped(packets, noise, backwards=True)


def extended_forwards(packets: list[Packet], noise: Random) -> list[Packet]:
    """Segments end with bytes that the next segment holds too, so that these come earlier."""
    return _overlapped(packets, noise, forwards=True)


def extended_both_ways(packets: list[Packet], noise: Random) -> list[Packet]:
    """Segments begin with bytes of the one before and end with bytes of the next."""
    return _overlapped(packets, noise, backwards=True, forwards=True)


def cut_forwards(packets: list[Packet], noise: Random) -> list[Packet]:
    """As :func:`extended_forwards` without the second copies: each byte as it came first."""
    return _overlapped(packets, noise, forwards=True, again=False)


def cut_both_ways(packets: list[Packet], noise: Random) -> list[Packet]:
    """As :func:`extended_both_ways` without the second copies."""
    return _overlapped(packets, noise, backwards=True, forwards=True, again=False)


def _overlapped(
    packets: list[Packet],
    noise: Random,
    *,
    backwards: bool = False,
    forwards: bool = False,
    again: bool = True,
) -> list[Packet]:
    """Move the edges of segments; ``again`` false leaves out all copies but the first.

    The same choices are made for the same ``noise``, whatever ``again`` is.
    """
    found = list(packets)
    for chain in chains(packets):
        stream = b"".join(link.segment.payload for link in chain)
        begin, ahead = 0, 0
        for link, after in itertools.zip_longest(chain, chain[1:]):
            segment = link.segment
            end = begin + segment.length
            room = max(_MAX_PAYLOAD_BYTES - segment.length, 0) // 2
            back, taken = 0, ahead
            if backwards and noise.random() < _OFTEN:
                back = noise.randrange(min(begin, room, _MAX_BACK_BYTES) + 1)
            ahead = 0
            if forwards and after is not None and after.same_run and noise.random() < _OFTEN:
                ahead = noise.randrange(min(after.segment.length - 1, room) + 1)
            first = begin - back if again else begin + taken
            found[link.place] = rebuild(
                segment,
                payload=stream[first : end + ahead],
                sequence=segment.sequence + first - begin,
            )
            begin = end
    return found


def _later(index: int, packets: Sequence[Packet], noise: Random) -> int:
    farthest = 1 if noise.random() < _SELDOM else _FARTHEST
    return min(index + noise.randrange(farthest), len(packets) - 1)


def _inserted(packets: Sequence[Packet], copies: Iterable[tuple[int, Packet]]) -> list[Packet]:
    """Insert packets after others, with the time of those."""
    behind: dict[int, list[Packet]] = {}
    for index, packet in copies:
        behind.setdefault(index, []).append(packet._replace(time_ns=packets[index].time_ns))
    found = []
    for index, packet in enumerate(packets):
        found.append(packet)
        found += behind.get(index, [])
    return found
