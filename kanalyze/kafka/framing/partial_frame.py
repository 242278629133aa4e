"""A frame that continues in a later segment: after its size prefix, or within it.

In: the segments and gaps that follow. Out: the frame, once it is complete, and the size, once its
prefix is complete.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.frame import Frame
from kanalyze.model.streams import Chunk, Segments

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame_pieces import SegmentSpan

__all__ = ["PartialFrame", "SplitPrefix"]

_SIZE = struct.Struct(">i").unpack_from


class PartialFrame:
    """The frame that has begun and is not complete, from when its size is known; or no frame.

    Attributes:
        frame: the frame; None if there is none.
        remaining: how many bytes of it are still to come, lost ones included.
    """

    _SAVED = Saved("remaining:count frame:Frame?", Frame)

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self.remaining = 0

    def _after_load(self) -> None:
        if (self.remaining > 0) != (self.frame is not None) or (
            self.frame is not None and self.frame.received > self.frame.length - self.remaining
        ):
            raise ValueError("a frame with bytes beyond those that have come")

    @property
    def seen_bytes(self) -> int:
        """Stream bytes of the frame so far, its holes included; 0 if there is no frame."""
        return 0 if self.frame is None else self.frame.length - self.remaining

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the frame that are buffered; 0 if there is no frame."""
        return 0 if self.frame is None else self.frame.buffered_bytes

    def extend(self, frame: Frame, spread: SegmentSpan) -> None:
        """Add the next bytes to the frame, which is :attr:`frame`."""
        if spread.buffered_bytes:
            frame.add_spread(frame.length - self.remaining, spread)
        frame.missing_bytes += spread.length - spread.buffered_bytes
        self.remaining -= spread.length

    def lose(self, length: int) -> None:
        """Note that the next ``length`` bytes are lost."""
        if self.frame is not None:
            self.frame.missing_bytes += length
            self.frame.lost_bytes += length
        self.remaining -= length

    def end(self, time_ns: int, packet: int) -> Frame | None:
        """Return the frame, and set :attr:`frame` to None.

        ``time_ns`` and ``packet`` are of its last packet; ``packet`` is ``NO_PACKET`` if its end
        was lost.
        """
        frame = self.frame
        self.frame, self.remaining = None, 0
        if frame is not None:
            frame.end_with(time_ns, packet)
        return frame


class SplitPrefix:
    """The size prefix of a frame, if it lies in two segments or more.

    Attributes:
        frame: the frame, without its bytes and its size; None if no prefix is split.
    """

    _SAVED = Saved("_bytes:bytes frame:Frame?", Frame)

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self._bytes = b""

    def _after_load(self) -> None:
        if (0 < len(self._bytes) < 4) != (self.frame is not None) or (
            self.frame is not None and self.frame.received
        ):
            raise ValueError("a split size prefix that has not 1 to 3 bytes")

    def begin(self, segments: Segments, index: int, stream_offset: int, used: int) -> None:
        """Begin a prefix with the bytes of a segment from its byte ``used`` on."""
        start = segments.start[index]
        self._bytes = bytes(segments.buffer[start + used : start + segments.captured[index]])
        self.frame = Frame(0, stream_offset, segments.time_ns[index], segments.packet[index])

    def add(self, segments: Segments, index: int) -> int:
        """Add the first bytes of a segment; return how many, or -1 if they were not captured."""
        take = min(4 - len(self._bytes), segments.length[index])
        if segments.captured[index] < take:
            return -1
        start = segments.start[index]
        self._bytes += bytes(segments.buffer[start : start + take])
        return take

    @property
    def size(self) -> int | None:
        """The size that the prefix declares; None until the prefix is complete."""
        return _SIZE(self._bytes)[0] if len(self._bytes) == 4 else None

    def chunk(self, frame: Frame, end: int) -> Chunk:
        """Return the bytes of the prefix before stream offset ``end``, to be searched.

        ``frame`` is :attr:`frame`. If the bytes came in several packets, all get the time and the
        number of the first one.
        """
        size = end - frame.stream_offset
        data = memoryview(self._bytes)[:size]
        segments = Segments(data, [0], [size], [size], [frame.start_time_ns], [frame.start_packet])
        return Chunk(frame.stream_offset, segments, 0, 1)

    def end(self, frame: Frame, size: int) -> None:
        """Set the size and the prefix of ``frame``, which is :attr:`frame`; forget the prefix."""
        frame.length = size + 4
        frame.add(0, memoryview(self._bytes))
        self.clear()

    def clear(self) -> None:
        """Forget the prefix."""
        self._bytes = b""
        self.frame = None
