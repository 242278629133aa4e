"""A batch of segments, sorted by connection, with sums by direction.

In: segment columns. Out: one :class:`Group` a connection, the payloads as lists that chunks point
into, and on demand the segments of one connection one by one. Must not know: what was before the
batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kanalyze.model import Segments
from kanalyze.net.grouping import Pair, group_segments
from kanalyze.net.headers import ACK, FIN, RST, SYN
from kanalyze.net.output import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kanalyze.net.headers import SegmentColumns

__all__ = ["Group", "Side", "SortedBatch"]

_SEQUENCE_MASK: Final = 0xFFFF_FFFF


class Side(NamedTuple):
    """What one end of a connection sent in a batch."""

    packets: int
    first: int
    """``first`` to ``last``: its payloads in the shared lists."""
    last: int
    sequence: int
    """Of the first payload; means nothing without."""
    length: int
    """Payload on the wire."""
    captured: int
    """Payload in the buffer."""
    breaks: int
    """Payloads that do not begin where the one before ended."""
    told: tuple[int, int, int]
    """Acknowledgment, time and number of the last packet; means nothing without one."""


class Group(NamedTuple):
    """What a connection (or several, one after another) on a pair of endpoints sent."""

    number: int
    """Place in the batch."""
    pair: Pair
    has_control: bool
    """A SYN, FIN or RST is among the segments, or one without ACK."""
    last_time_ns: int
    lower: Side
    higher: Side


class SortedBatch:
    """The segments of a batch, at least one."""

    def __init__(self, segments: SegmentColumns) -> None:
        self.columns = segments
        groups = group_segments(segments)
        self.grouping = groups
        """Has one entry a :class:`Group`, at the index ``Group.number``."""
        order = groups.order
        lengths = segments.payload_bytes[order]
        has_payload = lengths > 0
        picked = order[has_payload]
        self.picked = picked
        """Indices of the segments whose payloads are ``shared``."""
        self._payloads_before = _sums(has_payload)
        self.shared = Segments(
            buffer=segments.buffer,
            start=segments.payload_start[picked].tolist(),
            length=lengths[has_payload].tolist(),
            captured=segments.captured_bytes[picked].tolist(),
            time_ns=segments.time_ns[picked].tolist(),
            packet=segments.number[picked].tolist(),
        )
        """Payloads that are not empty, by connection, then sender, then arrival."""
        self._ranks: NDArray[np.int64] | None = None

    def groups(self) -> Iterator[Group]:
        """Yield the groups, in the order of their first packets."""
        groups = self.grouping
        # With ACK turned round: what is set then is what a plain packet has not.
        odd = np.bitwise_or.reduceat(self.columns.flags[groups.order] ^ ACK, groups.start)
        turn = np.argsort(groups.first)
        rows = zip(
            turn.tolist(),
            (odd[turn] & (SYN | FIN | RST | ACK) != 0).tolist(),
            self.columns.time_ns[groups.last[turn]].tolist(),
            self._sides(groups.start[turn], groups.middle[turn]),
            self._sides(groups.middle[turn], groups.end[turn]),
            strict=True,
        )
        pairs = groups.pairs
        for number, *rest in rows:
            yield Group(number, pairs[number], *rest)

    def segments_of(self, group: Group, marks: NDArray[np.uint8] | None = None) -> list[Segment]:
        """List the segments of a group in the order of the capture.

        ``marks`` are those of all segments of the batch; None for none.
        """
        groups, columns = self.grouping, self.columns
        start, middle = int(groups.start[group.number]), int(groups.middle[group.number])
        rows = groups.order[start : int(groups.end[group.number])]
        from_higher = np.zeros(len(rows), np.int64)
        from_higher[middle - start :] = 1
        arrival = np.argsort(rows)
        rows = rows[arrival]
        fields = (
            columns.sequence[rows],
            columns.acknowledgment[rows],
            columns.flags[rows],
            columns.payload_start[rows],
            columns.payload_bytes[rows],
            columns.captured_bytes[rows],
            columns.time_ns[rows],
            columns.number[rows],
            self._rank_of(rows),
            from_higher[arrival],
            np.zeros(len(rows), np.uint8) if marks is None else marks[rows],
        )
        return list(map(Segment._make, zip(*(field.tolist() for field in fields), strict=True)))

    def _sides(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[Side]:
        """Sum up ``order[start:end]`` for each group."""
        segments, picked = self.columns, self.picked
        first, last = self._payloads_before[start], self._payloads_before[end]
        # A side without packets has some other packet's, which means nothing.
        final = self.grouping.order[np.maximum(end - 1, 0)]
        told = zip(
            segments.acknowledgment[final].tolist(),
            segments.time_ns[final].tolist(),
            segments.number[final].tolist(),
            strict=True,
        )
        if not len(picked):
            none = [0] * len(start)
            return map(Side, (end - start).tolist(), none, none, none, none, none, none, told)
        sequence = segments.sequence[picked]
        length = segments.payload_bytes[picked]
        lengths = _sums(length)
        captured = _sums(segments.captured_bytes[picked])
        follows = (sequence[:-1] + length[:-1]) & _SEQUENCE_MASK
        breaks = _sums(sequence[1:] != follows)
        # A side without payloads may stand after the last one.
        begin = np.minimum(first, len(picked) - 1)
        inside = np.maximum(last - 1, begin)
        return map(
            Side,
            (end - start).tolist(),
            first.tolist(),
            last.tolist(),
            sequence[begin].tolist(),
            (lengths[last] - lengths[first]).tolist(),
            (captured[last] - captured[first]).tolist(),
            (breaks[inside] - breaks[begin]).tolist(),
            told,
        )

    def _rank_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._ranks is None:
            self._ranks = np.zeros(len(self.columns), np.int64)
            self._ranks[self.picked] = np.arange(len(self.picked))
        return self._ranks[rows]


def _sums(values: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Sum of everything before each index, and of all of it."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
