"""Where the frames of one direction lie, for many at once and without an object each.

In: what a batch of packets added to a stream, where all of its bytes are there. Out:
:class:`Cuts`, places in the stream. This module must not know what is in a frame, and it has no way
round anything out of the ordinary: there it says None, and the frames are for
:class:`~kanalyze.protocol.framing.FrameCutter`.

Positions count bytes from the first one that was added.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kanalyze.model import Chunk, Gap
from kanalyze.protocol.framing import LARGEST_FRAME_BYTES
from kanalyze.segments import Segments

if TYPE_CHECKING:
    from kanalyze.model import StreamItem

__all__ = ["Cuts", "PlainStream", "cut", "plain_stream"]

_SIZE = struct.Struct(">i").unpack_from
_PREFIX_BYTES = 4
_FEW_FRAMES = 8
_SMALL_BYTES = 4096
"""Where the first few frames are smaller on average, a stream's segments are joined: what is copied
is nearly all read, and finding a place in one piece costs nothing."""


class PlainStream:
    """What was added to a stream, with nothing missing; the lists have one entry a segment.

    Attributes:
        stream_offset: of the first byte.
        buffer, start: where the payload is: the first byte is ``buffer[i][start[i]]``.
        length, time_ns, packet: as in :class:`~kanalyze.model.Segments`.
        ends: position after each segment's last byte.
        size: in bytes.
    """

    __slots__ = ("buffer", "ends", "length", "packet", "size", "start", "stream_offset", "time_ns")

    def __init__(self, chunks: list[Chunk]) -> None:
        """Take up chunks that follow one another, at least one segment in all."""
        self.stream_offset = chunks[0].stream_offset
        self.buffer: list[memoryview] = []
        self.start: list[int] = []
        self.length: list[int] = []
        self.time_ns: list[int] = []
        self.packet: list[int] = []
        for chunk in chunks:
            segments, first, last = chunk.segments, chunk.first, chunk.last
            self.buffer += [segments.buffer] * (last - first)
            self.start += segments.start[first:last]
            self.length += segments.length[first:last]
            self.time_ns += segments.time_ns[first:last]
            self.packet += segments.packet[first:last]
        self.ends = list(accumulate(self.length))
        self.size = self.ends[-1]

    def pieces(self, begin: int, end: int) -> list[memoryview]:
        """Return the bytes from one position to another, as they lie."""
        if begin >= end:
            return []
        ends, starts = self.ends, self.start
        first, last = bisect_right(ends, begin), bisect_right(ends, end - 1)
        skip = begin - (ends[first] - self.length[first])
        within = end - (ends[last] - self.length[last])
        if first == last:
            return [self.buffer[first][starts[first] + skip : starts[first] + within]]
        inner = slice(first, last)
        found = [
            buffer[start : start + length]
            for buffer, start, length in zip(
                self.buffer[inner], starts[inner], self.length[inner], strict=True
            )
        ]
        found[0] = found[0][skip:]
        found.append(self.buffer[last][starts[last] : starts[last] + within])
        return found

    def read(self, begin: int, end: int) -> bytes:
        """Return the bytes from one position to another."""
        return b"".join(self.pieces(begin, end))

    def chunks(self, begin: int, end: int) -> list[Chunk]:
        """Return the stream from one position to another."""
        if begin >= end:
            return []
        first, last = bisect_right(self.ends, begin), bisect_right(self.ends, end - 1) + 1
        starts, lengths = self.start[first:last], self.length[first:last]
        lengths[-1] -= self.ends[last - 1] - end
        skip = begin - (self.ends[first] - self.length[first])
        starts[0] += skip
        lengths[0] -= skip
        offset = self.stream_offset + begin
        found = []
        index = 0
        while index < len(starts):
            # A chunk has one buffer.
            upto = _run_end(self.buffer, first + index, last) - first
            own = slice(index, upto)
            times, packets = self.time_ns[first:last][own], self.packet[first:last][own]
            buffer = self.buffer[first + index]
            segments = Segments(buffer, starts[own], lengths[own], lengths[own], times, packets)
            found.append(Chunk(offset, segments, 0, upto - index))
            offset += sum(lengths[own])
            index = upto
        return found

    def copy(self, begin: int, end: int) -> Chunk | None:
        """Return the same in one chunk that outlives the buffers; None for nothing."""
        chunks = self.chunks(begin, end)
        if not chunks:
            return None
        own = PlainStream(chunks)
        segments = Segments(
            memoryview(self.read(begin, end)),
            [0, *own.ends[:-1]],
            own.length,
            own.length,
            own.time_ns,
            own.packet,
        )
        return Chunk(own.stream_offset, segments, 0, len(own.ends))


def _run_end(buffers: list[memoryview], first: int, last: int) -> int:
    """Return the index after the last entry from ``first`` on that is the same object."""
    buffer = buffers[first]
    index = first + 1
    while index < last and buffers[index] is buffer:
        index += 1
    return index


class Cuts(NamedTuple):
    """The whole frames of a stream, in order; the lists have one entry a frame."""

    at: list[int]
    """Position of the first byte."""
    size: list[int]
    """As declared; the frame has 4 bytes more."""
    end: int
    """Position after the last frame."""
    joined: bytes | None
    """All bytes of the stream, where it paid to join them."""

    def place(self, frame: int) -> int:
        """Return where a frame begins; of the one after the last, where they end."""
        return self.at[frame] if frame < len(self.at) else self.end


def plain_stream(items: list[StreamItem]) -> PlainStream | None:
    """Return what was added to a stream; None where it has holes, or nothing was added."""
    chunks: list[Chunk] = []
    expected = 0
    for item in items:
        if isinstance(item, Gap) or (chunks and item.stream_offset != expected):
            return None
        segments, own = item.segments, slice(item.first, item.last)
        lengths = segments.length[own]
        if lengths != segments.captured[own]:
            return None
        expected = item.stream_offset + sum(lengths)
        if lengths:
            chunks.append(item)
    return PlainStream(chunks) if chunks else None


def cut(stream: PlainStream, skip: int, smallest_bytes: int) -> Cuts | None:
    """Cut a stream into frames, from position ``skip`` on.

    A frame that ends in what comes later is not among the cuts. None where a size is none that a
    frame may have, and where ``skip`` goes past the end.
    """
    total = stream.size
    if skip > total:
        return None
    at: list[int] = []
    sizes: list[int] = []
    position = skip
    while position + _PREFIX_BYTES <= total:
        size = _SIZE(stream.read(position, position + _PREFIX_BYTES))[0]
        if not smallest_bytes <= size <= LARGEST_FRAME_BYTES:
            return None
        end = position + size + _PREFIX_BYTES
        if end > total:
            break
        at.append(position)
        sizes.append(size)
        position = end
        if len(at) == _FEW_FRAMES and position - skip <= _FEW_FRAMES * _SMALL_BYTES:
            return _cut_joined(stream, at, sizes, position, smallest_bytes)
    return Cuts(at, sizes, position, None)


def _cut_joined(
    stream: PlainStream, at: list[int], sizes: list[int], position: int, smallest_bytes: int
) -> Cuts | None:
    """Go on cutting in all bytes together."""
    data = stream.read(0, stream.size)
    last = stream.size - _PREFIX_BYTES
    while position <= last:
        size = _SIZE(data, position)[0]
        if not smallest_bytes <= size <= LARGEST_FRAME_BYTES:
            return None
        end = position + size + _PREFIX_BYTES
        if end > stream.size:
            break
        at.append(position)
        sizes.append(size)
        position = end
    return Cuts(at, sizes, position, data)
