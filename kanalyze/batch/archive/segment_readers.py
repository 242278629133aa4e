"""Readers of the segments of one bucket: many captures become one stream of segments.

In: captures that were read before, or sorted blocks of their segments; where the packets of earlier
captures are, as text. Out: segments by time, numbered over all captures, the capture and number of
each packet, and the text for a later job.

Reading headers takes much less time than making rows. So if few tasks rebuild connections, each
reads all captures (:class:`ShardReader`): this takes less time than sending segments from the task
that read them to the one that needs them, which merges them (:class:`BlockReader`). Both take the
place of :class:`~kanalyze.capture.merge.MergedCaptures`, and have the same order: by time, with the
order of each capture kept.
"""

from __future__ import annotations

import base64
import json
import zlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kanalyze.batch.archive.packed_segments import (
    BlockError,
    as_arrays,
    concat_segments,
    select_rows,
    unpack,
)
from kanalyze.capture.io.source import capture_name
from kanalyze.capture.io.stores import absolute_path
from kanalyze.capture.merge import MergedCaptures, PacketIndex
from kanalyze.common.int_columns import joined
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError
from kanalyze.export.arrow import utf8
from kanalyze.model.packet_arrays import to_column
from kanalyze.net.headers import HeaderReader
from kanalyze.net.layer_stats import LayerStats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kanalyze.capture.inputs import FoundCapture
    from kanalyze.capture.io.stores import Stores
    from kanalyze.capture.merge import PacketRun
    from kanalyze.model.anomalies import Anomaly
    from kanalyze.net.segment_columns import SegmentColumns, Shard


def name_in_rows(path: str) -> str:
    """Return the name of a capture in rows: Arrow accepts only Unicode."""
    return utf8(capture_name(path)).decode()


def dump_locations(index: PacketIndex, names: list[str]) -> str:
    """Return where packets are, for the rows of a later job.

    Captures that do not overlap have one run each. Captures of two capture points may have one for
    each packet, so runs are columns of differences, compressed.
    """
    end, *columns = index.save_state()
    first, capture, within = (np.asarray(column) for column in columns)
    used, indices = np.unique(capture, return_inverse=True)
    deltas = np.diff(np.stack((first, indices, within)), prepend=0, axis=1)
    data = zlib.compress(deltas.tobytes(), _COMPRESSION)
    return json.dumps(
        {
            "names": [names[number] for number in used.tolist()],
            "end": end,
            "count": len(first),
            "columns": base64.b64encode(data).decode("ascii"),
        }
    )


_COMPRESSION: Final = 1
_MAX_RUNS: Final = 1 << 21
"""More than an index has."""


def load_locations(text: str | None) -> tuple[PacketIndex, list[str]]:
    """Return a packet index and the names of its captures; None: both are empty.

    Raises:
        BlockError: the text was not written by :func:`dump_locations`.
    """
    index = PacketIndex()
    if text is None:
        return index, []
    try:
        state = json.loads(text)
        names = [str(name) for name in state["names"]]
        columns = _columns(state)
        end = int(state["end"])
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise BlockError(f"the state of a bucket is damaged: {error}") from error
    if len(columns[1]) and not 0 <= columns[1].min() <= columns[1].max() < len(names):
        raise BlockError("the state of a bucket is damaged: packets of no capture")
    index.load_state(end, *map(to_column, columns))
    return index, names


def _columns(state: dict[str, Any]) -> NDArray[np.int64]:
    """Return the runs of a packet index as columns; earlier versions wrote one after another."""
    if "runs" in state:
        return np.array(state["runs"], np.int64).reshape(-1, 3).T
    count = int(state["count"])
    if not 0 <= count <= _MAX_RUNS:
        raise ValueError(f"{count} runs")
    data = zlib.decompressobj().decompress(base64.b64decode(state["columns"]), 24 * count or 1)
    return np.cumsum(np.frombuffer(data, np.int64).reshape(3, count), axis=1)


