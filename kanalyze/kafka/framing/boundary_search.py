"""Searches for the next frame boundary after sync was lost.

In: chunks whose frame boundaries are unknown. Out: chunks that begin with a frame.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.model.streams import Chunk, Segments

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame

__all__ = ["BoundarySearch", "FrameLocator"]

_SIZE = struct.Struct(">i").unpack_from
_SEARCH_STEP_BYTES = 16 * 1024
_SMALL_SEARCH_BYTES = 1024
_UNKNOWN_BYTES = 1 << 62
"""Stands for an unknown length: more bytes than any stream has."""
_PIECES_AT_ONCE = 64
"""How many segments that the snap length cut are searched together: each has few bytes."""


class FrameLocator(ABC):
    """Finds the next frame boundary in bytes that begin anywhere."""

    @abstractmethod
    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a frame's first byte or None, index of the first byte to keep).

        No frame begins before the second index. The next call gets the bytes from there on again,
        together with those that follow.
        """

    def in_pieces(self, pieces: list[memoryview]) -> tuple[int, int] | None:
        """Return the number of the first piece that a frame begins in, and the frame's index there.

        A piece is a segment as far as the snap length left it. The frame may continue in the part
        that was cut off, which will never come. None if no frame begins in any piece.
        """
        for number, piece in enumerate(pieces):
            index, _ = self(piece)
            if index is not None:
                return number, index
        return None

    def confirm(self, frame: Frame) -> bool:  # noqa: ARG002 - overridden where it can be checked
        """Return true if a frame that was incomplete when it was located is really a frame."""
        return True


class _SearchBuffer:
    """Bytes of no known frame, with the packets they came in; its caller bounds them."""

    _SAVED = Saved(
        "_bytes:bytearray stream_offset:count _cut_bytes:count searched_bytes:count "
        "needed_bytes:count _marks:list[(count,int,count)]"
    )

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._marks: list[tuple[int, int, int]] = []  # (index in _bytes, time_ns, packet)
        self.stream_offset = 0
        """Stream offset of the first byte."""
        self._cut_bytes = 0
        self.searched_bytes = 0
        """How many of the bytes have been searched."""
        self.needed_bytes = _UNKNOWN_BYTES
        """Length of the frame that may begin with the first byte; ``_UNKNOWN_BYTES`` if none."""

    def _after_load(self) -> None:
        indices = [mark[0] for mark in self._marks]
        size = len(self._bytes)
        if (
            indices != sorted(indices)
            or self.searched_bytes > size
            or bool(size or self._cut_bytes) > bool(indices)
        ):
            raise ValueError("bytes of a search that came with no packet")
        if indices and (indices[0] != 0 or indices[-1] > size):
            raise ValueError("a packet behind the bytes of a search")

    @property
    def size(self) -> int:
        """How many bytes are buffered."""
        return len(self._bytes)

    @property
    def is_empty(self) -> bool:
        """True if nothing is buffered, and nothing was cut off after it."""
        return not self._bytes and not self._cut_bytes

    @property
    def is_due(self) -> bool:
        """True if enough bytes have come to search again."""
        size = len(self._bytes)
        if self._cut_bytes:
            return True
        if size <= self.searched_bytes:
            return False
        return size <= _SMALL_SEARCH_BYTES or size >= min(
            self.searched_bytes * 5 // 4, self.needed_bytes
        )

    def note_searched(self) -> None:
        """Note that all bytes were searched, and no complete frame was found."""
        size = len(self._bytes)
        self.searched_bytes = size
        needed = _SIZE(self._bytes)[0] + 4 if size >= 4 else 0
        self.needed_bytes = needed if needed > size else _UNKNOWN_BYTES

    def add(self, segments: Segments, index: int, stream_offset: int) -> None:
        """Append a segment; nothing may follow one that a snap length cut."""
        start, captured = segments.start[index], segments.captured[index]
        if not self._bytes:
            self.stream_offset = stream_offset
        self._marks.append((len(self._bytes), segments.time_ns[index], segments.packet[index]))
        self._bytes += segments.buffer[start : start + captured]
        self._cut_bytes = segments.length[index] - captured

    @property
    def is_cut(self) -> bool:
        """True if the snap length cut the last segment."""
        return self._cut_bytes > 0

    def view(self) -> memoryview:
        """Return a copy of all bytes."""
        return memoryview(bytes(self._bytes))

    def clear(self) -> int:
        """Drop all; return how many bytes that were."""
        dropped = len(self._bytes) + self._cut_bytes
        self._cut_bytes = 0
        self.searched_bytes = 0
        self.needed_bytes = _UNKNOWN_BYTES
        self._bytes.clear()
        self._marks.clear()
        return dropped

    def drop(self, before: int) -> int:
        """Drop the bytes before index ``before``; return how many."""
        before = min(before, len(self._bytes))
        if before <= 0:
            return 0
        segments, offset = self.rest(before)
        self._bytes = bytearray(segments.buffer)
        self.stream_offset = offset
        self._marks = list(zip(segments.start, segments.time_ns, segments.packet, strict=True))
        return before

    def rest(self, index: int) -> tuple[Segments, int]:
        """Return the bytes from ``index`` on as segments of their own, and their offset."""
        starts, lengths, captured, times, packets = [], [], [], [], []
        ends = [*(mark[0] for mark in self._marks[1:]), len(self._bytes)]
        cut_bytes = [0] * (len(ends) - 1) + [self._cut_bytes]
        for (start, time_ns, packet), end, cut_off in zip(
            self._marks, ends, cut_bytes, strict=True
        ):
            size = end - max(start, index)
            if size + cut_off <= 0 or size < 0:
                continue
            starts.append(max(start, index) - index)
            lengths.append(size + cut_off)
            captured.append(size)
            times.append(time_ns)
            packets.append(packet)
        data = memoryview(bytes(self._bytes[index:]))
        segments = Segments(data, starts, lengths, captured, times, packets)
        return segments, self.stream_offset + index


