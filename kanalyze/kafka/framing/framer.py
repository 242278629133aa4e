"""Cuts one direction of a Kafka connection into its size-delimited frames.

In: :class:`~kanalyze.model.streams.Chunk` and :class:`~kanalyze.model.streams.Gap`, in stream
order. Out: :class:`CutFrames`: frames, and where sync was lost. Must not know: what is inside a
frame, which direction it cuts, or what a packet is beyond its time and number.

A frame (``size int32``, then ``size`` bytes; the protocol document's "Layouts") is not joined:
it points into the segments that it came in. Lost bytes inside a frame leave a hole. The frame's end
is still known, so a lost segment in the middle of a produce request costs only its own bytes. Only
a loss that covers a frame boundary puts the cutter out of sync. Then its locator searches for the
next boundary.

Compiled by Cython, with the types in ``framer.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
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
    from kanalyze.kafka.framing.frame import SegmentSpan
    from kanalyze.model.streams import StreamItem

__all__ = ["LARGEST_FRAME_BYTES", "CutFrames", "FrameCutter", "FrameLocator", "SyncLoss"]

LARGEST_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's default for ``socket.request.max.bytes``; a larger size is not a frame."""

_SIZE = struct.Struct(">i").unpack_from
_KEPT_BYTES = 2048
"""What is kept of a frame that is dropped: its header, and the fields before its first array."""
_SEARCH_STEP_BYTES = 16 * 1024
_SMALL_SEARCH_BYTES = 1024
_NO_BYTES = 1 << 62
"""More bytes than any stream has."""
_MOST_SMALL_FRAMES = 32
_PIECES_AT_ONCE = 64
"""So many segments that the snap length cut are searched together: each holds few bytes."""


