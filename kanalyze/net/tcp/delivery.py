"""Writes the chunks and gaps of one direction of a connection.

In: segments in stream order. Out: chunks and gaps, as few as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, Gap

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    LONG_RANGE = 8  # segments; copying the entries of shorter ranges costs less than a chunk each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.model.streams import StreamItem

LONGEST_SEGMENT_BYTES: Final = 1 << 32
"""An IP header cannot give a larger length."""

__all__ = ["DUPLICATE", "ZERO_WINDOW", "BufferedSegment", "Segment", "StreamWriter", "new_segment"]

DUPLICATE: Final = 1
"""Mark of a packet that the capture holds a second time."""
ZERO_WINDOW: Final = 2
"""Mark of a packet that announces a window of 0."""


class Segment:
    """A TCP segment on the slow path of reassembly.

    Attributes:
        start: index of the payload in the batch's buffer.
        length: payload bytes on the wire.
        captured: payload bytes in the buffer.
        rank: index in the batch's shared :class:`Segments`; without a meaning if it has no payload.
        from_higher: 1 if the higher end of the pair sent it (see
            :mod:`kanalyze.net.tcp.segment_groups`), else 0.
        marks: :data:`DUPLICATE` (only found if payload may repeat, or when measuring) and
            :data:`ZERO_WINDOW`.
    """

    __slots__ = (
        *("sequence", "acknowledgment", "flags", "start", "length", "captured", "time_ns"),
        *("packet", "rank", "from_higher", "marks"),
    )

    def __init__(
        self,
        sequence: int,
        acknowledgment: int,
        flags: int,
        start: int,
        length: int,
        captured: int,
        time_ns: int,
        packet: int,
        rank: int,
        from_higher: int,
        marks: int = 0,
    ) -> None:
        self.sequence = sequence
        self.acknowledgment = acknowledgment
        self.flags = flags
        self.start = start
        self.length = length
        self.captured = captured
        self.time_ns = time_ns
        self.packet = packet
        self.rank = rank
        self.from_higher = from_higher
        self.marks = marks

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segment):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


def new_segment(
    sequence: int,
    acknowledgment: int,
    flags: int,
    start: int,
    length: int,
    captured: int,
    time_ns: int,
    packet: int,
    rank: int,
    from_higher: int,
    marks: int,
) -> Segment:
    """Make a segment; compiled, it takes a tenth of the time of calling the class."""
    segment = Segment.__new__(Segment)
    segment.sequence = sequence
    segment.acknowledgment = acknowledgment
    segment.flags = flags
    segment.start = start
    segment.length = length
    segment.captured = captured
    segment.time_ns = time_ns
    segment.packet = packet
    segment.rank = rank
    segment.from_higher = from_higher
    segment.marks = marks
    return segment


class BufferedSegment:
    """A copy of payload that is buffered while bytes before it are missing.

    Attributes:
        stream_offset: of its first byte.
        data: a copy of the captured bytes; may be shorter than ``length``.
    """

    _SAVED = Saved("stream_offset:count length:count data:bytes time_ns:int packet:count")

    def __init__(
        self, stream_offset: int, length: int, data: bytes, time_ns: int, packet: int
    ) -> None:
        self.stream_offset = stream_offset
        self.length = length
        self.data = data
        self.time_ns = time_ns
        self.packet = packet

    def _after_load(self) -> None:
        if not 0 < self.length <= LONGEST_SEGMENT_BYTES or len(self.data) > self.length:
            raise ValueError("a buffered segment with other bytes than its length")


class StreamWriter:
    """Collects the items of one direction in one batch.

    Whole segments that follow one another become one chunk. If they are neighbours in the
    ``shared`` segments of the batch, the chunk is a range of those; if they seldom are (every
    second one is a duplicate), it has copies of their columns.
    """

    def __init__(self, items: list[StreamItem], shared: Segments) -> None:
        self.items = items
        self._shared = shared
        # Whole segments that are not in the items yet: the stream offset of the first one, earlier
        # ranges of neighbours in shared, and the last range.
        self._offset = 0
        self._ranges: list[tuple[int, int]] = []
        self._first = self._last = -1

    @property
    def buffer(self) -> memoryview:
        """The buffer that segments point into."""
        return self._shared.buffer

    def whole(self, offset: int, rank: int) -> None:
        """Deliver a whole segment."""
        self.whole_segments(offset, rank, rank + 1)

    def whole_segments(self, offset: int, first: int, last: int) -> None:
        """Deliver the whole segments ``shared[first:last]``, at least one."""
        if first == self._last:
            self._last = last
            return
        if self._last < 0:
            self._offset = offset
        else:
            self._ranges.append((self._first, self._last))
        self._first = first
        self._last = last

    def trimmed(self, offset: int, segment: Segment, skip: int) -> None:
        """Deliver a segment without its first ``skip`` bytes."""
        self.flush()
        segments = Segments(
            self._shared.buffer,
            [segment.start + skip],
            [segment.length - skip],
            [max(segment.captured - skip, 0)],
            [segment.time_ns],
            [segment.packet],
        )
        self.items.append(Chunk(offset, segments, 0, 1))

    def buffered(self, pieces: Sequence[BufferedSegment]) -> None:
        """Deliver buffered segments, which are contiguous."""
        self.flush()
        captured = [len(piece.data) for piece in pieces]
        start, total = [], 0
        for size in captured:
            start.append(total)
            total += size
        segments = Segments(
            memoryview(b"".join([piece.data for piece in pieces])),
            start,
            [piece.length for piece in pieces],
            captured,
            [piece.time_ns for piece in pieces],
            [piece.packet for piece in pieces],
        )
        self.items.append(Chunk(pieces[0].stream_offset, segments, 0, len(pieces)))

    def gap(self, offset: int, length: int, after: BufferedSegment) -> None:
        """Report bytes as missing, up to ``after``."""
        self.flush()
        self.items.append(Gap(offset, length, after.time_ns, after.packet))

    def flush(self) -> None:
        """Put the whole segments into the items; called last."""
        if self._last < 0:
            return
        ranges = [*self._ranges, (self._first, self._last)]
        self._ranges = []
        self._first = self._last = -1
        count = sum([last - first for first, last in ranges])
        if len(ranges) > 1 and count < LONG_RANGE * len(ranges):
            ranks = [rank for first, last in ranges for rank in range(first, last)]
            self.items.append(Chunk(self._offset, self._pick(ranks), 0, count))
            return
        offset = self._offset
        for first, last in ranges:
            self.items.append(Chunk(offset, self._shared, first, last))
            if len(ranges) > 1:
                offset += sum(self._shared.length[first:last])

    def _pick(self, ranks: list[int]) -> Segments:
        shared = self._shared
        return Segments(
            shared.buffer,
            [shared.start[rank] for rank in ranks],
            [shared.length[rank] for rank in ranks],
            [shared.captured[rank] for rank in ranks],
            [shared.time_ns[rank] for rank in ranks],
            [shared.packet[rank] for rank in ranks],
        )
