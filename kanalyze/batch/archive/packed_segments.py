"""Packs segments of some connections into a block, to be sent from one task to another.

In: TCP segments as columns, and which of their payload is left out. Out: bytes, and the same
segments from them again.

Columns are delta-encoded for each direction of a connection: most differences from the expected
value are zero, and zeros compress to nothing. A segment takes about 12 bytes besides its payload.

Payload that was left out is unpacked as :data:`FILLER` of the same length, so readers need not know
about it. Segments that are filler only share its memory. A reader that decoded filler would fail:
as a size, a length or a count it is negative, but not -1, which stands for null; as a varint it
does not end.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kanalyze.common.int_columns import joined
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.net.segment_columns import COLUMN_NAMES, SegmentColumns
from kanalyze.net.tcp.segment_iterator import SegmentGroups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "FILLER",
    "BlockError",
    "Holes",
    "PrunedSegments",
    "UnpackedBlock",
    "as_arrays",
    "concat_pruned",
    "concat_segments",
    "no_holes",
    "pack",
    "prune",
    "select_rows",
    "unpack",
]

FILLER: Final = 0xAA
"""Stands for each byte of payload that was left out."""

_HEADER: Final = struct.Struct("<4sIIIQ")
_MAGIC: Final = b"KSB1"
_COLUMNS: Final = 11
_RUN_COLUMNS: Final = 8
_HOLE_COLUMNS: Final = 3
_WORD: Final = 8
_SEQUENCE_MASK: Final = 0xFFFF_FFFF
_HALF: Final = 1 << 31
_LARGEST_BYTES: Final = 1 << 31
"""Limit of an unpacked block: far more than a task reads at once."""


class BlockError(KanalyzeError):
    """The bytes are not a block of segments."""


class Holes(NamedTuple):
    """Ranges of payload that are left out; sorted, without overlaps, each within one segment."""

    row: NDArray[np.int64]
    """Index of the segment."""
    start: NDArray[np.int64]
    """Index of the first byte, within the segment's payload."""
    length: NDArray[np.int64]
    """Above 0."""

    def of(self, rows: NDArray[np.int64]) -> Holes:
        """Return the holes of the segments at sorted indices, with indices among these."""
        index = np.searchsorted(rows, self.row)
        is_selected = index < len(rows)
        is_selected[is_selected] = rows[index[is_selected]] == self.row[is_selected]
        return Holes(index[is_selected], self.start[is_selected], self.length[is_selected])


def no_holes() -> Holes:
    """Return no holes."""
    empty = np.zeros(0, np.int64)
    return Holes(empty, empty, empty)


class UnpackedBlock(NamedTuple):
    """A block, unpacked."""

    segments: SegmentColumns
    """The segments in the order of the capture, over a buffer of their own."""
    key_ns: NDArray[np.int64]
    """Sort keys: when each segment counts as captured."""


class PrunedSegments(NamedTuple):
    """Segments without the payload in holes, over a buffer of their own."""

    segments: SegmentColumns
    """The segments, with rising numbers. ``payload_start`` is the position of the kept bytes in the
    buffer; ``captured_bytes`` includes the holes."""
    kept_bytes: NDArray[np.int64]
    """Length of the kept part of each payload."""
    key_ns: NDArray[np.int64]
    """Sort keys: when each segment counts as captured."""
    holes: Holes

    def select_rows(self, rows: NDArray[np.int64]) -> PrunedSegments:
        """Return the segments at sorted indices, over the same buffer."""
        return PrunedSegments(
            select_rows(self.segments, rows),
            self.kept_bytes[rows],
            self.key_ns[rows],
            self.holes.of(rows),
        )


def as_arrays(segments: SegmentColumns) -> SegmentColumns:
    """Return segments whose columns are NumPy arrays over the same memory."""
    columns = {name: np.asarray(getattr(segments, name)) for name in COLUMN_NAMES}
    return SegmentColumns(segments.buffer, **columns)


