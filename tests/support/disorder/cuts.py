"""Other segments for the same streams: cut smaller, or joined to larger ones.

In: packets. Out: packets.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tests.support.disorder.flows import runs
from tests.support.disorder.packet import FIN, PSH, SYN, dissect, rebuild

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tests.support.disorder.flows import Link
    from tests.support.disorder.packet import Packet, Segment

_MAX_SINGLE_BYTES = 6000
"""The most bytes of a capture that become segments of one byte, each a packet."""
_SMALL_SEGMENT_BYTES = 536
"""The default segment size without an MSS option (RFC 9293, section 3.7.1)."""
_MAX_JOINED_BYTES = 65_000
_MAX_HUGE_BYTES = 200_000
"""More than an IP header can state; Linux joins up to 512 KiB (BIG TCP)."""


def cut_at_random(packets: list[Packet], noise: Random) -> list[Packet]:
    """Every payload in up to four segments, all with the time of the original one."""

    def cuts(length: int) -> list[int]:
        return [noise.randrange(length) for _ in range(3)]

    return _cut(packets, cuts)


def cut_to_bytes(packets: list[Packet], noise: Random) -> list[Packet]:
    """Segments of one byte: the first bytes of the capture, and the edges of every payload."""
    left = _MAX_SINGLE_BYTES

    def cuts(length: int) -> list[int]:
        nonlocal left
        if length <= left:
            left -= length
            return list(range(length))
        edge = noise.randrange(1, 14)
        return [*range(min(edge, length)), *range(max(length - 3, 0), length)]

    return _cut(packets, cuts)


def cut_to_536(packets: list[Packet], _: Random) -> list[Packet]:
    """Segments of at most 536 bytes."""
    return _cut(packets, lambda length: list(range(0, length, _SMALL_SEGMENT_BYTES)))


def joined(packets: list[Packet], _: Random) -> list[Packet]:
    """Segments joined up to the length that an IP header can state, as by a network card."""
    return _join(packets, _MAX_JOINED_BYTES)


def joined_times(packets: list[Packet], _: Random) -> list[Packet]:
    """The packets as they were, at the times that :func:`joined` gives their bytes."""
    return _join_times(packets, _MAX_JOINED_BYTES)


def joined_hugely(packets: list[Packet], _: Random) -> list[Packet]:
    """Segments joined beyond the length that an IP header can state; then it states 0."""
    return _join(packets, _MAX_HUGE_BYTES)


def joined_hugely_times(packets: list[Packet], _: Random) -> list[Packet]:
    """The packets as they were, at the times that :func:`joined_hugely` gives their bytes."""
    return _join_times(packets, _MAX_HUGE_BYTES)


def _cut(packets: Sequence[Packet], cuts: Callable[[int], list[int]]) -> list[Packet]:
    """Cut payloads at the places that ``cuts`` returns for their length."""
    found = []
    for packet in packets:
        segment = dissect(packet)
        if segment is None or segment.length < 2:
            found.append(packet)
            continue
        edges = sorted({0, *cuts(segment.length), segment.length})
        for begin, end in itertools.pairwise(edges):
            found.append(_part(segment, begin, end))
    return found


def _part(segment: Segment, begin: int, end: int) -> Packet:
    flags = segment.flags
    sequence = segment.sequence + begin
    if end < segment.length:
        flags &= ~(FIN | PSH)
    if begin and flags & SYN:
        flags &= ~SYN
        sequence += 1
    return rebuild(
        segment,
        payload=segment.payload[begin:end],
        length=end - begin,
        sequence=sequence,
        flags=flags,
        sent_again=begin,
    )


def _join(packets: list[Packet], most_bytes: int) -> list[Packet]:
    gone: set[int] = set()
    found = list(packets)
    for group in _groups(packets, most_bytes):
        first, last = group[0].segment, group[-1].segment
        flags = 0
        for link in group:
            flags |= link.segment.flags
        found[group[0].place] = rebuild(
            first,
            payload=b"".join(link.segment.payload for link in group),
            acknowledgment=last.acknowledgment,
            flags=flags,
        )
        gone.update(link.place for link in group[1:])
    return [packet for index, packet in enumerate(found) if index not in gone]


def _join_times(packets: list[Packet], most_bytes: int) -> list[Packet]:
    found = list(packets)
    for group in _groups(packets, most_bytes):
        for link in group:
            time_ns = packets[group[0].place].time_ns
            found[link.place] = packets[link.place]._replace(time_ns=time_ns)
    return found


def _groups(packets: list[Packet], most_bytes: int) -> list[list[Link]]:
    """Parts of runs, each of at most ``most_bytes`` unless it is one segment."""
    found: list[list[Link]] = []
    for run in runs(packets):
        size = most_bytes
        for link in run:
            size += link.segment.length
            if size > most_bytes:
                found.append([])
                size = link.segment.length
            found[-1].append(link)
    return found
