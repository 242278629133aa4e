"""Cuts one direction of a Kafka connection into its size-delimited frames.

In: :class:`~kanalyze.model.Chunk` and :class:`~kanalyze.model.Gap`, in stream order. Out:
:class:`Frame`. This module must not know what is inside a frame, which direction it cuts, or what
a packet is beyond the time and the number that its bytes carry.

A frame (``size int32``, then ``size`` bytes; the protocol document's "Layouts") is not joined:
it points into the segments that it came in. Bytes inside a frame that were lost leave a hole; the
frame's end is known all the same, so a lost segment in the middle of a produce request costs
nothing but the bytes themselves. Only a loss that takes a frame's boundary puts the cutter out of
sync; then it looks for the next one with the function it was given.

Compiled by Cython, with the types in ``framing.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kanalyze.common.plain_values import fields, items
from kanalyze.kafka.framing.frame import Frame
from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, Gap

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.codec.machine import int32_at
    from kanalyze.kafka.framing.frame import NO_PACKET, frame_begun, frame_in_segment, spread_of

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.kafka.framing.frame import Spread
    from kanalyze.model.streams import StreamItem

__all__ = ["LARGEST_FRAME_BYTES", "FrameCutter", "Locate"]

LARGEST_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's default for ``socket.request.max.bytes``; a larger size is taken for no frame at all."""

_SIZE = struct.Struct(">i").unpack_from
_KEPT_BYTES = 2048
"""Of a frame whose bytes are let go: its header, and the fields before its first array."""
_SEARCH_STEP_BYTES = 16 * 1024
_SMALL_SEARCH_BYTES = 1024
_NO_BYTES = 1 << 62
"""More than there ever are."""
_MOST_SMALL_FRAMES = 32
_PIECES_AT_ONCE = 64
"""Of segments that the snap length cut, searched together: of each there is little."""


