"""Cuts one direction of a Kafka connection into its size-delimited frames.

In: :class:`~kanalyze.model.Chunk` and :class:`~kanalyze.model.Gap`, in stream order. Out:
:class:`Frame`. This module must not know what is inside a frame, which direction it cuts, or what
a packet is beyond the time and the number that its bytes carry.

A frame (``size int32``, then ``size`` bytes; the protocol document's "Layouts") is not joined:
it points into the segments that it came in. Bytes inside a frame that were lost leave a hole; the
frame's end is known all the same, so a lost segment in the middle of a produce request costs
nothing but the bytes themselves. Only a loss that takes a frame's boundary puts the cutter out of
sync; then it looks for the next one with the function it was given.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import TYPE_CHECKING

from kanalyze.model import Chunk, Gap, Segments
from kanalyze.protocol.wire import MissingBytes, Truncated

if TYPE_CHECKING:
    from kanalyze.model import StreamItem

__all__ = ["LARGEST_FRAME_BYTES", "Frame", "FrameCutter", "Locate"]

LARGEST_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's default for ``socket.request.max.bytes``; a larger size is taken for no frame at all."""

_SIZE = struct.Struct(">i").unpack_from
_FIRST_WINDOW_BYTES = 2048
_SKIMMED_BYTES = 64 * 1024
_KEPT_BYTES = 2048
"""Of a frame whose bytes are let go: its header, and the fields before its first array."""
_SEARCH_STEP_BYTES = 16 * 1024
_SMALL_SEARCH_BYTES = 1024
_NO_BYTES = 1 << 62
"""More than there ever are."""
_MOST_SMALL_FRAMES = 32


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

    def __init__(self, size: int, stream_offset: int, time_ns: int, packet: int) -> None:
        self.size = size
        self.stream_offset = stream_offset
        self.start_time_ns = time_ns
        self.start_packet = packet
        self.end_time_ns: int | None = None
        self.end_packet: int | None = None
        self.missing_bytes = 0
        self.lost_bytes = 0
        self.held_bytes = 0
        self._at: list[int] = []
        self._pieces: list[memoryview] = []
        self._owned = 0
        self._skim_above = _SKIMMED_BYTES
        self._window_bytes = _FIRST_WINDOW_BYTES

    @property
    def length(self) -> int:
        """Bytes of the frame with its size prefix."""
        return self.size + 4

    @property
    def received(self) -> int:
        """Frame position after the last byte that came, those before it there or not."""
        return self._at[-1] + len(self._pieces[-1]) if self._at else 0

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
        kept: list[tuple[int, memoryview]] = []
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
                    kept.append((begin, piece[begin - at : stop - at]))
                here += 1
        # Copies: a part of a piece would keep all of it.
        self._at = [at for at, _ in kept]
        self._pieces = [memoryview(bytes(piece)) for _, piece in kept]
        self._owned = len(kept)
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
        if len(self._pieces) == 1 and len(self._pieces[0]) == self.size + 4:
            return self._pieces[0]
        return None

    def add(self, at: int, piece: memoryview) -> None:
        """Add bytes at frame position ``at``; positions rise."""
        self._at.append(at)
        self._pieces.append(piece)
        self.held_bytes += len(piece)

    def widen(self) -> bool:
        """Let :meth:`window` join eight times as much; False when it joined all there was."""
        if self._window_bytes >= self.length:
            return False
        self._window_bytes *= 8
        return True

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
        pieces = self._pieces
        for index in range(self._owned, len(pieces)):
            pieces[index] = memoryview(bytes(pieces[index]))
        self._owned = len(pieces)

    def _join(self, at: int, least: int) -> memoryview:
        end = self.size + 4
        if at >= end:
            if at == end:
                return memoryview(b"")
            raise Truncated(f"position {at} of a frame of {end} bytes")
        index = bisect_right(self._at, at) - 1
        if index < 0:
            raise MissingBytes(f"byte {at} of the frame is not there")
        piece = self._pieces[index]
        inside = at - self._at[index]
        if inside >= len(piece):
            raise MissingBytes(f"byte {at} of the frame is not there")
        found = piece[inside:]
        if len(found) >= least or at + len(found) >= end:
            return found
        return self._join_on(index, found, least)

    def _join_on(self, index: int, found: memoryview, least: int) -> memoryview:
        parts = [found]
        have = len(found)
        expected = self._at[index] + len(self._pieces[index])
        for follower in range(index + 1, len(self._pieces)):
            if have >= least or self._at[follower] != expected:
                break
            piece = self._pieces[follower]
            parts.append(piece)
            have += len(piece)
            expected += len(piece)
        return memoryview(b"".join(parts)) if len(parts) > 1 else found


