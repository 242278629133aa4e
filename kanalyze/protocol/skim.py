"""Which bytes of an unfinished frame a decoder reads, so that the others need not be kept.

In: a frame that goes on, and a decoder. Out: the frame without what is stepped over: most bytes of
a large frame are record data, of which a row takes the batch headers. This module must not know
what is decoded.

The decoder is let run over what is there until it finds no more. What it asked for up to that
place is what it will ask for again; what lies between is let go. From that place on everything is
kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.protocol.wire import MissingBytes, Truncated, WireError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kanalyze.protocol.framing import Frame

__all__ = ["skim"]

_HEAD_BYTES = 2048
"""Kept in any case: the frame's header, and the fields before its body's first array."""


def skim(frame: Frame, at: int, decode: Callable[..., tuple[Any, int]]) -> None:
    """Drop the bytes of an unfinished frame that ``decode``, from ``at`` on, steps over."""
    reads = _Reads(frame)
    reads.note(0, min(_HEAD_BYTES, frame.length))
    while True:
        try:
            decode(reads.window(at), 0, at, reads)
        except Truncated:
            if reads.goes_on():
                continue
        except WireError:
            pass
        break
    frame.keep_only(reads.ranges(), reads.stuck_at)


class _Reads:
    """A :class:`~kanalyze.protocol.wire.Source` that notes what is asked of a frame."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._ranges: list[tuple[int, int]] = []
        self._end = frame.received
        self._touches_end = False
        self.stuck_at = self._end
        """The first place that was asked for and is not there."""

    def window(self, at: int) -> memoryview:
        """Return bytes from ``at`` on: see :class:`~kanalyze.protocol.wire.Source`."""
        try:
            found = self._frame.window(at)[: self._frame.window_bytes]
        except MissingBytes:
            self.stuck_at = min(self.stuck_at, at)
            raise
        self.note(at, at + len(found))
        return found

    def read(self, at: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes: see :class:`~kanalyze.protocol.wire.Source`."""
        try:
            found = self._frame.read(at, length)
        except MissingBytes:
            self.stuck_at = min(self.stuck_at, at)
            raise
        self.note(at, at + length)
        return found

    def note(self, begin: int, end: int) -> None:
        """Note a range that is needed."""
        self._ranges.append((begin, end))
        self._touches_end = self._touches_end or end >= self._end

    def goes_on(self) -> bool:
        """Let windows be larger; false when the last one ended where the frame does so far."""
        return not self._touches_end and self._frame.widen()

    def ranges(self) -> list[tuple[int, int]]:
        """Return what is needed: rising, without overlaps."""
        joined: list[tuple[int, int]] = []
        for begin, end in sorted(self._ranges):
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((begin, end))
        return joined