def select_rows(segments: SegmentColumns, rows: NDArray[np.int64]) -> SegmentColumns:
    """Return some segments, in the order of ``rows``."""
    columns = {name: getattr(segments, name)[rows] for name in COLUMN_NAMES}
    return SegmentColumns(segments.buffer, **columns)


def prune(segments: SegmentColumns, key_ns: NDArray[np.int64], holes: Holes) -> PrunedSegments:
    """Copy segments without the payload in holes; the copies outlive the buffer of the batch."""
    start = segments.payload_start
    begins, ends = start, start + segments.captured_bytes
    if len(holes.row):
        hole = start[holes.row] + holes.start
        row = np.concatenate([np.arange(len(segments)), holes.row])
        # Each hole ends one kept range and begins another.
        begins = np.concatenate([begins, hole + holes.length])
        ends = np.concatenate([ends, hole])
        begins, ends = begins[np.lexsort((begins, row))], ends[np.lexsort((ends, row))]
    hole_bytes = np.bincount(holes.row, holes.length, len(segments)).astype(np.int64)
    kept_bytes = segments.captured_bytes - hole_bytes
    columns = {name: getattr(segments, name).copy() for name in COLUMN_NAMES}
    columns["payload_start"] = np.cumsum(kept_bytes) - kept_bytes
    copies = SegmentColumns(memoryview(joined(segments.buffer, begins, ends)), **columns)
    return PrunedSegments(copies, kept_bytes, key_ns, holes)


def concat_pruned(parts: Sequence[PrunedSegments]) -> PrunedSegments:
    """Concatenate segments; those of each part come after those of the part before."""
    if len(parts) == 1:
        return parts[0]
    counts = [len(part.segments) for part in parts]
    rows_before = np.cumsum(counts) - counts
    holes = [
        part.holes._replace(row=part.holes.row + earlier_rows)
        for part, earlier_rows in zip(parts, rows_before.tolist(), strict=True)
    ]
    return PrunedSegments(
        concat_segments([part.segments for part in parts]),
        np.concatenate([part.kept_bytes for part in parts]),
        np.concatenate([part.key_ns for part in parts]),
        Holes(*(np.concatenate(column) for column in zip(*holes, strict=True))),
    )


def concat_segments(parts: Sequence[SegmentColumns]) -> SegmentColumns:
    """Concatenate segments of several buffers over one buffer."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.array([len(part.buffer) for part in parts])
    shifts = (np.cumsum(sizes) - sizes).tolist()
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in COLUMN_NAMES
        if name != "payload_start"
    }
    start = [part.payload_start + shift for part, shift in zip(parts, shifts, strict=True)]
    buffer = memoryview(b"".join([part.buffer for part in parts]))
    return SegmentColumns(buffer, payload_start=np.concatenate(start), **columns)


# -- packing --------------------------------------------------------------------------------------


def pack(pruned: PrunedSegments) -> bytes:
    """Pack segments, at least one."""
    segments, holes = pruned.segments, pruned.holes
    groups = SegmentGroups(segments)
    order = np.asarray(groups.order)
    # A direction without segments begins where the next one does, or at the end.
    starts = np.unique(np.concatenate([groups.start, groups.middle]))[:-1]
    columns = _delta_encoded(segments, pruned.key_ns, order, starts)
    # Transposed to byte planes: nearly all of the higher bytes are zero.
    planes = columns.view(np.uint8).reshape(_COLUMNS, len(order), _WORD).transpose(0, 2, 1)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    hole_order = np.lexsort((holes.start, position[holes.row]))
    holes = Holes(
        position[holes.row][hole_order], holes.start[hole_order], holes.length[hole_order]
    )
    start = segments.payload_start[order]
    payload = joined(segments.buffer, start, start + pruned.kept_bytes[order])
    body = b"".join(
        (
            planes.tobytes(),
            _runs(segments, order, starts).tobytes(),
            np.stack(holes).tobytes(),
            payload,
        )
    )
    header = _HEADER.pack(_MAGIC, len(order), len(starts), len(holes.row), len(payload))
    return header + bytes(_codec().compress(body, asbytes=True))


def _codec() -> pa.Codec:
    # Level 1 takes three times as long, and makes Java clients' segments 4 % smaller.
    return pa.Codec("zstd", compression_level=-3)


def _delta_encoded(
    segments: SegmentColumns,
    key_ns: NDArray[np.int64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return each column, in the order of the block, as differences from the expected values.

    The first value of a run, the segments of one direction, is stored as it is.
    """
    time_ns, payload_bytes = segments.time_ns[order], segments.payload_bytes[order]
    sequence = segments.sequence[order]
    expected = np.zeros(len(order), np.int64)
    expected[1:] = (sequence + payload_bytes)[:-1]
    expected[starts] = 0
    ahead = ((sequence - expected + _HALF) & _SEQUENCE_MASK) - _HALF
    columns = (
        _deltas(segments.number[order], starts),
        _deltas(time_ns, starts),
        time_ns - key_ns[order],
        ahead,
        _deltas(segments.acknowledgment[order], starts),
        segments.flags[order],
        _deltas(segments.window[order], starts),
        segments.checksum[order],
        _deltas(segments.identification[order], starts),
        payload_bytes,
        payload_bytes - segments.captured_bytes[order],
    )
    return np.stack(columns)


