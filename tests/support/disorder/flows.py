"""Finds the packets of a capture that belong together.

In: packets. Out: the segments of each direction that are adjacent in the stream; the bytes of a
stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.support.disorder.packet import FIN, RST, SYN, Direction, Segment, dissect_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.disorder.packet import Packet


class Link(NamedTuple):
    """A segment of a chain."""

    place: int
    """Index in the capture."""
    segment: Segment
    same_run: bool
    """No payload came the other way since the link before."""


def with_payload(packets: Sequence[Packet]) -> Iterator[tuple[int, Segment]]:
    for index, segment in enumerate(dissect_all(packets)):
        if segment is not None and segment.length:
            yield index, segment


def chains(packets: Sequence[Packet]) -> list[list[Link]]:
    """Segments that follow each other in the capture and are adjacent in the stream.

    All of them are whole, with payload, and neither open nor close a connection.
    """
    found: list[list[Link]] = []
    chain_of: dict[Direction, list[Link]] = {}
    last_to_speak: dict[tuple[Direction, Direction], Direction] = {}
    for index, segment in with_payload(packets):
        mine = segment.direction
        same_run = last_to_speak.get(segment.connection) == mine
        last_to_speak[segment.connection] = mine
        chain = chain_of.pop(mine, None)
        if not segment.is_whole or segment.flags & (SYN | FIN | RST):
            continue
        if chain is None or chain[-1].segment.next_sequence != segment.sequence:
            chain = []
            found.append(chain)
            same_run = False
        chain.append(Link(index, segment, same_run))
        chain_of[mine] = chain
    return found


def runs(packets: Sequence[Packet]) -> list[list[Link]]:
    """As :func:`chains`, with no payload the other way in between."""
    found: list[list[Link]] = []
    for chain in chains(packets):
        for link in chain:
            if not link.same_run:
                found.append([])
            found[-1].append(link)
    return found


def streams(packets: Sequence[Packet]) -> dict[tuple[Direction, int], bytes]:
    """The bytes of each direction: the first copy of each byte counts.

    A plain and slow way to rebuild streams, to check transformations. Keys have the
    number of the connection on its ports. A SYN with another number begins the next one; a stream
    without SYN begins at the lowest number seen. Bytes that were not captured are left out.
    """
    numbers: dict[Direction, tuple[int, int]] = {}
    copies: dict[tuple[Direction, int], dict[int, int]] = {}
    origins: dict[tuple[Direction, int], int] = {}
    for segment in dissect_all(packets):
        if segment is None:
            continue
        mine = segment.direction
        count, opened = numbers.get(mine, (0, -1))
        if segment.flags & SYN and segment.sequence != opened:
            count += 1
            numbers[mine] = (count, segment.sequence)
            origins[mine, count] = segment.sequence
        key = (mine, count)
        origin = origins.setdefault(key, segment.sequence)
        first = segment.sequence + bool(segment.flags & SYN) - origin
        first = (first + (1 << 31)) % (1 << 32) - (1 << 31)
        known = copies.setdefault(key, {})
        for position, value in enumerate(segment.payload, first):
            known.setdefault(position, value)
    return {
        key: bytes(known[position] for position in sorted(known) if position > 0 or key[1] == 0)
        for key, known in copies.items()
    }
