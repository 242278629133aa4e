"""What is held of one direction of a connection while nobody knows what it is.

In: chunks and gaps, in stream order. Out: the bytes, to look at and to hand on. This module must
not know what the bytes mean.

Everything is copied (buffers are used again, see PacketBatch) into one buffer and five columns of
integers: a one-byte segment takes 41 bytes, and not a kilobyte of objects.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields, items
from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, Gap

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import StreamItem

__all__ = ["HEAD_BYTES", "MOST_BUFFERED_BYTES", "ReplayBuffer"]

MOST_BUFFERED_BYTES = 256 * 1024
"""Of one direction, costs of its columns included; what is older is given up."""
HEAD_BYTES = 256
"""How many of the first bytes are kept to the end, to tell what an unknown connection was."""

_LEFT_BYTES = 192 * 1024
"""What is left when more than may be buffered came: so each byte is moved only a few times."""
_COLUMNS = 5
_ROW_BYTES = 8 * _COLUMNS
_GAP = -1
"""Stands in the column of captured bytes for a gap."""


class ReplayBuffer:
    """One direction, as far as it is buffered.

    Positions count captured bytes from the first one ever added; they stay the same when old
    bytes are given up. A run is bytes that lie together: a gap ends it, and so does a segment
    that the snap length cut.

    Attributes:
        payload_bytes: of the direction on the wire so far, gaps not counted.
        head: the first bytes seen, at most ``HEAD_BYTES``, up to the first hole.
        begins_with_gap: something was missing before the first byte that was there.
        end_offset: in the stream, after the last byte buffered, and a gap after it.
        ends: positions where runs ended, in rising order; of those that are still buffered.
        first_run_end: position where the run that begins at position 0 ends so far.
    """

    __slots__ = (
        "_begin",
        "_broken",
        "_captured",
        "_data",
        "_length",
        "_packet",
        "_start",
        "_stream_offset",
        "_time_ns",
        "_whole",
        "begins_with_gap",
        "end_offset",
        "ends",
        "first_run_end",
        "head",
        "payload_bytes",
    )
    _LEFT_OUT = ("_start",)

    def __init__(self) -> None:
        self.payload_bytes = 0
        self.head = b""
        self.begins_with_gap = False
        self.end_offset = 0
        self.ends = array("q")
        self.first_run_end = 0
        self._whole = True
        self._broken = False
        self._data = bytearray()
        self._begin = 0
        self._stream_offset = 0
        self._start, self._length, self._captured = array("q"), array("q"), array("q")
        self._time_ns, self._packet = array("q"), array("q")

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(self.payload_bytes, self.head, self.begins_with_gap, self.end_offset),
            *(tuple(self.ends), self.first_run_end, self._whole, self._broken, bytes(self._data)),
            *(self._begin, self._stream_offset, tuple(self._length), tuple(self._captured)),
            *(tuple(self._time_ns), tuple(self._packet)),
        )

    @classmethod
    def from_state(cls, state: object) -> ReplayBuffer:
        """Make one from a state; raises ValueError for any other value."""
        values = fields(state, "nybntnbbynntttt")
        made = cls()
        made.payload_bytes, made.head, made.begins_with_gap, made.end_offset = values[:4]
        made.ends, made.first_run_end = array("q", items(values[4], "n")), values[5]
        made._whole, made._broken, data, made._begin, made._stream_offset = values[6:11]
        lengths, captured, times, packets = values[11:]
        made._length, made._captured = array("q", items(lengths, "n")), array("q", captured)
        made._time_ns, made._packet = array("q", times), array("q", items(packets, "n"))
        made._load_state(data)
        return made

    def _load_state(self, data: bytes) -> None:
        """Have bytes for the columns again; raises ValueError where they do not fit."""
        at = self._begin
        for length, captured in zip(self._length, self._captured, strict=True):
            if not _GAP <= captured <= length:
                raise ValueError("more bytes than a segment had")
            self._start.append(at)
            at += max(0, captured)
        if at - self._begin != len(data) or not len(self._time_ns) == len(self._packet) == len(
            self._start
        ):
            raise ValueError("columns that are not of one length")
        ends = self.ends.tolist()
        if ends != sorted(ends) or (ends and (ends[0] < self._begin or ends[-1] > at)):
            raise ValueError("a run that ends where nothing is")
        if len(self.head) > HEAD_BYTES:
            raise ValueError("a head of too many bytes")
        self._data += data

    @property
    def begin(self) -> int:
        """Position of the first byte buffered."""
        return self._begin

    @property
    def end(self) -> int:
        """Position after the last byte buffered."""
        return self._begin + len(self._data)

    @property
    def is_whole(self) -> bool:
        """Whether all that came is still there."""
        return self._whole

    @property
    def is_unbroken(self) -> bool:
        """Whether no hole has come yet."""
        return not (self._broken or self.begins_with_gap)

    @property
    def buffered_bytes(self) -> int:
        """Memory taken by bytes and columns."""
        return len(self._data) + _ROW_BYTES * len(self._start)

    @property
    def captured_bytes(self) -> int:
        """Bytes of the stream that are buffered."""
        return len(self._data)

    def add(self, item: StreamItem, first: int, most_bytes: int) -> int:
        """Copy segments of an item from index ``first`` on until ``most_bytes`` have come.

        Returns the index of the first segment left; -1 when the item is taken in.
        """
        if isinstance(item, Gap):
            self._add_gap(item)
            return -1
        segments, came = item.segments, 0
        if not self._start:
            self._stream_offset = self.end_offset = item.stream_offset
        for index in range(first, item.last):
            if came >= most_bytes:
                return index
            came += self._add_segment(segments, index)
        return -1

    def read(self, first: int, last: int) -> memoryview:
        """Return a copy of the bytes buffered at positions ``first`` to ``last``."""
        begin = self._begin
        return memoryview(bytes(self._data[max(0, first - begin) : max(0, last - begin)]))

    def find(self, wanted: bytes, first: int) -> int:
        """Return the position of ``wanted`` at or after position ``first``, or -1."""
        at = self._data.find(wanted, max(0, first - self._begin))
        return -1 if at < 0 else at + self._begin

    def offset_of(self, position: int) -> int:
        """Return where in the stream the byte at a position is; that position is buffered."""
        row = bisect_right(self._start, position) - 1
        return self._stream_offset + sum(self._length[:row]) + position - self._start[row]

    def read_at(self, stream_offset: int, size: int) -> memoryview:
        """Return a copy of the bytes from a place in the stream on, as far as they lie together."""
        offset = self._stream_offset
        for start, length, captured in zip(self._start, self._length, self._captured, strict=True):
            within = stream_offset - offset
            offset += length
            if within < length:
                if not 0 <= within < captured:
                    break
                first = start + within
                ends = bisect_right(self.ends, first)
                last = self.ends[ends] if ends < len(self.ends) else self.end
                return self.read(first, min(first + size, last))
        return memoryview(b"")

    def segment_at(self, position: int) -> int:
        """Return the bytes on the wire of the segment that begins at a position; 0 for none."""
        row = bisect_left(self._start, position)
        while row < len(self._start) and self._start[row] == position:
            if self._captured[row] > 0:
                return self._length[row]
            row += 1
        return 0

    def bound(self) -> int:
        """Give up the oldest bytes if too many are buffered; return how many were."""
        if self.buffered_bytes <= MOST_BUFFERED_BYTES:
            return 0
        rows = len(self._start)
        left, row = 0, rows
        while row > 0 and left <= _LEFT_BYTES:
            row -= 1
            left += max(0, self._captured[row]) + _ROW_BYTES
        return self._drop(min(row + 1, rows - 1))

    def clear(self) -> int:
        """Give up all bytes; return how many were."""
        return self._drop(len(self._start))

    def items(self) -> list[StreamItem]:
        """Return what is buffered as items of a stream."""
        starts = [start - self._begin for start in self._start]
        segments = Segments(
            memoryview(bytes(self._data)),
            starts,
            self._length.tolist(),
            self._captured.tolist(),
            self._time_ns.tolist(),
            self._packet.tolist(),
        )
        found: list[StreamItem] = []
        offset = offset_of_run = self._stream_offset
        first = 0
        for index, captured in enumerate(segments.captured):
            length = segments.length[index]
            if captured == _GAP:
                if first < index:
                    found.append(Chunk(offset_of_run, segments, first, index))
                found.append(Gap(offset, length, segments.time_ns[index], segments.packet[index]))
                first, offset_of_run = index + 1, offset + length
            offset += length
        if first < len(starts):
            found.append(Chunk(offset_of_run, segments, first, len(starts)))
        return found

    # -- how --------------------------------------------------------------------------------------

    def _add_segment(self, segments: Segments, index: int) -> int:
        start, length = segments.start[index], segments.length[index]
        captured = segments.captured[index]
        piece = segments.buffer[start : start + captured]
        self._append(length, captured, segments.time_ns[index], segments.packet[index])
        if not self._broken and len(self.head) < HEAD_BYTES:
            self.head += bytes(piece[: HEAD_BYTES - len(self.head)])
        self._data += piece
        self.payload_bytes += length
        if not self._broken:
            self.first_run_end = self.end
        if captured < length:
            self._break()
        return captured + _ROW_BYTES

    def _add_gap(self, gap: Gap) -> None:
        if not self._start:
            self._stream_offset = self.end_offset = gap.stream_offset
        self._append(gap.length, _GAP, gap.time_ns, gap.packet)
        self._break()

    def _append(self, length: int, captured: int, time_ns: int, packet: int) -> None:
        self.end_offset += length
        self._start.append(self.end)
        self._length.append(length)
        self._captured.append(captured)
        self._time_ns.append(time_ns)
        self._packet.append(packet)

    def _break(self) -> None:
        if self.end == 0:
            self.begins_with_gap = True
            return
        self._broken = True
        if not self.ends or self.ends[-1] != self.end:
            self.ends.append(self.end)

    def _drop(self, rows: int) -> int:
        """Give up the first rows."""
        if rows <= 0:
            return 0
        self._whole = False
        begin = self.end if rows >= len(self._start) else self._start[rows]
        self._stream_offset += sum(self._length[:rows])
        dropped = begin - self._begin
        del self._data[:dropped]
        for column in (self._start, self._length, self._captured, self._time_ns, self._packet):
            del column[:rows]
        del self.ends[: bisect_right(self.ends, begin)]
        self._begin = begin
        return dropped
