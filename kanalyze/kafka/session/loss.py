"""What was added to a connection, in parts: what surrounds missing bytes, and what does not.

In: the items of both directions of one batch. Out: the same items, divided between two packets, as
if a batch had ended there. This module must not know what the bytes say.

After a loss the next frame is looked for, message by message. What comes before the loss, and what
comes once it is found, is as ordinary as any, and most of a batch.

Compiled by Cython, with the types in ``loss.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.model.streams import Chunk, Gap

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamItem

__all__ = ["Items", "divide", "last_packet_about", "loss_packet"]

Items: TypeAlias = "tuple[list[StreamItem], list[StreamItem]]"
"""Of both directions, in stream order."""


def loss_packet(items: Items) -> int | None:
    """Return the first packet that came after missing bytes; None where none are missing."""
    first = None
    for side in items:
        for item in side:
            if isinstance(item, Gap) and (first is None or item.packet < first):
                first = item.packet
    return first


def last_packet_about(items: Items, segments: int) -> int:
    """Return the packet that so many segments of a direction have come with after its last loss.

    The later one of both directions, if both have losses; from the beginning where neither has.
    There is an item at least.
    """
    lossy = [side for side in items if any(isinstance(item, Gap) for item in side)]
    return max(_last_packet(side, segments) for side in lossy or items if side)


def divide(items: Items, packet: int) -> tuple[Items, Items]:
    """Return what had come with a packet, it included, and what came after it.

    Of each direction: nothing that stands behind a later packet in its stream had come.
    """
    (one, rest_of_one), (other, rest_of_other) = (_divide(side, packet) for side in items)
    return (one, other), (rest_of_one, rest_of_other)


def _last_packet(side: list[StreamItem], segments: int) -> int:
    """Return the latest of all packets up to so many segments after the last gap of a stream."""
    gaps = [index for index, item in enumerate(side) if isinstance(item, Gap)]
    begin = gaps[-1] + 1 if gaps else 0
    latest = [_latest(item) for item in side[:begin]]
    for item in side[begin:]:
        if isinstance(item, Chunk) and segments:
            some = item._replace(last=min(item.last, item.first + segments))
            latest.append(_latest(some))
            segments -= some.last - some.first
    return max(latest)


def _latest(item: StreamItem) -> int:
    if isinstance(item, Gap):
        return item.packet
    return max(item.segments.packet[item.first : item.last])


def _divide(side: list[StreamItem], packet: int) -> tuple[list[StreamItem], list[StreamItem]]:
    for index, item in enumerate(side):
        if isinstance(item, Gap):
            if item.packet > packet:
                return side[:index], side[index:]
            continue
        packets, place = item.segments.packet, item.first
        while place < item.last and packets[place] <= packet:
            place += 1
        if place < item.last:
            one, rest = _cut(item, place)
            return [*side[:index], *one], [*rest, *side[index + 1 :]]
    return side, []


def _cut(chunk: Chunk, place: int) -> tuple[list[StreamItem], list[StreamItem]]:
    """Cut a chunk before a segment, its last one at the latest."""
    if place == chunk.first:
        return [], [chunk]
    segments = chunk.segments
    offset = chunk.stream_offset + sum(segments.length[chunk.first : place])
    one = Chunk(chunk.stream_offset, segments, chunk.first, place)
    return [one], [Chunk(offset, segments, place, chunk.last)]
