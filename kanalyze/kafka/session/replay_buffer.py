"""The bytes of one direction of a connection, buffered until its protocol is known.

In: chunks and gaps, in stream order. Out: the bytes, to be searched, and the same chunks and gaps
again.

Everything is copied (see PacketBatch, whose buffers are used again) into one buffer and five
columns of integers: a segment of one byte takes 41 bytes, not a kilobyte of objects.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.model.streams import Chunk, Gap, Segments

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamItem

MAX_BUFFERED_BYTES = 256 * 1024
"""Limit for one direction, with the memory of its columns; beyond it the oldest bytes are
dropped."""
HEAD_BYTES = 256
"""How many of the first bytes are never dropped: they name the protocol of the connection."""

_KEPT_BYTES = 192 * 1024
"""What is kept when the limit is exceeded; less than the limit, so that bytes move rarely."""
_COLUMNS = 5
_ROW_BYTES = 8 * _COLUMNS
_GAP = -1
"""The value of a gap in the column of captured bytes."""


class _SegmentRows:
    """The columns of the segments and gaps of a stream, in order.

    Positions are those of :class:`ReplayBuffer`.
    """

    __slots__ = ("captured", "length", "packet", "start", "stream_offset", "time_ns")
    _NOT_SAVED = ("start",)
    _SAVED = Saved(
        "stream_offset:count length:array[count] captured:array[int] time_ns:array[int] "
        "packet:array[count]"
    )

    def __init__(self) -> None:
        self.stream_offset = 0
        """Stream offset of the first row."""
        self.start, self.length, self.captured = array("q"), array("q"), array("q")
        self.time_ns, self.packet = array("q"), array("q")

    def __len__(self) -> int:
        return len(self.start)

    def start_at(self, begin: int) -> None:
        """Continue from a state, ``begin`` being the first position; raises ValueError."""
        for length, captured_bytes in zip(self.length, self.captured, strict=True):
            if not _GAP <= captured_bytes <= length:
                raise ValueError("more bytes than a segment had")
            self.start.append(begin)
            begin += max(0, captured_bytes)
        if not len(self.time_ns) == len(self.packet) == len(self.start):
            raise ValueError("columns of different lengths")

    def append(self, start: int, length: int, captured: int, time_ns: int, packet: int) -> None:
        """Add a segment, or a gap."""
        self.start.append(start)
        self.length.append(length)
        self.captured.append(captured)
        self.time_ns.append(time_ns)
        self.packet.append(packet)

    def drop(self, rows: int) -> None:
        """Drop the first rows."""
        self.stream_offset += sum(self.length[:rows])
        for column in (self.start, self.length, self.captured, self.time_ns, self.packet):
            del column[:rows]

    def count_within(self, most_bytes: int) -> int:
        """Return how many of the last rows take at most ``most_bytes``, with their payload."""
        size, row = 0, len(self)
        while row > 0 and size <= most_bytes:
            row -= 1
            size += max(0, self.captured[row]) + _ROW_BYTES
        return len(self) - min(row + 1, len(self) - 1)

    def offset_of(self, position: int) -> int:
        """Return the stream offset of the byte at a position."""
        row = bisect_right(self.start, position) - 1
        return self.stream_offset + sum(self.length[:row]) + position - self.start[row]

    def position_of(self, stream_offset: int) -> int | None:
        """Return the position of the byte at a stream offset; None if it was not captured."""
        offset = self.stream_offset
        for start, length, captured in zip(self.start, self.length, self.captured, strict=True):
            within = stream_offset - offset
            offset += length
            if within < length:
                return start + within if 0 <= within < captured else None
        return None

    def segment_at(self, position: int) -> int:
        """Return the length on the wire of the segment that begins at a position; 0 for none."""
        row = bisect_left(self.start, position)
        while row < len(self.start) and self.start[row] == position:
            if self.captured[row] > 0:
                return self.length[row]
            row += 1
        return 0

    def items(self, data: bytes, begin: int) -> list[StreamItem]:
        """Return the rows as items of a stream; ``data`` begins at position ``begin``."""
        segments = Segments(
            memoryview(data),
            [start - begin for start in self.start],
            self.length.tolist(),
            self.captured.tolist(),
            self.time_ns.tolist(),
            self.packet.tolist(),
        )
        items: list[StreamItem] = []
        offset = offset_of_run = self.stream_offset
        first = 0
        for index, captured in enumerate(segments.captured):
            length = segments.length[index]
            if captured == _GAP:
                if first < index:
                    items.append(Chunk(offset_of_run, segments, first, index))
                items.append(Gap(offset, length, segments.time_ns[index], segments.packet[index]))
                first, offset_of_run = index + 1, offset + length
            offset += length
        if first < len(self):
            items.append(Chunk(offset_of_run, segments, first, len(self)))
        return items


class ContiguousRuns:
    """Where the runs of one direction end: sequences of bytes without a hole between them.

    A gap ends a run, and so does a segment that the snap length cut.

    Attributes:
        begins_with_gap: bytes are missing before the first captured byte.
        first_end: position where the run that begins at position 0 ends so far.
    """

    __slots__ = ("_ends", "_has_ended", "begins_with_gap", "first_end")
    _SAVED = Saved("begins_with_gap:bool first_end:count _has_ended:bool _ends:array[count]")

    def __init__(self) -> None:
        self.begins_with_gap = False
        self.first_end = 0
        self._has_ended = False
        """Whether the first run has ended."""
        self._ends = array("q")

    def check(self, begin: int, end: int) -> None:
        """Raise ValueError if these are no runs of bytes from ``begin`` to ``end``."""
        ends = self._ends.tolist()
        if ends != sorted(ends) or (ends and (ends[0] < begin or ends[-1] > end)):
            raise ValueError("a run that ends outside the buffer")

    @property
    def is_unbroken(self) -> bool:
        """True if no hole has come yet."""
        return not (self._has_ended or self.begins_with_gap)

    @property
    def is_first(self) -> bool:
        """True if the run that begins at position 0 has not ended."""
        return not self._has_ended

    def extend(self, end: int) -> None:
        """Note that the last run continues up to a position."""
        if not self._has_ended:
            self.first_end = end

    def break_at(self, end: int) -> None:
        """End the last run at a position, if it has any bytes."""
        if end == 0:
            self.begins_with_gap = True
            return
        self._has_ended = True
        if not self._ends or self._ends[-1] != end:
            self._ends.append(end)

    def end_after(self, position: int) -> int | None:
        """Return where the run with the byte at a position ends; None if it may continue."""
        index = bisect_right(self._ends, position)
        return self._ends[index] if index < len(self._ends) else None

    def drop_before(self, begin: int) -> None:
        """Drop the runs that end at a position or before."""
        del self._ends[: bisect_right(self._ends, begin)]


class ReplayBuffer:
    """The buffered bytes of one direction.

    Positions count captured bytes from the first one ever added; they stay the same when old
    bytes are dropped.

    Attributes:
        payload_bytes: bytes of the direction on the wire so far, without gaps.
        head: the first bytes, at most ``HEAD_BYTES``, up to the first hole.
        runs: which bytes follow each other without a hole.
        begin: position of the first buffered byte.
        is_whole: no byte was dropped.
        end_offset: stream offset after the last buffered byte, or after a gap that follows it.
    """

    __slots__ = (
        "_data",
        "_rows",
        "begin",
        "end_offset",
        "head",
        "is_whole",
        "payload_bytes",
        "runs",
    )
    _SAVED = Saved(
        "payload_bytes:count head:bytes end_offset:count is_whole:bool _data:bytearray begin:count "
        "_rows:here runs:here"
    )

    def __init__(self) -> None:
        self.payload_bytes = 0
        self.head = b""
        self.runs = ContiguousRuns()
        self.is_whole = True
        self.end_offset = 0
        self._data = bytearray()
        self.begin = 0
        self._rows = _SegmentRows()

    def _after_load(self) -> None:
        self._rows.start_at(self.begin)
        if sum(max(0, captured) for captured in self._rows.captured) != len(self._data):
            raise ValueError("other bytes than those of the segments")
        self.runs.check(self.begin, self.end)
        if len(self.head) > HEAD_BYTES:
            raise ValueError("a head of too many bytes")

    @property
    def end(self) -> int:
        """Position after the last buffered byte."""
        return self.begin + len(self._data)

    @property
    def buffered_bytes(self) -> int:
        """Memory taken by bytes and columns."""
        return len(self._data) + _ROW_BYTES * len(self._rows)

    @property
    def captured_bytes(self) -> int:
        """How many bytes of the stream are buffered."""
        return len(self._data)

    def add(self, item: StreamItem, first: int, most_bytes: int) -> int:
        """Copy segments of an item from index ``first`` on until ``most_bytes`` have come.

        Returns the index of the first segment that was not copied; -1 if the item is complete.
        """
        if isinstance(item, Gap):
            self._add_gap(item)
            return -1
        segments, added_bytes = item.segments, 0
        if not self._rows:
            self._rows.stream_offset = self.end_offset = item.stream_offset
        for index in range(first, item.last):
            if added_bytes >= most_bytes:
                return index
            added_bytes += self._add_segment(segments, index)
        return -1

    def read(self, first: int, last: int) -> memoryview:
        """Return a copy of the bytes buffered at positions ``first`` to ``last``."""
        begin = self.begin
        return memoryview(bytes(self._data[max(0, first - begin) : max(0, last - begin)]))

    def find(self, pattern: bytes, first: int) -> int:
        """Return the position of ``pattern`` at or after position ``first``, or -1."""
        at = self._data.find(pattern, max(0, first - self.begin))
        return -1 if at < 0 else at + self.begin

    def offset_of(self, position: int) -> int:
        """Return the stream offset of a buffered byte."""
        return self._rows.offset_of(position)

    def read_at(self, stream_offset: int, size: int) -> memoryview:
        """Return a copy of the contiguous bytes from a stream offset on, at most ``size``."""
        first = self._rows.position_of(stream_offset)
        if first is None:
            return memoryview(b"")
        last = self.runs.end_after(first)
        return self.read(first, min(first + size, self.end if last is None else last))

    def segment_at(self, position: int) -> int:
        """Return the length on the wire of the segment that begins at a position; 0 for none."""
        return self._rows.segment_at(position)

    def bound(self) -> int:
        """Drop the oldest bytes if too many are buffered; return how many were dropped."""
        if self.buffered_bytes <= MAX_BUFFERED_BYTES:
            return 0
        return self._drop(len(self._rows) - self._rows.count_within(_KEPT_BYTES))

    def clear(self) -> int:
        """Drop all bytes; return how many."""
        return self._drop(len(self._rows))

    def items(self) -> list[StreamItem]:
        """Return the buffered bytes as items of a stream."""
        return self._rows.items(bytes(self._data), self.begin)

    def _add_segment(self, segments: Segments, index: int) -> int:
        start, length = segments.start[index], segments.length[index]
        captured = segments.captured[index]
        piece = segments.buffer[start : start + captured]
        self._append(length, captured, segments.time_ns[index], segments.packet[index])
        if self.runs.is_first and len(self.head) < HEAD_BYTES:
            self.head += bytes(piece[: HEAD_BYTES - len(self.head)])
        self._data += piece
        self.payload_bytes += length
        self.runs.extend(self.end)
        if captured < length:
            self.runs.break_at(self.end)
        return captured + _ROW_BYTES

    def _add_gap(self, gap: Gap) -> None:
        if not self._rows:
            self._rows.stream_offset = self.end_offset = gap.stream_offset
        self._append(gap.length, _GAP, gap.time_ns, gap.packet)
        self.runs.break_at(self.end)

    def _append(self, length: int, captured: int, time_ns: int, packet: int) -> None:
        self.end_offset += length
        self._rows.append(self.end, length, captured, time_ns, packet)

    def _drop(self, rows: int) -> int:
        """Drop the bytes of the first rows; return how many."""
        if rows <= 0:
            return 0
        self.is_whole = False
        begin = self.end if rows >= len(self._rows) else self._rows.start[rows]
        self._rows.drop(rows)
        dropped = begin - self.begin
        del self._data[:dropped]
        self.runs.drop_before(begin)
        self.begin = begin
        return dropped