class ShardReader:
    """The segments of one bucket as one stream, of captures that are read once more."""

    can_be_read_again = False
    description = None

    dropped_packets: int | None = None
    progress: tuple[int, int | None] = (0, None)

    def __init__(
        self,
        captures: Sequence[FoundCapture],
        shard: Shard,
        stores: Stores,
        state: str | None = None,
        folder: str = "",
        taken_before: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Make a reader.

        Args:
            captures: in the order of their first packets; each with the number of packets that
                were read of it before.
            shard: the connections of the bucket.
            stores: file systems connected to before.
            state: what :meth:`save_state` returned for the captures before these.
            folder: the base of relative paths; rows have the paths as they were given.
            taken_before: how many packets of captures, by their names in rows, earlier jobs took.

        Raises:
            BlockError: the state is damaged.
        """
        self._shard = shard
        self._taken_before = taken_before
        absolute = [
            capture._replace(path=absolute_path(capture.path, folder)) for capture in captures
        ]
        self._names_in_rows = {
            capture_name(opened.path): name_in_rows(capture.path)
            for opened, capture in zip(absolute, captures, strict=True)
        }
        """The names of captures in rows, by the names under which they are opened."""
        self._index, names = load_locations(state)
        self._merged = MergedCaptures(
            absolute, stores=stores, packet_index=self._index, names=names
        )
        counts = [capture.most_packets or 0 for capture in captures]
        self._last_packet = self._merged.packets + sum(counts)
        self.anomalies: list[Anomaly] = []
        """Empty: they were reported when the captures were read before."""

    @property
    def names(self) -> list[str]:
        """Captures opened so far, as they were given."""
        return [self._name_in_rows(name) for name in self._merged.names]

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet and its number there; see ``MergedCaptures.locate``."""
        name, within = self._merged.locate(number)
        return self._name_in_rows(name), within

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun] | None:
        """Return runs of packets; see ``MergedCaptures.runs_between``."""
        runs = self._merged.runs_between(low, high, most)
        if runs is None:
            return None
        return [run._replace(capture=self._name_in_rows(run.capture)) for run in runs]

    def _name_in_rows(self, opened: str) -> str:
        """Return the name of a capture in rows, given the one under which it was opened."""
        return self._names_in_rows.get(opened, opened)

    def save_state(self) -> str:
        """Return where packets are, for the rows of a later job."""
        return dump_locations(self._index, self.names)

    def batches(self) -> Iterator[SegmentColumns]:
        """Yield all segments in batches, none of which is empty; their numbers rise.

        Raises:
            CaptureError: a capture cannot be read, or has lost packets since it was read before.
        """
        headers = HeaderReader(LayerStats())
        for batch in self._merged.batches():
            segments = self._not_taken(headers.read(batch, self._shard))
            if len(segments):
                yield segments
        if self._merged.packets != self._last_packet:
            raise CaptureError("a capture was changed while it was read: run again")

    def _not_taken(self, segments: SegmentColumns) -> SegmentColumns:
        """Return the segments of packets that no earlier job took."""
        if not self._taken_before or not len(segments):
            return segments
        number = np.asarray(segments.number)
        runs = self.runs_between(int(number[0]), int(number[-1]), _MAX_RUNS)
        assert runs is not None, "the packets were just read"
        run = np.searchsorted([run.first for run in runs], number, "right") - 1
        within = number + np.array([run.shift for run in runs])[run]
        taken = np.array([self._taken_before.get(run.capture, 0) for run in runs])[run]
        return select_rows(as_arrays(segments), np.flatnonzero(within > taken))


_MIN_SEGMENTS: Final = 16_384
"""Segments in a batch, if there are enough: then the work per batch costs little."""
_MAX_BYTES: Final = 8 << 20
"""Bytes in a batch: as many as a capture's reader has in a batch, because some decisions depend on
the size of batches."""