class FrameLocator(ABC):
    """Finds the next frame boundary in bytes that begin anywhere."""

    @abstractmethod
    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a frame's first byte or None, index of the first byte to keep).

        No frame begins before the second index. The bytes after it are passed again, together with
        those that follow.
        """

    def in_pieces(self, pieces: list[memoryview]) -> tuple[int, int] | None:
        """Return the number of the first piece that a frame begins in, and its index there.

        A piece is what the snap length left of a segment. The frame may continue in the part that
        was cut off, which will never come. None where no frame begins.
        """
        for number, piece in enumerate(pieces):
            index, _ = self(piece)
            if index is not None:
                return number, index
        return None

    def confirm(self, frame: Frame) -> bool:  # noqa: ARG002 - overridden by those that can tell
        """Tell whether a frame that was located before it was complete really is one."""
        return True


class SyncLoss(NamedTuple):
    """A place in a stream where the next frame boundary was lost."""

    stream_offset: int
    size: int | None
    """The implausible size that stood there; None where bytes are missing."""
    time_ns: int
    packet: int


_NO_LOSSES: list[SyncLoss] = []
_NO_ITEMS: list[StreamItem] = []
"""Nearly every step has none; nothing is ever added to them."""


class CutFrames:
    """What one step of a :class:`FrameCutter` found, in stream order."""

    __slots__ = ("frames", "losses", "rest")

    def __init__(self, frames: list[Frame], losses: list[SyncLoss], rest: list[StreamItem]) -> None:
        self.frames = frames
        self.losses = losses
        self.rest = rest
        """Items to feed next: the step ended because sync was lost."""


class FrameCutter:
    """Cuts one direction of a connection into frames; a state machine without I/O.

    ``skipped_bytes`` counts the bytes that were skipped while out of sync.
    """

    __slots__ = (
        "_found_at",
        "_found_until",
        "_frames",
        "_largest",
        "_locator",
        "_losses",
        "_prefix",
        "_prefix_frame",
        "_remaining",
        "_search",
        "_search_from",
        "_small_left",
        "_smallest",
        "partial",
        "skipped_bytes",
    )
    _LEFT_OUT = ("_frames", "_largest", "_locator", "_losses", "_smallest")

    def __init__(
        self,
        locator: FrameLocator,
        *,
        in_sync: bool = True,
        largest_bytes: int = LARGEST_FRAME_BYTES,
        smallest_bytes: int = 4,
    ) -> None:
        """Make a cutter.

        Args:
            locator: finds a boundary when sync is lost.
            in_sync: whether the stream's first byte begins a frame.
            largest_bytes: a declared size above it is not a frame.
            smallest_bytes: a declared size below it is not a message; 4 is a correlation id.
                A few smaller ones are accepted, because SASL tokens have the same framing and may
                be empty. The limit keeps a stream of zeros from being cut into endless frames.
        """
        self._locator = locator
        self._largest = largest_bytes
        self._smallest = smallest_bytes
        self._small_left = _MOST_SMALL_FRAMES
        self._frames: list[Frame] = []
        self._losses: list[SyncLoss] = []
        self._search: _BoundarySearch | None = None if in_sync else _BoundarySearch()
        self._search_from = 0
        self.partial: Frame | None = None
        """The frame that has begun and is not complete, once its size is known."""
        self._found_at = -1
        """Stream offset where the last search ended: a frame begins there, or seems to."""
        self._found_until = -1
        """Stream offset after the last byte that had come by then."""
        self._remaining = 0
        self._prefix = b""
        self._prefix_frame: Frame | None = None
        self.skipped_bytes = 0

    def state(self) -> State:
        """Return what :meth:`load_state` takes."""
        partial, search, prefix_frame = self.partial, self._search, self._prefix_frame
        return (
            *(self.skipped_bytes, self._small_left, self._search_from, self._found_at),
            *(self._found_until, self._remaining, self._prefix),
            None if search is None else search.state(),
            None if partial is None else partial.state(),
            None if prefix_frame is None else prefix_frame.state(),
        )

    def load_state(self, state: object) -> None:
        """Continue from a state, before anything was fed; raises ValueError for any other value."""
        values = fields(state, "nnniinyTTT")
        self.skipped_bytes, self._small_left, self._search_from, self._found_at = values[:4]
        self._found_until, self._remaining, self._prefix = values[4:7]
        search, partial, prefix_frame = values[7:]
        self._search = None if search is None else _BoundarySearch.from_state(search)
        self.partial = None if partial is None else Frame.from_state(partial)
        self._prefix_frame = None if prefix_frame is None else Frame.from_state(prefix_frame)
        begun = self.partial
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
        """True if the next frame boundary is known."""
        return self._search is None

    @property
    def needs_locator(self) -> bool:
        """True if the next items may be shown to the locator."""
        return self._search is not None or (
            self.partial is not None and self._is_unconfirmed(self.partial)
        )

    @property
    def is_at_frames(self) -> bool:
        """True if the next byte continues a frame of known size, or begins a frame."""
        return self._search is None and self._prefix_frame is None

    @property
    def buffered_bytes(self) -> int:
        """Bytes kept of an incomplete frame and of a search."""
        partial = 0 if self.partial is None else self.partial.buffered_bytes
        return partial + (0 if self._search is None else self._search.size)

    @property
    def partial_bytes(self) -> int:
        """Stream bytes of the incomplete frame so far, its holes included."""
        return 0 if self.partial is None else self.partial.length - self._remaining

    def shed(self) -> tuple[int, int]:
        """Drop what is buffered; return the stream offset it began at, and how many bytes.

        The beginning of an incomplete frame stays: it has the header.
        """
        if self._search is not None:
            offset, dropped = self._search.offset, self._search.clear()
            self.skipped_bytes += dropped
            return offset, dropped
        if self.partial is not None:
            offset = self.partial.stream_offset + _KEPT_BYTES
            return offset, self.partial.drop_after(_KEPT_BYTES)
        return 0, 0

    def feed(self, items: list[StreamItem]) -> CutFrames:
        """Cut the next part of the stream."""
        cut = self.feed_until_loss(items)
        while cut.rest:
            more = self.feed_until_loss(cut.rest)
            cut.frames += more.frames
            cut.losses += more.losses
            cut.rest = more.rest
        return cut

    def feed_until_loss(self, items: list[StreamItem]) -> CutFrames:
        """Cut the next part of the stream, up to where sync is lost.

        The caller brings the locator up to date before it feeds the rest.
        """
        losses = self._losses
        for index in range(len(items)):
            item = items[index]
            rest = self._gap(item) if isinstance(item, Gap) else self._cut_chunks([item])
            if losses:
                return self._cut_frames([*rest, *items[index + 1 :]])
        return self._cut_frames(_NO_ITEMS)

    def finish(self) -> CutFrames:
        """End the stream: look for frames in what a search still holds, and skip the rest."""
        while self._search is not None:
            found: list[StreamItem] = [*self._look(self._search)]
            if not found:
                self.skipped_bytes += self._search.clear()
                break
            while found:
                item = found.pop(0)
                assert not isinstance(item, Gap)
                found = [*self._cut_chunks([item]), *found]
        return self._cut_frames(_NO_ITEMS)

    def settle(self) -> None:
        """Copy what the incomplete frame needs, before the buffers are used again."""
        if self.partial is not None:
            self.partial.detach()

    def _cut_frames(self, rest: list[StreamItem]) -> CutFrames:
        """Hand over what was found."""
        cut = CutFrames(self._frames, self._losses or _NO_LOSSES, rest)
        self._frames = []
        if self._losses:
            self._losses = []
        return cut

    # -- in sync ------------------------------------------------------------------------------

    def _cut_chunks(self, chunks: list[Chunk]) -> list[Chunk]:
        """Cut chunks, the last of the list first; return what is left where sync is lost, in order.

        Where a search ends, the located bytes come before the rest of the chunk.
        """
        known = len(self._losses)
        while chunks:
            chunk = chunks.pop()
            if self._search is None:
                chunks += self._cut(chunk)
                if len(self._losses) > known:
                    break
            else:
                chunks += self._search_in(self._search, chunk)
        return chunks[::-1] if chunks else chunks

    def _cut(self, chunk: Chunk) -> list[Chunk]:
        """Cut a chunk in sync; return what is left where sync was lost, in reverse order."""
        segments = chunk.segments
        lengths = segments.lengths
        index, last = chunk.first, chunk.last
        offset, used = chunk.stream_offset, 0
        while index < last:
            if self.partial is not None:
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
                self._extend(self.partial, spread_of(segments, first, skip, taken), index)
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
        """Cut a segment, which begins at stream ``offset``, from its byte ``used`` on.

        Returns where that ended: at the segment's end, where a frame begins that continues in the
        next segment, or where sync was lost.
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
                self.partial = frame_begun(size + 4, offset + used, time_ns, packet)
                self._remaining = size + 4
                return used
            self._frames.append(frame_in_segment(segments, index, used, size + 4, offset + used))
            used += size + 4
        return used

    def _extend(self, frame: Frame, spread: SegmentSpan, index: int) -> None:
        """Add bytes to a frame; the last of them is in the segment at ``index``."""
        if spread.buffered_bytes:
            frame.add_spread(frame.length - self._remaining, spread)
        frame.missing_bytes += spread.length - spread.buffered_bytes
        self._remaining -= spread.length
        if not self._remaining:
            self._finish(spread.segments.times[index], spread.segments.packets[index])

    def _may_be_small(self, size: int) -> bool:
        if not 0 <= size < self._smallest or self._small_left == 0:
            return False
        self._small_left -= 1
        return True

    def _finish(self, time_ns: int, packet: int) -> None:
        """Complete the frame that has begun, with its last packet or NO_PACKET."""
        frame = self.partial
        self.partial, self._remaining = None, 0
        if frame is None:
            return
        frame.end_with(time_ns, packet)
        if self._is_unconfirmed(frame) and not self._locator.confirm(frame):
            self._reject(frame)
        else:
            self._frames.append(frame)

    def _is_unconfirmed(self, frame: Frame) -> bool:
        """Tell whether a search ended with a frame that was not complete then."""
        begin = frame.stream_offset
        return begin == self._found_at and begin + frame.length > self._found_until

    def _reject(self, frame: Frame) -> None:
        """Drop what only looked like a frame when its search ended; search on after it."""
        self.skipped_bytes += frame.length - frame.missing_bytes
        if self._search is None:
            end = frame.stream_offset + frame.length
            time_ns, packet = frame.end_time_ns, frame.end_packet
            if time_ns is None or packet is None:
                time_ns, packet = frame.start_time_ns, frame.start_packet
            self._out_of_sync(end, None, time_ns, packet)

    def _begin_prefix(self, segments: Segments, index: int, offset: int, used: int) -> None:
        """Begin with a size prefix of which a segment holds a part: the rest comes, or was cut."""
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
        """Add the rest of a split size prefix; return how many bytes of the segment it takes."""
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
        self.partial = frame
        self._remaining = size
        if size == 0:
            self._finish(time_ns, packet)
        return take

    # -- gaps and loss of sync -------------------------------------------------------------------

    def _gap(self, gap: Gap) -> list[StreamItem]:
        """Step over missing bytes; return what is to be fed again where sync was lost before."""
        if self._search is not None:
            known = len(self._losses)
            rest = self._cut_chunks(self._look(self._search))
            if len(self._losses) > known:
                return [*rest, gap]
        if self._search is not None:
            self.skipped_bytes += self._search.clear()
            return []
        frame = self.partial
        if frame is None or gap.length > self._remaining:
            self._out_of_sync(gap.stream_offset, None, gap.time_ns, gap.packet)
            return []
        frame.missing_bytes += gap.length
        frame.lost_bytes += gap.length
        self._remaining -= gap.length
        if self._remaining == 0:
            self._finish(0, NO_PACKET)
        return []

    def _out_of_sync(
        self,
        stream_offset: int,
        size: int | None,
        time_ns: int,
        packet: int,
        *,
        search_from: int | None = None,
    ) -> None:
        self._losses.append(SyncLoss(stream_offset, size, time_ns, packet))
        self._search = _BoundarySearch()
        if self.partial is not None:
            # Its bytes so far may hold the header; its size on the wire is known.
            self.partial.missing_bytes += self._remaining
            self.partial.lost_bytes += self._remaining
            self._finish(0, NO_PACKET)
        self._prefix = b""
        self._prefix_frame = None
        self._search_from = stream_offset if search_from is None else search_from

    def _search_in(self, search: _BoundarySearch, chunk: Chunk) -> list[Chunk]:
        """Look for a boundary; return the unread rest of the chunk, then what begins there.

        It goes in small steps, so that finding and losing sync repeatedly stays cheap. Buffered
        bytes are searched again only when they have grown by a quarter, so a search takes time in
        proportion to its bytes.
        """
        index, stream_offset = chunk.first, chunk.stream_offset
        lengths = chunk.segments.length
        while index < chunk.last:
            if search.is_empty:
                skipped, begin = self._skip_pieces(chunk.segments, index, chunk.last)
                stream_offset += sum(lengths[index : index + skipped])
                index += skipped
                if begin is not None:
                    search.add(chunk.segments, index, stream_offset)
                    found = self._end_search(search, begin)
                    return _with_rest(chunk, index + 1, stream_offset + lengths[index], found)
                if skipped:
                    continue
            enough = min(
                max(search.searched_bytes + _SEARCH_STEP_BYTES, search.searched_bytes * 5 // 4),
                search.needed_bytes,
            )
            while index < chunk.last and search.size < enough and not search.is_cut:
                search.add(chunk.segments, index, stream_offset)
                stream_offset += lengths[index]
                index += 1
            if not search.is_due:
                break
            found = self._look(search)
            if found:
                return _with_rest(chunk, index, stream_offset, found)
            if search.is_cut:
                # The next segment does not follow the bytes of one that was cut.
                self.skipped_bytes += search.clear()
        return []

    def _skip_pieces(self, segments: Segments, first: int, last: int) -> tuple[int, int | None]:
        """Look for a boundary in consecutive segments that the snap length cut.

        Returns how many have none, and the index of one in the segment after them, if there.
        """
        starts, lengths, captured = segments.start, segments.length, segments.captured
        end = min(last, first + _PIECES_AT_ONCE)
        index = first
        pieces = []
        while index < end and captured[index] < lengths[index]:
            pieces.append(segments.buffer[starts[index] : starts[index] + captured[index]])
            index += 1
        found = self._locator.in_pieces(pieces) if pieces else None
        if found is not None:
            index = first + found[0]
        self.skipped_bytes += sum(lengths[first:index])
        return index - first, None if found is None else found[1]

    def _look(self, search: _BoundarySearch) -> list[Chunk]:
        """Look for a boundary in the bytes of a search; return what begins there, if any."""
        view = search.view()
        if search.is_cut:
            found = self._locator.in_pieces([view])
            index, keep = (None if found is None else found[1]), 0
        else:
            index, keep = self._locator(view)
        if index is None:
            self.skipped_bytes += search.drop(keep)
            search.note_searched()
            return []
        return self._end_search(search, index)

    def _end_search(self, search: _BoundarySearch, index: int) -> list[Chunk]:
        """End a search with a frame at an index; return the bytes from there."""
        self.skipped_bytes += index
        segments, self._found_at = search.rest(index)
        self._found_until = self._found_at + search.size - index
        self._search = None
        return [Chunk(self._found_at, segments, 0, len(segments.start))]


def _with_rest(chunk: Chunk, index: int, stream_offset: int, found: list[Chunk]) -> list[Chunk]:
    """Return the rest of a chunk from a segment on, then what was found: the last is cut first."""
    if index == chunk.last:
        return found
    return [Chunk(stream_offset, chunk.segments, index, chunk.last), *found]


def _from(chunk: Chunk, index: int, stream_offset: int, begin: int) -> list[Chunk]:
    """Return the rest of a chunk from stream offset ``begin`` on, its second part first.

    ``begin`` is in the segment at ``index``, whose own offset is ``stream_offset``, or at its end.
    It is before the segment when a split size prefix was implausible; then the search begins with
    this segment.
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


class _BoundarySearch:
    """Bytes of no known frame, with the packets they came from; bounded by its caller."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._marks: list[tuple[int, int, int]] = []  # (index in _bytes, time_ns, packet)
        self._stream_offset = 0  # of _bytes[0]
        self._cut_bytes = 0
        self.searched_bytes = 0
        """How many of the bytes were searched before."""
        self.needed_bytes = _NO_BYTES
        """How many bytes the frame needs that may begin with the first of them."""

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(bytes(self._bytes), self._stream_offset, self._cut_bytes, self.searched_bytes),
            *(self.needed_bytes, tuple(self._marks)),
        )

    @classmethod
    def from_state(cls, state: object) -> _BoundarySearch:
        """Make one from a state; raises ValueError for any other value."""
        data, offset, cut_off, searched, needed, marks = fields(state, "ynnnnt")
        made = cls()
        made._bytes += data
        made._stream_offset, made._cut_bytes = offset, cut_off
        made.searched_bytes, made.needed_bytes = searched, needed
        made._marks = [fields(mark, "nin") for mark in items(marks, "t")]
        indices = [mark[0] for mark in made._marks]
        if (
            indices != sorted(indices)
            or searched > len(data)
            or bool(data or cut_off) > bool(indices)
        ):
            raise ValueError("bytes of a search that came with no packet")
        if indices and (indices[0] != 0 or indices[-1] > len(data)):
            raise ValueError("a packet behind the bytes of a search")
        return made

    @property
    def size(self) -> int:
        """How many bytes are buffered."""
        return len(self._bytes)

    @property
    def is_empty(self) -> bool:
        """True if nothing is buffered, and nothing was cut off after it."""
        return not self._bytes and not self._cut_bytes

    @property
    def offset(self) -> int:
        """Stream offset of the first of them."""
        return self._stream_offset

    @property
    def is_due(self) -> bool:
        """True if enough bytes have come to search again."""
        size = len(self._bytes)
        if self._cut_bytes:
            return True
        if size <= self.searched_bytes:
            return False
        return size <= _SMALL_SEARCH_BYTES or size >= min(
            self.searched_bytes * 5 // 4, self.needed_bytes
        )

    def note_searched(self) -> None:
        """Note that all bytes were searched, and no complete frame was found."""
        size = len(self._bytes)
        self.searched_bytes = size
        needed = _SIZE(self._bytes)[0] + 4 if size >= 4 else 0
        self.needed_bytes = needed if needed > size else _NO_BYTES

    def add(self, segments: Segments, index: int, stream_offset: int) -> None:
        """Append a segment; nothing may follow one that a snap length cut."""
        start, captured = segments.start[index], segments.captured[index]
        if not self._bytes:
            self._stream_offset = stream_offset
        self._marks.append((len(self._bytes), segments.time_ns[index], segments.packet[index]))
        self._bytes += segments.buffer[start : start + captured]
        self._cut_bytes = segments.length[index] - captured

    @property
    def is_cut(self) -> bool:
        """Whether the last segment was cut by a snap length."""
        return self._cut_bytes > 0

    def view(self) -> memoryview:
        """Return a copy of all bytes."""
        return memoryview(bytes(self._bytes))

    def clear(self) -> int:
        """Drop all; return how many bytes that were."""
        dropped = len(self._bytes) + self._cut_bytes
        self._cut_bytes = 0
        self.searched_bytes = 0
        self.needed_bytes = _NO_BYTES
        self._bytes.clear()
        self._marks.clear()
        return dropped

    def drop(self, before: int) -> int:
        """Drop the bytes before index ``before``; return how many."""
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
        beyond = [0] * (len(ends) - 1) + [self._cut_bytes]
        for (start, time_ns, packet), end, cut_off in zip(self._marks, ends, beyond, strict=True):
            size = end - max(start, index)
            if size + cut_off <= 0 or size < 0:
                continue
            starts.append(max(start, index) - index)
            lengths.append(size + cut_off)
            captured.append(size)
            times.append(time_ns)
            packets.append(packet)
        data = memoryview(bytes(self._bytes[index:]))
        segments = Segments(data, starts, lengths, captured, times, packets)
        return segments, self._stream_offset + index
