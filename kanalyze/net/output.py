"""Puts together what is delivered of one direction of a connection.

In: segments in stream order. Out: chunks and gaps, as few as can be. Must not know: why they are
delivered now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kanalyze.model import Chunk, Gap
from kanalyze.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.model import StreamItem

__all__ = ["DUPLICATE", "ZERO_WINDOW", "Held", "Segment", "StreamWriter"]

DUPLICATE: Final = 1
"""Mark of a packet that the capture holds already."""
ZERO_WINDOW: Final = 2
"""Mark of a packet that announces a window of 0."""
_LONG_RUN: Final = 8
"""Segments; where neighbours are fewer, copying their entries costs less than a chunk for them."""


class Segment(NamedTuple):
    """A TCP segment, as the slow path of reassembly takes it up."""

    sequence: int
    acknowledgment: int
    flags: int
    start: int
    """Index in the batch's buffer of the payload."""
    length: int
    """Payload bytes on the wire."""
    captured: int
    time_ns: int
    packet: int
    rank: int
    """Index in the batch's shared :class:`Segments`; means nothing without payload."""
    from_higher: int
    """1 when the higher end of the pair sent it (see :mod:`kanalyze.net.grouping`), else 0."""
    marks: int = 0
    """:data:`DUPLICATE` (where payload may repeat, or when measuring) and :data:`ZERO_WINDOW`
    (when measuring)."""


class Held(NamedTuple):
    """Payload kept while bytes before it are missing."""

    position: int
    """In the stream."""
    length: int
    data: bytes
    """A copy; shorter than ``length`` where the capture was."""
    time_ns: int
    packet: int

    @property
    def end(self) -> int:
        """Position in the stream after the last byte."""
        return self.position + self.length


class StreamWriter:
    """Collects the items of one direction in one batch.

    Whole segments that follow one another become one chunk: over the ``shared`` segments of the
    batch where they are neighbours there. Where they seldom are (every other one is a duplicate),
    one over a selection.
    """

    __slots__ = ("_offset", "_runs", "_shared", "items")

    def __init__(self, items: list[StreamItem], shared: Segments) -> None:
        self.items = items
        self._shared = shared
        self._offset = 0
        self._runs: list[tuple[int, int]] = []
        """Whole segments that are not in ``items`` yet, the first of them at ``_offset``: where
        neighbours begin and where they end."""

    @property
    def buffer(self) -> memoryview:
        """The buffer that segments point into."""
        return self._shared.buffer

    def whole(self, offset: int, rank: int) -> None:
        """Deliver a segment as it came."""
        self.run(offset, rank, rank + 1)

    def run(self, offset: int, first: int, last: int) -> None:
        """Deliver ``shared[first:last]``, at least one, as they came."""
        runs = self._runs
        if not runs:
            self._offset = offset
        elif runs[-1][1] == first:
            runs[-1] = (runs[-1][0], last)
            return
        runs.append((first, last))

    def part(self, offset: int, segment: Segment, skip: int) -> None:
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

    def held(self, pieces: Sequence[Held]) -> None:
        """Deliver what was held back: pieces next to each other."""
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
        self.items.append(Chunk(pieces[0].position, segments, 0, len(pieces)))

    def gap(self, offset: int, length: int, after: Held) -> None:
        """Say that bytes are missing, up to ``after``."""
        self.flush()
        self.items.append(Gap(offset, length, after.time_ns, after.packet))

    def flush(self) -> None:
        """Put the whole segments into the items; to be called at the end."""
        runs = self._runs
        if not runs:
            return
        self._runs = []
        count = sum(last - first for first, last in runs)
        if len(runs) > 1 and count < _LONG_RUN * len(runs):
            ranks = [rank for first, last in runs for rank in range(first, last)]
            self.items.append(Chunk(self._offset, self._pick(ranks), 0, count))
            return
        offset = self._offset
        for first, last in runs:
            self.items.append(Chunk(offset, self._shared, first, last))
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
