"""A batch of segments, sorted by connection, with sums by direction.

In: segment columns. Out: one :class:`Group` a connection, the payloads as lists that chunks point
into, and on demand the segments of one connection one by one. Must not know: what was before the
batch.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kanalyze.net.grouping import Pair, group_segments
from kanalyze.net.headers import ACK, FIN, RST, SYN
from kanalyze.net.output import Segment
from kanalyze.segments import Segments

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

    @property
    def is_snapped(self) -> bool:
        """Not all of the payload was captured."""
        return self.captured < self.length


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

    @property
    def has_breaks(self) -> bool:
        """A payload does not begin where its sender's last one ended."""
        return bool(self.lower.breaks or self.higher.breaks)

    @property
    def is_snapped(self) -> bool:
        """Not all of the payload was captured."""
        return self.lower.is_snapped or self.higher.is_snapped


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
        self.payload_places = np.flatnonzero(has_payload)
        """The same, as places in the order of the batch."""
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

    @property
    def lone_syns(self) -> NDArray[np.int64]:
        """Numbers of the groups that are a SYN with nothing in it, by its arrival."""
        groups, columns = self.grouping, self.columns
        is_single = groups.first == groups.last
        flags, lengths = columns.flags[groups.first], columns.payload_bytes[groups.first]
        is_syn = (flags & (SYN | FIN | RST | ACK) == SYN) & (lengths == 0)
        numbers = np.flatnonzero(is_single & is_syn)
        return numbers[np.argsort(groups.first[numbers])]

    def syns_of(
        self, numbers: NDArray[np.int64], marks: NDArray[np.uint8] | None
    ) -> Iterator[tuple[Pair, Segment]]:
        """Give the segments of groups that are a lone SYN, each with its pair."""
        groups = self.grouping
        from_higher = groups.middle[numbers] == groups.start[numbers]
        segments = self.segments_at(groups.first[numbers], from_higher, marks)
        pairs = map(groups.pairs.__getitem__, numbers.tolist())
        return zip(pairs, segments, strict=True)

    def groups(self, without: NDArray[np.int64] | None = None) -> Iterator[Group]:
        """Yield the groups, in the order of their first packets; but not those numbers."""
        groups = self.grouping
        # With ACK turned round: what is set then is what a plain packet has not.
        odd = np.bitwise_or.reduceat(self.columns.flags[groups.order] ^ ACK, groups.start)
        turn = np.argsort(groups.first)
        if without is not None and len(without):
            is_left = np.ones(len(turn), np.bool_)
            is_left[without] = False
            turn = turn[is_left[turn]]
        rows = zip(
            turn.tolist(),
            (odd[turn] & (SYN | FIN | RST | ACK) != 0).tolist(),
            self.columns.time_ns[groups.last[turn]].tolist(),
            self.sides(groups.start[turn], groups.middle[turn]),
            self.sides(groups.middle[turn], groups.end[turn]),
            strict=True,
        )
        pairs = groups.pairs
        for number, *rest in rows:
            yield Group(number, pairs[number], *rest)

    def segments_of(self, group: Group, marks: NDArray[np.uint8] | None = None) -> list[Segment]:
        """List the segments of a group in the order of the capture.

        ``marks`` are those of all segments of the batch; None for none.
        """
        return list(self.segments_at(*self.arrivals_of(group), marks))

    def arrivals_of(self, group: Group) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the indices of a group's segments by arrival, and which the higher end sent."""
        groups = self.grouping
        start, middle = int(groups.start[group.number]), int(groups.middle[group.number])
        rows = groups.order[start : int(groups.end[group.number])]
        arrival = np.argsort(rows)
        return rows[arrival], arrival >= middle - start

    def segments_at(
        self,
        rows: NDArray[np.int64],
        from_higher: NDArray[np.bool_],
        marks: NDArray[np.uint8] | None,
    ) -> Iterator[Segment]:
        """Give the segments with some indices; ``from_higher`` tells which end sent each."""
        columns = self.columns
        fields = (
            columns.sequence[rows],
            columns.acknowledgment[rows],
            columns.flags[rows],
            columns.payload_start[rows],
            columns.payload_bytes[rows],
            columns.captured_bytes[rows],
            columns.time_ns[rows],
            columns.number[rows],
            self._ranks[rows],
            from_higher.astype(np.int64),
            np.zeros(len(rows), np.uint8) if marks is None else marks[rows],
        )
        return map(Segment._make, zip(*(field.tolist() for field in fields), strict=True))

    def sides(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[Side]:
        """Sum up ``order[start:end]``, of one sender, for each of some ranges."""
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
        lengths, captured, breaks = self._payload_sums
        # A side without payloads may stand after the last one.
        begin = np.minimum(first, len(picked) - 1)
        inside = np.maximum(last - 1, begin)
        return map(
            Side,
            (end - start).tolist(),
            first.tolist(),
            last.tolist(),
            segments.sequence[picked[begin]].tolist(),
            (lengths[last] - lengths[first]).tolist(),
            (captured[last] - captured[first]).tolist(),
            (breaks[inside] - breaks[begin]).tolist(),
            told,
        )

    @cached_property
    def breaks(self) -> NDArray[np.bool_]:
        """Tell of each payload but the first whether it does not follow on the one before.

        Between two senders that says nothing.
        """
        sequence = self.columns.sequence[self.picked]
        follows = (sequence + self.columns.payload_bytes[self.picked]) & _SEQUENCE_MASK
        breaks: NDArray[np.bool_] = sequence[1:] != follows[:-1]
        return breaks

    @cached_property
    def _payload_sums(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Payload bytes, captured bytes and breaks before each payload."""
        columns, picked = self.columns, self.picked
        lengths = _sums(columns.payload_bytes[picked])
        return lengths, _sums(columns.captured_bytes[picked]), _sums(self.breaks)

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """By segment, its place among the payloads; means nothing without payload."""
        ranks = np.zeros(len(self.columns), np.int64)
        ranks[self.picked] = np.arange(len(self.picked))
        return ranks


def _sums(values: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Sum of everything before each index, and of all of it."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