class Locate(ABC):
    """Finds the next frame boundary in bytes that begin anywhere."""

    @abstractmethod
    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a frame's first byte or None, index of the first byte to keep).

        Bytes before the second index are known to begin no frame; those after it are shown
        again, with what follows them.
        """

    def in_pieces(self, pieces: list[memoryview]) -> tuple[int, int] | None:
        """Return which is the first piece a frame begins in, and its place there, or None.

        A piece is all that the snap length left of a segment. The frame may go on in what was cut
        off: no more of it will come.
        """
        for number, piece in enumerate(pieces):
            index, _ = self(piece)
            if index is not None:
                return number, index
        return None

    def confirm(self, frame: Frame) -> bool:  # noqa: ARG002 - those who can tell look at it
        """Tell whether a frame that was found before its end was there is one, now that it is."""
        return True


class FrameCutter:
    """Cuts one direction of a connection into frames; a state machine without I/O.

    Feed it the items of the stream in order and :meth:`take` the frames. ``skipped_bytes`` counts
    what was passed over while out of sync; ``losses`` lists where sync was lost, as (stream
    offset, size or None, time_ns, packet), until they are taken with :meth:`take_losses`.
    """

    __slots__ = (
        "_found_at",
        "_found_until",
        "_frames",
        "_largest",
        "_locate",
        "_partial",
        "_prefix",
        "_prefix_frame",
        "_remaining",
        "_search",
        "_search_from",
        "_small_left",
        "_smallest",
        "losses",
        "skipped_bytes",
    )
    _LEFT_OUT = ("_frames", "_largest", "_locate", "_smallest", "losses")

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
        self.losses: list[tuple[int, int | None, int, int]] = []
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

    def state(self) -> State:
        """Return what :meth:`load_state` takes, once frames and losses were taken."""
        partial, search, prefix_frame = self._partial, self._search, self._prefix_frame
        return (
            *(self.skipped_bytes, self._small_left, self._search_from, self._found_at),
            *(self._found_until, self._remaining, self._prefix),
            None if search is None else search.state(),
            None if partial is None else partial.state(),
            None if prefix_frame is None else prefix_frame.state(),
        )

    def load_state(self, state: object) -> None:
        """Go on from a state, before anything was fed; raises ValueError where that is none."""
        values = fields(state, "nnniinyTTT")
        self.skipped_bytes, self._small_left, self._search_from, self._found_at = values[:4]
        self._found_until, self._remaining, self._prefix = values[4:7]
        search, partial, prefix_frame = values[7:]
        self._search = None if search is None else _Search.from_state(search)
        self._partial = None if partial is None else Frame.from_state(partial)
        self._prefix_frame = None if prefix_frame is None else Frame.from_state(prefix_frame)
        begun = self._partial
        if (search, partial, prefix_frame).count(None) < 2 or self._small_left > _MOST_SMALL_FRAMES:
            raise ValueError("in sync, and not")
        if (len(self._prefix) > 3 or not self._prefix) != (prefix_frame is None) or (
            self._prefix_frame is not None and self._prefix_frame.received
        ):
            raise ValueError("a size of less than a byte, or more than three")
        if (self._remaining > 0) != (begun is not None) or (
            begun is not None and begun.received > begun.length - self._remaining
        ):
            raise ValueError("a frame that begins before its begin")

    @property
    def in_sync(self) -> bool:
        """Whether the cutter knows where the next frame begins."""
        return self._search is None

    @property
    def partial(self) -> Frame | None:
        """The frame that has begun and not ended, if its size is known."""
        return self._partial

    @property
    def is_at_frames(self) -> bool:
        """Whether what comes next is the rest of a frame whose size is known, or begins one."""
        return self._search is None and self._prefix_frame is None

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
        losses, self.losses = self.losses, []
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
        lengths = segments.lengths
        index, last = chunk.first, chunk.last
        offset, used = chunk.stream_offset, 0
        while index < last:
            if self._partial is not None:
                first, skip, taken = index, used, 0
                while True:
                    length = lengths[index] - used
                    if length >= self._remaining - taken:
                        used += self._remaining - taken
                        taken = self._remaining
                        break
                    taken += length
                    if index + 1 == last:
                        used = lengths[index]
                        break
                    offset += lengths[index]
                    index, used = index + 1, 0
                self._go_on(self._partial, spread_of(segments, first, skip, taken), index)
            elif self._prefix_frame is not None:
                used = self._complete_prefix(self._prefix_frame, segments, index)
            else:
                used = self._cut_segment(segments, index, offset, used)
            if self._search is not None:
                return _from(chunk, index, offset, self._search_from)
            if index < last and used == lengths[index]:
                offset += used
                index, used = index + 1, 0
        return []

    def _cut_segment(self, segments: Segments, index: int, offset: int, used: int) -> int:
        """Cut from byte ``used`` of a segment, which is at stream ``offset``, on.

        Returns how far that came: to the end of the segment, or to where a frame begins that goes
        on after it, or to where sync was lost.
        """
        length = segments.lengths[index]
        start, captured = segments.starts[index], segments.captureds[index]
        time_ns, packet = segments.times[index], segments.packets[index]
        while used < length:
            if captured - used < 4:
                self._begin_prefix(segments, index, offset, used)
                return length
            size = int32_at(segments.data, start + used)
            if (size < self._smallest or size > self._largest) and not self._may_be_small(size):
                self._out_of_sync(offset + used, size, time_ns, packet)
                return used
            if used + size + 4 > length:
                self._partial = frame_begun(size + 4, offset + used, time_ns, packet)
                self._remaining = size + 4
                return used
            self._frames.append(frame_in_segment(segments, index, used, size + 4, offset + used))
            used += size + 4
        return used

    def _go_on(self, frame: Frame, spread: Spread, index: int) -> None:
        """Let a frame go on with bytes of which the last is in the segment at ``index``."""
        if spread.held_bytes:
            frame.add_spread(frame.length - self._remaining, spread)
        frame.missing_bytes += spread.length - spread.held_bytes
        self._remaining -= spread.length
        if not self._remaining:
            self._finish(spread.segments.times[index], spread.segments.packets[index])

    def _may_be_small(self, size: int) -> bool:
        if not 0 <= size < self._smallest or self._small_left == 0:
            return False
        self._small_left -= 1
        return True

    def _finish(self, time_ns: int, packet: int) -> None:
        """End the frame that has begun, with a packet or with none."""
        frame = self._partial
        self._partial, self._remaining = None, 0
        if frame is None:
            return
        frame.end_with(time_ns, packet)
        begin = frame.stream_offset
        # Did a search end with it, and it was not all there then?
        seems = begin == self._found_at and begin + frame.length > self._found_until
        if seems and not self._locate.confirm(frame):
            self._refuse(frame)
        else:
            self._frames.append(frame)

    def _refuse(self, frame: Frame) -> None:
        """Give up what seemed to be a frame when its search ended: search on after it."""
        self.skipped_bytes += frame.length - frame.missing_bytes
        if self._search is None:
            end = frame.stream_offset + frame.length
            time_ns, packet = frame.end_time_ns, frame.end_packet
            if time_ns is None or packet is None:
                time_ns, packet = frame.start_time_ns, frame.start_packet
            self._out_of_sync(end, None, time_ns, packet)

    def _begin_prefix(self, segments: Segments, index: int, offset: int, used: int) -> None:
        """Take a size prefix that is not all in a segment: the rest comes, or was snapped off."""
        length, captured = segments.length[index], segments.captured[index]
        time_ns, packet = segments.time_ns[index], segments.packet[index]
        if captured < length:
            self.skipped_bytes += length - used
            self._out_of_sync(offset + used, None, time_ns, packet, search_from=offset + length)
            return
        start = segments.start[index]
        self._prefix = bytes(segments.buffer[start + used : start + captured])
        self._prefix_frame = Frame(0, offset + used, time_ns, packet)

    def _complete_prefix(self, frame: Frame, segments: Segments, index: int) -> int:
        """Take in the rest of a split size prefix; return how many bytes of the segment it has."""
        length, captured = segments.length[index], segments.captured[index]
        time_ns, packet = segments.time_ns[index], segments.packet[index]
        take = min(4 - len(self._prefix), length)
        if captured < take:
            self._out_of_sync(frame.stream_offset, None, time_ns, packet)
            return 0
        start = segments.start[index]
        self._prefix += bytes(segments.buffer[start : start + take])
        if len(self._prefix) < 4:
            return take
        prefix, self._prefix, self._prefix_frame = self._prefix, b"", None
        size = _SIZE(prefix)[0]
        if (size < self._smallest or size > self._largest) and not self._may_be_small(size):
            self._out_of_sync(frame.stream_offset, size, time_ns, packet)
            return 0
        frame.length = size + 4
        frame.add(0, memoryview(prefix))
        self._partial = frame
        self._remaining = size
        if size == 0:
            self._finish(time_ns, packet)
        return take

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
            self._finish(0, NO_PACKET)

    def _out_of_sync(
        self,
        stream_offset: int,
        size: int | None,
        time_ns: int,
        packet: int,
        *,
        search_from: int | None = None,
    ) -> None:
        self.losses.append((stream_offset, size, time_ns, packet))
        self._search = _Search()
        if self._partial is not None:
            # What is there of it may still give a header; its size as sent is known.
            self._partial.missing_bytes += self._remaining
            self._partial.lost_bytes += self._remaining
            self._finish(0, NO_PACKET)
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
            if search.is_empty:
                passed, place = self._pass_pieces(chunk.segments, index, chunk.last)
                stream_offset += sum(lengths[index : index + passed])
                index += passed
                if place is not None:
                    search.add(chunk.segments, index, stream_offset)
                    found = self._end_search(search, place)
                    return _with_rest(chunk, index + 1, stream_offset + lengths[index], found)
                if passed:
                    continue
            enough = min(max(search.seen + _SEARCH_STEP_BYTES, search.seen * 5 // 4), search.wanted)
            while index < chunk.last and search.size < enough and not search.is_cut:
                search.add(chunk.segments, index, stream_offset)
                stream_offset += lengths[index]
                index += 1
            if not search.has_news:
                break
            found = self._look(search)
            if found:
                return _with_rest(chunk, index, stream_offset, found)
            if search.is_cut:
                # What comes after a snapped segment does not follow its bytes.
                self.skipped_bytes += search.clear()
        return []

    def _pass_pieces(self, segments: Segments, first: int, last: int) -> tuple[int, int | None]:
        """Look for a boundary in segments that the snap length cut, as many as come together.

        Returns how many have none, and the place of the one in the segment after them, if there.
        """
        starts, lengths, captured = segments.start, segments.length, segments.captured
        end = min(last, first + _PIECES_AT_ONCE)
        index = first
        pieces = []
        while index < end and captured[index] < lengths[index]:
            pieces.append(segments.buffer[starts[index] : starts[index] + captured[index]])
            index += 1
        found = self._locate.in_pieces(pieces) if pieces else None
        if found is not None:
            index = first + found[0]
        self.skipped_bytes += sum(lengths[first:index])
        return index - first, None if found is None else found[1]

    def _look(self, search: _Search) -> list[Chunk]:
        """Look for a boundary in what a search holds; return what begins there, if there is one."""
        view = search.view()
        if search.is_cut:
            found = self._locate.in_pieces([view])
            index, keep = (None if found is None else found[1]), 0
        else:
            index, keep = self._locate(view)
        if index is None:
            self.skipped_bytes += search.drop(keep)
            search.note_seen()
            return []
        return self._end_search(search, index)

    def _end_search(self, search: _Search, index: int) -> list[Chunk]:
        """End a search with a frame at an index; return what begins there."""
        self.skipped_bytes += index
        segments, self._found_at = search.rest(index)
        self._found_until = self._found_at + search.size - index
        self._search = None
        return [Chunk(self._found_at, segments, 0, len(segments.start))]


def _with_rest(chunk: Chunk, index: int, stream_offset: int, found: list[Chunk]) -> list[Chunk]:
    """Return what is left of a chunk from a segment on, and before that what was found."""
    if index == chunk.last:
        return found
    return [Chunk(stream_offset, chunk.segments, index, chunk.last), *found]


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

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(bytes(self._bytes), self._stream_offset, self._snapped_bytes, self.seen),
            *(self.wanted, tuple(self._marks)),
        )

    @classmethod
    def from_state(cls, state: object) -> _Search:
        """Make one from a state; raises ValueError where that is none."""
        data, offset, snapped, seen, wanted, marks = fields(state, "ynnnnt")
        made = cls()
        made._bytes += data
        made._stream_offset, made._snapped_bytes = offset, snapped
        made.seen, made.wanted = seen, wanted
        made._marks = [fields(mark, "nin") for mark in items(marks, "t")]
        places = [mark[0] for mark in made._marks]
        if places != sorted(places) or seen > len(data) or bool(data or snapped) > bool(places):
            raise ValueError("bytes of a search that came with no packet")
        if places and (places[0] != 0 or places[-1] > len(data)):
            raise ValueError("a packet behind the bytes of a search")
        return made

    @property
    def size(self) -> int:
        """How many bytes are held."""
        return len(self._bytes)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held, and nothing was cut off after it."""
        return not self._bytes and not self._snapped_bytes

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
