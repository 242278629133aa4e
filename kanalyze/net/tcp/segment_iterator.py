"""The segments of a batch, connection by connection, in the order of their arrival.

In: segment columns, not empty. Out: :class:`SegmentIterator`, and the payloads as columns that
chunks point into.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.model.segments import Segments

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.net.tcp.delivery import new_segment
    from kanalyze.net.tcp.segment_groups import SegmentGroups

    FIN, SYN, RST, ACK = 1, 2, 4, 16
    IS_COPY, IS_ZERO_WINDOW = 1, 2
    MAX_CHECKED = 1024  # segments of a batch; to check more, one pass over all is faster

if TYPE_CHECKING:
    from kanalyze.net.segment_columns import SegmentColumns
    from kanalyze.net.tcp.delivery import Segment
    from kanalyze.net.tcp.duplicates import DuplicateDetector, DuplicateLookup

__all__ = ["SegmentIterator"]


class SegmentIterator:
    """Points to a segment of a group, and advances to the next one that arrived.

    Attributes:
        groups: the segments by connection.
        shared: payloads that are not empty, by connection, then sender, then arrival.
        at_end: true if the group has no more segments; then the next three have no meaning.
        row: index of the segment in the batch.
        from_higher: 1 if the higher end sent it, else 0.
        rank: index in ``shared``; without a meaning if the segment has no payload.
        last_time_ns: the latest time in the batch.
    """

    def __init__(self, columns: SegmentColumns, duplicates: DuplicateDetector) -> None:
        """``duplicates`` checks single segments, or all at once if many have to be checked."""
        self.columns = columns
        self.duplicates = duplicates
        self.groups = SegmentGroups(columns)
        self.sequences = memoryview(columns.sequence)
        self.acknowledgments = memoryview(columns.acknowledgment)
        self.flags = memoryview(columns.flags)
        self.starts = memoryview(columns.payload_start)
        self.lengths = memoryview(columns.payload_bytes)
        self.captured = memoryview(columns.captured_bytes)
        self.times = memoryview(columns.time_ns)
        self.numbers = memoryview(columns.number)
        self.windows = memoryview(columns.window)
        self.marks: bytearray | None = None
        self._lookback: DuplicateLookup | None = None
        self._checked = 0
        self._marked = -1
        # Number of payloads before each segment, in the order of the groups.
        self.ranks = memoryview(array("i", bytes(4 * (len(columns) + 1))))
        self.shared = self._payloads()
        self.at_end = True

    def mark_duplicate(self) -> None:
        """Mark the current segment if it is a duplicate."""
        if self.marks is not None:
            return
        if self._checked == MAX_CHECKED:
            self.mark_all()
            return
        if self._lookback is None:
            self._lookback = self.duplicates.lookback(self.columns)
        self._checked += 1
        self._marked = self.row if self._lookback.is_copy(self.row) else -1

    def mark_all(self) -> None:
        """Mark all duplicates and zero windows of the batch."""
        self.marks = self.duplicates.find(self.columns)
        self._mark_zero_windows()

    def is_lone_syn(self, group: int) -> bool:
        """Return true if a group is a single SYN without payload."""
        if self.groups.starts[group + 1] - self.groups.starts[group] != 1:
            return False
        row = self.groups.firsts[group]
        return self.flags[row] & (SYN | FIN | RST | ACK) == SYN and not self.lengths[row]

    def begin(self, group: int) -> None:
        """Go to the first segment of a group."""
        groups = self.groups
        self._lower = groups.starts[group]
        self._lower_end = self._higher = groups.middles[group]
        self._higher_end = groups.starts[group + 1]
        self._lower_rank = self.ranks[self._lower]
        self._higher_rank = self.ranks[self._higher]
        self._select()

    def advance(self) -> None:
        """Go to the next segment of the group."""
        has_payload = self.lengths[self.row] > 0
        if self.from_higher:
            self._higher += 1
            self._higher_rank += has_payload
        else:
            self._lower += 1
            self._lower_rank += has_payload
        self._select()

    def segment(self) -> Segment:
        """Return the current segment."""
        row = self.row
        return new_segment(
            self.sequences[row],
            self.acknowledgments[row],
            self.flags[row],
            self.starts[row],
            self.lengths[row],
            self.captured[row],
            self.times[row],
            self.numbers[row],
            self.rank,
            self.from_higher,
            self._marks_of(row),
        )

    def _marks_of(self, row: int) -> int:
        if self.marks is not None:
            return self.marks[row]
        if row == self._marked:
            return IS_COPY
        is_data = not self.flags[row] & (SYN | FIN | RST)
        return IS_ZERO_WINDOW if is_data and not self.windows[row] else 0

    def _select(self) -> None:
        """Select the earlier one of the two ends' next segments."""
        orders = self.groups.orders
        has_lower = self._lower < self._lower_end
        has_higher = self._higher < self._higher_end
        self.at_end = not (has_lower or has_higher)
        if has_lower and (not has_higher or orders[self._lower] < orders[self._higher]):
            self.row = orders[self._lower]
            self.from_higher = 0
            self.rank = self._lower_rank
        elif has_higher:
            self.row = orders[self._higher]
            self.from_higher = 1
            self.rank = self._higher_rank

    def _mark_zero_windows(self) -> None:
        windows = self.windows
        marks = memoryview(self.marks or b"")
        for row in range(len(windows)):
            is_data = not self.flags[row] & (SYN | FIN | RST)
            if not windows[row] and is_data and not marks[row]:
                marks[row] = IS_ZERO_WINDOW

    def _payloads(self) -> Segments:
        """Sort the payloads by group, and count those before each segment."""
        orders = self.groups.orders
        rows = len(orders)
        self.last_time_ns = self.times[0]
        count = 0
        for index in range(rows):
            self.ranks[index] = count
            count += self.lengths[orders[index]] > 0
        self.ranks[rows] = count
        columns = [array("q", bytes(8 * count)) for _column in range(5)]
        start, length, captured, time_ns, number = (memoryview(column) for column in columns)
        count = 0
        for index in range(rows):
            row = orders[index]
            self.last_time_ns = max(self.last_time_ns, self.times[row])
            if self.lengths[row] > 0:
                start[count] = self.starts[row]
                length[count] = self.lengths[row]
                captured[count] = self.captured[row]
                time_ns[count] = self.times[row]
                number[count] = self.numbers[row]
                count += 1
        return Segments(self.columns.buffer, *columns)
