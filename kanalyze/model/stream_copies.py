"""Items of streams that stay valid after their batch: copies, their memory, their saved state.

In: chunks and gaps of a batch of packets. Out: the same items over bytes of their own.
"""

from __future__ import annotations

import operator
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields, items
from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, Gap

if TYPE_CHECKING:
    from typing import TypeAlias

    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import StreamItem

    BothItems: TypeAlias = "tuple[list[StreamItem], list[StreamItem]]"

__all__ = ["both_items", "copy_of", "first_packet", "items_state", "memory_of"]

_BYTES_OF_AN_ITEM: Final = 512
"""Memory of an item without its bytes."""


def first_packet(item: StreamItem) -> int:
    """Return the number of an item's first packet."""
    return item.segments.packet[item.first] if isinstance(item, Chunk) else item.packet


def memory_of(item: StreamItem) -> int:
    """Return the approximate memory of a buffered item."""
    if not isinstance(item, Chunk):
        return _BYTES_OF_AN_ITEM
    return _BYTES_OF_AN_ITEM + sum(item.segments.captured[item.first : item.last])


def copy_of(item: StreamItem) -> StreamItem:
    """Return an item that stays valid after its batch."""
    if not isinstance(item, Chunk):
        return item
    segments, rows = item.segments, slice(item.first, item.last)
    captured = segments.captured[rows]
    pieces = [
        segments.view(start, start + size)
        for start, size in zip(segments.start[rows], captured, strict=True)
    ]
    own = Segments(
        memoryview(b"".join(pieces)),
        list(accumulate(captured, initial=0))[:-1],
        *(segments.length[rows], captured, segments.time_ns[rows], segments.packet[rows]),
    )
    return Chunk(item.stream_offset, own, 0, len(pieces))


def items_state(stream_items: list[StreamItem]) -> State:
    """Return what :func:`both_items` takes; the items have to be copies."""
    return tuple(
        [
            tuple(item)
            if not isinstance(item, Chunk)
            else (item.stream_offset, bytes(item.segments.buffer), *_columns(item.segments))
            for item in stream_items
        ]
    )


def _columns(segments: Segments) -> State:
    return (
        *(tuple(segments.length), tuple(segments.captured)),
        *(tuple(segments.time_ns), tuple(segments.packet)),
    )


def both_items(state: object) -> BothItems:
    """Return the items of both directions from a state; raises ValueError for any other value."""
    one, other = fields(state, "tt")
    return _items_from_state(one), _items_from_state(other)


def _items_from_state(state: object) -> list[StreamItem]:
    stream_items: list[StreamItem] = []
    for item in items(state, "t"):
        if len(item) == len(Gap._fields):
            stream_items.append(Gap(*fields(item, "nnin")))
            continue
        offset, data, lengths, captured, times, packets = fields(item, "nytttt")
        columns = (lengths, captured, times, packets)
        for column, kind in zip(columns, "nnin", strict=True):
            items(column, kind)
        count = len(lengths)
        if not count or any(len(column) != count for column in columns):
            raise ValueError("columns of different lengths")
        if sum(captured) != len(data) or any(map(operator.gt, captured, lengths)):
            raise ValueError("more bytes than a segment had")
        starts = list(accumulate(captured, initial=0))[:-1]
        stream_items.append(Chunk(offset, Segments(memoryview(data), starts, *columns), 0, count))
    return stream_items
