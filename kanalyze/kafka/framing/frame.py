"""One frame of a Kafka connection: its place, its times, and those of its bytes that are there.

In: bytes at frame positions, alone or spread over many segments. Out: a
:class:`~kanalyze.kafka.wire.Source`. This module must not know how a stream is cut into frames,
nor what is inside one.

Nothing is joined or copied before it is read: most of a large frame is record data that nobody
looks at.

Compiled by Cython, with the types in ``frame.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.wire import MissingBytes, Truncated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.common.plain_values import State
    from kanalyze.model.segments import Segments

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    NO_PACKET = -1  # in place of a packet's number, where there is none

__all__ = ["Frame", "SegmentSpan", "frame_begun", "frame_in_segment", "spread_of"]

_FIRST_WINDOW_BYTES = 2048
_SKIMMED_BYTES = 64 * 1024


class SegmentSpan:
    """Consecutive bytes of a stream in segments of a batch, some of them not captured maybe.

    Positions count from its first byte.

    Attributes:
        length: bytes on the wire.
        buffered_bytes: those of them that were captured.
        segments: where they are.
    """

    __slots__ = (
        "_at",
        "_first",
        "_index",
        "_last",
        "_skip",
        "buffered_bytes",
        "length",
        "segments",
    )

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
        at, index, held = -self._skip, self._first, 0
        while at < length:
            begin, end = max(at, 0), min(at + segments.captureds[index], length)
            if end > begin:
                held += end - begin
            at += segments.lengths[index]
            index += 1
        self.buffered_bytes = held
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


_FramePiece: TypeAlias = "memoryview | SegmentSpan"
_PieceRun: TypeAlias = "tuple[int, list[memoryview]]"
"""Bytes that lie together, in pieces, and the frame position of the first of them."""


class Frame:
    """One frame: its place, its times, and those of its bytes that are there.

    Attributes:
        length: bytes with the 4-byte size prefix.
        stream_offset: of the first byte of the size prefix.
        start_time_ns, start_packet: of the packet with the first byte.
        last_time_ns, last_packet: of the packet with the last byte; where that one was lost,
            ``last_packet`` is ``NO_PACKET``. As objects they are ``end_time_ns``, ``end_packet``.
        missing_bytes: bytes that the capture does not hold: lost, or cut by a snap length.
        lost_bytes: those of them that were lost.
        buffered_bytes: bytes that are there.
        contiguous_bytes: how many bytes, from the first on, are in the buffer of ``segments`` from
            index ``begin`` on; 0 where the frame has its bytes in another form.
        spread: the bytes that are there, from the first on, where they came in segments of one
            batch and are not all together.

    It is a :class:`~kanalyze.kafka.wire.Source`. Its bytes live as long as the buffers they
    came in; :meth:`detach` makes them its own.
    """

    __slots__ = (
        "_at",
        "_owned",
        "_pieces",
        "_skim_above",
        "_window_bytes",
        "begin",
        "buffered_bytes",
        "contiguous_bytes",
        "last_packet",
        "last_time_ns",
        "length",
        "lost_bytes",
        "missing_bytes",
        "segments",
        "spread",
        "start_packet",
        "start_time_ns",
        "stream_offset",
    )
    _LEFT_OUT = ("_owned", "begin", "buffered_bytes", "segments", "spread", "contiguous_bytes")

    _at: list[int]
    _pieces: list[_FramePiece]

    def __init__(self, size: int, stream_offset: int, time_ns: int, packet: int) -> None:
        """Begin a frame with a packet; its bytes are added later."""
        self._begin_at(size + 4, stream_offset, time_ns, packet)

    def _begin_at(self, length: int, stream_offset: int, time_ns: int, packet: int) -> None:
        self.length = length
        self.stream_offset = stream_offset
        self.start_time_ns = time_ns
        self.start_packet = packet
        self.last_time_ns = 0
        self.last_packet = NO_PACKET
        self.lost_bytes = self.missing_bytes = self.buffered_bytes = 0
        self._owned = 0
        self._skim_above = _SKIMMED_BYTES
        self._window_bytes = _FIRST_WINDOW_BYTES
        self.segments: Segments | None = None
        self.begin = self.contiguous_bytes = 0
        self.spread: SegmentSpan | None = None
        self._at, self._pieces = _NO_PLACES, _NO_PIECES

    def state(self) -> State:
        """Return what :meth:`from_state` takes; the bytes become the frame's own."""
        self.detach()
        is_ended = self.last_packet != NO_PACKET
        return (
            *(self.length - 4, self.stream_offset, self.start_time_ns, self.start_packet),
            *((self.last_time_ns, self.last_packet) if is_ended else (None, None)),
            *(self.missing_bytes, self.lost_bytes),
            *(self._skim_above, self._window_bytes),
            tuple(self._at),
            tuple([bytes(piece) for piece in self._pieces]),  # type: ignore[arg-type]
        )

    @classmethod
    def from_state(cls, state: object) -> Frame:
        """Make one from a state; raises ValueError where that is none."""
        values = fields(state, "nninINnnnntt")
        made = cls(*values[:4])
        end_time_ns, end_packet, made.missing_bytes, made.lost_bytes = values[4:8]
        if (end_time_ns is None) != (end_packet is None):
            raise ValueError("half an end of a frame")
        if end_packet is not None:
            made.end_with(end_time_ns, end_packet)
        made._skim_above, made._window_bytes = values[8:10]
        reached = 0
        for at, piece in zip(items(values[10], "n"), items(values[11], "y"), strict=True):
            if at < reached or not piece:
                raise ValueError("bytes of a frame that overlap")
            reached = at + len(piece)
            made.add(at, memoryview(piece))
        if made.length - 4 >> 31 or reached > made.length or made.lost_bytes > made.missing_bytes:
            raise ValueError("bytes behind the end of a frame")
        made._owned = len(made._at)
        return made

    @property
    def size(self) -> int:
        """The declared size in bytes, 0 and up; the frame has 4 bytes more."""
        return self.length - 4

    @property
    def end_time_ns(self) -> int | None:
        """Time of the packet with the last byte; None where that one was lost."""
        return None if self.last_packet == NO_PACKET else self.last_time_ns

    @property
    def end_packet(self) -> int | None:
        """Number of the packet with the last byte; None where that one was lost."""
        return None if self.last_packet == NO_PACKET else self.last_packet

    def end_with(self, time_ns: int, packet: int) -> None:
        """Note the packet with the last byte."""
        self.last_time_ns = time_ns
        self.last_packet = packet

    def completion_packet(self) -> int:
        """Return the packet it ended with; the one it began with where its end was lost."""
        return self.start_packet if self.last_packet == NO_PACKET else self.last_packet

    @property
    def received(self) -> int:
        """Frame position after the last byte that came, those before it there or not."""
        self._take_apart()
        if not self._at:
            return 0
        piece = self._pieces[-1]
        return self._at[-1] + (piece.reach if isinstance(piece, SegmentSpan) else len(piece))

    @property
    def window_bytes(self) -> int:
        """How much :meth:`window` joins at most, where it lies in pieces."""
        return self._window_bytes

    @property
    def is_worth_skimming(self) -> bool:
        """Whether so much is held that it pays to see what of it is needed."""
        return self.buffered_bytes > self._skim_above

    def keep_only(self, ranges: list[tuple[int, int]], until: int) -> None:
        """Let go of all bytes before frame position ``until`` that are in none of ``ranges``.

        ``ranges`` rise and do not overlap.
        """
        self._take_apart()
        kept: list[_PieceRun] = []
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
        self.buffered_bytes = sum(map(len, self._pieces))
        # What could not be let go is not looked at again until there is twice as much.
        self._skim_above = max(_SKIMMED_BYTES, 2 * self.buffered_bytes)

    def drop_after(self, at: int) -> int:
        """Let go of all bytes from frame position ``at`` on, as if they were lost; return how many.

        For when memory is short: what they say is not known any more.
        """
        before = self.buffered_bytes
        self.keep_only([(0, at)], self.received)
        dropped = before - self.buffered_bytes
        self.missing_bytes += dropped
        self.lost_bytes += dropped
        return dropped

    def whole(self) -> memoryview | None:
        """Return the frame's bytes when they lie together and are all there, else None."""
        if self.segments is not None:
            if self.contiguous_bytes < self.length:
                return None
            return self.segments.view(self.begin, self.begin + self.length)
        if len(self._pieces) == 1:
            piece = self._pieces[0]
            if not isinstance(piece, SegmentSpan) and len(piece) == self.length:
                return piece
        return None

    def add(self, at: int, piece: memoryview) -> None:
        """Add bytes at frame position ``at``; positions rise."""
        self._take_apart()
        self._at.append(at)
        self._pieces.append(piece)
        self.buffered_bytes += len(piece)

    def add_spread(self, at: int, spread: SegmentSpan) -> None:
        """Add bytes in segments at frame position ``at``; positions rise."""
        self.buffered_bytes += spread.buffered_bytes
        if at == 0:
            self._begin_spread(spread)
            return
        self._take_apart()
        self._at.append(at)
        self._pieces.append(spread)

    def _begin_spread(self, spread: SegmentSpan) -> None:
        """Hold what is all that has come, from the first byte on."""
        self.spread = spread
        self.segments = spread.segments
        self.contiguous_bytes = max(spread.run_end(0), 0)
        self.begin = spread.place(0)

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
        if at + length > self.length:
            raise Truncated(f"{length} bytes at {at} of a frame of {self.length}")
        found = self._join(at, length)
        if len(found) < length:
            raise MissingBytes(f"bytes {at + len(found)} and on of the frame are not there")
        return found[:length]

    def part(self, at: int) -> memoryview:
        """Return the bytes from ``at`` on that are contiguous as they came: none are joined.

        Raises as :meth:`window` does. The decoder reads contiguous bytes, and those of ``spread``,
        without this: a view takes longer to make than most bodies to read.
        """
        self._take_apart()
        index = self._piece_of(at)
        if index < 0:
            return _NO_BYTES
        piece, begin = self._pieces[index], at - self._at[index]
        if isinstance(piece, SegmentSpan):
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
        """Hold the bytes in pieces."""
        if self.spread is not None:
            self._at, self._pieces = [0], [self.spread]
        elif self.segments is not None:
            piece = self.segments.view(self.begin, self.begin + self.contiguous_bytes)
            self._at, self._pieces = [0], [piece]
        elif self._at is _NO_PLACES:
            self._at, self._pieces = [], []
        self.spread = self.segments = None
        self.contiguous_bytes = 0

    def _piece_of(self, at: int) -> int:
        """Return the number of the piece with a position; -1 for the end of the frame."""
        end = self.length
        if at >= end:
            if at == end:
                return -1
            raise Truncated(f"position {at} of a frame of {end} bytes")
        index = bisect_right(self._at, at) - 1
        if index < 0:
            raise MissingBytes(f"byte {at} of the frame is not there")
        return index

    def _join(self, at: int, least: int) -> memoryview:
        if (
            self.segments is not None
            and self.contiguous_bytes == self.length
            and 0 <= at <= self.length
        ):
            return self.segments.view(self.begin + at, self.begin + self.length)
        self._take_apart()
        index = self._piece_of(at)
        if index < 0:
            return memoryview(b"")
        found = _view(self._pieces[index], at - self._at[index], least)
        if not found:
            raise MissingBytes(f"byte {at} of the frame is not there")
        if len(found) >= least or at + len(found) >= self.length:
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


