"""Segments of some connections, packed to be sent from one task to another.

In: TCP segments as columns, and which of their payload nobody will read. Out: bytes, and the same
segments of them again. Must not know: who needs what of a payload, nor how blocks travel.

Segments of one direction resemble each other: each number is written as its difference from what
the one before lets expect, most of which are zero, and zeros compress to nothing. What a segment
takes then is about 12 bytes and what is left of its payload.

Payload that was left out comes back as :data:`FILLER`, in its place and length, so whoever reads
the segments needs to know nothing of it. The filler cannot be taken for anything: as a size, a
length or a count it is negative, but not -1, which stands for null; as a varint it does not end.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import KanalyzeError
from kanalyze.net.segment_columns import SegmentColumns
from kanalyze.net.tcp.segment_groups import SegmentGroups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "FILLER",
    "BlockError",
    "Holes",
    "Lean",
    "Packed",
    "as_arrays",
    "joined_segments",
    "lean",
    "lean_together",
    "no_holes",
    "pack",
    "taken",
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
_NAMES: Final = tuple(name for name in SegmentColumns.__slots__ if name != "buffer")
_LARGEST_BYTES: Final = 1 << 31
"""Of a block, unpacked: far more than a task reads at once."""


class BlockError(KanalyzeError):
    """Bytes that are no block of segments."""


class Holes(NamedTuple):
    """Payload that is left out; rising, without overlaps, each within one segment."""

    row: NDArray[np.int64]
    """Index of the segment."""
    start: NDArray[np.int64]
    """Index of the first byte, within the segment's payload."""
    length: NDArray[np.int64]
    """Above 0."""

    def of(self, rows: NDArray[np.int64]) -> Holes:
        """Return those of some segments, given by rising indices, which count anew."""
        at = np.searchsorted(rows, self.row)
        found = at < len(rows)
        found[found] = rows[at[found]] == self.row[found]
        return Holes(at[found], self.start[found], self.length[found])


def no_holes() -> Holes:
    """Return no holes."""
    none = np.zeros(0, np.int64)
    return Holes(none, none, none)


class Packed(NamedTuple):
    """A block, unpacked."""

    segments: SegmentColumns
    """In the order of the capture, over a buffer of their own."""
    key_ns: NDArray[np.int64]
    """When each counts as captured among packets of other captures."""


class Lean(NamedTuple):
    """Segments with no more of their payload than is kept, over a buffer of their own."""

    segments: SegmentColumns
    """Their numbers rise. ``payload_start`` is where in the buffer the kept bytes begin;
    ``captured_bytes`` counts what is left out too."""
    kept_bytes: NDArray[np.int64]
    """Of each payload."""
    key_ns: NDArray[np.int64]
    """When each counts as captured among packets of other captures."""
    holes: Holes

    def taken(self, rows: NDArray[np.int64]) -> Lean:
        """Return some of them, given by rising indices, over the same buffer."""
        return Lean(
            taken(self.segments, rows),
            self.kept_bytes[rows],
            self.key_ns[rows],
            self.holes.of(rows),
        )


def as_arrays(segments: SegmentColumns) -> SegmentColumns:
    """Return segments whose columns are arrays of NumPy, over the same memory.

    What is here takes those, and so do those who rebuild connections.
    """
    columns = {name: np.asarray(getattr(segments, name)) for name in _NAMES}
    return SegmentColumns(segments.buffer, **columns)


def taken(segments: SegmentColumns, rows: NDArray[np.int64]) -> SegmentColumns:
    """Return some segments, in the order of ``rows``."""
    columns = {name: getattr(segments, name)[rows] for name in _NAMES}
    return SegmentColumns(segments.buffer, **columns)


