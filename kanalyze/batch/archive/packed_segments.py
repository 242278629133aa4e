"""Packs segments of some connections into a block, to be sent from one task to another.

In: TCP segments as columns, and which of their payload is left out. Out: bytes, and the same
segments from them again.

Columns are in the order of the directions of connections, as differences from row to row or from
the expected value: nearly all bytes of these are zero, and zeros compress to nothing. A segment
takes about 12 bytes besides its payload.

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

FILLER: Final = 0xAA
"""Stands for each byte of payload that was left out."""

_HEADER: Final = struct.Struct("<4sIIQ")
_MAGIC: Final = b"KSB2"
_AS_THEY_ARE: Final = ("flags", "checksum", "payload_bytes", "captured_bytes")
"""Columns whose values are small, or without an order."""
_DIFFERENCES: Final = tuple(
    name for name in COLUMN_NAMES if name not in (*_AS_THEY_ARE, "payload_start")
)
_COLUMNS: Final = len(_DIFFERENCES) + len(_AS_THEY_ARE) + 1
"""The last one is how much earlier than captured a segment counts."""
_ADDRESSES: Final = ("source_high", "source_low", "destination_high", "destination_low")
_HOLE_COLUMNS: Final = 3
_WORD: Final = 8
_SEQUENCE_MASK: Final = 0xFFFF_FFFF
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
    order = np.asarray(SegmentGroups(segments).order)
    # Transposed to byte planes: nearly all of the higher bytes are zero.
    columns = _encoded(select_rows(segments, order), pruned.key_ns[order])
    planes = columns.view(np.uint8).reshape(_COLUMNS, len(order), _WORD).transpose(0, 2, 1)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    hole_order = np.lexsort((holes.start, position[holes.row]))
    holes = Holes(
        position[holes.row][hole_order], holes.start[hole_order], holes.length[hole_order]
    )
    start = segments.payload_start[order]
    payload = joined(segments.buffer, start, start + pruned.kept_bytes[order])
    body = b"".join((planes.tobytes(), np.stack(holes).tobytes(), payload))
    header = _HEADER.pack(_MAGIC, len(order), len(holes.row), len(payload))
    return header + bytes(_codec().compress(body, asbytes=True))


def _codec() -> pa.Codec:
    # Level 1 takes three times as long, and makes Java clients' segments 4 % smaller.
    return pa.Codec("zstd", compression_level=-3)


def _encoded(segments: SegmentColumns, key_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return columns, whose rows are in the order of directions, as small numbers."""
    changed = {
        # In a direction without a loss this stays the same.
        "sequence": segments.sequence - _payload_before(segments.payload_bytes),
        "captured_bytes": segments.payload_bytes - segments.captured_bytes,
    }
    columns = [
        changed.get(name, getattr(segments, name)).astype(np.int64, copy=False)
        for name in (*_DIFFERENCES, *_AS_THEY_ARE)
    ]
    rising = np.diff(np.stack(columns[: len(_DIFFERENCES)]), prepend=0, axis=1)
    return np.vstack((rising, *columns[len(_DIFFERENCES) :], segments.time_ns - key_ns))


def _payload_before(payload_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(payload_bytes) - payload_bytes


# -- unpacking ------------------------------------------------------------------------------------


def unpack(data: bytes | memoryview) -> UnpackedBlock:
    """Return the segments of a block.

    Raises:
        BlockError: the bytes are not what :func:`pack` makes.
    """
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        raise BlockError("not a block of segments")
    _, count, hole_count, payload_size = _HEADER.unpack_from(data)
    sizes = (
        _WORD * _COLUMNS * count,
        _WORD * _HOLE_COLUMNS * hole_count,
        payload_size,
    )
    if not count or sum(sizes) > _LARGEST_BYTES:
        raise BlockError("block of segments: impossible size")
    try:
        body = _codec().decompress(memoryview(data)[_HEADER.size :], sum(sizes))
    except (OSError, pa.ArrowInvalid) as error:
        raise BlockError(f"block of segments: damaged: {error}") from error
    # As unsigned bytes: those of a pyarrow buffer are signed.
    planes, holes, payload = _parts(memoryview(body).cast("B"), sizes)
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
        Holes(*np.frombuffer(holes, np.int64).reshape(_HOLE_COLUMNS, hole_count)),
        payload,
    )


def _parts(body: memoryview, sizes: tuple[int, ...]) -> list[memoryview]:
    parts, offset = [], 0
    for size in sizes:
        parts.append(body[offset : offset + size])
        offset += size
    return parts


def _segments(columns: NDArray[np.int64], holes: Holes, payload: memoryview) -> UnpackedBlock:
    """Undo :func:`_encoded`."""
    names = (*_DIFFERENCES, *_AS_THEY_ARE)
    rising = np.cumsum(columns[: len(_DIFFERENCES)], axis=1)
    by_name = dict(zip(names, (*rising, *columns[len(_DIFFERENCES) :]), strict=False))
    payload_bytes, cut = by_name["payload_bytes"], by_name["captured_bytes"]
    captured = payload_bytes - cut
    if (captured < 0).any() or (cut < 0).any():
        raise BlockError("block of segments: negative length")
    buffer, start = _with_filler(payload, captured, holes)
    sequence = by_name["sequence"] + _payload_before(payload_bytes)
    by_name |= {
        "sequence": sequence & _SEQUENCE_MASK,
        "captured_bytes": captured,
        "payload_start": start,
    }
    by_name |= {name: by_name[name].view(np.uint64) for name in _ADDRESSES}
    order = np.argsort(by_name["number"], kind="stable")
    segments = SegmentColumns(buffer, **{name: column[order] for name, column in by_name.items()})
    return UnpackedBlock(segments, (by_name["time_ns"] - columns[-1])[order])


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