class Locate(ABC):
    """Finds the next frame boundary in bytes that begin anywhere."""

    @abstractmethod
    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a frame's first byte or None, index of the first byte to keep).

        Bytes before the second index are known to begin no frame; those after it are shown
        again, with what follows them.
        """

    def confirm(self, frame: Frame) -> bool:  # noqa: ARG002 - those who can tell look at it
        """Tell whether a frame that was found before its end was there is one, now that it is."""
        return True


class FrameCutter:
    """Cuts one direction of a connection into frames; a state machine without I/O.

    Feed it the items of the stream in order and :meth:`take` the frames. ``skipped_bytes`` counts
    what was passed over while out of sync; ``losses`` lists where sync was lost, as (stream
    offset, size or None, time_ns, packet), until they are taken with :meth:`take_losses`.
    """

    def __init__(
        self,
        locate: Locate,
        *,
        in_sync: bool = True,
        largest_bytes: int = LARGEST_FRAME_BYTES,
        smallest_bytes: int = 4,
    ) -> None:
        """Make a cutter.

        Args:
            locate: finds a boundary when sync is lost.
            in_sync: whether the stream's first byte begins a frame.
            largest_bytes: a declared size above it is no frame.
            smallest_bytes: a declared size below it is no message; 4 is a correlation id.
                A few smaller ones are let pass, because SASL tokens are framed alike and may be
                empty; a stream of zeros is not cut into frames for ever.
        """
        self._locate = locate
        self._largest = largest_bytes
        self._smallest = smallest_bytes
        self._small_left = _MOST_SMALL_FRAMES
        self._frames: list[Frame] = []
        self._losses: list[tuple[int, int | None, int, int]] = []
        self._search: _Search | None = None if in_sync else _Search()
        self._search_from = 0
        self._partial: Frame | None = None
        self._found_at = -1
        """Stream offset where the last search ended: a frame begins there, or seems to."""
        self._found_until = -1
        """Stream offset after the last byte that was there then."""
        self._remaining = 0
        self._prefix = b""
        self._prefix_frame: Frame | None = None
        self.skipped_bytes = 0

    @property
    def in_sync(self) -> bool:
        """Whether the cutter knows where the next frame begins."""
        return self._search is None

    @property
    def partial(self) -> Frame | None:
        """The frame that has begun and not ended, if its size is known."""
        return self._partial

    @property
    def held_bytes(self) -> int:
        """Bytes held of a frame that has not ended, and of a search."""
        partial = 0 if self._partial is None else self._partial.held_bytes
        return partial + (0 if self._search is None else self._search.size)

    def shed(self) -> tuple[int, int]:
        """Let go of what is held; return from which stream offset on, and how many bytes.

        Of a frame that has not ended the beginning stays, which tells whose it is.
        """
        if self._search is not None:
            offset, dropped = self._search.offset, self._search.clear()
            self.skipped_bytes += dropped
            return offset, dropped
        if self._partial is not None:
            offset = self._partial.stream_offset + _KEPT_BYTES
            return offset, self._partial.drop_after(_KEPT_BYTES)
        return 0, 0

    @property
    def partial_bytes(self) -> int:
        """How far the frame that has begun and not ended has come, holes in it included."""
        return 0 if self._partial is None else self._partial.length - self._remaining

    def take(self) -> list[Frame]:
        """Return the frames that ended since the last call, in stream order."""
        frames, self._frames = self._frames, []
        return frames

    def take_losses(self) -> list[tuple[int, int | None, int, int]]:
        """Return where sync was lost since the last call."""
        losses, self._losses = self._losses, []
        return losses

    def feed(self, items: list[StreamItem]) -> None:
        """Take in the next part of the stream."""
        for item in items:
            if isinstance(item, Gap):
                self._gap(item)
            else:
                self._work([item])

    def finish(self) -> None:
        """End the stream: look for frames in what a search still holds, and pass over the rest."""
        while self._search is not None:
            found = self._look(self._search)
            if not found:
                self.skipped_bytes += self._search.clear()
                return
            self._work(found)

    def settle(self) -> None:
        """Keep what an unfinished frame needs before the buffers are used again."""
        if self._partial is not None:
            self._partial.detach()

    # -- in sync ------------------------------------------------------------------------------

    def _work(self, chunks: list[Chunk]) -> None:
        """Take in chunks, the last of the list first.

        Where sync is lost and found again on the way, what was found goes before its rest.
        """
        while chunks:
            chunk = chunks.pop()
            if self._search is None:
                chunks += self._cut(chunk)
            else:
                chunks += self._search_in(self._search, chunk)

    def _cut(self, chunk: Chunk) -> list[Chunk]:
        """Cut a chunk in sync; return what is left where sync was lost, backwards."""
        segments = chunk.segments
        buffer, starts, lengths = segments.buffer, segments.start, segments.length
        captureds, times, packets = segments.captured, segments.time_ns, segments.packet
        stream_offset = chunk.stream_offset
        for index in range(chunk.first, chunk.last):
            length = lengths[index]
            if not self._segment(
                buffer,
                starts[index],
                length,
                captureds[index],
                times[index],
                packets[index],
                stream_offset,
            ):
                return _from(chunk, index, stream_offset, self._search_from)
            stream_offset += length
        return []

    def _segment(
        self,
        buffer: memoryview,
        start: int,
        length: int,
        captured: int,
        time_ns: int,
        packet: int,
        stream_offset: int,
    ) -> bool:
        """Cut one segment; False when sync was lost in it (``_search_from`` says where)."""
        used = 0
        partial = self._partial
        if partial is not None:
            used = self._continue(partial, buffer, start, length, captured, time_ns, packet)
            if self._search is not None:
                return False
        elif self._prefix_frame is not None:
            used = self._complete_prefix(buffer, start, length, captured, time_ns, packet)
            if used < 0 or self._search is not None:
                return False
        while used < length:
            if captured - used < 4:
                return self._begin_prefix(
                    buffer, start, used, length, captured, time_ns, packet, stream_offset
                )
            size = _SIZE(buffer, start + used)[0]
            if (size < self._smallest or size > self._largest) and not self._may_be_small(size):
                self._out_of_sync(stream_offset + used, size, time_ns, packet)
                return False
            frame = Frame(size, stream_offset + used, time_ns, packet)
            total = size + 4
            here = length - used
            held = captured - used
            if total <= here:
                frame.end_time_ns = time_ns
                frame.end_packet = packet
                if held >= total:
                    held = total
                else:
                    frame.missing_bytes = total - held
                self._frames.append(frame)
            else:
                frame.missing_bytes = here - held
                self._partial = frame
                self._remaining = total - here
            frame._at.append(0)
            frame._pieces.append(buffer[start + used : start + used + held])
            frame.held_bytes = held
            used += total
        return True

    def _may_be_small(self, size: int) -> bool:
        if not 0 <= size < self._smallest or self._small_left == 0:
            return False
        self._small_left -= 1
        return True

    def _continue(
        self,
        frame: Frame,
        buffer: memoryview,
        start: int,
        length: int,
        captured: int,
        time_ns: int,
        packet: int,
    ) -> int:
        remaining = self._remaining
        take = min(length, remaining)
        held = min(captured, take)
        if held:
            frame.add(frame.length - remaining, buffer[start : start + held])
        frame.missing_bytes += take - held
        self._remaining = remaining - take
        if take == remaining:
            self._finish(time_ns, packet)
        return take

    def _finish(self, time_ns: int | None, packet: int | None) -> None:
        frame, self._partial = self._partial, None
        if frame is None:
            return
        frame.end_time_ns = time_ns
        frame.end_packet = packet
        if self._is_to_be_confirmed(frame) and not self._locate.confirm(frame):
            self._refuse(frame)
        else:
            self._frames.append(frame)

    def _is_to_be_confirmed(self, frame: Frame) -> bool:
        """Tell whether a search ended with a frame that was not all there then."""
        begin = frame.stream_offset
        return begin == self._found_at and begin + frame.length > self._found_until

    def _refuse(self, frame: Frame) -> None:
        """Give up what seemed to be a frame when its search ended: search on after it."""
        self.skipped_bytes += frame.length - frame.missing_bytes
        if self._search is None:
            end = frame.stream_offset + frame.length
            time_ns, packet = frame.end_time_ns, frame.end_packet
            if time_ns is None or packet is None:
                time_ns, packet = frame.start_time_ns, frame.start_packet
            self._out_of_sync(end, None, time_ns, packet)

    def _begin_prefix(
        self,
        buffer: memoryview,
        start: int,
        used: int,
        length: int,
        captured: int,
        time_ns: int,
        packet: int,
        stream_offset: int,
    ) -> bool:
        """A size prefix that is not all in this segment: the rest comes, or was snapped off."""
        if captured < length:
            self.skipped_bytes += length - used
            self._out_of_sync(
                stream_offset + used, None, time_ns, packet, search_from=stream_offset + length
            )
            return False
        self._prefix = bytes(buffer[start + used : start + captured])
        self._prefix_frame = Frame(0, stream_offset + used, time_ns, packet)
        return True

    def _complete_prefix(
        self,
        buffer: memoryview,
        start: int,
        length: int,
        captured: int,
        time_ns: int,
        packet: int,
    ) -> int:
        """Take in the rest of a split size prefix; -1 when it gives no plausible size."""
        frame = self._prefix_frame
        if frame is None:
            return 0
        missing = 4 - len(self._prefix)
        if captured < min(missing, length):
            self._out_of_sync(frame.stream_offset, None, time_ns, packet)
            return -1
        take = min(missing, length)
        self._prefix += bytes(buffer[start : start + take])
        if len(self._prefix) < 4:
            return take
        prefix, self._prefix, self._prefix_frame = self._prefix, b"", None
        size = _SIZE(prefix)[0]
        if (size < self._smallest or size > self._largest) and not self._may_be_small(size):
            self._out_of_sync(frame.stream_offset, size, time_ns, packet)
            return -1
        frame.size = size
        frame.add(0, memoryview(prefix))
        self._partial = frame
        self._remaining = size
        if size == 0:
            self._finish(time_ns, packet)
            return take
        if take == length:
            return take
        return take + self._continue(
            frame, buffer, start + take, length - take, captured - take, time_ns, packet
        )

    # -- gaps and loss of sync -------------------------------------------------------------------

    def _gap(self, gap: Gap) -> None:
        if self._search is not None:
            self._work(self._look(self._search))
        if self._search is not None:
            self.skipped_bytes += self._search.clear()
            return
        frame = self._partial
        if frame is None or gap.length > self._remaining:
            self._out_of_sync(gap.stream_offset, None, gap.time_ns, gap.packet)
            return
        frame.missing_bytes += gap.length
        frame.lost_bytes += gap.length
        self._remaining -= gap.length
        if self._remaining == 0:
            self._finish(None, None)

    def _out_of_sync(
        self,
        stream_offset: int,
        size: int | None,
        time_ns: int,
        packet: int,
        *,
        search_from: int | None = None,
    ) -> None:
        self._losses.append((stream_offset, size, time_ns, packet))
        self._search = _Search()
        if self._partial is not None:
            # What is there of it may still give a header; its size as sent is known.
            self._partial.missing_bytes += self._remaining
            self._partial.lost_bytes += self._remaining
            self._finish(None, None)
        self._prefix = b""
        self._prefix_frame = None
        self._search_from = stream_offset if search_from is None else search_from

    def _search_in(self, search: _Search, chunk: Chunk) -> list[Chunk]:
        """Look for a boundary; return the unread rest of the chunk, then what begins there.

        Goes on in small steps, so that finding and losing sync again and again stays cheap; but
        what is held is looked at again only when it has grown by a quarter, so that a search
        takes time in proportion to its bytes.
        """
        index, stream_offset = chunk.first, chunk.stream_offset
        lengths = chunk.segments.length
        while index < chunk.last:
            enough = min(max(search.seen + _SEARCH_STEP_BYTES, search.seen * 5 // 4), search.wanted)
            while index < chunk.last and search.size < enough and not search.is_cut:
                search.add(chunk.segments, index, stream_offset)
                stream_offset += lengths[index]
                index += 1
            if not search.has_news:
                break
            found = self._look(search)
            if found:
                rest = Chunk(stream_offset, chunk.segments, index, chunk.last)
                return [rest, *found] if index < chunk.last else found
            if search.is_cut:
                # What comes after a snapped segment does not follow its bytes.
                self.skipped_bytes += search.clear()
        return []

    def _look(self, search: _Search) -> list[Chunk]:
        """Look for a boundary in what a search holds; return what begins there, if there is one."""
        index, keep = self._locate(search.view())
        if index is None:
            self.skipped_bytes += search.drop(keep)
            search.note_seen()
            return []
        self.skipped_bytes += index
        segments, self._found_at = search.rest(index)
        self._found_until = self._found_at + search.size - index
        self._search = None
        return [Chunk(self._found_at, segments, 0, len(segments.start))]


def _from(chunk: Chunk, index: int, stream_offset: int, begin: int) -> list[Chunk]:
    """Return what is left of a chunk from stream offset ``begin`` on, its second part first.

    ``begin`` lies in the segment at ``index``, whose own offset is ``stream_offset``, or at its
    end; it lies before it when a split size prefix turned out to be none, and then the search
    begins with this segment.
    """
    segments = chunk.segments
    skip = max(0, begin - stream_offset)
    if skip == 0:
        return [Chunk(stream_offset, segments, index, chunk.last)]
    length, captured = segments.length[index], segments.captured[index]
    left = []
    if index + 1 < chunk.last:
        left.append(Chunk(stream_offset + length, segments, index + 1, chunk.last))
    if skip < length:
        shortened = Segments(
            segments.buffer,
            [segments.start[index] + skip],
            [length - skip],
            [max(0, captured - skip)],
            [segments.time_ns[index]],
            [segments.packet[index]],
        )
        left.append(Chunk(begin, shortened, 0, 1))
    return left


class _Search:
    """Bytes that belong to no known frame, with where they came from; bounded by its caller."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._marks: list[tuple[int, int, int]] = []  # (index in _bytes, time_ns, packet)
        self._stream_offset = 0  # of _bytes[0]
        self._snapped_bytes = 0
        self.seen = 0
        """How many of the bytes were looked at before."""
        self.wanted = _NO_BYTES
        """How many there have to be for the frame that may begin with the first of them."""

    @property
    def size(self) -> int:
        """How many bytes are held."""
        return len(self._bytes)

    @property
    def offset(self) -> int:
        """Stream offset of the first of them."""
        return self._stream_offset

    @property
    def has_news(self) -> bool:
        """Whether there is enough new to look again."""
        size = len(self._bytes)
        if self._snapped_bytes:
            return True
        if size <= self.seen:
            return False
        return size <= _SMALL_SEARCH_BYTES or size >= min(self.seen * 5 // 4, self.wanted)

    def note_seen(self) -> None:
        """Note that all bytes held were looked at, and no frame was found that is all there."""
        size = len(self._bytes)
        self.seen = size
        wanted = _SIZE(self._bytes)[0] + 4 if size >= 4 else 0
        self.wanted = wanted if wanted > size else _NO_BYTES

    def add(self, segments: Segments, index: int, stream_offset: int) -> None:
        """Append a segment; nothing may follow one that a snap length cut."""
        start, captured = segments.start[index], segments.captured[index]
        if not self._bytes:
            self._stream_offset = stream_offset
        self._marks.append((len(self._bytes), segments.time_ns[index], segments.packet[index]))
        self._bytes += segments.buffer[start : start + captured]
        self._snapped_bytes = segments.length[index] - captured

    @property
    def is_cut(self) -> bool:
        """Whether the last segment was cut by a snap length."""
        return self._snapped_bytes > 0

    def view(self) -> memoryview:
        """Return all bytes held (a copy: the search goes on with its own)."""
        return memoryview(bytes(self._bytes))

    def clear(self) -> int:
        """Forget all; return how many bytes that were."""
        given_up = len(self._bytes) + self._snapped_bytes
        self._snapped_bytes = 0
        self.seen = 0
        self.wanted = _NO_BYTES
        self._bytes.clear()
        self._marks.clear()
        return given_up

    def drop(self, before: int) -> int:
        """Forget the bytes before index ``before``; return how many."""
        before = min(before, len(self._bytes))
        if before <= 0:
            return 0
        segments, offset = self.rest(before)
        self._bytes = bytearray(segments.buffer)
        self._stream_offset = offset
        self._marks = list(zip(segments.start, segments.time_ns, segments.packet, strict=True))
        return before

    def rest(self, index: int) -> tuple[Segments, int]:
        """Return the bytes from ``index`` on as segments of their own, and their offset."""
        starts, lengths, captured, times, packets = [], [], [], [], []
        ends = [*(mark[0] for mark in self._marks[1:]), len(self._bytes)]
        beyond = [0] * (len(ends) - 1) + [self._snapped_bytes]
        for (start, time_ns, packet), end, snapped in zip(self._marks, ends, beyond, strict=True):
            held = end - max(start, index)
            if held + snapped <= 0 or held < 0:
                continue
            starts.append(max(start, index) - index)
            lengths.append(held + snapped)
            captured.append(held)
            times.append(time_ns)
            packets.append(packet)
        data = memoryview(bytes(self._bytes[index:]))
        segments = Segments(data, starts, lengths, captured, times, packets)
        return segments, self._stream_offset + index