def lean(segments: SegmentColumns, key_ns: NDArray[np.int64], holes: Holes) -> Lean:
    """Copy what is kept of segments, so that they outlive the buffer that they came in."""
    start = segments.payload_start
    begins, ends = start, start + segments.captured_bytes
    if len(holes.row):
        hole = start[holes.row] + holes.start
        row = np.concatenate([np.arange(len(segments)), holes.row])
        # Each hole ends a piece of what is kept and begins another.
        begins = np.concatenate([begins, hole + holes.length])
        ends = np.concatenate([ends, hole])
        begins, ends = begins[np.lexsort((begins, row))], ends[np.lexsort((ends, row))]
    left_out = np.bincount(holes.row, holes.length, len(segments)).astype(np.int64)
    kept_bytes = segments.captured_bytes - left_out
    all_rows = taken(segments, np.arange(len(segments)))
    all_rows.buffer = memoryview(_cut_out(segments.buffer, begins, ends))
    all_rows.payload_start = np.cumsum(kept_bytes) - kept_bytes
    return Lean(all_rows, kept_bytes, key_ns, holes)


def lean_together(parts: Sequence[Lean]) -> Lean:
    """Put segments together, of which those of each part come after those of the one before."""
    if len(parts) == 1:
        return parts[0]
    counts = [len(part.segments) for part in parts]
    rows_before = np.cumsum(counts) - counts
    holes = [
        part.holes._replace(row=part.holes.row + before)
        for part, before in zip(parts, rows_before.tolist(), strict=True)
    ]
    return Lean(
        joined_segments([part.segments for part in parts]),
        np.concatenate([part.kept_bytes for part in parts]),
        np.concatenate([part.key_ns for part in parts]),
        Holes(*(np.concatenate(column) for column in zip(*holes, strict=True))),
    )


def joined_segments(parts: Sequence[SegmentColumns]) -> SegmentColumns:
    """Return the segments of several buffers over one."""
    if len(parts) == 1:
        return parts[0]
    sizes = np.array([len(part.buffer) for part in parts])
    shifts = (np.cumsum(sizes) - sizes).tolist()
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in _NAMES
        if name != "payload_start"
    }
    start = [part.payload_start + shift for part, shift in zip(parts, shifts, strict=True)]
    buffer = memoryview(b"".join([part.buffer for part in parts]))
    return SegmentColumns(buffer, payload_start=np.concatenate(start), **columns)


