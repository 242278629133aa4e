"""Which bytes of a frame a decoder reads, so that the others need not be kept.

In: a frame, and a decoder. Out: the frame without the bytes that the decoder skips, or the ranges
that it reads. Most bytes of a large frame are record data, and rows need only the batch headers.

The decoder runs over the bytes received so far. It will read the same ranges again, so the bytes
between these are dropped. Everything from the first missing byte on is kept.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.kafka.wire import MissingBytes, WireError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kanalyze.kafka.framing.frame import Frame

__all__ = ["Ranges", "byte_ranges_read", "drop_unread_bytes"]

_HEAD_BYTES = 2048
"""Always kept: the frame's header, and the fields before its body's first array."""


Ranges: TypeAlias = list[tuple[int, int]]
"""Begin and end of each range in the frame; in order, without overlaps."""


def drop_unread_bytes(
    frame: Frame,
    at: int,
    decode: Callable[..., tuple[Any, int]],
    before_drop: Callable[[], None] | None = None,
) -> tuple[Ranges, int]:
    """Drop the bytes of an incomplete frame that ``decode`` skips, from ``at`` on.

    ``before_drop`` is called when ``decode`` has run, and the bytes are still there. Returns the
    ranges kept before an offset in the frame, and that offset.
    """
    reads = _Reads(frame)
    reads.note(0, min(_HEAD_BYTES, frame.length))
    with suppress(WireError):
        decode(reads.window(at), 0, at, reads)
    if before_drop is not None:
        before_drop()
    ranges = reads.ranges()
    frame.keep_only(ranges, reads.stuck_at)
    return ranges, reads.stuck_at


def byte_ranges_read(
    frame: Frame, at: int, decode: Callable[..., tuple[Any, int]]
) -> Ranges | None:
    """Return which bytes of a complete frame ``decode`` reads, from ``at`` on.

    All bytes before ``at`` are included. None if the frame cannot be read. Windows are small,
    because all bytes of a window count as read.
    """
    frame.window_bytes = _NARROW_BYTES
    reads = _Reads(frame)
    reads.note(0, at)
    try:
        decode(reads.window(at), 0, at, reads)
    except WireError:
        return None
    return reads.ranges()


_NARROW_BYTES = 192
"""Mostly enough for the first fields of a partition and the header of its batch (61 bytes)."""


class _Reads:
    """A :class:`~kanalyze.kafka.wire.Source` that records what is read of a frame."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._ranges: list[tuple[int, int]] = []
        self.stuck_at = frame.received
        """The first byte that the decoder needed and that is not there."""

    @property
    def length(self) -> int:
        """Bytes of the frame with its size prefix: see :class:`~kanalyze.kafka.wire.Source`."""
        return self._frame.length

    def window(self, at: int) -> memoryview:
        """Return bytes from ``at`` on: see :class:`~kanalyze.kafka.wire.Source`."""
        try:
            window = self._frame.window(at)[: self._frame.window_bytes]
        except MissingBytes:
            self.stuck_at = min(self.stuck_at, at)
            raise
        self.note(at, at + len(window))
        return window

    def read(self, at: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes: see :class:`~kanalyze.kafka.wire.Source`."""
        try:
            data = self._frame.read(at, length)
        except MissingBytes:
            self.stuck_at = min(self.stuck_at, at)
            raise
        self.note(at, at + length)
        return data

    def note(self, begin: int, end: int) -> None:
        """Record a range as read."""
        self._ranges.append((begin, end))

    def ranges(self) -> Ranges:
        """Return the ranges that were read, merged where they touch or overlap."""
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(self._ranges):
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return merged