class BoundarySearch:
    """Searches one direction of a connection for frame boundaries, each time sync is lost.

    Attributes:
        is_on: the next boundary is unknown.
        skipped_bytes: bytes that belong to no frame, over all searches.
    """

    _NOT_SAVED = ("_locator",)
    _SAVED = Saved(
        "skipped_bytes:count _candidate_offset:int _searched_until:int _searched:_SearchBuffer?",
        _SearchBuffer,
    )

    def __init__(self, locator: FrameLocator, *, is_on: bool) -> None:
        """Make a search; if ``is_on``, it begins at once."""
        self._locator = locator
        self._buffer = _SearchBuffer()
        self._candidate_offset = -1
        """Stream offset where the last search ended: a frame begins there, or seems to."""
        self._searched_until = -1
        """Stream offset after the last byte that had come by then."""
        self.is_on = is_on
        self.skipped_bytes = 0

    @property
    def _searched(self) -> _SearchBuffer | None:
        """The buffer of a search that is on."""
        return self._buffer if self.is_on else None

    @_searched.setter
    def _searched(self, buffer: _SearchBuffer | None) -> None:
        self.is_on = buffer is not None
        if buffer is not None:
            self._buffer = buffer

    @property
    def buffered_bytes(self) -> int:
        """Bytes kept to be searched again with those that follow."""
        return self._buffer.size

    @property
    def offset(self) -> int:
        """Stream offset of the first buffered byte."""
        return self._buffer.stream_offset

    def is_unconfirmed(self, frame: Frame) -> bool:
        """Return true if a search ended with a frame that was incomplete then."""
        begin = frame.stream_offset
        return begin == self._candidate_offset and begin + frame.length > self._searched_until

    def confirms(self, frame: Frame) -> bool:
        """Return false if a search ended with this frame, but its later bytes refute it."""
        return not self.is_unconfirmed(frame) or self._locator.confirm(frame)

    def clear(self) -> int:
        """Skip the buffered bytes; return how many."""
        skipped = self._buffer.clear()
        self.skipped_bytes += skipped
        return skipped

    def search(self, chunk: Chunk) -> list[Chunk]:
        """Look for a boundary; return the rest of the chunk, then the bytes from the boundary on.

        The search takes small steps, so that it stays cheap to find and lose sync repeatedly.
        Buffered bytes are searched again only when they have grown by a quarter, so a search takes
        time in proportion to its bytes.
        """
        search = self._buffer
        index, stream_offset = chunk.first, chunk.stream_offset
        lengths = chunk.segments.length
        while index < chunk.last:
            if search.is_empty:
                skipped, begin = self._skip_pieces(chunk.segments, index, chunk.last)
                stream_offset += sum(lengths[index : index + skipped])
                index += skipped
                if begin is not None:
                    search.add(chunk.segments, index, stream_offset)
                    chunks = self._end(begin)
                    return _with_rest(chunk, index + 1, stream_offset + lengths[index], chunks)
                if skipped:
                    continue
            enough = min(
                max(search.searched_bytes + _SEARCH_STEP_BYTES, search.searched_bytes * 5 // 4),
                search.needed_bytes,
            )
            while index < chunk.last and search.size < enough and not search.is_cut:
                search.add(chunk.segments, index, stream_offset)
                stream_offset += lengths[index]
                index += 1
            if not search.is_due:
                break
            chunks = self.search_buffered()
            if chunks:
                return _with_rest(chunk, index, stream_offset, chunks)
            if search.is_cut:
                # The next segment does not follow the bytes of one that was cut.
                self.clear()
        return []

    def _skip_pieces(self, segments: Segments, first: int, last: int) -> tuple[int, int | None]:
        """Look for a boundary in consecutive segments that the snap length cut.

        Returns how many of them have none, and the index of the boundary in the segment after
        these; None if no boundary was found.
        """
        starts, lengths, captured = segments.start, segments.length, segments.captured
        end = min(last, first + _PIECES_AT_ONCE)
        index = first
        pieces = []
        while index < end and captured[index] < lengths[index]:
            pieces.append(segments.buffer[starts[index] : starts[index] + captured[index]])
            index += 1
        piece_and_index = self._locator.in_pieces(pieces) if pieces else None
        if piece_and_index is not None:
            index = first + piece_and_index[0]
        self.skipped_bytes += sum(lengths[first:index])
        return index - first, None if piece_and_index is None else piece_and_index[1]

    def search_buffered(self) -> list[Chunk]:
        """Look for a boundary in the buffered bytes; return the bytes that begin there, if any."""
        search = self._buffer
        view = search.view()
        if search.is_cut:
            piece_and_index = self._locator.in_pieces([view])
            index, keep = (None if piece_and_index is None else piece_and_index[1]), 0
        else:
            index, keep = self._locator(view)
        if index is None:
            self.skipped_bytes += search.drop(keep)
            search.note_searched()
            return []
        return self._end(index)

    def _end(self, index: int) -> list[Chunk]:
        """End a search with a frame at an index; return the bytes from there."""
        self.skipped_bytes += index
        segments, self._candidate_offset = self._buffer.rest(index)
        self._searched_until = self._candidate_offset + self._buffer.size - index
        self._buffer.clear()
        self.is_on = False
        return [Chunk(self._candidate_offset, segments, 0, len(segments.start))]


def _with_rest(chunk: Chunk, index: int, stream_offset: int, chunks: list[Chunk]) -> list[Chunk]:
    """Return the rest of a chunk from a segment on, then ``chunks``: the last is cut first."""
    if index == chunk.last:
        return chunks
    return [Chunk(stream_offset, chunk.segments, index, chunk.last), *chunks]