def _cut_out(buffer: memoryview, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> bytes:
    """Return pieces of a buffer, one after another."""
    filled = ends > begins
    pieces = zip(begins[filled].tolist(), ends[filled].tolist(), strict=True)
    return b"".join([buffer[begin:end] for begin, end in pieces])


# -- packing --------------------------------------------------------------------------------------


def pack(kept: Lean) -> bytes:
    """Pack segments, at least one."""
    segments, holes = kept.segments, kept.holes
    groups = SegmentGroups(segments)
    order = np.asarray(groups.order)
    # Where one end sent nothing its place is that of what comes next, or the end.
    starts = np.unique(np.concatenate([groups.start, groups.middle]))[:-1]
    columns = _differences(segments, kept.key_ns, order, starts)
    # Bytes of equal weight stand together: nearly all of the higher ones are zero.
    planes = columns.view(np.uint8).reshape(_COLUMNS, len(order), _WORD).transpose(0, 2, 1)
    where = np.empty(len(order), np.int64)
    where[order] = np.arange(len(order))
    by_place = np.lexsort((holes.start, where[holes.row]))
    holes = Holes(where[holes.row][by_place], holes.start[by_place], holes.length[by_place])
    start = segments.payload_start[order]
    payload = _cut_out(segments.buffer, start, start + kept.kept_bytes[order])
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
    return pa.Codec("zstd", compression_level=1)


def _differences(
    segments: SegmentColumns,
    key_ns: NDArray[np.int64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return each column, in the order of the block, as differences from what was to be expected.

    A run, the segments of one direction, begins with a value as it is.
    """
    time_ns, payload_bytes = segments.time_ns[order], segments.payload_bytes[order]
    sequence = segments.sequence[order]
    expected = np.zeros(len(order), np.int64)
    expected[1:] = (sequence + payload_bytes)[:-1]
    expected[starts] = 0
    ahead = ((sequence - expected + _HALF) & _SEQUENCE_MASK) - _HALF
    columns = (
        _steps(segments.number[order], starts),
        _steps(time_ns, starts),
        time_ns - key_ns[order],
        ahead,
        _steps(segments.acknowledgment[order], starts),
        segments.flags[order],
        _steps(segments.window[order], starts),
        segments.checksum[order],
        _steps(segments.identification[order], starts),
        payload_bytes,
        payload_bytes - segments.captured_bytes[order],
    )
    return np.stack(columns)


def _steps(values: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = np.diff(values, prepend=0)
    steps[starts] = values[starts]
    return steps


def _runs(
    segments: SegmentColumns, order: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return what all segments of a run have in common, and where it begins."""
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


def unpack(data: bytes | memoryview) -> Packed:
    """Return the segments of a block.

    Raises:
        BlockError: the bytes are not what :func:`pack` makes.
    """
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise BlockError("a block of segments does not begin as one")
    _, count, run_count, hole_count, payload_size = _HEADER.unpack_from(data)
    sizes = (
        _WORD * _COLUMNS * count,
        _WORD * _RUN_COLUMNS * run_count,
        _WORD * _HOLE_COLUMNS * hole_count,
        payload_size,
    )
    if not count or not run_count or sum(sizes) > _LARGEST_BYTES:
        raise BlockError("a block of segments of an impossible size")
    try:
        body = _codec().decompress(memoryview(data)[_HEADER.size :], sum(sizes))
    except (OSError, pa.ArrowInvalid) as error:
        raise BlockError(f"a block of segments is damaged: {error}") from error
    # Of unsigned bytes: those of a pyarrow buffer have a sign.
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
    parts, at = [], 0
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    return parts


def _segments(
    columns: NDArray[np.int64], runs: NDArray[np.int64], holes: Holes, payload: memoryview
) -> Packed:
    count = columns.shape[1]
    starts = runs[0]
    lengths = np.diff(starts, append=count)
    if starts[0] or (lengths <= 0).any():
        raise BlockError("a block of segments with runs in disorder")
    number, time_ns, lag_ns, ahead, acknowledgment, flags, window, checksum = columns[:8]
    identification, payload_bytes, cut = columns[8:]
    captured = payload_bytes - cut
    if (captured < 0).any() or (cut < 0).any():
        raise BlockError("a block of segments with lengths below 0")
    time_ns = _sums(time_ns, starts, lengths)
    number = _sums(number, starts, lengths)
    steps = ahead.copy()
    inside = np.ones(count, np.bool_)
    inside[starts] = False
    steps[1:] += np.where(inside[1:], payload_bytes[:-1], 0)
    buffer = _filled(payload, captured, holes)
    start = np.cumsum(captured) - captured
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
        sequence=(_sums(steps, starts, lengths) & _SEQUENCE_MASK)[order],
        acknowledgment=_sums(acknowledgment, starts, lengths)[order],
        flags=flags[order],
        window=_sums(window, starts, lengths)[order],
        checksum=checksum[order],
        identification=_sums(identification, starts, lengths)[order],
        payload_start=start[order],
        payload_bytes=payload_bytes[order],
        captured_bytes=captured[order],
    )
    return Packed(segments, (time_ns - lag_ns)[order])


def _sums(
    steps: NDArray[np.int64], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Undo :func:`_steps`."""
    sums = np.cumsum(steps)
    return sums - np.repeat(sums[starts] - steps[starts], lengths)


def _filled(payload: memoryview, captured: NDArray[np.int64], holes: Holes) -> memoryview:
    """Return the payloads, one after another, with filler for what was left out."""
    total = int(captured.sum())
    if len(payload) + int(holes.length.sum()) != total or (holes.length <= 0).any():
        raise BlockError("a block of segments with other bytes than it says")
    if not len(holes.row):
        return payload
    if (holes.row < 0).any() or (holes.row >= len(captured)).any():
        raise BlockError("a block of segments with a hole in none of them")
    at = (np.cumsum(captured) - captured)[holes.row] + holes.start
    if (np.diff(at) < 0).any() or at[0] < 0:
        raise BlockError("a block of segments with holes in disorder")
    # What of the payload stands before each hole.
    before = at - (np.cumsum(holes.length) - holes.length)
    filler = bytes((FILLER,)) * int(holes.length.max())
    parts: list[memoryview | bytes] = []
    done = 0
    for end, length in zip(before.tolist(), holes.length.tolist(), strict=True):
        parts += (payload[done:end], filler[:length])
        done = end
    parts.append(payload[done:])
    return memoryview(b"".join(parts))
