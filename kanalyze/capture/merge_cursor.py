"""Captures that are open while several are merged, and the merging of their next packets.

In: captures with one batch each. Out: one batch of their next packets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from kanalyze.common.int_columns import earliest_from, picked, rising, shifted, take_turns
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.packets import NO_TIME, PacketBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.capture.reader import CaptureReader

__all__ = ["BatchMerger", "MergedBatch", "OpenCapture", "first_packets", "slice_of"]


class OpenCapture:
    """A capture being read."""

    __slots__ = ("_last_known_ns", "at", "batch", "batches", "delivered", "index", "keys", "reader")

    def __init__(self, index: int, reader: CaptureReader, batches: Iterator[PacketBatch]) -> None:
        self._last_known_ns: int | None = None
        """Time of the last packet that had one."""
        self.index = index
        """Index in the order of the inputs; the smaller one comes first at equal times."""
        self.reader = reader
        self.batches = batches
        self.batch: PacketBatch | None = None
        self.keys = array("q")
        """For each packet of ``batch``, the earliest time of it and all later ones. This column
        never falls."""
        self.at = 0
        """Number of packets of ``batch`` that were delivered."""
        self.delivered = 0
        """Number of packets of the capture that were delivered."""

    @property
    def next_key(self) -> tuple[int, int]:
        """Key of the next packet, and the capture's index; captures are compared by it."""
        return self.keys[self.at], self.index

    @property
    def last_key(self) -> tuple[int, int]:
        """The key of the last packet of ``batch``; unread packets usually have later keys."""
        return self.keys[-1], self.index

    def count_up_to(self, limit: tuple[int, int]) -> int:
        """Count the next packets whose keys are no later than ``limit``; 0 or less for none."""
        find = bisect_right if self.index <= limit[1] else bisect_left
        return find(self.keys, limit[0]) - self.at

    def advance(self, count: int) -> None:
        """Count the next packets as delivered."""
        self.at += count
        self.delivered += count

    def read_on(self) -> bool:
        """Take the next batch; false at the end."""
        self.at = 0
        self.batch = next(self.batches, None)
        if self.batch is None:
            return False
        # Not the times themselves: a packet with a time far in the future must not hold back all
        # packets after it in its file.
        self.keys = earliest_from(self.batch.time_ns)
        if self.keys[0] == NO_TIME:
            self._fill_times(self.batch.time_ns)
        else:
            self._last_known_ns = self.batch.time_ns[-1]
        return True

    def _fill_times(self, times: array[int]) -> None:
        """Sort packets without a time by that of the packet before, or else of the next."""
        filled = times[:]
        before_ns = self._last_known_ns
        if before_ns is None:
            before_ns = next((time_ns for time_ns in times if time_ns != NO_TIME), 0)
        for at, time_ns in enumerate(times):
            if time_ns == NO_TIME:
                filled[at] = before_ns
            else:
                self._last_known_ns = before_ns = time_ns
        self.keys = earliest_from(filled)


def slice_of(batch: PacketBatch, rows: slice, number: array[int]) -> PacketBatch:
    """Return a part of a batch, over the same buffer, with other numbers."""
    return PacketBatch(
        buffer=batch.buffer,
        number=number,
        time_ns=batch.time_ns[rows],
        offset=batch.offset[rows],
        captured_bytes=batch.captured_bytes[rows],
        wire_bytes=batch.wire_bytes[rows],
        link_type=batch.link_type[rows],
    )


def first_packets(batches: Iterator[PacketBatch], most: int) -> Iterator[PacketBatch]:
    """Yield up to ``most`` packets of a capture; no batch is empty."""
    for batch in batches:
        if len(batch) >= most:
            if most:
                yield slice_of(batch, slice(0, most), batch.number[:most])
            return
        yield batch
        most -= len(batch)


class MergedBatch(NamedTuple):
    """Packets of several captures, by time."""

    batch: PacketBatch
    """Without packet numbers: these are assigned later."""
    starts: array[int]
    """Indices in the batch at which a run of consecutive packets of one capture begins."""
    captures: array[int]
    """Index of each run's capture."""
    within: array[int]
    """Number of each run's first packet in its capture, from 1."""


class BatchMerger:
    """Copies packets into one buffer, which is used again."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def merge(self, slices: list[tuple[OpenCapture, int]]) -> MergedBatch:
        """Merge the next packets of captures; ``slices`` has a number of packets for each capture.

        The captures are in the order of the inputs. A capture's packets are copied as one span of
        its buffer, with the bytes between them: that is faster than copying them one by one.
        """
        pieces = [_piece(each, count) for each, count in slices]
        spans = [_span(piece) for piece in pieces]
        begins = list(accumulate((len(span) for _, span in spans), initial=0))
        if begins[-1] > len(self.buffer):
            self.buffer = bytearray(begins[-1])
        buffer = memoryview(self.buffer)
        offset = array("q")
        for piece, (first, span), begin in zip(pieces, spans, begins, strict=False):
            buffer[begin : begin + len(span)] = span
            offset += shifted(piece.offset, begin - first)
        counts = list(accumulate((count for _, count in slices), initial=0))
        keys = _concatenated([each.keys[each.at : each.at + count] for each, count in slices])
        order, starts, owners = take_turns(keys, counts)
        batch = PacketBatch(
            buffer=buffer,
            number=_concatenated([piece.number for piece in pieces]),
            time_ns=_concatenated([piece.time_ns for piece in pieces]),
            offset=offset,
            captured_bytes=_concatenated([piece.captured_bytes for piece in pieces]),
            wire_bytes=_concatenated([piece.wire_bytes for piece in pieces]),
            link_type=_concatenated([piece.link_type for piece in pieces]),
        ).select(order)
        captures = picked(array("q", [each.index for each, _ in slices]), owners)
        numbers = _concatenated([rising(each.delivered + 1, count) for each, count in slices])
        return MergedBatch(batch, starts, captures, picked(numbers, picked(order, starts)))


def _piece(capture: OpenCapture, count: int) -> PacketBatch:
    """Return the next packets of a capture."""
    assert capture.batch is not None
    rows = slice(capture.at, capture.at + count)
    return slice_of(capture.batch, rows, capture.batch.number[rows])


def _span(piece: PacketBatch) -> tuple[int, memoryview]:
    """Return where in its buffer the packets of a piece begin, and the bytes of all of them."""
    # In a file they follow each other.
    first, last = piece.offset[0], piece.offset[-1] + piece.captured_bytes[-1]
    return first, piece.buffer[first:last]


def _concatenated(columns: list[array[int]]) -> array[int]:
    """Return columns, at least one, one after another."""
    result = array(columns[0].typecode)
    for column in columns:
        result += column
    return result
