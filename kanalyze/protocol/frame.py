"""One frame of a Kafka connection: its place, its times, and those of its bytes that are there.

In: bytes at frame positions, alone or spread over many segments. Out: a
:class:`~kanalyze.protocol.wire.Source`. This module must not know how a stream is cut into frames,
nor what is inside one.

Nothing is joined or copied before it is read: most of a large frame is record data that nobody
looks at.

Compiled by Cython, with the types in ``frame.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.protocol.wire import MissingBytes, Truncated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.segments import Segments

__all__ = ["Frame", "Spread", "frame_in_segment"]

_FIRST_WINDOW_BYTES = 2048
_SKIMMED_BYTES = 64 * 1024


class Spread:
    """Consecutive bytes of a stream in segments of a batch, some of them not captured maybe.

    Positions count from its first byte.

    Attributes:
        length: bytes on the wire.
        held_bytes: those of them that were captured.
        segments: where they are.
    """

    __slots__ = (
        "_at",
        "_first",
        "_index",
        "_last",
        "_skip",
        "held_bytes",
        "length",
        "segments",
    )

    def __init__(self, segments: Segments, first: int, skip: int, length: int) -> None:
        """Take ``length`` bytes, at least one, from byte ``skip`` of the segment ``first`` on."""
        self.segments = segments
        self._first = self._index = first
        self._skip = skip
        self._at = -skip
        self.length = length
        self.held_bytes = 0
        self._last = first
        self._measure()

    def _measure(self) -> None:
        """Find how much was captured, and the segment after the last."""
        at, index = -self._skip, self._first
        while at < self.length:
            begin, end = max(at, 0), min(at + self.segments.captureds[index], self.length)
            if end > begin:
                self.held_bytes += end - begin
            at += self.segments.lengths[index]
            index += 1
        self._last = index

    def __len__(self) -> int:
        return self.length

    @property
    def reach(self) -> int:
        """Position after the last byte that was captured; 0 for none."""
        return self._reach()

    def _reach(self) -> int:
        reach = 0
        at = -self._skip
        for index in range(self._first, self._last):
            captured = self.segments.captureds[index]
            if at + captured > 0 and captured > 0:
                reach = min(at + captured, self.length)
            at += self.segments.lengths[index]
        return reach

    def run_end(self, at: int) -> int:
        """Go to the segment with position ``at``; return up to where its bytes are there.

        Not above ``at`` where that one is not. Places are mostly asked for in rising order.
        """
        if at < self._at:
            self._index, self._at = self._first, -self._skip
        lengths = self.segments.lengths
        while self._at + lengths[self._index] <= at and self._index + 1 < self._last:
            self._at += lengths[self._index]
            self._index += 1
        return min(self._at + self.segments.captureds[self._index], self.length)

    def place(self, at: int) -> int:
        """Return where in the buffer the byte is that :meth:`run_end` was asked for."""
        return self.segments.starts[self._index] + at - self._at

    def view(self, at: int, least: int) -> memoryview:
        """Return the bytes from ``at`` on that lie together, if there are any.

        They are joined until there are ``least`` of them.
        """
        parts: list[memoryview] = []
        have = 0
        while at < self.length and (have < least or not have):
            end = self.run_end(at)
            if end <= at:
                break
            place = self.place(at)
            parts.append(self.segments.buffer[place : place + end - at])
            have += end - at
            at = end
        if len(parts) == 1:
            return parts[0]
        return memoryview(b"".join(parts))

    def runs(self, begin: int, end: int) -> list[tuple[int, list[memoryview]]]:
        """List the bytes from position ``begin`` to ``end``, not past the last, that are there.

        Those that lie together are one run, given in pieces and with its position.
        """
        runs: list[tuple[int, list[memoryview]]] = []
        reached = -1
        at = begin
        while at < end:
            stop = min(self.run_end(at), end)
            if stop > at:
                if at != reached:
                    runs.append((at, []))
                place = self.place(at)
                runs[-1][1].append(self.segments.buffer[place : place + stop - at])
                reached = stop
            at = self._at + self.segments.lengths[self._index]
        return runs


_Piece: TypeAlias = "memoryview | Spread"
_Run: TypeAlias = "tuple[int, list[memoryview]]"
"""Bytes that lie together, in pieces, and the frame position of the first of them."""


class Frame:
    """One frame: its place, its times, and those of its bytes that are there.

    Attributes:
        size: the declared size in bytes, 0 and up; the frame has 4 bytes more.
        stream_offset: of the first byte of the size prefix.
        start_time_ns, start_packet: of the packet with the first byte.
        end_time_ns, end_packet: of the packet with the last byte; None where that one was lost.
        missing_bytes: bytes that the capture does not hold: lost, or cut by a snap length.
        lost_bytes: those of them that were lost.
        held_bytes: bytes that are there.
        is_together: all bytes are there and lie together, in ``data``.

    It is a :class:`~kanalyze.protocol.wire.Source`. Its bytes live as long as the buffers they
    came in; :meth:`detach` makes them its own.
    """

    __slots__ = (
        "_at",
        "_begin",
        "_owned",
        "_pieces",
        "_segments",
        "_skim_above",
        "_window_bytes",
        "data",
        "end_packet",
        "end_time_ns",
        "held_bytes",
        "is_together",
        "lost_bytes",
        "missing_bytes",
        "size",
        "start_packet",
        "start_time_ns",
        "stream_offset",
    )

    data: memoryview
    _at: list[int]
    _pieces: list[_Piece]

    def __init__(self, size: int, stream_offset: int, time_ns: int, packet: int) -> None:
        """Begin a frame with a packet; its bytes are added later."""
        self._begin_at(size, stream_offset, time_ns, packet)
        self._at, self._pieces = [], []

    def _begin_at(self, size: int, stream_offset: int, time_ns: int, packet: int) -> None:
        self.size = size
        self.stream_offset = stream_offset
        self.start_time_ns = time_ns
        self.start_packet = packet
        self.lost_bytes = self.missing_bytes = self.held_bytes = 0
        self._owned = 0
        self._skim_above = _SKIMMED_BYTES
        self._window_bytes = _FIRST_WINDOW_BYTES
        self.end_time_ns: int | None = None
        self.end_packet: int | None = None
        self.is_together = False
        self._segments: Segments | None = None
        self._begin = 0

    @property
    def length(self) -> int:
        """Bytes of the frame with its size prefix."""
        return self.size + 4

    @property
    def received(self) -> int:
        """Frame position after the last byte that came, those before it there or not."""
        self._take_apart()
        if not self._at:
            return 0
        piece = self._pieces[-1]
        return self._at[-1] + (piece.reach if isinstance(piece, Spread) else len(piece))

    @property
    def window_bytes(self) -> int:
        """How much :meth:`window` joins at most, where it lies in pieces."""
        return self._window_bytes

    @property
    def is_worth_skimming(self) -> bool:
        """Whether so much is held that it pays to see what of it is needed."""
        return self.held_bytes > self._skim_above

    def keep_only(self, ranges: list[tuple[int, int]], until: int) -> None:
        """Let go of all bytes before frame position ``until`` that are in none of ``ranges``.

        ``ranges`` rise and do not overlap.
        """
        self._take_apart()
        kept: list[_Run] = []
        ranges = [(begin, min(end, until)) for begin, end in ranges if begin < until]
        ranges.append((until, self.length))
        index = 0
        for at, piece in zip(self._at, self._pieces, strict=True):
            end = at + len(piece)
            while index < len(ranges) and ranges[index][1] <= at:
                index += 1
            here = index
            while here < len(ranges) and ranges[here][0] < end:
                begin, stop = max(at, ranges[here][0]), min(end, ranges[here][1])
                if begin < stop:
                    kept += _runs(at, piece, begin, stop)
                here += 1
        # Copies: a part of a piece would keep all of it.
        self._at, self._pieces = _copied(kept)
        self._owned = len(self._at)
        self.held_bytes = sum(map(len, self._pieces))
        # What could not be let go is not looked at again until there is twice as much.
        self._skim_above = max(_SKIMMED_BYTES, 2 * self.held_bytes)

    def drop_after(self, at: int) -> int:
        """Let go of all bytes from frame position ``at`` on, as if they were lost; return how many.

        For when memory is short: what they say is not known any more.
        """
        before = self.held_bytes
        self.keep_only([(0, at)], self.received)
        dropped = before - self.held_bytes
        self.missing_bytes += dropped
        self.lost_bytes += dropped
        return dropped

    def whole(self) -> memoryview | None:
        """Return the frame's bytes when they lie together and are all there, else None."""
        if self._segments is not None:
            return self._segments.view(self._begin, self._begin + self.size + 4)
        if len(self._pieces) == 1:
            piece = self._pieces[0]
            if not isinstance(piece, Spread) and len(piece) == self.size + 4:
                return piece
        return None

    def add(self, at: int, piece: memoryview) -> None:
        """Add bytes at frame position ``at``; positions rise."""
        self._at.append(at)
        self._pieces.append(piece)
        self.held_bytes += len(piece)

    def add_spread(self, at: int, spread: Spread) -> None:
        """Add bytes in segments at frame position ``at``; positions rise."""
        self._at.append(at)
        self._pieces.append(spread)
        self.held_bytes += spread.held_bytes

    def narrow(self, most_bytes: int) -> None:
        """Let :meth:`window` join no more than so much."""
        self._window_bytes = most_bytes

    def window(self, at: int) -> memoryview:
        """Return the bytes from ``at`` on that lie together (see ``wire.Source``).

        Pieces are joined only as far as needed: most of a large frame is record data that nobody
        reads.
        """
        return self._join(at, self._window_bytes)

    def read(self, at: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes from ``at`` on (see ``wire.Source``)."""
        if at + length > self.size + 4:
            raise Truncated(f"{length} bytes at {at} of a frame of {self.size + 4}")
        found = self._join(at, length)
        if len(found) < length:
            raise MissingBytes(f"bytes {at + len(found)} and on of the frame are not there")
        return found[:length]

    def part(self, at: int) -> memoryview:
        """Return the bytes from ``at`` on that lie together as they came: none are joined.

        Raises as :meth:`window` does.
        """
        if self.is_together and 0 <= at <= self.size + 4:
            return self.data[at:]
        index = self._piece_of(at)
        if index < 0:
            return _NO_BYTES
        piece, begin = self._pieces[index], at - self._at[index]
        if isinstance(piece, Spread):
            spread = piece
            end = spread.run_end(begin)
            if end <= begin or begin >= spread.length:
                raise MissingBytes(f"byte {at} of the frame is not there")
            place = spread.place(begin)
            return spread.segments.data[place : place + end - begin]
        if begin >= len(piece):
            raise MissingBytes(f"byte {at} of the frame is not there")
        return piece[begin:]

    def detach(self) -> None:
        """Copy what the frame holds, so that it outlives the buffers it came in.

        What was copied before is not again: a frame may come in very many batches.
        """
        self._take_apart()
        owned = self._owned
        if owned == len(self._at):
            return
        new = zip(self._at[owned:], self._pieces[owned:], strict=True)
        runs = [run for at, piece in new for run in _runs(at, piece, at, at + len(piece))]
        self._at[owned:], self._pieces[owned:] = _copied(runs)
        self._owned = len(self._at)

    def _take_apart(self) -> None:
        """Hold the bytes of a frame that lies together as one piece."""
        whole = self.whole()
        if self._segments is not None and whole is not None:
            self._at, self._pieces = [0], [whole]
            self._segments = None
            self.is_together = False
            self.data = _NO_BYTES

    def _piece_of(self, at: int) -> int:
        """Return the number of the piece with a position; -1 for the end of the frame."""
        end = self.size + 4
        if at >= end:
            if at == end:
                return -1
            raise Truncated(f"position {at} of a frame of {end} bytes")
        index = bisect_right(self._at, at) - 1
        if index < 0:
            raise MissingBytes(f"byte {at} of the frame is not there")
        return index

    def _join(self, at: int, least: int) -> memoryview:
        if self._segments is not None and 0 <= at <= self.size + 4:
            return self._segments.view(self._begin + at, self._begin + self.size + 4)
        index = self._piece_of(at)
        if index < 0:
            return memoryview(b"")
        found = _view(self._pieces[index], at - self._at[index], least)
        if not found:
            raise MissingBytes(f"byte {at} of the frame is not there")
        if len(found) >= least or at + len(found) >= self.size + 4:
            return found
        return self._join_on(index, at, found, least)

    def _join_on(self, index: int, at: int, found: memoryview, least: int) -> memoryview:
        parts = [found]
        have = len(found)
        for follower in range(index + 1, len(self._pieces)):
            if have >= least or self._at[follower] != at + have:
                break
            found = _view(self._pieces[follower], 0, least - have)
            parts.append(found)
            have += len(found)
        return memoryview(b"".join(parts)) if len(parts) > 1 else found


def frame_in_segment(
    segments: Segments,
    index: int,
    used: int,
    size: int,
    stream_offset: int,
) -> Frame:
    """Make a frame that begins at byte ``used`` of a segment and ends within it.

    What of it was captured, its size prefix at least, is there.
    """
    frame = Frame.__new__(Frame)
    time_ns, packet = segments.times[index], segments.packets[index]
    frame._begin_at(size, stream_offset, time_ns, packet)
    frame.end_time_ns, frame.end_packet = time_ns, packet
    begin = segments.starts[index] + used
    frame.held_bytes = min(segments.captureds[index] - used, size + 4)
    if frame.held_bytes == size + 4:
        frame.is_together = True
        frame.data = segments.data[begin : begin + size + 4]
        frame._segments, frame._begin = segments, begin
        return frame
    frame.missing_bytes = size + 4 - frame.held_bytes
    frame._at, frame._pieces = [0], [segments.buffer[begin : begin + frame.held_bytes]]
    return frame


_NO_BYTES = memoryview(b"")


def _view(piece: _Piece, at: int, least: int) -> memoryview:
    """Return bytes of a piece from ``at`` on, ``least`` of them if there are as many."""
    return piece.view(at, least) if isinstance(piece, Spread) else piece[at:]


def _runs(at: int, piece: _Piece, begin: int, end: int) -> list[_Run]:
    """List what is there of a piece at ``at`` from frame position ``begin`` to ``end``."""
    if isinstance(piece, Spread):
        return [(at + place, views) for place, views in piece.runs(begin - at, end - at)]
    return [(begin, [piece[begin - at : end - at]])]


def _copied(runs: Iterable[_Run]) -> tuple[list[int], list[_Piece]]:
    """Copy runs, which rise; those that lie together become one piece."""
    starts: list[int] = []
    together: list[list[memoryview]] = []
    reached = -1
    for at, views in runs:
        if at != reached:
            starts.append(at)
            together.append([])
        together[-1] += views
        reached = at + sum(map(len, views))
    return starts, [memoryview(b"".join(views)) for views in together]
