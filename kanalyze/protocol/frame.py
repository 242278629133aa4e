"""One frame of a Kafka connection: its place, its times, and those of its bytes that are there.

In: bytes at frame positions, alone or spread over many segments. Out: a
:class:`~kanalyze.protocol.wire.Source`. This module must not know how a stream is cut into frames,
nor what is inside one.

Nothing is joined or copied before it is read: most of a large frame is record data that nobody
looks at.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.protocol.wire import MissingBytes, Truncated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kanalyze.segments import Segments

__all__ = ["Frame", "Spread"]

_FIRST_WINDOW_BYTES = 2048
_SKIMMED_BYTES = 64 * 1024


class Spread:
    """Consecutive bytes of a stream in segments of a batch, some of them not captured maybe.

    Positions count from its first byte. Where all was captured no Python runs for a segment before
    it is read.

    Attributes:
        length: bytes on the wire.
        held_bytes: those of them that were captured.
    """

    __slots__ = (
        "_begin",
        "_end",
        "_first",
        "_high",
        "_is_whole",
        "_low",
        "_offsets",
        "_segments",
        "held_bytes",
        "length",
    )

    def __init__(
        self, segments: Segments, first: int, offsets: list[int], begin: int, end: int
    ) -> None:
        """Take the bytes from stream offset ``begin`` to ``end``, at least one.

        ``offsets`` are where segments begin in the stream, from index ``first`` on, and where the
        last of these ends.
        """
        self._segments = segments
        self._first = first
        self._offsets = offsets
        self._begin = begin
        self._end = end
        low = self._low = bisect_right(offsets, begin) - 1
        high = self._high = bisect_left(offsets, end)
        self.length = end - begin
        captured = sum(segments.captured[first + low : first + high])
        self._is_whole = captured == offsets[high] - offsets[low]
        if self._is_whole:
            self.held_bytes = self.length
        else:
            self.held_bytes = sum(len(view) for _, view in self._views(0, self.length))

    def __len__(self) -> int:
        return self.length

    @property
    def last_segment(self) -> int:
        """Index of the segment with the last byte."""
        return self._first + self._high - 1

    @property
    def reach(self) -> int:
        """Position after the last byte that was captured; 0 for none."""
        for index in range(self._high - 1, self._low - 1, -1):
            begin, view = self._view(index, self._begin)
            if view:
                return begin + len(view)
        return 0

    def view(self, at: int, least: int) -> memoryview:
        """Return the bytes from ``at`` on that lie together, if there are any.

        They are joined until there are ``least`` of them.
        """
        place = self._begin + at
        index = bisect_right(self._offsets, place, self._low, self._high) - 1
        at, found = self._view(index, place)
        have = len(found)
        if have >= least or not have:
            return found
        parts = [found]
        while have < least and index + 1 < self._high:
            index += 1
            begin, found = self._view(index, self._begin)
            if begin != at + have or not found:
                break
            parts.append(found)
            have += len(found)
        return memoryview(b"".join(parts)) if len(parts) > 1 else parts[0]

    def runs(self, begin: int, end: int) -> list[tuple[int, list[memoryview]]]:
        """List the bytes from position ``begin`` to ``end``, not past the last, that are there.

        Those that lie together are one run, given in pieces and with its position.
        """
        if self._is_whole:
            return [(begin, self._slices(begin, end))]
        runs: list[tuple[int, list[memoryview]]] = []
        reached = -1
        for at, view in self._views(begin, end):
            if at != reached:
                runs.append((at, []))
            runs[-1][1].append(view)
            reached = at + len(view)
        return runs

    def _slices(self, begin: int, end: int) -> list[memoryview]:
        """Cut out bytes of which none is missing."""
        segments, offsets, first = self._segments, self._offsets, self._first
        low = bisect_right(offsets, self._begin + begin, self._low, self._high) - 1
        high = bisect_left(offsets, self._begin + end, low + 1, self._high)
        buffer, here = segments.buffer, slice(first + low, first + high)
        places = zip(segments.start[here], segments.length[here], strict=True)
        views = [buffer[start : start + length] for start, length in places]
        views[-1] = views[-1][: self._begin + end - offsets[high - 1]]
        views[0] = views[0][self._begin + begin - offsets[low] :]
        return views

    def _views(self, begin: int, end: int) -> Iterator[tuple[int, memoryview]]:
        """Give what is there of each segment from position ``begin`` to ``end``, and where."""
        place = self._begin + begin
        first = bisect_right(self._offsets, place, self._low, self._high) - 1
        for index in range(first, self._high):
            at, view = self._view(index, place)
            if at >= end:
                return
            if view:
                yield at, view[: end - at]

    def _view(self, index: int, place: int) -> tuple[int, memoryview]:
        """Return what is there of a segment from stream offset ``place`` on, and its position."""
        segments, offset = self._segments, self._offsets[index]
        segment = self._first + index
        start = segments.start[segment]
        begin = max(place - offset, 0)
        end = max(min(segments.captured[segment], self._end - offset), begin)
        return offset + begin - self._begin, segments.buffer[start + begin : start + end]


_Piece: TypeAlias = memoryview | Spread
_Run: TypeAlias = tuple[int, list[memoryview]]
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

    It is a :class:`~kanalyze.protocol.wire.Source`. Its bytes live as long as the buffers they
    came in; :meth:`detach` makes them its own.
    """

    __slots__ = (
        "_at",
        "_owned",
        "_pieces",
        "_skim_above",
        "_window_bytes",
        "end_packet",
        "end_time_ns",
        "held_bytes",
        "lost_bytes",
        "missing_bytes",
        "size",
        "start_packet",
        "start_time_ns",
        "stream_offset",
    )

    def __init__(
        self,
        size: int,
        stream_offset: int,
        time_ns: int,
        packet: int,
        piece: memoryview | None = None,
    ) -> None:
        """Begin a frame with a packet.

        ``piece`` is what was captured of one that ends with that packet too; None: it goes on.
        """
        self.size = size
        self.stream_offset = stream_offset
        self.start_time_ns = time_ns
        self.start_packet = packet
        self.lost_bytes = 0
        self._owned = 0
        self._skim_above = _SKIMMED_BYTES
        self._window_bytes = _FIRST_WINDOW_BYTES
        self.end_time_ns: int | None
        self.end_packet: int | None
        self._at: list[int]
        self._pieces: list[_Piece]
        if piece is None:
            self.end_time_ns = self.end_packet = None
            self.missing_bytes = self.held_bytes = 0
            self._at, self._pieces = [], []
        else:
            self.end_time_ns, self.end_packet = time_ns, packet
            self.held_bytes = held = len(piece)
            self.missing_bytes = size + 4 - held
            self._at, self._pieces = [0], [piece]

    @property
    def length(self) -> int:
        """Bytes of the frame with its size prefix."""
        return self.size + 4

    @property
    def received(self) -> int:
        """Frame position after the last byte that came, those before it there or not."""
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
        pieces = self._pieces
        if len(pieces) == 1:
            piece = pieces[0]
            if not isinstance(piece, Spread) and len(piece) == self.size + 4:
                return piece
        return None

    def add(self, at: int, piece: memoryview) -> None:
        """Add bytes at frame position ``at``; positions rise."""
        self._at.append(at)
        self._pieces.append(piece)
        self.held_bytes += len(piece)

    def add_spread(self, at: int, spread: Spread) -> None:
        """Add bytes in many segments at frame position ``at``; positions rise."""
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

    def detach(self) -> None:
        """Copy what the frame holds, so that it outlives the buffers it came in.

        What was copied before is not again: a frame may come in very many batches.
        """
        owned = self._owned
        if owned == len(self._at):
            return
        new = zip(self._at[owned:], self._pieces[owned:], strict=True)
        runs = [run for at, piece in new for run in _runs(at, piece, at, at + len(piece))]
        self._at[owned:], self._pieces[owned:] = _copied(runs)
        self._owned = len(self._at)

    def _join(self, at: int, least: int) -> memoryview:
        end = self.size + 4
        if at >= end:
            if at == end:
                return memoryview(b"")
            raise Truncated(f"position {at} of a frame of {end} bytes")
        index = bisect_right(self._at, at) - 1
        if index < 0:
            raise MissingBytes(f"byte {at} of the frame is not there")
        found = _view(self._pieces[index], at - self._at[index], least)
        if not found:
            raise MissingBytes(f"byte {at} of the frame is not there")
        if len(found) >= least or at + len(found) >= end:
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
