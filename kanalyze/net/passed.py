"""Measures of connections that passed a batch at once: all of them together, in columns.

In: groups of segments in order, with nothing odd among them. Out: figures in each connection's
:class:`kanalyze.model.TcpMeasures`, the same as :class:`kanalyze.net.meter.Meter` comes to segment
by segment. Must not know: streams.

A *lane* is the data of one end of a connection together with the acknowledgments of the other:
twice as many as there are groups. Sequence numbers are taken relative to the lane's last known
one; a lane's number above them makes one sorted column of all lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kanalyze.net.headers import ACK, FIN, RST, SYN
from kanalyze.net.output import DUPLICATE, ZERO_WINDOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kanalyze.net.connection_state import ConnectionState
    from kanalyze.net.direction import Direction
    from kanalyze.net.duplicates import Duplicates
    from kanalyze.net.headers import SegmentColumns
    from kanalyze.net.meter import Meter
    from kanalyze.net.round_trips import RoundTripTimer
    from kanalyze.net.sorted_batch import Group, Side, SortedBatch

__all__ = ["mark", "measure_passed"]

_SEQUENCE_MASK: Final = 0xFFFF_FFFF
_HALF: Final = 1 << 31
_LANE: Final = 1 << 34
"""From one lane to the next: more than twice what relative sequence numbers span."""
_FAR: Final = 1 << 32
"""Beyond all relative sequence numbers."""


def mark(segments: SegmentColumns, duplicates: Duplicates) -> NDArray[np.uint8]:
    """Mark the duplicates of a batch, and of the others those that announce a window of 0."""
    marks = duplicates.find(segments).astype(np.uint8) * np.uint8(DUPLICATE)
    zero = segments.window == 0
    if zero.any():
        zero &= (segments.flags & (SYN | FIN | RST) == 0) & (marks == 0)
        marks |= zero.astype(np.uint8) * np.uint8(ZERO_WINDOW)
    return marks


def measure_passed(
    passed: Sequence[tuple[Group, ConnectionState]], batch: SortedBatch, marks: NDArray[np.uint8]
) -> None:
    """Measure groups, at least one, that passed at once; ``marks`` are those of the batch."""
    lanes = _Lanes(passed, batch)
    lanes.count_odd_packets(marks)
    lanes.time_round_trips()


class _Rows(NamedTuple):
    """Segments of all lanes, one lane after another, by arrival in each."""

    row: NDArray[np.int64]
    """Index in the batch."""
    lane: NDArray[np.int64]
    position: NDArray[np.int64]
    """Relative, with the lane above it: rising over all lanes where it rises in each."""

    def pick(self, wanted: NDArray[np.bool_]) -> _Rows:
        return _Rows(self.row[wanted], self.lane[wanted], self.position[wanted])


class _Lanes:
    """The lanes of some groups: of the data that the lower end sent, and the higher, in turn."""

    def __init__(self, passed: Sequence[tuple[Group, ConnectionState]], batch: SortedBatch) -> None:
        self._batch = batch
        self._columns = batch.columns
        meters = [(state, state.meter) for _, state in passed if state.meter is not None]
        self._meters: list[Meter] = [meter for _, meter in meters]
        self._timers: list[RoundTripTimer] = [t for meter in self._meters for t in meter.timers]
        self._directions: list[Direction] = [d for state, _ in meters for d in state.directions]
        self._sides: list[Side] = [
            side for group, _ in passed for side in (group.lower, group.higher)
        ]
        number = np.array([group.number for group, _ in passed], np.int64)
        grouping = batch.grouping
        start, middle, end = (
            column[number] for column in (grouping.start, grouping.middle, grouping.end)
        )
        self._starts = np.stack([start, middle], 1).ravel()
        """Where in the order of the batch the segments of a lane's sender begin."""
        self._counts = np.stack([middle - start, end - middle], 1).ravel()

    def count_odd_packets(self, marks: NDArray[np.uint8]) -> None:
        """Count duplicates, zero windows and empty keep-alive probes."""
        lane = np.repeat(np.arange(len(self._counts)), self._counts)
        rows = self._batch.grouping.order[_ranges(self._starts, self._counts)]
        marks = marks[rows]
        probes = self._probes(lane, rows) & (marks & DUPLICATE == 0)
        for lane_number, count in _counted(lane[marks & DUPLICATE != 0]):
            meter, index = self._of(lane_number)
            meter.measures.duplicate_packets[index] += count
        for lane_number, count in _counted(lane[marks & ZERO_WINDOW != 0]):
            meter, index = self._of(lane_number)
            meter.measures.zero_window_packets[index] += count
        for lane_number, count in _counted(lane[probes]):
            meter, index = self._of(lane_number)
            meter.measures.keep_alive_packets[index] += count

    def _of(self, lane: int) -> tuple[Meter, int]:
        meter = self._meters[lane // 2]
        return meter, meter.indices[lane % 2]

    def _probes(self, lane: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell of each segment whether it is empty and stands one byte before what comes next."""
        columns = self._columns
        length = columns.payload_bytes[rows]
        sent = np.cumsum(length)
        last = np.cumsum(self._counts) - 1
        # What a lane has sent after a segment; a lane without segments is never asked.
        rest = sent[np.maximum(last, 0)][lane] - sent
        after = np.array([direction.next_sequence for direction in self._directions], np.int64)
        started = np.array([direction.started for direction in self._directions], np.bool_)
        behind = (after[lane] - rest - columns.sequence[rows]) & _SEQUENCE_MASK
        is_probe: NDArray[np.bool_] = (behind == 1) & (length == 0) & started[lane]
        return is_probe

    def time_round_trips(self) -> None:
        """Match data with the acknowledgments that end where it does."""
        batch, columns = self._batch, self._columns
        answering = np.arange(len(self._counts)) ^ 1
        starts, counts = self._starts[answering], self._counts[answering]
        ack_rows = batch.grouping.order[_ranges(starts, counts)]
        ack_lane = np.repeat(np.arange(len(counts)), counts)
        has_ack = columns.flags[ack_rows] & ACK != 0
        if not has_ack.all():
            ack_rows, ack_lane = ack_rows[has_ack], ack_lane[has_ack]
        firsts = self._references(ack_rows, ack_lane)
        acks = self._place(ack_rows, ack_lane, columns.acknowledgment[ack_rows], firsts)
        sent_first = np.array([side.first for side in self._sides], np.int64)
        sent_counts = np.array([side.last for side in self._sides], np.int64) - sent_first
        rows = batch.picked[_ranges(sent_first, sent_counts)]
        lane = np.repeat(np.arange(len(sent_counts)), sent_counts)
        starts_at = self._place(rows, lane, columns.sequence[rows], firsts)
        data = _Rows(rows, lane, starts_at.position + columns.payload_bytes[rows])
        known = [timer.acknowledged for timer in self._timers]
        before = _relative(known, self._timers)
        acks = _advancing(acks, before)
        acknowledged = before.copy()
        acknowledged[acks.lane] = acks.position - acks.lane * _LANE
        self._sample(data, acks)
        self._settle(data, starts_at.position, acks, acknowledged, sent_counts)

    def _references(
        self, ack_rows: NDArray[np.int64], ack_lane: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return each lane's last known sequence number; of new ones the first in the batch."""
        first_ack = dict(_firsts(ack_lane, self._columns.acknowledgment[ack_rows]))
        for lane, (timer, side) in enumerate(zip(self._timers, self._sides, strict=True)):
            if timer.sequence is None:
                if side.first < side.last:
                    timer.sequence = side.sequence
                elif lane in first_ack:
                    timer.sequence = first_ack[lane]
        return np.array([timer.sequence or 0 for timer in self._timers], np.int64)

    def _place(
        self,
        rows: NDArray[np.int64],
        lane: NDArray[np.int64],
        sequence: NDArray[np.int64],
        references: NDArray[np.int64],
    ) -> _Rows:
        relative = ((sequence - references[lane] + _HALF) & _SEQUENCE_MASK) - _HALF
        return _Rows(rows, lane, relative + lane * _LANE)

    def _sample(self, data: _Rows, acks: _Rows) -> None:
        """Add the samples of the batch, those of data from before it included."""
        time_ns = self._columns.time_ns
        found = _exact(data.position, acks)
        hits = np.flatnonzero(found >= 0)
        ack_row, data_row = acks.row[found[hits]], data.row[hits]
        elapsed = time_ns[ack_row] - time_ns[data_row]
        good = (ack_row > data_row) & (elapsed >= 0)
        lanes = [data.lane[hits][good]]
        samples = [elapsed[good]]
        waiting = [lane for lane in np.unique(acks.lane).tolist() if self._timers[lane].ends]
        for lane in waiting:
            timer = self._timers[lane]
            ends = np.array(timer.ends, np.int64) - timer.reference + lane * _LANE
            at = _exact(ends, acks)
            old = np.flatnonzero(at >= 0)
            elapsed = time_ns[acks.row[at[old]]] - np.array(timer.times, np.int64)[old]
            elapsed = elapsed[elapsed >= 0]
            lanes.append(np.full(len(elapsed), lane, np.int64))
            samples.append(elapsed)
        self._add(np.concatenate(lanes), np.concatenate(samples))

    def _add(self, lane: NDArray[np.int64], elapsed: NDArray[np.int64]) -> None:
        if not len(lane):
            return
        order = np.argsort(lane, kind="stable")
        lane, elapsed = lane[order], elapsed[order]
        first = np.concatenate([[0], np.flatnonzero(lane[1:] != lane[:-1]) + 1])
        counts = np.diff(np.append(first, len(lane)))
        figures = zip(
            lane[first].tolist(),
            counts.tolist(),
            np.add.reduceat(elapsed, first).tolist(),
            np.minimum.reduceat(elapsed, first).tolist(),
            np.maximum.reduceat(elapsed, first).tolist(),
            strict=True,
        )
        for number, count, total, least, most in figures:
            self._timers[number].add(count, total, least, most)

    def _settle(
        self,
        data: _Rows,
        starts: NDArray[np.int64],
        acks: _Rows,
        acknowledged: NDArray[np.int64],
        sent_counts: NDArray[np.int64],
    ) -> None:
        """Leave each timer as it would be after the last segment of the batch."""
        columns = self._columns
        for lane in np.unique(acks.lane).tolist():
            timer = self._timers[lane]
            position = timer.reference + int(acknowledged[lane])
            timer.acknowledged = position
            timer.drop(int(np.searchsorted(np.array(timer.ends, np.int64), position, "right")))
        relative = data.position - data.lane * _LANE
        left = np.flatnonzero(relative > acknowledged[data.lane])
        for lane, first, last in _runs(data.lane[left]):
            timer, rows = self._timers[lane], left[first:last]
            timer.await_ends(
                (starts[rows] - lane * _LANE + timer.reference).tolist(),
                (relative[rows] + timer.reference).tolist(),
                columns.time_ns[data.row[rows]].tolist(),
            )
        last_data = np.cumsum(sent_counts) - 1
        for lane in np.flatnonzero(sent_counts).tolist():
            self._timers[lane].sent = self._timers[lane].reference + int(relative[last_data[lane]])
        for timer in self._timers:
            timer.move()


def _ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``starts[i], starts[i] + 1, ...``, ``counts[i]`` of them, for each ``i``."""
    ends = np.cumsum(counts)
    shifts = np.repeat(starts - (ends - counts), counts)
    return shifts + np.arange(len(shifts))


def _advancing(acks: _Rows, before: NDArray[np.int64]) -> _Rows:
    """Keep the acknowledgments that go beyond all before them in their lane."""
    if not len(acks.row):
        return acks
    highest = np.maximum.accumulate(acks.position)
    floor = before[acks.lane] + acks.lane * _LANE
    floor[1:] = np.maximum(floor[1:], highest[:-1])
    return acks.pick(acks.position > floor)


def _exact(positions: NDArray[np.int64], acks: _Rows) -> NDArray[np.int64]:
    """Return the index of the acknowledgment that ends at each position; -1 where none does."""
    if not len(acks.row):
        return np.full(len(positions), -1, np.int64)
    found = np.minimum(np.searchsorted(acks.position, positions), len(acks.row) - 1)
    return np.where(acks.position[found] == positions, found, -1)


def _relative(
    positions: Sequence[int | None], timers: Sequence[RoundTripTimer]
) -> NDArray[np.int64]:
    """Make positions relative to the timers' references; None is before everything."""
    return np.array(
        [
            -_FAR if position is None else max(position - timer.reference, -_FAR)
            for position, timer in zip(positions, timers, strict=True)
        ],
        np.int64,
    )


def _runs(lane: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Return each number in a rising column, with where it begins and where it ends."""
    if not len(lane):
        return []
    first = np.concatenate([[0], np.flatnonzero(lane[1:] != lane[:-1]) + 1])
    last = np.append(first[1:], len(lane))
    return list(zip(lane[first].tolist(), first.tolist(), last.tolist(), strict=True))


def _counted(lane: NDArray[np.int64]) -> list[tuple[int, int]]:
    return [(number, last - first) for number, first, last in _runs(lane)]


def _firsts(lane: NDArray[np.int64], values: NDArray[np.int64]) -> list[tuple[int, int]]:
    return [(number, int(values[first])) for number, first, _ in _runs(lane)]
