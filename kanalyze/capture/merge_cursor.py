"""Captures that are open while several are merged, and how their packets are put together.

In: captures with a batch each. Out: one batch of the packets that come next. Must not know: which
captures there are beside, nor when they are opened.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from kanalyze.common.int_columns import earliest_from, picked, rising, shifted, take_turns
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.packets import PacketBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.capture.reader import CaptureReader

__all__ = ["Joined", "Joiner", "OpenCapture", "cut"]


class OpenCapture:
    """A capture being read."""

    __slots__ = ("at", "batch", "batches", "given", "index", "keys", "reader")

    def __init__(self, index: int, reader: CaptureReader, batches: Iterator[PacketBatch]) -> None:
        self.index = index
        """In the order of the inputs; decides between equal times."""
        self.reader = reader
        self.batches = batches
        self.batch: PacketBatch | None = None
        self.keys = array("q")
        """Of each packet of ``batch``: the earliest time from it on. Within a batch they never
        fall."""
        self.at = 0
        """Packets of ``batch`` that were given out."""
        self.given = 0
        """Packets of the capture that were given out."""

    @property
    def head(self) -> tuple[int, int]:
        """When the next packet comes; captures compare by it."""
        return self.keys[self.at], self.index

    @property
    def tail(self) -> tuple[int, int]:
        """When the last packet held comes: what is not read yet comes later, as a rule."""
        return self.keys[-1], self.index

    def before(self, limit: tuple[int, int]) -> int:
        """Count the packets held that come no later than what has ``limit`` as its head or tail.

        Not above 0 when there is none.
        """
        find = bisect_right if self.index <= limit[1] else bisect_left
        return find(self.keys, limit[0]) - self.at

    def give(self, count: int) -> None:
        """Note that the next packets were given out."""
        self.at += count
        self.given += count

    def read_on(self) -> bool:
        """Take the next batch; false at the end."""
        self.at = 0
        self.batch = next(self.batches, None)
        if self.batch is None:
            return False
        # The earliest of its own time and of all after it: a packet with a time far in the future
        # must not hold back all that follows it in its file.
        self.keys = earliest_from(self.batch.time_ns)
        return True


def cut(batch: PacketBatch, here: slice, number: array[int]) -> PacketBatch:
    """Return a part of a batch, over the same buffer, with other numbers."""
    return PacketBatch(
        buffer=batch.buffer,
        number=number,
        time_ns=batch.time_ns[here],
        offset=batch.offset[here],
        captured_bytes=batch.captured_bytes[here],
        wire_bytes=batch.wire_bytes[here],
        link_type=batch.link_type[here],
    )


class Joined(NamedTuple):
    """Packets of several captures, by time."""

    batch: PacketBatch
    """Its numbers are still to be given: they are indices."""
    starts: array[int]
    """Indices at which a run of consecutive packets of one capture begins."""
    captures: array[int]
    """Of each run: index of the capture."""
    within: array[int]
    """Of each run: number in its capture of the first packet, from 1."""


class Joiner:
    """Copies packets together, into one buffer that is used again."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def join(self, parts: list[tuple[OpenCapture, int]]) -> Joined:
        """Join the next packets of captures, which are in the order of the inputs.

        What a capture gives is one span of its buffer, packets and what lies between them: copying
        that costs less than picking packets.
        """
        pieces = [_piece(each, count) for each, count in parts]
        spans = [_span(piece) for piece in pieces]
        begins = list(accumulate((len(span) for _, span in spans), initial=0))
        if begins[-1] > len(self.buffer):
            self.buffer = bytearray(begins[-1])
        buffer = memoryview(self.buffer)
        offset = array("q")
        for piece, (first, span), begin in zip(pieces, spans, begins, strict=False):
            buffer[begin : begin + len(span)] = span
            offset += shifted(piece.offset, begin - first)
        counts = list(accumulate((count for _, count in parts), initial=0))
        keys = _together([each.keys[each.at : each.at + count] for each, count in parts])
        order, starts, owners = take_turns(keys, counts)
        batch = PacketBatch(
            buffer=buffer,
            number=_together([piece.number for piece in pieces]),
            time_ns=_together([piece.time_ns for piece in pieces]),
            offset=offset,
            captured_bytes=_together([piece.captured_bytes for piece in pieces]),
            wire_bytes=_together([piece.wire_bytes for piece in pieces]),
            link_type=_together([piece.link_type for piece in pieces]),
        ).taken(order)
        captures = picked(array("q", [each.index for each, _ in parts]), owners)
        numbers = _together([rising(each.given + 1, count) for each, count in parts])
        return Joined(batch, starts, captures, picked(numbers, picked(order, starts)))


def _piece(each: OpenCapture, count: int) -> PacketBatch:
    """Return the next packets of a capture."""
    assert each.batch is not None
    here = slice(each.at, each.at + count)
    return cut(each.batch, here, each.batch.number[here])


def _span(piece: PacketBatch) -> tuple[int, memoryview]:
    """Return where in its buffer the packets of a piece begin, and the bytes of all of them."""
    # In a file they follow each other.
    first, last = piece.offset[0], piece.offset[-1] + piece.captured_bytes[-1]
    return first, piece.buffer[first:last]


def _together(columns: list[array[int]]) -> array[int]:
    """Return one column after another, of at least one."""
    together = array(columns[0].typecode)
    for column in columns:
        together += column
    return together