def _deltas(values: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = np.diff(values, prepend=0)
    steps[starts] = values[starts]
    return steps


def _runs(
    segments: SegmentColumns, order: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the beginning of each run, and the addresses that its segments have in common."""
    first = order[starts]
    return np.stack(
        (
            starts,
            segments.is_ipv6[first],
            segments.source_high[first].view(np.int64),
            segments.source_low[first].view(np.int64),
            segments.destination_high[first].view(np.int64),
            segments.destination_low[first].view(np.int64),
            segments.source_port[first],
            segments.destination_port[first],
        )
    )


# -- unpacking ------------------------------------------------------------------------------------


def unpack(data: bytes | memoryview) -> UnpackedBlock:
    """Return the segments of a block.

    Raises:
        BlockError: the bytes are not what :func:`pack` makes.
    """
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise BlockError("not a block of segments")
    _, count, run_count, hole_count, payload_size = _HEADER.unpack_from(data)
    sizes = (
        _WORD * _COLUMNS * count,
        _WORD * _RUN_COLUMNS * run_count,
        _WORD * _HOLE_COLUMNS * hole_count,
        payload_size,
    )
    if not count or not run_count or sum(sizes) > _LARGEST_BYTES:
        raise BlockError("block of segments: impossible size")
    try:
        body = _codec().decompress(memoryview(data)[_HEADER.size :], sum(sizes))
    except (OSError, pa.ArrowInvalid) as error:
        raise BlockError(f"block of segments: damaged: {error}") from error
    # As unsigned bytes: those of a pyarrow buffer are signed.
    planes, runs, holes, payload = _parts(memoryview(body).cast("B"), sizes)
    columns = (
        np.frombuffer(planes, np.uint8)
        .reshape(_COLUMNS, _WORD, count)
        .transpose(0, 2, 1)
        .copy()
        .view(np.int64)
        .reshape(_COLUMNS, count)
    )
    return _segments(
        columns,
        np.frombuffer(runs, np.int64).reshape(_RUN_COLUMNS, run_count),
        Holes(*np.frombuffer(holes, np.int64).reshape(_HOLE_COLUMNS, hole_count)),
        payload,
    )


def _parts(body: memoryview, sizes: tuple[int, ...]) -> list[memoryview]:
    parts, offset = [], 0
    for size in sizes:
        parts.append(body[offset : offset + size])
        offset += size
    return parts


def _segments(
    columns: NDArray[np.int64], runs: NDArray[np.int64], holes: Holes, payload: memoryview
) -> UnpackedBlock:
    count = columns.shape[1]
    starts = runs[0]
    lengths = np.diff(starts, append=count)
    if starts[0] or (lengths <= 0).any():
        raise BlockError("block of segments: runs out of order")
    number, time_ns, lag_ns, ahead, acknowledgment, flags, window, checksum = columns[:8]
    identification, payload_bytes, cut = columns[8:]
    captured = payload_bytes - cut
    if (captured < 0).any() or (cut < 0).any():
        raise BlockError("block of segments: negative length")
    time_ns = _undo_deltas(time_ns, starts, lengths)
    number = _undo_deltas(number, starts, lengths)
    steps = ahead.copy()
    inside = np.ones(count, np.bool_)
    inside[starts] = False
    steps[1:] += np.where(inside[1:], payload_bytes[:-1], 0)
    buffer, start = _with_filler(payload, captured, holes)
    order = np.argsort(number, kind="stable")
    run = np.repeat(runs[1:], lengths, axis=1)[:, order]
    segments = SegmentColumns(
        buffer=buffer,
        number=number[order],
        time_ns=time_ns[order],
        is_ipv6=run[0],
        source_high=run[1].view(np.uint64),
        source_low=run[2].view(np.uint64),
        destination_high=run[3].view(np.uint64),
        destination_low=run[4].view(np.uint64),
        source_port=run[5],
        destination_port=run[6],
        sequence=(_undo_deltas(steps, starts, lengths) & _SEQUENCE_MASK)[order],
        acknowledgment=_undo_deltas(acknowledgment, starts, lengths)[order],
        flags=flags[order],
        window=_undo_deltas(window, starts, lengths)[order],
        checksum=checksum[order],
        identification=_undo_deltas(identification, starts, lengths)[order],
        payload_start=start[order],
        payload_bytes=payload_bytes[order],
        captured_bytes=captured[order],
    )
    return UnpackedBlock(segments, (time_ns - lag_ns)[order])


def _undo_deltas(
    steps: NDArray[np.int64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Undo :func:`_deltas`."""
    sums = np.cumsum(steps)
    return sums - np.repeat(sums[starts] - steps[starts], lengths)


def _with_filler(
    payload: memoryview, captured: NDArray[np.int64], holes: Holes
) -> tuple[memoryview, NDArray[np.int64]]:
    """Return the payloads with filler in their holes, and where each payload begins."""
    total = int(captured.sum())
    if len(payload) + int(holes.length.sum()) != total or (holes.length <= 0).any():
        raise BlockError("block of segments: wrong size of payload")
    if not len(holes.row):
        return payload, np.cumsum(captured) - captured
    if (holes.row < 0).any() or (holes.row >= len(captured)).any():
        raise BlockError("block of segments: hole outside of segments")
    hole_start = (np.cumsum(captured) - captured)[holes.row] + holes.start
    if (np.diff(hole_start) < 0).any() or hole_start[0] < 0:
        raise BlockError("block of segments: holes out of order")
    # Most segments of large messages are one hole.
    is_whole = holes.length == captured[holes.row]
    stored = captured.copy()
    stored[holes.row[is_whole]] = 0
    start = np.cumsum(stored) - stored
    inner = Holes(*(column[~is_whole] for column in holes))
    pieces = _filled(payload, start[inner.row] + inner.start, inner.length)
    shared_bytes = int(holes.length[is_whole].max(initial=0))
    pieces.append(bytes((FILLER,)) * shared_bytes)
    start[holes.row[is_whole]] = int(stored.sum())
    return memoryview(b"".join(pieces)), start


def _filled(
    payload: memoryview, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> list[memoryview | bytes]:
    """Return pieces of payload, with filler between them from ``starts`` on."""
    # Bytes of kept payload before each hole.
    hole_at = starts - (np.cumsum(lengths) - lengths)
    filler = bytes((FILLER,)) * int(lengths.max(initial=0))
    pieces: list[memoryview | bytes] = []
    copied = 0
    for end, length in zip(hole_at.tolist(), lengths.tolist(), strict=True):
        pieces += (payload[copied:end], filler[:length])
        copied = end
    pieces.append(payload[copied:])
    return pieces
