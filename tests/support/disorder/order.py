"""Packets in another order.

In: packets. Out: the same packets, in another order.

An order comes in two kinds. *Each with its time*: capture queues delivered packets in the wrong
order, but timestamps are right, so no time of any row changes. *With a rising clock*: the packets
arrived in that order; the bytes that came at other times than before are known exactly, because the
packets in their old order can be given the times of their new places.

No packet moves by more than 100 ms: a reassembler may give up a byte that the receiver has
acknowledged for longer. Some packets stay where they are among those of their connection, unless a
function does otherwise: segments that open or close it; repeated bytes, because another copy would
become the first; and all packets of a connection whose opening was not captured. Such a connection
begins with the packet captured first, and a response before its request may as well answer a
request that was not captured. (Neighbours of such a connection are swapped all the same.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tests.support.disorder.packet import FIN, RST, SYN, Segment, dissect_all

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from random import Random

    from tests.support.disorder.packet import Direction, Packet

    Order: TypeAlias = Callable[[Sequence[Packet], Random], list[int]]
    Alter: TypeAlias = Callable[[list[Packet], Random], list[Packet]]

_CONTROL = SYN | FIN | RST
_LONGEST_NS = 100_000_000
_DIRECTION_PACKETS = 8
_BLOCK_PACKETS = 64
_HALF = 1 << 31


def each_with_its_time(order: Order) -> Alter:
    """Make a transformation from an order: timestamps move with the packets."""

    def alter(packets: list[Packet], noise: Random) -> list[Packet]:
        return [packets[index] for index in order(packets, noise)]

    return alter


def with_a_rising_clock(order: Order) -> Alter:
    """Make a transformation from an order: timestamps stay where they were."""

    def alter(packets: list[Packet], noise: Random) -> list[Packet]:
        return [
            packets[index]._replace(time_ns=packet.time_ns)
            for packet, index in zip(packets, order(packets, noise), strict=True)
        ]

    return alter


def times_of_new_places(order: Order) -> Alter:
    """Make a transformation from an order: packets stay, with the times of their new places."""

    def alter(packets: list[Packet], noise: Random) -> list[Packet]:
        found = list(packets)
        for packet, index in zip(packets, order(packets, noise), strict=True):
            found[index] = packets[index]._replace(time_ns=packet.time_ns)
        return found

    return alter


def neighbours_swapped(packets: Sequence[Packet], noise: Random) -> list[int]:
    """One packet with payload in three swaps places with the next, if that is of its direction."""
    found = list(range(len(packets)))
    segments = dissect_all(packets)
    pinned = _repeated(packets)
    index = 0
    while index + 1 < len(found):
        fixed = index in pinned or index + 1 in pinned
        alike = _both_speak(segments[index], segments[index + 1])
        if alike and not fixed and _near(packets, index, index + 1) and noise.random() < 0.3:
            found[index], found[index + 1] = index + 1, index
            index += 1
        index += 1
    return found


def shuffled_within_a_direction(packets: Sequence[Packet], noise: Random) -> list[int]:
    """Eight packets of a direction at a time change their places among themselves."""
    found = list(range(len(packets)))
    for run in _runs(packets, lambda segment: segment.direction, _CONTROL):
        for block in _blocks(run, packets, _DIRECTION_PACKETS):
            for place, index in zip(block, noise.sample(block, len(block)), strict=True):
                found[place] = index
    return found


def directions_interleaved_otherwise(packets: Sequence[Packet], noise: Random) -> list[int]:
    """Within eight packets of a connection, only each direction keeps its order."""
    return _directions_interleaved(packets, noise, _CONTROL)


def directions_and_openings_interleaved(packets: Sequence[Packet], noise: Random) -> list[int]:
    """As :func:`directions_interleaved_otherwise`, SYN too; FIN and RST stay."""
    return _directions_interleaved(packets, noise, FIN | RST)


def directions_and_ends_interleaved(packets: Sequence[Packet], noise: Random) -> list[int]:
    """As :func:`directions_interleaved_otherwise`, FIN too; SYN and RST stay."""
    return _directions_interleaved(packets, noise, SYN | RST)


def directions_and_resets_interleaved(packets: Sequence[Packet], noise: Random) -> list[int]:
    """As :func:`directions_interleaved_otherwise`, RST too; SYN and FIN stay."""
    return _directions_interleaved(packets, noise, SYN | FIN)


def _directions_interleaved(packets: Sequence[Packet], noise: Random, flags: int) -> list[int]:
    found = list(range(len(packets)))
    for run in _runs(packets, lambda segment: segment.connection, flags):
        for block in _blocks(run, packets, _DIRECTION_PACKETS):
            queues: dict[Hashable, list[int]] = {}
            for index in block:
                segment = _of(packets, index)
                queues.setdefault(segment.direction, []).append(index)
            for place, index in zip(block, _merged(queues, noise), strict=True):
                found[place] = index
    return found


def shuffled_in_blocks(packets: Sequence[Packet], noise: Random) -> list[int]:
    """Sixty-four packets of the capture at a time, of all connections, change their places."""
    return _shuffled_blocks(packets, noise, _CONTROL)


def shuffled_with_their_openings(packets: Sequence[Packet], noise: Random) -> list[int]:
    """As :func:`shuffled_in_blocks`, SYN too; FIN and RST stay."""
    return _shuffled_blocks(packets, noise, FIN | RST)


def shuffled_with_their_ends(packets: Sequence[Packet], noise: Random) -> list[int]:
    """As :func:`shuffled_in_blocks`, FIN and RST too; SYN stays."""
    return _shuffled_blocks(packets, noise, SYN)


def _shuffled_blocks(packets: Sequence[Packet], noise: Random, flags: int) -> list[int]:
    pinned = _pinned(packets, flags)
    found: list[int] = []
    for block in _blocks(range(len(packets)), packets, _BLOCK_PACKETS):
        parts: dict[Hashable, list[list[int]]] = {}
        for index in block:
            runs = parts.setdefault(_of(packets, index).connection, [[]])
            if index in pinned:
                runs += [[index], []]
            else:
                runs[-1].append(index)
        queues = {
            connection: [index for run in runs for index in noise.sample(run, len(run))]
            for connection, runs in parts.items()
        }
        found += _merged(queues, noise)
    return found


def _merged(queues: dict[Hashable, list[int]], noise: Random) -> list[int]:
    """Merge queues at random; each keeps its order."""
    turns = [key for key, queue in queues.items() for _ in queue]
    noise.shuffle(turns)
    rest = {key: iter(queue) for key, queue in queues.items()}
    return [next(rest[key]) for key in turns]


def _runs(
    packets: Sequence[Packet], key: Callable[[Segment], Hashable], flags: int
) -> list[list[int]]:
    """Places of the packets of each key, cut at packets of its connection that have to stay."""
    pinned = _pinned(packets, flags)
    found: list[list[int]] = []
    open_runs: dict[Hashable, dict[Hashable, list[int]]] = {}
    for index, segment in enumerate(dissect_all(packets)):
        if segment is None:
            continue
        mine = open_runs.setdefault(segment.connection, {})
        if index in pinned:
            mine.clear()
            continue
        name = key(segment)
        if name not in mine:
            mine[name] = []
            found.append(mine[name])
        mine[name].append(index)
    return found


def _pinned(packets: Sequence[Packet], flags: int) -> set[int]:
    """Places of packets that have to stay: by their flags, unopened, or with old bytes."""
    found = _repeated(packets)
    opened = set()
    for index, segment in enumerate(dissect_all(packets)):
        if segment is None:
            continue
        if segment.flags & SYN:
            opened.add(segment.direction)
        if segment.flags & flags or segment.direction not in opened:
            found.add(index)
    return found


def _repeated(packets: Sequence[Packet]) -> set[int]:
    """Places of packets whose payload, or a part of it, came before; and of each stream's first."""
    found = set()
    furthest: dict[Direction, int] = {}
    for index, segment in enumerate(dissect_all(packets)):
        if segment is None:
            continue
        mine = segment.direction
        if mine not in furthest:
            found.add(index)
            furthest[mine] = segment.next_sequence
        if segment.flags & SYN:
            furthest[mine] = (segment.next_sequence + 1) & 0xFFFFFFFF
        elif segment.length:
            ahead = (segment.next_sequence - furthest[mine]) & 0xFFFFFFFF
            if segment.length <= ahead < _HALF:
                furthest[mine] = segment.next_sequence
            else:
                found.add(index)
    return found


def _blocks(places: Iterable[int], packets: Sequence[Packet], size: int) -> Iterable[Sequence[int]]:
    """Cut a list of places into blocks of ``size``, none longer than 100 ms."""
    block: list[int] = []
    for place in places:
        if len(block) == size or (block and not _near(packets, block[0], place)):
            yield block
            block = []
        block.append(place)
    if block:
        yield block


def _both_speak(first: Segment | None, second: Segment | None) -> bool:
    """Whether both have payload and the same direction."""
    if first is None or second is None or first.direction != second.direction:
        return False
    control = (first.flags | second.flags) & _CONTROL
    return bool(first.length and second.length and not control)


def _near(packets: Sequence[Packet], first: int, second: int) -> bool:
    return abs(packets[second].time_ns - packets[first].time_ns) <= _LONGEST_NS


def _of(packets: Sequence[Packet], index: int) -> Segment:
    segment = dissect_all(packets[index : index + 1])[0]
    if segment is None:
        raise ValueError("a packet without TCP has no connection to keep its place in")
    return segment
