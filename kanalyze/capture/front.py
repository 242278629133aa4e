"""Captures that are open while several are merged, and how their packets are put together.

In: captures with a batch each. Out: one batch of the packets that come next. Must not know: which
captures there are beside, nor when they are opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanalyze.model import PacketBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

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
        self.keys: NDArray[np.int64] = np.empty(0, np.int64)
        """Of each packet of ``batch``: the earliest time from it on. Within a batch they never
        fall."""
        self.at = 0
        """Packets of ``batch`` that were given out."""
        self.given = 0
        """Packets of the capture that were given out."""

    @property
    def head(self) -> tuple[int, int]:
        """When the next packet comes; captures compare by it."""
        return int(self.keys[self.at]), self.index

    @property
    def tail(self) -> tuple[int, int]:
        """When the last packet held comes: what is not read yet comes later, as a rule."""
        return int(self.keys[-1]), self.index

    def before(self, limit: tuple[int, int]) -> int:
        """Count the packets held that come no later than what has ``limit`` as its head or tail.

        Not above 0 when there is none.
        """
        if self.index <= limit[1]:
            return int(np.searchsorted(self.keys, limit[0], "right")) - self.at
        return int(np.searchsorted(self.keys, limit[0], "left")) - self.at

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
        self.keys = np.minimum.accumulate(self.batch.time_ns[::-1])[::-1]
        return True


def cut(batch: PacketBatch, here: slice, number: NDArray[np.int64]) -> PacketBatch:
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
    starts: NDArray[np.int64]
    """Indices at which a run of consecutive packets of one capture begins."""
    captures: NDArray[np.int64]
    """Of each run: index of the capture."""
    within: NDArray[np.int64]
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
        pieces = []
        spans = []
        needed = 0
        for each, count in parts:
            assert each.batch is not None
            index = np.arange(each.at, each.at + count, dtype=np.int64)
            piece = cut(each.batch, slice(each.at, each.at + count), index)
            first = int(piece.offset.min())
            last = int((piece.offset + piece.captured_bytes).max())
            pieces.append((piece, piece.offset + (needed - first)))
            spans.append((piece.buffer[first:last], needed))
            needed += last - first
        if needed > len(self.buffer):
            self.buffer = bytearray(needed)
        buffer = memoryview(self.buffer)
        for span, start in spans:
            buffer[start : start + len(span)] = span
        keys = np.concatenate([each.keys[each.at : each.at + count] for each, count in parts])
        # A stable sort keeps the order of the captures where times are equal.
        order = np.argsort(keys, kind="stable")
        batch = PacketBatch(
            buffer=buffer,
            number=np.arange(len(order), dtype=np.int64),
            time_ns=np.concatenate([piece.time_ns for piece, _ in pieces])[order],
            offset=np.concatenate([offset for _, offset in pieces])[order],
            captured_bytes=np.concatenate([piece.captured_bytes for piece, _ in pieces])[order],
            wire_bytes=np.concatenate([piece.wire_bytes for piece, _ in pieces])[order],
            link_type=np.concatenate([piece.link_type for piece, _ in pieces])[order],
        )
        return Joined(batch, *_runs(parts, order))


def _runs(
    parts: list[tuple[OpenCapture, int]], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where runs begin, of which capture they are, and the number of their first packet."""
    counts = [count for _, count in parts]
    owners = np.repeat(np.array([each.index for each, _ in parts], np.int64), counts)[order]
    numbers = [
        np.arange(each.given + 1, each.given + 1 + count, dtype=np.int64) for each, count in parts
    ]
    within = np.concatenate(numbers)[order]
    starts = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1]))).astype(np.int64)
    return starts, owners[starts], within[starts]
