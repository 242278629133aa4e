"""The anonymized bytes of TCP streams: a file of pieces, found by stream and offset.

In: anonymized messages, each with its stream offset. Out: the bytes of any range of a stream, zero
where no piece was added.

Pieces are in a temporary file; each also takes 32 bytes of memory.
"""

from __future__ import annotations

import mmap
from array import array
from bisect import bisect_left, bisect_right
from socket import AF_INET, AF_INET6, inet_pton
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.model.tcp import Endpoint, TcpConnection

__all__ = ["StreamPieces", "StreamPlaces", "StreamRanges"]

_HALF: Final = 1 << 31
_MASK: Final = 0xFFFFFFFF
_WINDOW_BYTES: Final = 1 << 30


class StreamPieces:
    """Pieces of streams; all are added before the first is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._written = 0
        self._streams = array("q")
        self._offsets = array("q")
        self._file_positions = array("q")
        self._lengths = array("q")
        self._bounds: dict[int, tuple[int, int]] = {}
        self._data: mmap.mmap | bytes = b""
        self._longest: dict[int, int] = {}

    def add(self, stream: int, offset: int, data: bytes) -> None:
        """Add bytes at an offset of a stream."""
        self._file.write(data)
        self._streams.append(stream)
        self._offsets.append(offset)
        self._file_positions.append(self._written)
        self._lengths.append(len(data))
        self._written += len(data)
        if len(data) > self._longest.get(stream, 0):
            self._longest[stream] = len(data)

    def sort(self) -> None:
        """Prepare for :meth:`read`, after the last :meth:`add`."""
        self._file.flush()
        if not self._written:
            return
        self._data = mmap.mmap(self._file.fileno(), self._written, access=mmap.ACCESS_READ)
        order, self._bounds = _sorted(self._streams, self._offsets)
        self._streams = array("q")
        self._offsets, self._lengths, self._file_positions = (
            _reordered(column, order) for column in self._columns()
        )

    def close(self) -> None:
        """Discard the pieces; after that, the file may be closed."""
        if isinstance(self._data, mmap.mmap):
            self._data.close()
        self._data, self._bounds = b"", {}

    def read(self, stream: int, offset: int, length: int) -> bytes | None:
        """Return bytes of a stream, zeros where nothing was added; None if there is nothing."""
        bounds = self._bounds.get(stream)
        if bounds is None:
            return None
        first, last = bounds
        end = offset + length
        index = max(bisect_right(self._offsets, offset, first, last) - 1, first)
        begin, size = self._offsets[index], self._lengths[index]
        if begin <= offset and end <= begin + size:
            at = self._file_positions[index] + offset - begin
            return self._data[at : at + length]
        data = bytearray(length)
        # A piece that began before may be longer than those after it.
        low = bisect_left(self._offsets, offset - self._longest[stream], first, index + 1)
        index = low
        while index < last and self._offsets[index] < end:
            begin, size, begin_in_file = (column[index] for column in self._columns())
            start, stop = max(begin, offset), min(begin + size, end)
            if start < stop:
                at = begin_in_file + start - begin
                data[start - offset : stop - offset] = self._data[at : at + stop - start]
            index += 1
        return bytes(data)

    def _columns(self) -> tuple[array[int], array[int], array[int]]:
        return self._offsets, self._lengths, self._file_positions


class StreamRanges:
    """Ranges of streams that do not overlap; all are added before the first is looked up."""

    def __init__(self) -> None:
        self._streams = array("q")
        self._begins = array("q")
        self._ends = array("q")
        self._bounds: dict[int, tuple[int, int]] = {}

    def add(self, stream: int, begin: int, end: int) -> None:
        """Add a range."""
        self._streams.append(stream)
        self._begins.append(begin)
        self._ends.append(end)

    def sort(self) -> None:
        """Prepare for :meth:`without_end`, after the last :meth:`add`."""
        order, self._bounds = _sorted(self._streams, self._begins)
        self._begins, self._ends = _reordered(self._begins, order), _reordered(self._ends, order)

    def without_end(self, stream: int, offset: int, length: int) -> int:
        """Return how many of ``length`` bytes come before the stored range that they end in.

        Returns ``length`` if they do not end in a stored range.
        """
        first, last = self._bounds.get(stream, (0, 0))
        end = offset + length
        index = bisect_left(self._begins, end, first, last) - 1
        if index < first or self._ends[index] < end:
            return length
        return max(self._begins[index] - offset, 0)


def _sorted(
    streams: array[int], offsets: array[int]
) -> tuple[NDArray[np.int64], dict[int, tuple[int, int]]]:
    """Return the order by stream and offset, and begin and end of each stream in that order."""
    if not streams:
        return np.empty(0, np.int64), {}
    numbers = np.frombuffer(streams, np.int64)
    order = np.lexsort((np.frombuffer(offsets, np.int64), numbers))
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    ends = np.append(starts[1:], len(order))
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    return order, dict(zip(ordered[starts].tolist(), bounds, strict=True))


def _reordered(column: array[int], order: NDArray[np.int64]) -> array[int]:
    return array("q", np.frombuffer(column, np.int64)[order].tobytes()) if column else column


class _OneWayStream:
    """What one end of a connection sends."""

    __slots__ = ("first_packet", "first_sequence", "furthest", "number")

    def __init__(self, number: int, first_packet: int, first_sequence: int) -> None:
        self.number = number
        self.first_packet = first_packet
        self.first_sequence = first_sequence
        self.furthest = 0


class StreamPlaces:
    """Finds the stream that a packet belongs to, and the packet's stream offset."""

    def __init__(self) -> None:
        self._streams: dict[bytes, list[_OneWayStream]] = {}

    def add(self, connection: TcpConnection) -> None:
        """Add both streams of a connection whose first sequence numbers are known."""
        one, other = map(_packed, connection.endpoints)
        for direction, key in ((0, _key(one, other)), (1, _key(other, one))):
            self._streams.setdefault(key, []).append(
                _OneWayStream(
                    2 * connection.serial + direction,
                    connection.first_packet or 0,
                    connection.first_sequence[direction],
                )
            )

    def sort(self) -> None:
        """Sort the connections of each address pair by time, after the last :meth:`add`."""
        for streams in self._streams.values():
            streams.sort(key=lambda stream: stream.first_packet)

    def find(
        self, source: bytes, destination: bytes, ports: bytes, sequence: int, packet: int
    ) -> tuple[int, int] | None:
        """Return the number of the stream and the offset in it; None if the stream is unknown."""
        streams = self._streams.get(source + destination + ports)
        if streams is None:
            return None
        stream = streams[0]
        for later in streams[1:]:
            if later.first_packet > packet:
                break
            stream = later
        # Sequence numbers have 32 bits: of all possible offsets, take the one nearest to the
        # furthest so far.
        distance = sequence - stream.first_sequence - stream.furthest
        offset = stream.furthest + ((distance + _HALF) & _MASK) - _HALF
        if abs(offset - stream.furthest) < _WINDOW_BYTES:
            stream.furthest = max(offset, stream.furthest)
        return stream.number, offset


def _packed(end: Endpoint) -> tuple[bytes, bytes]:
    family = AF_INET6 if ":" in end.ip else AF_INET
    return inet_pton(family, end.ip), end.port.to_bytes(2)


def _key(source: tuple[bytes, bytes], destination: tuple[bytes, bytes]) -> bytes:
    return source[0] + destination[0] + source[1] + destination[1]
