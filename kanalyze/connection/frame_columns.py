"""The frames of many connections as columns: where their bytes are, and when they came.

In: streams that were cut. Out: :class:`FrameColumns` over one :class:`FrameBytes`. This module must
not know what is in a frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kanalyze.gathers import overlapping
from kanalyze.protocol.framing import Frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.connection.cutting import Cuts, PlainStream

__all__ = ["Direction", "FrameBytes", "FrameColumns", "read_integers"]

_MOST_JOINED_BYTES = 16 * 1024
"""Of a frame that lies in pieces: larger ones are few, and nearly all of them record data."""
_HEAD_BYTES = 512
"""Joined of those larger ones, for their headers."""
_COLUMNS = ("start", "held", "size", "start_ns", "end_ns", "start_packet", "end_packet")
_NONE = np.zeros(0, np.int64)


class Direction(NamedTuple):
    """One direction of a connection in a batch."""

    stream: PlainStream
    cuts: Cuts
    first: int
    """Index of its first frame among all frames of its kind."""

    @property
    def rows(self) -> slice:
        """Its frames among all of their kind."""
        return slice(self.first, self.first + len(self.cuts.at))


class FrameColumns:
    """All frames of one kind in a batch, as columns."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in _COLUMNS}
        self.start: NDArray[np.int64] = _NONE
        """Index in the data of the size prefix."""
        self.held: NDArray[np.int64] = _NONE
        """Index in the data after the last byte that lies together with it."""
        self.size: NDArray[np.int64] = _NONE
        self.start_ns: NDArray[np.int64] = _NONE
        self.end_ns: NDArray[np.int64] = _NONE
        self.start_packet: NDArray[np.int64] = _NONE
        self.end_packet: NDArray[np.int64] = _NONE

    def add(self, stream: PlainStream, cuts: Cuts, data: FrameBytes) -> Direction:
        """Add the frames of a connection's direction."""
        found = Direction(stream, cuts, self.count)
        count = len(cuts.at)
        self.count += count
        if not count:
            return found
        at, size = np.array(cuts.at), np.array(cuts.size)
        time_ns, packet = np.array(stream.time_ns), np.array(stream.packet)
        ends = np.array(stream.ends)
        segment = np.searchsorted(ends, at, "right")
        last = np.searchsorted(ends, at + size + 3, "right")
        if cuts.joined is not None:
            start = at + data.add(cuts.joined)
            held = start + size + 4
        else:
            length = size + 4
            here = np.where(length > _MOST_JOINED_BYTES, _HEAD_BYTES, length)
            pieces = zip(cuts.at, here.tolist(), strict=True)
            start = np.array([data.add(stream.read(at, at + size)) for at, size in pieces])
            held = start + here
        columns = (
            start,
            held,
            size,
            time_ns[segment],
            time_ns[last],
            packet[segment],
            packet[last],
        )
        for name, column in zip(_COLUMNS, columns, strict=True):
            self._parts[name].append(column)
        return found

    def frame(self, direction: Direction, index: int) -> Frame:
        """Return one as an object: the one at an index of a direction's cuts."""
        stream, at, size = direction.stream, direction.cuts.at[index], direction.cuts.size[index]
        row = direction.first + index
        frame = Frame(
            size,
            stream.stream_offset + at,
            int(self.start_ns[row]),
            int(self.start_packet[row]),
        )
        frame.end_time_ns, frame.end_packet = int(self.end_ns[row]), int(self.end_packet[row])
        position = 0
        for piece in stream.pieces(at, at + size + 4):
            frame.add(position, piece)
            position += len(piece)
        return frame

    def close(self) -> None:
        """Put all connections' frames together."""
        for name, parts in self._parts.items():
            setattr(self, name, np.concatenate(parts) if parts else _NONE)
        self._parts.clear()


class FrameBytes:
    """The bytes that frames lie in."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> int:
        """Add bytes; return where they begin."""
        place = self._size
        self._pieces.append(piece)
        self._size += len(piece)
        return place

    def array(self) -> NDArray[np.uint8]:
        """Return all bytes."""
        return np.frombuffer(b"".join(self._pieces), np.uint8)


def read_integers(data: NDArray[np.uint8], at: NDArray[np.int64], form: str) -> NDArray[np.int64]:
    """Read big-endian integers at places, all of which are inside."""
    found: NDArray[np.int64] = overlapping(data, form)[at].astype(np.int64)
    return found
