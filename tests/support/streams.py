"""Chunks made of bytes, cut into segments of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.model.streams import Chunk, Segments

if TYPE_CHECKING:
    from collections.abc import Iterable

TIME_NS = 1_700_000_000_000_000_000


def chunk(
    pieces: Iterable[bytes],
    *,
    stream_offset: int = 0,
    first_packet: int = 1,
    snap: int | None = None,
) -> Chunk:
    """A chunk with one segment a piece; packet n comes at TIME_NS + n; ``snap`` cuts each."""
    parts = [piece for piece in pieces if piece]
    captured_sizes = [len(part) if snap is None else min(len(part), snap) for part in parts]
    buffer = b"".join(part[:size] for part, size in zip(parts, captured_sizes, strict=True))
    starts, at = [], 0
    for size in captured_sizes:
        starts.append(at)
        at += size
    packets = [first_packet + index for index in range(len(parts))]
    segments = Segments(
        memoryview(buffer),
        starts,
        [len(part) for part in parts],
        captured_sizes,
        [TIME_NS + packet for packet in packets],
        packets,
    )
    return Chunk(stream_offset, segments, 0, len(parts))


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """``data`` in pieces of these sizes; the last piece has the rest."""
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    pieces.append(data[at:])
    return [piece for piece in pieces if piece]


def frame_of(body: bytes) -> bytes:
    """A size prefix and the body."""
    return len(body).to_bytes(4, "big") + body
