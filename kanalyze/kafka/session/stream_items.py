"""The stream items of one batch: their bytes, and steps that hold one loss at most.

In: the items of both directions. Out: the same items, divided between two packets as if a batch had
ended there.

After a loss the next frame is searched in small steps. The bytes before the loss, and those after
the frame that was found, are most of a batch and are read as usual.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.model.streams import Chunk, Gap

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamItem

__all__ = ["BothItems", "LossSteps", "has_loss", "payload_bytes"]

BothItems: TypeAlias = "tuple[list[StreamItem], list[StreamItem]]"
"""The items of both directions, each in stream order."""

_AFTER_ALL = 1 << 62
"""A packet number above all others."""


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


def has_loss(items: BothItems) -> bool:
    """Return true if bytes are missing among the items."""
    return any(isinstance(item, Gap) for direction in items for item in direction)


class LossSteps:
    """Takes the items of both directions in steps, in the order of their packets.

    No step has a loss and then another one: what a loss changes is known to everything before the
    next one, however many packets are in a batch.
    """

    def __init__(self, items: BothItems) -> None:
        self._streams = (_SteppedStream(items[0]), _SteppedStream(items[1]))
        self._losses = sorted(
            [item.packet for stream in items for item in stream if isinstance(item, Gap)]
        )
        """The first packet after each loss."""
        self._taken_losses = 0

    def has_any(self) -> bool:
        """Return true if there are items left."""
        return any(stream.has_any() for stream in self._streams)

    def is_at_loss(self) -> bool:
        """Return true if the next item is a loss."""
        return bisect_right(self._losses, self._first_packet()) > self._taken_losses

    def to_loss(self) -> BothItems:
        """Take all items before the next loss; at a loss, those before the one after it."""
        return self._take(self._last_before_loss())

    def about(self, segments: int) -> BothItems:
        """Take so many segments, or all before the next loss; at a loss, that loss first.

        At a loss, only segments of the direction with the loss count. The other direction is taken
        up to the same packet.
        """
        last = self._last_before_loss()
        found = [stream.about(segments, last) for stream in self._streams if stream.has_any()]
        lossy = [packet for packet, is_lossy in found if is_lossy]
        return self._take(max(lossy or [packet for packet, _ in found]))

    def _first_packet(self) -> int:
        return min([stream.first_packet() for stream in self._streams])

    def _last_before_loss(self) -> int:
        """Return the last packet before the next loss that the next item is not part of."""
        index = bisect_right(self._losses, self._first_packet())
        return self._losses[index] - 1 if index < len(self._losses) else _AFTER_ALL

    def _take(self, last_packet: int) -> BothItems:
        first, second = (stream.take(last_packet) for stream in self._streams)
        self._taken_losses += sum([isinstance(item, Gap) for item in (*first, *second)])
        return first, second


class _SteppedStream:
    """The items of one direction, from the first that was not taken on."""

    def __init__(self, items: list[StreamItem]) -> None:
        self._items = list(items)
        self._at = 0

    def has_any(self) -> bool:
        return self._at < len(self._items)

    def first_packet(self) -> int:
        """Return the packet of the next item; one after all others if there is none."""
        if not self.has_any():
            return _AFTER_ALL
        item = self._items[self._at]
        return item.packet if isinstance(item, Gap) else item.segments.packet[item.first]

    def about(self, segments: int, last_packet: int) -> tuple[int, bool]:
        """Return the latest packet of so many segments, and whether a loss is among them.

        Segments count from the loss on. None of them is after ``last_packet``.
        """
        latest, is_lossy, left = -1, False, segments
        for index in range(self._at, len(self._items)):
            item = self._items[index]
            if isinstance(item, Gap):
                if item.packet > last_packet:
                    break
                latest, is_lossy, left = max(latest, item.packet), True, segments
                continue
            packets = item.segments.packet[item.first : min(item.last, item.first + left)]
            for packet in packets:
                if packet > last_packet:
                    return latest, is_lossy
                latest = max(latest, packet)
            left -= len(packets)
            if not left:
                break
        return latest, is_lossy

    def take(self, last_packet: int) -> list[StreamItem]:
        """Take the items before the first packet that is after ``last_packet``."""
        taken: list[StreamItem] = []
        while self._at < len(self._items):
            item = self._items[self._at]
            if isinstance(item, Gap):
                if item.packet > last_packet:
                    break
            else:
                packets, end = item.segments.packet, item.first
                while end < item.last and packets[end] <= last_packet:
                    end += 1
                if end < item.last:
                    if end > item.first:
                        before, self._items[self._at] = _cut(item, end)
                        taken.append(before)
                    break
            taken.append(item)
            self._at += 1
        return taken


def _cut(chunk: Chunk, index: int) -> tuple[Chunk, Chunk]:
    """Cut a chunk before the segment at ``index``, which is within it."""
    segments = chunk.segments
    offset = chunk.stream_offset + sum(segments.length[chunk.first : index])
    before = Chunk(chunk.stream_offset, segments, chunk.first, index)
    return before, Chunk(offset, segments, index, chunk.last)
