"""The stream items of one batch: their bytes, and their division around missing bytes.

In: the items of both directions. Out: the same items, divided between two packets as if a batch had
ended there. This module must not know what the bytes mean.

After a loss the next frame is searched in small steps. The bytes before the loss, and those after
the frame that was found, are most of a batch and are read as usual.

Compiled by Cython, with the types in ``stream_items.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.model.streams import Chunk, Gap

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamItem

__all__ = ["BothItems", "divide", "last_packet_about", "loss_packet", "payload_bytes"]

BothItems: TypeAlias = "tuple[list[StreamItem], list[StreamItem]]"
"""The items of both directions, each in stream order."""


def payload_bytes(items: BothItems) -> int:
    """Return how many bytes of payload there are."""
    total = 0
    for direction in items:
        for item in direction:
            if not isinstance(item, Gap):
                segments = item.segments
                for index in range(item.first, item.last):
                    total += segments.lengths[index]
    return total


def loss_packet(items: BothItems) -> int | None:
    """Return the first packet after missing bytes; None if none are missing."""
    first = None
    for direction in items:
        for item in direction:
            if isinstance(item, Gap) and (first is None or item.packet < first):
                first = item.packet
    return first


def last_packet_about(items: BothItems, segments: int) -> int:
    """Return the packet up to which ``segments`` segments come after a direction's last loss.

    If both directions have losses, this is the later one of their two packets. If neither has, the
    segments count from the beginning. There is at least one item.
    """
    lossy = [stream for stream in items if any(isinstance(item, Gap) for item in stream)]
    return max(_last_packet(stream, segments) for stream in lossy or items if stream)


def divide(items: BothItems, packet: int) -> tuple[BothItems, BothItems]:
    """Divide items into those up to a packet, which is included, and those after it.

    In each stream, everything after the first later packet belongs to the second part.
    """
    (first, after_first), (second, after_second) = (_divide(stream, packet) for stream in items)
    return (first, second), (after_first, after_second)


def _last_packet(items: list[StreamItem], segments: int) -> int:
    """Return the latest of all packets up to ``segments`` segments after a stream's last gap."""
    gaps = [index for index, item in enumerate(items) if isinstance(item, Gap)]
    begin = gaps[-1] + 1 if gaps else 0
    latest = [_latest(item) for item in items[:begin]]
    for item in items[begin:]:
        if isinstance(item, Chunk) and segments:
            beginning = item._replace(last=min(item.last, item.first + segments))
            latest.append(_latest(beginning))
            segments -= beginning.last - beginning.first
    return max(latest)


def _latest(item: StreamItem) -> int:
    if isinstance(item, Gap):
        return item.packet
    return max(item.segments.packet[item.first : item.last])


def _divide(items: list[StreamItem], packet: int) -> tuple[list[StreamItem], list[StreamItem]]:
    for index, item in enumerate(items):
        if isinstance(item, Gap):
            if item.packet > packet:
                return items[:index], items[index:]
            continue
        packets, index_in = item.segments.packet, item.first
        while index_in < item.last and packets[index_in] <= packet:
            index_in += 1
        if index_in < item.last:
            before, after = _cut(item, index_in)
            return [*items[:index], *before], [*after, *items[index + 1 :]]
    return items, []


def _cut(chunk: Chunk, index: int) -> tuple[list[StreamItem], list[StreamItem]]:
    """Cut a chunk before the segment at ``index``, which is one of the chunk's."""
    if index == chunk.first:
        return [], [chunk]
    segments = chunk.segments
    offset = chunk.stream_offset + sum(segments.length[chunk.first : index])
    before = Chunk(chunk.stream_offset, segments, chunk.first, index)
    return [before], [Chunk(offset, segments, index, chunk.last)]
