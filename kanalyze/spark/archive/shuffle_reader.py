"""The blocks of one bucket put together: one stream of segments out of many captures.

In: blocks of segments, sorted. Out: segments in the order of the capture, numbered over all of
them, and where each packet is. Must not know: how blocks came here, nor what segments are for.

It stands where :class:`~kanalyze.capture.merge.MergedCaptures` stands for those who read captures
themselves, and gives the same order: by time, the order of each capture kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.capture.packet_index import PacketIndex
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.model.packet_arrays import to_column
from kanalyze.spark.archive.packed_segments import BlockError, joined_segments, taken, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from kanalyze.model.anomalies import Anomaly
    from kanalyze.net.segment_columns import SegmentColumns

__all__ = ["Arrival", "ArrivedSegments"]

_LEAST_SEGMENTS: Final = 16_384
"""Of a batch, where there are as many: what is done once a batch costs little then."""
_MOST_BYTES: Final = 8 << 20
"""Of a batch: as much as is read of a capture at once, for some decisions depend on it."""
_MOST_CARRIED_RUNS: Final = 10_000
"""Of packets from before, whose place may be asked for; one a capture where these follow on one
another."""


class Arrival(NamedTuple):
    """A block, and where it is from. To be sorted as they are: by time, then by capture."""

    first_key_ns: int
    """When its first segment counts as captured."""
    file_time_ns: int
    """When the first packet of its capture was captured: decides between equal times."""
    capture: str
    first_packet: int
    """Number of its first packet in the capture."""
    packets_before: int
    """What is to be added to the numbers of its packets: those of the parts of the capture before
    this."""
    data: bytes | memoryview


class _Part(NamedTuple):
    """Segments of one block that have not been given out."""

    source: tuple[int, str]
    """File time and name of the capture."""
    capture: int
    segments: SegmentColumns
    key_ns: NDArray[np.int64]
    within: NDArray[np.int64]
    """Numbers of their packets in the capture."""


class ArrivedSegments:
    """Segments of one bucket as one stream; see the module."""

    def __init__(self, arrivals: Iterable[Arrival], carried: str | None = None) -> None:
        """Take the blocks, sorted; they are asked for one by one, as segments are.

        Args:
            arrivals: the blocks.
            carried: of those before, what :meth:`carry` gave.

        Raises:
            BlockError: ``carried`` is not from there.
        """
        self._arrivals = arrivals
        self.names: list[str] = []
        """Captures met so far."""
        self.anomalies: list[Anomaly] = []
        """None: those of captures are told by whoever read them."""
        self.dropped_packets: int | None = None
        self.progress: tuple[int, int | None] = (0, None)
        self.can_be_read_again = False
        self.description = None
        self._index: dict[str, int] = {}
        self._packet_index = PacketIndex()
        self._last = (-1, 0, 0)
        """Of the last segment: its capture, its number there, and its number over all."""
        if carried is not None:
            self._take_up(carried)

    def place(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet and its number there; see ``MergedCaptures.place``."""
        return self._packet_index.name(number, self.names, is_alone=False)

    def batches(self) -> Iterator[SegmentColumns]:
        """Give all segments, in batches that are never empty; their numbers rise.

        Raises:
            BlockError: a block is none.
        """
        held: list[_Part] = []
        count = size = 0
        reached = _NEVER
        for arrival in self._arrivals:
            # Whatever comes from now on counts as captured no earlier than this block begins.
            is_apart = reached < arrival.first_key_ns
            if held and ((is_apart and count >= _LEAST_SEGMENTS) or size >= _MOST_BYTES):
                limit = None if is_apart else arrival.first_key_ns
                given, held = _divided(held, limit)
                if given:
                    yield from self._together(given)
                count = sum(len(part.key_ns) for part in held)
                size = sum(_bytes(part) for part in held)
            part = self._unpacked(arrival)
            held.append(part)
            count += len(part.key_ns)
            size += _bytes(part)
            reached = max(reached, int(part.key_ns[-1]))
        if held:
            yield from self._together(held)

    def carry(self) -> str:
        """Return where packets were, for those that come after them in another run."""
        end, runs = self._packet_index.latest(_MOST_CARRIED_RUNS)
        used = sorted({capture for _, capture, _ in runs})
        index = {capture: place for place, capture in enumerate(used)}
        return json.dumps(
            {
                "names": [self.names[capture] for capture in used],
                "end": end,
                "runs": [[first, index[capture], within] for first, capture, within in runs],
            }
        )

    def _take_up(self, carried: str) -> None:
        try:
            found = json.loads(carried)
            names = [str(name) for name in found["names"]]
            runs = [(int(first), int(at), int(within)) for first, at, within in found["runs"]]
            end = int(found["end"])
        except (ValueError, KeyError, TypeError) as error:
            raise BlockError(f"what was carried over is damaged: {error}") from error
        if not all(0 <= at < len(names) for _, at, _ in runs):
            raise BlockError("what was carried over is damaged: packets of no capture")
        self.names = names
        self._index = {name: place for place, name in enumerate(names)}
        self._packet_index.load_state(end, runs)
        # Of no capture: the first packet begins a run.
        self._last = (-1, 0, end - 1)

    def _unpacked(self, arrival: Arrival) -> _Part:
        index = self._index.get(arrival.capture)
        if index is None:
            index = self._index[arrival.capture] = len(self.names)
            self.names.append(arrival.capture)
        block = unpack(arrival.data)
        source = (arrival.file_time_ns, arrival.capture)
        within = block.segments.number + arrival.packets_before
        return _Part(source, index, block.segments, block.key_ns, within)

    def _together(self, parts: list[_Part]) -> Iterator[SegmentColumns]:
        """Give the segments of several blocks in their order, no more at once than is read."""
        parts = sorted(parts, key=lambda part: part.source)
        key_ns = np.concatenate([part.key_ns for part in parts])
        capture = np.repeat([part.capture for part in parts], [len(part.key_ns) for part in parts])
        within = np.concatenate([part.within for part in parts])
        # A stable sort keeps the order of the captures, and that of each, where times are equal.
        order = np.argsort(key_ns, kind="stable")
        joined = joined_segments([part.segments for part in parts])
        for rows in _rows_at_once(joined, order):
            segments = taken(joined, rows)
            segments.number = self._number(capture[rows], within[rows])
            yield segments

    def _number(self, capture: NDArray[np.int64], within: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number segments over all, and note where they are.

        As far apart as in their capture, where they are neighbours in one.
        """
        last_capture, last_within, last_number = self._last
        steps = np.diff(within, prepend=last_within)
        is_other = np.diff(capture, prepend=last_capture) != 0
        steps[is_other | (steps < 1)] = 1
        number = last_number + np.cumsum(steps)
        self._last = (int(capture[-1]), int(within[-1]), int(number[-1]))
        # A run has the same distance between the two kinds of numbers.
        is_start = is_other | (np.diff(number - within, prepend=0) != 0)
        is_start[0] = True
        start = np.flatnonzero(is_start)
        at = number[start] - last_number - 1
        first_within = within[start]
        first_within[0] -= at[0]
        at[0] = 0
        count = int(number[-1]) - last_number
        runs = to_column(at), to_column(capture[start]), to_column(first_within)
        self._packet_index.add_runs(*runs, count)
        return number


_NEVER: Final = -(1 << 62)
"""Earlier than any time."""


def _bytes(part: _Part) -> int:
    return len(part.segments.buffer)


def _divided(parts: list[_Part], limit: int | None) -> tuple[list[_Part], list[_Part]]:
    """Divide segments into those that count as captured before a time, and the others.

    None: nothing that is still to come counts as captured before any of them.
    """
    if limit is None:
        return parts, []
    earlier, later = [], []
    for part in parts:
        at = int(np.searchsorted(part.key_ns, limit, "left"))
        if at:
            earlier.append(_cut(part, slice(0, at)))
        if at < len(part.key_ns):
            later.append(_cut(part, slice(at, None)))
    return earlier, later


def _cut(part: _Part, here: slice) -> _Part:
    """Return some consecutive segments, with no more than their own payload.

    Payload lies by direction in a block: what is left of one may keep most of its bytes, and is
    copied.
    """
    rows = np.arange(len(part.key_ns))[here]
    segments = taken(part.segments, rows)
    if len(rows) < len(part.key_ns):
        start, captured = segments.payload_start, segments.captured_bytes
        buffer = segments.buffer
        spans = zip(start.tolist(), (start + captured).tolist(), strict=True)
        segments.buffer = memoryview(b"".join([buffer[begin:end] for begin, end in spans]))
        segments.payload_start = np.cumsum(captured) - captured
    return _Part(part.source, part.capture, segments, part.key_ns[here], part.within[here])


def _rows_at_once(
    segments: SegmentColumns, order: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Divide rows, in their order, by how much payload is to be read at once."""
    reached = np.cumsum(segments.captured_bytes[order])
    first = 0
    while first < len(order):
        before = int(reached[first - 1]) if first else 0
        last = int(np.searchsorted(reached, before + _MOST_BYTES, "right"))
        last = max(last, first + 1)
        yield order[first:last]
        first = last
