"""Bytes of one frame that do not lie in one segment: spans of segments, and lists of pieces.

In: bytes at positions of a frame. Out: those bytes again, joined as far as a reader needs.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.saved import Saved
from kanalyze.kafka.wire import MissingBytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.model.streams import Segments

__all__ = ["FramePieces", "SegmentSpan", "spread_of"]


class SegmentSpan:
    """Consecutive bytes of a stream in segments of a batch; some may not have been captured.

    Positions count from its first byte.

    Attributes:
        length: bytes on the wire.
        buffered_bytes: those of them that were captured.
        segments: where they are.
    """

    def __init__(self, segments: Segments, first: int, skip: int, length: int) -> None:
        """Take ``length`` bytes, at least one, from byte ``skip`` of the segment ``first`` on."""
        self._begin(segments, first, skip, length)

    def _begin(self, segments: Segments, first: int, skip: int, length: int) -> None:
        self.segments = segments
        self._first = self._index = first
        self._skip = skip
        self._at = -skip
        self.length = length
        self.buffered_bytes = 0
        self._last = first
        self._measure()

    def _measure(self) -> None:
        """Find how much was captured, and the segment after the last."""
        segments, length = self.segments, self.length
        at, index, buffered = -self._skip, self._first, 0
        while at < length:
            begin, end = max(at, 0), min(at + segments.captureds[index], length)
            if end > begin:
                buffered += end - begin
            at += segments.lengths[index]
            index += 1
        self.buffered_bytes = buffered
        self._last = index

    def __len__(self) -> int:
        return self.length

    @property
    def reach(self) -> int:
        """Position after the last byte that was captured; 0 if none was."""
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

    def contiguous_end(self, at: int) -> int:
        """Go to the segment with position ``at``; return the position after its captured bytes.

        The result is not above ``at`` if the byte there was not captured. It is fast if positions
        rise from call to call.
        """
        if at < self._at:
            self._index, self._at = self._first, -self._skip
        lengths = self.segments.lengths
        while self._at + lengths[self._index] <= at and self._index + 1 < self._last:
            self._at += lengths[self._index]
            self._index += 1
        return min(self._at + self.segments.captureds[self._index], self.length)

    def buffer_index(self, at: int) -> int:
        """Return the buffer index of the position for which :meth:`contiguous_end` was called."""
        return self.segments.starts[self._index] + at - self._at

    def view(self, at: int, least: int) -> memoryview:
        """Return the contiguous bytes from ``at`` on; empty if the byte there was not captured.

        Segments are joined until the result has ``least`` bytes.
        """
        parts: list[memoryview] = []
        have = 0
        while at < self.length and (have < least or not have):
            end = self.contiguous_end(at)
            if end <= at:
                break
            start = self.buffer_index(at)
            parts.append(self.segments.buffer[start : start + end - at])
            have += end - at
            at = end
        if len(parts) == 1:
            return parts[0]
        return memoryview(b"".join(parts))

    def contiguous_runs(self, begin: int, end: int) -> list[tuple[int, list[memoryview]]]:
        """List the captured bytes from position ``begin`` to ``end``, which is not past the last.

        Contiguous bytes are one run: its position, and its bytes in pieces.
        """
        runs: list[tuple[int, list[memoryview]]] = []
        reached = -1
        at = begin
        while at < end:
            stop = min(self.contiguous_end(at), end)
            if stop > at:
                if at != reached:
                    runs.append((at, []))
                start = self.buffer_index(at)
                runs[-1][1].append(self.segments.buffer[start : start + stop - at])
                reached = stop
            at = self._at + self.segments.lengths[self._index]
        return runs


def spread_of(segments: Segments, first: int, skip: int, length: int) -> SegmentSpan:
    """Make a :class:`SegmentSpan`; fast from compiled modules."""
    spread = SegmentSpan.__new__(SegmentSpan)
    spread._begin(segments, first, skip, length)
    return spread


_FramePiece: TypeAlias = "memoryview | SegmentSpan"
_PieceRun: TypeAlias = "tuple[int, list[memoryview]]"
"""The frame position of the first of contiguous bytes, and the bytes in pieces."""


class FramePieces:
    """The buffered bytes of a frame, as pieces at rising frame positions."""

    _NOT_SAVED = ("_owned",)
    _SAVED = Saved("_at:list[count] _pieces:list[memoryview]")

    def __init__(self) -> None:
        self._at: list[int] = []
        self._pieces: list[_FramePiece] = []
        self._owned = 0
        """How many pieces, from the first on, are copies."""

    def _before_save(self) -> None:
        self.detach()

    def _after_load(self) -> None:
        reached = 0
        for at, piece in zip(self._at, self._pieces, strict=True):
            if at < reached or not len(piece):
                raise ValueError("bytes of a frame that overlap")
            reached = at + len(piece)
        self._owned = len(self._at)

    def end(self) -> int:
        """Return the position after the last buffered byte; 0 if there is none."""
        if not self._at:
            return 0
        piece = self._pieces[-1]
        return self._at[-1] + (piece.reach if isinstance(piece, SegmentSpan) else len(piece))

    def buffered_bytes(self) -> int:
        """Return how many bytes are buffered."""
        return sum(
            piece.buffered_bytes if isinstance(piece, SegmentSpan) else len(piece)
            for piece in self._pieces
        )

    def add(self, at: int, piece: _FramePiece) -> None:
        """Add bytes at frame position ``at``; positions rise."""
        self._at.append(at)
        self._pieces.append(piece)

    def only_piece(self) -> memoryview | None:
        """Return the piece if there is only one and it is no span; otherwise None."""
        if len(self._pieces) != 1 or isinstance(self._pieces[0], SegmentSpan):
            return None
        return self._pieces[0]

    def keep_only(self, ranges: list[tuple[int, int]]) -> None:
        """Drop the bytes that are in none of ``ranges``, which rise and do not overlap."""
        runs: list[_PieceRun] = []
        index = 0
        for at, piece in zip(self._at, self._pieces, strict=True):
            end = at + len(piece)
            while index < len(ranges) and ranges[index][1] <= at:
                index += 1
            range_index = index
            while range_index < len(ranges) and ranges[range_index][0] < end:
                begin, stop = max(at, ranges[range_index][0]), min(end, ranges[range_index][1])
                if begin < stop:
                    runs += _runs(at, piece, begin, stop)
                range_index += 1
        # Copies: a part of a piece would keep all of it.
        self._at, self._pieces = _copied(runs)
        self._owned = len(self._at)

    def detach(self) -> None:
        """Copy the pieces, so that they outlive the buffers they came in.

        What was copied before is not copied again: a frame may come in very many batches.
        """
        owned = self._owned
        if owned == len(self._at):
            return
        new = zip(self._at[owned:], self._pieces[owned:], strict=True)
        runs = [run for at, piece in new for run in _runs(at, piece, at, at + len(piece))]
        self._at[owned:], self._pieces[owned:] = _copied(runs)
        self._owned = len(self._at)

    def contiguous(self, at: int) -> memoryview:
        """Return the bytes from ``at`` on that are contiguous in one buffer: none are joined.

        Raises MissingBytes if the byte at ``at`` is not there.
        """
        index = self._index_of(at)
        piece, begin = self._pieces[index], at - self._at[index]
        if isinstance(piece, SegmentSpan):
            spread = piece
            end = spread.contiguous_end(begin)
            if end <= begin or begin >= spread.length:
                raise MissingBytes(f"byte {at} of the frame is not there")
            start = spread.buffer_index(begin)
            return spread.segments.data[start : start + end - begin]
        if begin >= len(piece):
            raise MissingBytes(f"byte {at} of the frame is not there")
        return piece[begin:]

    def join(self, at: int, least: int) -> memoryview:
        """Return the contiguous bytes from ``at`` on, at least ``least`` if there are as many.

        Raises MissingBytes if the byte at ``at`` is not there.
        """
        index = self._index_of(at)
        view = _view(self._pieces[index], at - self._at[index], least)
        if not view:
            raise MissingBytes(f"byte {at} of the frame is not there")
        have = len(view)
        parts = [view]
        for follower in range(index + 1, len(self._pieces)):
            if have >= least or self._at[follower] != at + have:
                break
            view = _view(self._pieces[follower], 0, least - have)
            parts.append(view)
            have += len(view)
        return memoryview(b"".join(parts)) if len(parts) > 1 else view

    def views(self, begin: int, end: int) -> list[memoryview]:
        """Return the bytes from frame position ``begin`` on, as far as they are there, in pieces.

        They end before ``end``, or where the first byte is missing.
        """
        views: list[memoryview] = []
        index = bisect_right(self._at, begin) - 1
        while 0 <= index < len(self._at) and begin < end:
            at, piece = self._at[index], self._pieces[index]
            stop = min(at + len(piece), end)
            if not at <= begin < stop:
                break
            # Only the first run can be contiguous with what came before.
            for start, parts in _runs(at, piece, begin, stop)[:1]:
                if start == begin:
                    views += parts
                    begin += sum(map(len, parts))
            if begin < stop:
                break
            index += 1
        return views

    def _index_of(self, at: int) -> int:
        """Return the number of the last piece that begins at a position or before."""
        index = bisect_right(self._at, at) - 1
        if index < 0:
            raise MissingBytes(f"byte {at} of the frame is not there")
        return index


def _view(piece: _FramePiece, at: int, least: int) -> memoryview:
    """Return the bytes of a piece from ``at`` on, at least ``least`` if there are as many."""
    return piece.view(at, least) if isinstance(piece, SegmentSpan) else piece[at:]


def _runs(at: int, piece: _FramePiece, begin: int, end: int) -> list[_PieceRun]:
    """List the captured bytes of a piece at ``at`` from frame position ``begin`` to ``end``."""
    if isinstance(piece, SegmentSpan):
        runs = piece.contiguous_runs(begin - at, end - at)
        return [(at + start, views) for start, views in runs]
    return [(begin, [piece[begin - at : end - at]])]


def _copied(runs: Iterable[_PieceRun]) -> tuple[list[int], list[_FramePiece]]:
    """Copy runs, whose positions rise; runs that touch become one piece."""
    starts: list[int] = []
    joined_views: list[list[memoryview]] = []
    reached = -1
    for at, views in runs:
        if at != reached:
            starts.append(at)
            joined_views.append([])
        joined_views[-1] += views
        reached = at + sum(map(len, views))
    return starts, [memoryview(b"".join(views)) for views in joined_views]