def frame_begun(length: int, stream_offset: int, time_ns: int, packet: int) -> Frame:
    """Make what :class:`Frame` does, of ``length`` bytes in all, faster from compiled modules."""
    frame = Frame.__new__(Frame)
    frame._begin_at(length, stream_offset, time_ns, packet)
    return frame


def spread_of(segments: Segments, first: int, skip: int, length: int) -> SegmentSpan:
    """Make what :class:`SegmentSpan` does, faster from compiled modules."""
    spread = SegmentSpan.__new__(SegmentSpan)
    spread._begin(segments, first, skip, length)
    return spread


def frame_in_segment(
    segments: Segments,
    index: int,
    used: int,
    length: int,
    stream_offset: int,
) -> Frame:
    """Make a frame of ``length`` bytes that begins at byte ``used`` of a segment and ends in it.

    What of it was captured, its size prefix at least, is there.
    """
    frame = Frame.__new__(Frame)
    time_ns, packet = segments.times[index], segments.packets[index]
    frame._begin_at(length, stream_offset, time_ns, packet)
    frame.last_time_ns, frame.last_packet = time_ns, packet
    frame.segments = segments
    frame.begin = segments.starts[index] + used
    frame.contiguous_bytes = min(segments.captureds[index] - used, length)
    frame.buffered_bytes = frame.contiguous_bytes
    frame.missing_bytes = length - frame.contiguous_bytes
    return frame


_NO_BYTES = memoryview(b"")
_NO_PLACES: list[int] = []
_NO_PIECES: list[_FramePiece] = []
"""Those of a frame that does not hold its bytes in pieces; nothing is ever added to them."""


def _view(piece: _FramePiece, at: int, least: int) -> memoryview:
    """Return bytes of a piece from ``at`` on, ``least`` of them if there are as many."""
    return piece.view(at, least) if isinstance(piece, SegmentSpan) else piece[at:]


def _runs(at: int, piece: _FramePiece, begin: int, end: int) -> list[_PieceRun]:
    """List what is there of a piece at ``at`` from frame position ``begin`` to ``end``."""
    if isinstance(piece, SegmentSpan):
        return [(at + place, views) for place, views in piece.runs(begin - at, end - at)]
    return [(begin, [piece[begin - at : end - at]])]


def _copied(runs: Iterable[_PieceRun]) -> tuple[list[int], list[_FramePiece]]:
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