class StoredBlock(NamedTuple):
    """A block and its source. Blocks are sorted as tuples: by time, then by capture."""

    first_key_ns: int
    """When its first segment counts as captured."""
    file_time_ns: int
    """When the first packet of its capture was captured: the sort key after equal times."""
    capture: str
    first_packet: int
    """Number of its first packet in the capture."""
    packets_before: int
    """Packets in the parts of the capture before this; they are added to the packets' numbers."""
    data: bytes | memoryview
    first_taken: int = 1
    last_taken: int | None = None
    """Segments of earlier and of later packets of the capture are those of other jobs."""


class _PendingSegments(NamedTuple):
    """Segments of one block that are not merged yet."""

    source: tuple[int, str]
    """File time and name of the capture."""
    capture: int
    segments: SegmentColumns
    key_ns: NDArray[np.int64]
    within: NDArray[np.int64]
    """Numbers of their packets in the capture."""


class BlockReader:
    """The segments of one bucket as one stream."""

    def __init__(self, blocks: Iterable[StoredBlock], state: str | None = None) -> None:
        """Make a reader of sorted blocks, which are read one by one.

        Args:
            blocks: the blocks.
            state: what :meth:`save_state` returned for the captures before these.

        Raises:
            BlockError: the state is damaged.
        """
        self._blocks = blocks
        index, names = load_locations(state)
        self._packet_index = index
        self.names = names
        """Names of the captures whose blocks were read so far."""
        self.anomalies: list[Anomaly] = []
        """Empty: anomalies of captures are reported by the tasks that read them."""
        self.dropped_packets: int | None = None
        self.progress: tuple[int, int | None] = (0, None)
        self.can_be_read_again = False
        self.description = None
        self._index = {name: index for index, name in enumerate(self.names)}
        # No capture has index -1: the first packet begins a run.
        self._last = (-1, 0, self._packet_index.packets)
        """Capture of the last segment, its number there, and its number over all captures."""

    def locate(self, number: int) -> tuple[str, int | None]:
        """Return the capture of a packet and its number there; see ``MergedCaptures.locate``."""
        return self._packet_index.locate(number, self.names, is_alone=False)

    def runs_between(self, low: int, high: int, most: int) -> list[PacketRun] | None:
        """Return runs of packets; see ``MergedCaptures.runs_between``."""
        return self._packet_index.runs_between(low, high, most, self.names)

    def batches(self) -> Iterator[SegmentColumns]:
        """Yield all segments in batches, none of which is empty; their numbers rise.

        Raises:
            BlockError: a block is damaged.
        """
        pending: list[_PendingSegments] = []
        count = payload_bytes = 0
        latest_ns = _NEVER
        for block in self._blocks:
            # No later block has a segment before the first one of this block.
            is_apart = latest_ns < block.first_key_ns
            if pending and ((is_apart and count >= _MIN_SEGMENTS) or payload_bytes >= _MAX_BYTES):
                limit_ns = None if is_apart else block.first_key_ns
                ready, pending = _split_at(pending, limit_ns)
                if ready:
                    yield from self._merged(ready)
                count = sum(len(part.key_ns) for part in pending)
                payload_bytes = sum(_bytes(part) for part in pending)
            part = self._unpacked(block)
            if not len(part.key_ns):
                continue
            pending.append(part)
            count += len(part.key_ns)
            payload_bytes += _bytes(part)
            latest_ns = max(latest_ns, int(part.key_ns[-1]))
        if pending:
            yield from self._merged(pending)

    def save_state(self) -> str:
        """Return where packets are, for the rows of a later job."""
        return dump_locations(self._packet_index, self.names)

    def _unpacked(self, block: StoredBlock) -> _PendingSegments:
        index = self._index.get(block.capture)
        if index is None:
            index = self._index[block.capture] = len(self.names)
            self.names.append(block.capture)
        segments, key_ns = unpack(block.data)
        source = (block.file_time_ns, block.capture)
        within = segments.number + block.packets_before
        part = _PendingSegments(source, index, segments, key_ns, within)
        # Later segments of a capture have higher numbers.
        start = int(np.searchsorted(within, block.first_taken, "left"))
        end = len(within)
        if block.last_taken is not None:
            end = int(np.searchsorted(within, block.last_taken, "right"))
        return part if (start, end) == (0, len(within)) else _slice(part, slice(start, end))

    def _merged(self, parts: list[_PendingSegments]) -> Iterator[SegmentColumns]:
        """Yield the segments of several blocks in order, in batches of bounded payload."""
        parts = sorted(parts, key=lambda part: part.source)
        key_ns = np.concatenate([part.key_ns for part in parts])
        capture = np.repeat([part.capture for part in parts], [len(part.key_ns) for part in parts])
        within = np.concatenate([part.within for part in parts])
        # If times are equal, a stable sort keeps the order of captures, and of their segments.
        order = np.argsort(key_ns, kind="stable")
        joined = concat_segments([part.segments for part in parts])
        for rows in _rows_at_once(joined, order):
            segments = select_rows(joined, rows)
            segments.number = self._number(capture[rows], within[rows])
            yield segments

    def _number(self, capture: NDArray[np.int64], within: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number segments over all captures, and add them to the packet index.

        The numbers of consecutive segments of a capture differ as much as in the capture.
        """
        last_capture, last_within, last_number = self._last
        steps = np.diff(within, prepend=last_within)
        is_other = np.diff(capture, prepend=last_capture) != 0
        steps[is_other | (steps < 1)] = 1
        number = last_number + np.cumsum(steps)
        self._last = (int(capture[-1]), int(within[-1]), int(number[-1]))
        # In a run the two kinds of numbers have a constant difference.
        is_start = is_other | (np.diff(number - within, prepend=0) != 0)
        is_start[0] = True
        start = np.flatnonzero(is_start)
        run_start = number[start] - last_number - 1
        first_within = within[start]
        first_within[0] -= run_start[0]
        run_start[0] = 0
        count = int(number[-1]) - last_number
        runs = to_column(run_start), to_column(capture[start]), to_column(first_within)
        self._packet_index.add_runs(*runs, count)
        return number


_NEVER: Final = -(1 << 62)
"""Earlier than any time."""


def _bytes(part: _PendingSegments) -> int:
    """Return the payload of segments in bytes, including holes."""
    return int(part.segments.captured_bytes.sum())


def _split_at(
    parts: list[_PendingSegments], limit_ns: int | None
) -> tuple[list[_PendingSegments], list[_PendingSegments]]:
    """Divide segments into those with a key before ``limit_ns``, and the others.

    None: all segments are before those of later blocks.
    """
    if limit_ns is None:
        return parts, []
    earlier, later = [], []
    for part in parts:
        index = int(np.searchsorted(part.key_ns, limit_ns, "left"))
        if index:
            earlier.append(_slice(part, slice(0, index)))
        if index < len(part.key_ns):
            later.append(_slice(part, slice(index, None)))
    return earlier, later


def _slice(part: _PendingSegments, span: slice) -> _PendingSegments:
    """Return some consecutive segments, with a copy of their own payload.

    The payload of a block is ordered by direction: without a copy a few segments may keep most of
    the block's bytes alive.
    """
    rows = np.arange(len(part.key_ns))[span]
    segments = select_rows(part.segments, rows)
    if len(rows) < len(part.key_ns):
        start, captured = segments.payload_start, segments.captured_bytes
        segments.buffer = memoryview(joined(segments.buffer, start, start + captured))
        segments.payload_start = np.cumsum(captured) - captured
    return _PendingSegments(
        part.source, part.capture, segments, part.key_ns[span], part.within[span]
    )


def _rows_at_once(
    segments: SegmentColumns, order: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Divide rows, in order, into batches of bounded payload."""
    bytes_until = np.cumsum(segments.captured_bytes[order])
    first = 0
    while first < len(order):
        earlier_bytes = int(bytes_until[first - 1]) if first else 0
        last = int(np.searchsorted(bytes_until, earlier_bytes + _MAX_BYTES, "right"))
        last = max(last, first + 1)
        yield order[first:last]
        first = last
