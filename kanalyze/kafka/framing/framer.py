"""Cuts one direction of a Kafka connection into its size-delimited frames.

In: :class:`~kanalyze.model.streams.Chunk` and :class:`~kanalyze.model.streams.Gap`, in stream
order. Out: :class:`CutFrames`: frames, and where sync was lost.

A frame (``size int32``, then ``size`` bytes; the protocol document's "Layouts") is not joined:
it points into the segments that it came in. Lost bytes inside a frame leave a hole. The frame's end
is still known, so a lost segment in the middle of a produce request costs only its own bytes. Only
a loss that covers a frame boundary puts the cutter out of sync. Then its locator searches for the
next boundary.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.frame import Frame
from kanalyze.model.streams import Chunk, Gap, Segments

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import (
        bytes_from,
        cython,  # addresses of structs are the structs
        int32_in,
        more_frames,
        start_of,
    )
    from kanalyze.common.compiled import nothing_kept as free_frames
    from kanalyze.common.compiled import nothing_kept as prefetch_head
    from kanalyze.kafka.framing.frame import (
        AHEAD,
        NO_PACKET,
        frame_begun,
        frame_in_segment,
        spread_of,
    )

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import SegmentSpan
    from kanalyze.model.streams import StreamItem

_SIZE = struct.Struct(">i").unpack_from
_SEARCH_STEP_BYTES = 16 * 1024
_SMALL_SEARCH_BYTES = 1024
_UNKNOWN_BYTES = 1 << 62
"""Stands for an unknown length: more bytes than any stream has."""
_PIECES_AT_ONCE = 64
"""How many segments that the snap length cut are searched together: each has few bytes."""


class FrameLocator:
    """Finds the next frame boundary in bytes that begin anywhere."""

    def __call__(self, view: memoryview) -> tuple[int | None, int]:
        """Return (index of a frame's first byte or None, index of the first byte to keep).

        No frame begins before the second index. The next call gets the bytes from there on again,
        together with those that follow.
        """
        raise NotImplementedError

    def in_pieces(self, pieces: list[memoryview]) -> tuple[int, int] | None:
        """Return the number of the first piece that a frame begins in, and the frame's index there.

        A piece is a segment as far as the snap length left it. The frame may continue in the part
        that was cut off, which will never come. None if no frame begins in any piece.
        """
        for number, piece in enumerate(pieces):
            index, _ = self(piece)
            if index is not None:
                return number, index
        return None

    def confirm(self, frame: Frame) -> bool:  # noqa: ARG002 - overridden where it can be checked
        """Return true if a frame that was incomplete when it was located is really a frame."""
        return True


class _SearchBuffer:
    """Bytes of no known frame, with the packets they came in; its caller bounds them."""

    _SAVED = Saved(
        "_bytes:bytearray stream_offset:count _cut_bytes:count searched_bytes:count "
        "needed_bytes:count _marks:list[(count,int,count)]"
    )

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._marks: list[tuple[int, int, int]] = []  # (index in _bytes, time_ns, packet)
        self.stream_offset = 0
        """Stream offset of the first byte."""
        self._cut_bytes = 0
        self.searched_bytes = 0
        """How many of the bytes have been searched."""
        self.needed_bytes = _UNKNOWN_BYTES
        """Length of the frame that may begin with the first byte; ``_UNKNOWN_BYTES`` if none."""

    def _after_load(self) -> None:
        indices = [mark[0] for mark in self._marks]
        size = len(self._bytes)
        if (
            indices != sorted(indices)
            or self.searched_bytes > size
            or bool(size or self._cut_bytes) > bool(indices)
        ):
            raise ValueError("bytes of a search that came with no packet")
        if indices and (indices[0] != 0 or indices[-1] > size):
            raise ValueError("a packet behind the bytes of a search")

    @property
    def size(self) -> int:
        """How many bytes are buffered."""
        return len(self._bytes)

    @property
    def is_empty(self) -> bool:
        """True if nothing is buffered, and nothing was cut off after it."""
        return not self._bytes and not self._cut_bytes

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
        self.needed_bytes = needed if needed > size else _UNKNOWN_BYTES

    def add(self, segments: Segments, index: int, stream_offset: int) -> None:
        """Append a segment; nothing may follow one that a snap length cut."""
        start, captured = segments.start[index], segments.captured[index]
        if not self._bytes:
            self.stream_offset = stream_offset
        self._marks.append((len(self._bytes), segments.time_ns[index], segments.packet[index]))
        self._bytes += segments.buffer[start : start + captured]
        self._cut_bytes = segments.length[index] - captured

    @property
    def is_cut(self) -> bool:
        """True if the snap length cut the last segment."""
        return self._cut_bytes > 0

    def view(self) -> memoryview:
        """Return a copy of all bytes."""
        return memoryview(bytes(self._bytes))

    def clear(self) -> int:
        """Drop all; return how many bytes that were."""
        dropped = len(self._bytes) + self._cut_bytes
        self._cut_bytes = 0
        self.searched_bytes = 0
        self.needed_bytes = _UNKNOWN_BYTES
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
        self.stream_offset = offset
        self._marks = list(zip(segments.start, segments.time_ns, segments.packet, strict=True))
        return before

    def rest(self, index: int) -> tuple[Segments, int]:
        """Return the bytes from ``index`` on as segments of their own, and their offset."""
        starts, lengths, captured, times, packets = [], [], [], [], []
        ends = [*(mark[0] for mark in self._marks[1:]), len(self._bytes)]
        cut_bytes = [0] * (len(ends) - 1) + [self._cut_bytes]
        for (start, time_ns, packet), end, cut_off in zip(
            self._marks, ends, cut_bytes, strict=True
        ):
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
        return segments, self.stream_offset + index


class BoundarySearch:
    """Searches one direction of a connection for frame boundaries, each time sync is lost.

    Attributes:
        is_on: the next boundary is unknown.
        skipped_bytes: bytes that belong to no frame, over all searches.
    """

    _NOT_SAVED = ("_locator", "_made")
    _SAVED = Saved(
        "skipped_bytes:count _candidate_offset:int _searched_until:int _searched:_SearchBuffer?",
        _SearchBuffer,
    )

    def __init__(self, locator: FrameLocator, *, is_on: bool) -> None:
        """Make a search; if ``is_on``, it begins at once."""
        self._locator = locator
        self._made: _SearchBuffer | None = None
        self._candidate_offset = -1
        """Stream offset where the last search ended: a frame begins there, or seems to."""
        self._searched_until = -1
        """Stream offset after the last byte that had come by then."""
        self.is_on = is_on
        self.skipped_bytes = 0

    @property
    def _buffer(self) -> _SearchBuffer:
        """What is searched; most directions never are."""
        if self._made is None:
            self._made = _SearchBuffer()
        return self._made

    @property
    def _searched(self) -> _SearchBuffer | None:
        """The buffer of a search that is on."""
        return self._buffer if self.is_on else None

    @_searched.setter
    def _searched(self, buffer: _SearchBuffer | None) -> None:
        self.is_on = buffer is not None
        if buffer is not None:
            self._made = buffer

    @property
    def buffered_bytes(self) -> int:
        """Bytes kept to be searched again with those that follow."""
        return 0 if self._made is None else self._made.size

    @property
    def offset(self) -> int:
        """Stream offset of the first buffered byte."""
        return self._buffer.stream_offset

    def is_unconfirmed(self, frame: Frame) -> bool:
        """Return true if a search ended with a frame that was incomplete then."""
        begin = frame.stream_offset
        return begin == self._candidate_offset and begin + frame.length > self._searched_until

    def confirms(self, frame: Frame) -> bool:
        """Return false if a search ended with this frame, but its later bytes refute it."""
        return not self.is_unconfirmed(frame) or self._locator.confirm(frame)

    def clear(self) -> int:
        """Skip the buffered bytes; return how many."""
        skipped = self._buffer.clear()
        self.skipped_bytes += skipped
        return skipped

    def search(self, chunk: Chunk) -> list[Chunk]:
        """Look for a boundary; return the rest of the chunk, then the bytes from the boundary on.

        The search takes small steps, so that it stays cheap to find and lose sync repeatedly.
        Buffered bytes are searched again only when they have grown by a quarter, so a search takes
        time in proportion to its bytes.
        """
        search = self._buffer
        index, stream_offset = chunk.first, chunk.stream_offset
        lengths = chunk.segments.length
        while index < chunk.last:
            if search.is_empty:
                skipped, begin = self._skip_pieces(chunk.segments, index, chunk.last)
                stream_offset += sum(lengths[index : index + skipped])
                index += skipped
                if begin is not None:
                    search.add(chunk.segments, index, stream_offset)
                    chunks = self._end(begin)
                    return _with_rest(chunk, index + 1, stream_offset + lengths[index], chunks)
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
            chunks = self.search_buffered()
            if chunks:
                return _with_rest(chunk, index, stream_offset, chunks)
            if search.is_cut:
                # The next segment does not follow the bytes of one that was cut.
                self.clear()
        return []

    def _skip_pieces(self, segments: Segments, first: int, last: int) -> tuple[int, int | None]:
        """Look for a boundary in consecutive segments that the snap length cut.

        Returns how many of them have none, and the index of the boundary in the segment after
        these; None if no boundary was found.
        """
        starts, lengths, captured = segments.start, segments.length, segments.captured
        end = min(last, first + _PIECES_AT_ONCE)
        index = first
        pieces = []
        while index < end and captured[index] < lengths[index]:
            pieces.append(segments.buffer[starts[index] : starts[index] + captured[index]])
            index += 1
        piece_and_index = self._locator.in_pieces(pieces) if pieces else None
        if piece_and_index is not None:
            index = first + piece_and_index[0]
        self.skipped_bytes += sum(lengths[first:index])
        return index - first, None if piece_and_index is None else piece_and_index[1]

    def search_buffered(self) -> list[Chunk]:
        """Look for a boundary in the buffered bytes; return the bytes that begin there, if any."""
        search = self._buffer
        view = search.view()
        if search.is_cut:
            piece_and_index = self._locator.in_pieces([view])
            index, keep = (None if piece_and_index is None else piece_and_index[1]), 0
        else:
            index, keep = self._locator(view)
        if index is None:
            self.skipped_bytes += search.drop(keep)
            search.note_searched()
            return []
        return self._end(index)

    def _end(self, index: int) -> list[Chunk]:
        """End a search with a frame at an index; return the bytes from there."""
        self.skipped_bytes += index
        segments, self._candidate_offset = self._buffer.rest(index)
        self._searched_until = self._candidate_offset + self._buffer.size - index
        self._buffer.clear()
        self.is_on = False
        return [Chunk(self._candidate_offset, segments, 0, len(segments.start))]


def _with_rest(chunk: Chunk, index: int, stream_offset: int, chunks: list[Chunk]) -> list[Chunk]:
    """Return the rest of a chunk from a segment on, then ``chunks``: the last is cut first."""
    if index == chunk.last:
        return chunks
    return [Chunk(stream_offset, chunk.segments, index, chunk.last), *chunks]


class PartialFrame:
    """The frame that has begun and is not complete, from when its size is known; or no frame.

    Attributes:
        frame: the frame; None if there is none.
        remaining: how many bytes of it are still to come, lost ones included.
    """

    _SAVED = Saved("remaining:count frame:Frame?", Frame)

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self.remaining = 0

    def _after_load(self) -> None:
        if (self.remaining > 0) != (self.frame is not None) or (
            self.frame is not None and self.frame.received > self.frame.length - self.remaining
        ):
            raise ValueError("a frame with bytes beyond those that have come")

    @property
    def seen_bytes(self) -> int:
        """Stream bytes of the frame so far, its holes included; 0 if there is no frame."""
        return 0 if self.frame is None else self.frame.length - self.remaining

    def extend(self, frame: Frame, spread: SegmentSpan) -> None:
        """Add the next bytes to the frame, which is :attr:`frame`."""
        if spread.buffered_bytes:
            frame.add_spread(frame.length - self.remaining, spread)
        frame.missing_bytes += spread.length - spread.buffered_bytes
        self.remaining -= spread.length

    def lose(self, length: int) -> None:
        """Note that the next ``length`` bytes are lost."""
        if self.frame is not None:
            self.frame.missing_bytes += length
            self.frame.lost_bytes += length
        self.remaining -= length

    def end(self, time_ns: int, packet: int) -> Frame | None:
        """Return the frame, and set :attr:`frame` to None.

        ``time_ns`` and ``packet`` are of its last packet; ``packet`` is ``NO_PACKET`` if its end
        was lost.
        """
        frame = self.frame
        self.frame, self.remaining = None, 0
        if frame is not None:
            frame.end_with(time_ns, packet)
        return frame


class SplitPrefix:
    """The size prefix of a frame, if it lies in two segments or more.

    Attributes:
        frame: the frame, without its bytes and its size; None if no prefix is split.
    """

    _SAVED = Saved("_bytes:bytes frame:Frame?", Frame)

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self._bytes = b""

    def _after_load(self) -> None:
        if (0 < len(self._bytes) < 4) != (self.frame is not None) or (
            self.frame is not None and self.frame.received
        ):
            raise ValueError("a split size prefix that has not 1 to 3 bytes")

    def begin(self, segments: Segments, index: int, stream_offset: int, used: int) -> None:
        """Begin a prefix with the bytes of a segment from its byte ``used`` on."""
        start = segments.start[index]
        self._bytes = bytes(segments.buffer[start + used : start + segments.captured[index]])
        self.frame = Frame(0, stream_offset, segments.time_ns[index], segments.packet[index])

    def add(self, segments: Segments, index: int) -> int:
        """Add the first bytes of a segment; return how many, or -1 if they were not captured."""
        take = min(4 - len(self._bytes), segments.length[index])
        if segments.captured[index] < take:
            return -1
        start = segments.start[index]
        self._bytes += bytes(segments.buffer[start : start + take])
        return take

    @property
    def size(self) -> int | None:
        """The size that the prefix declares; None until the prefix is complete."""
        return _SIZE(self._bytes)[0] if len(self._bytes) == 4 else None

    def chunk(self, end: int) -> Chunk:
        """Return the bytes of the prefix before stream offset ``end``, to be searched.

        If the bytes came in several packets, all get the time and the number of the first one.
        """
        frame = self.frame
        assert frame is not None  # begun
        size = end - frame.stream_offset
        data = memoryview(self._bytes)[:size]
        segments = Segments(data, [0], [size], [size], [frame.start_time_ns], [frame.start_packet])
        return Chunk(frame.stream_offset, segments, 0, 1)

    def end(self, size: int) -> Frame:
        """Return :attr:`frame`, with its size and the prefix."""
        frame = self.frame
        assert frame is not None  # begun
        frame.length = size + 4
        frame.add(0, memoryview(self._bytes))
        return frame


LARGEST_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's default for ``socket.request.max.bytes``; a larger size is not a frame."""

_KEPT_BYTES = 2048
"""How many bytes of a dropped frame are kept: its header, and the fields before its first array."""
_MAX_SMALL_FRAMES = 32


class SyncLoss(NamedTuple):
    """A place in a stream where the next frame boundary was lost."""

    stream_offset: int
    size: int | None
    """The implausible size at this offset; None if bytes are missing there."""
    time_ns: int
    packet: int


_NO_LOSSES: list[SyncLoss] = []
_NO_ITEMS: list[StreamItem] = []
"""Shared by the many steps that have no losses and no items left; nothing is ever added to them."""


def completion_packet(frame: Any) -> int:
    """As :meth:`Frame.completion_packet`, of a frame that was cut."""
    packet: int = frame.last_packet
    if packet == NO_PACKET:
        packet = frame.start_packet
    return packet


class CutFrames:
    """The results of one step of a :class:`FrameCutter`, in stream order.

    A frame whose bytes lie whole in segments of the batch is a few numbers (``items``): what is
    read of it needs no object. :meth:`frame` makes one, for all that is rare.
    """

    def __init__(self) -> None:
        if not cython.compiled:
            self.items: Any = None
        self.count = 0
        self._room = 0
        self._sources: list[Any] = []
        """Segments of frames, and frames that are objects."""
        self.losses = _NO_LOSSES
        self.rest = _NO_ITEMS
        """Items to feed next: the step ended because sync was lost."""

    def __dealloc__(self) -> None:
        free_frames(self.items)

    @property
    def frames(self) -> list[Frame]:
        """All frames, as objects."""
        return [self.frame(index) for index in range(self.count)]

    def _next(self) -> Any:
        if self.count == self._room:
            self._room = 2 * self._room + 8
            self.items = more_frames(self.items, self._room)
        self.count += 1
        return cython.address(self.items[self.count - 1])

    def put(
        self,
        segments: Segments,
        first: int,
        skip: int,
        length: int,
        stream_offset: int,
        last: int,
    ) -> None:
        """Add a frame of ``length`` bytes from byte ``skip`` of the segment ``first`` on.

        All of it was captured; it ends in the segment ``last``.
        """
        if not self._sources or self._sources[-1] is not segments:
            self._sources.append(segments)
        frame = self._next()
        frame.is_object = False
        frame.source = len(self._sources) - 1
        frame.length, frame.stream_offset = length, stream_offset
        frame.start_ns, frame.start_packet = segments.times[first], segments.packets[first]
        frame.last_ns, frame.last_packet = segments.times[last], segments.packets[last]
        frame.first, frame.skip = first, skip
        frame.data = bytes_from(start_of(segments.data), segments.starts[first] + skip)
        frame.contiguous = min(segments.lengths[first] - skip, length)

    def segments(self, index: int) -> Segments:
        """Return the segments of a frame that is no object."""
        segments: Segments = self._sources[self.items[index].source]
        return segments

    def add(self, frame: Frame) -> None:
        """Add a frame that is an object."""
        self._sources.append(frame)
        cut = self._next()
        cut.is_object = True
        cut.source = len(self._sources) - 1
        cut.length, cut.stream_offset = frame.length, frame.stream_offset
        cut.start_ns, cut.start_packet = frame.start_time_ns, frame.start_packet
        cut.last_ns, cut.last_packet = frame.last_time_ns, frame.last_packet
        cut.contiguous = 0

    def frame(self, index: int) -> Frame:
        """Return a frame as an object; always the same one."""
        cut = cython.address(self.items[index])
        if cut.is_object:
            frame: Frame = self._sources[cut.source]
            return frame
        segments = self.segments(index)
        if cut.contiguous == cut.length:
            made = frame_in_segment(segments, cut.first, cut.skip, cut.length, cut.stream_offset)
        else:
            made = frame_begun(cut.length, cut.stream_offset, cut.start_ns, cut.start_packet)
            made.add_spread(0, spread_of(segments, cut.first, cut.skip, cut.length))
            made.end_with(cut.last_ns, cut.last_packet)
        self._sources.append(made)
        cut.is_object, cut.source = True, len(self._sources) - 1
        return made

    def extend(self, later: CutFrames) -> None:
        """Add the frames of a later step."""
        before = len(self._sources)
        self._sources += later._sources
        for index in range(later.count):
            cut, to = cython.address(later.items[index]), self._next()
            to.length, to.stream_offset = cut.length, cut.stream_offset
            to.start_ns, to.start_packet = cut.start_ns, cut.start_packet
            to.last_ns, to.last_packet = cut.last_ns, cut.last_packet
            to.is_object, to.source = cut.is_object, before + cut.source
            to.contiguous = cut.contiguous
            if not cut.is_object:
                to.data, to.first, to.skip = cut.data, cut.first, cut.skip

    def clear(self) -> None:
        """Drop the frames."""
        self.count = 0
        self._sources = []


def _check(segments: Segments, index: int) -> None:
    """Raise IndexError if the bytes of a segment are not in its buffer."""
    start, captured = segments.starts[index], segments.captureds[index]
    if start < 0 or captured < 0 or start + captured > len(segments.data):
        raise IndexError("a segment outside of its buffer")


class FrameCutter:
    """Cuts one direction of a connection into frames; a state machine without I/O.

    A few frames that are too small for a message are accepted, because SASL tokens have the same
    framing and may be empty. Their limit keeps a stream of zeros from being cut into endless
    frames.
    """

    _NOT_SAVED = (
        *("_begun", "_cut_so_far", "_locator", "_losses", "_made_partial", "_made_search"),
        *("_split", "largest_bytes", "smallest_bytes"),
    )
    _SAVED = Saved(
        "_search:here _search_from:count remaining_small_frames:count partial:here _prefix:here"
    )

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
        """
        self.smallest_bytes, self.largest_bytes = smallest_bytes, largest_bytes
        self.remaining_small_frames = _MAX_SMALL_FRAMES
        """How many frames that are too small are still accepted."""
        self._locator = locator
        self._cut_so_far: CutFrames | None = None
        """The results of this step; None before the first."""
        self._losses = _NO_LOSSES
        self._begun = 0
        """Length of the frame that begins where cutting stopped, and continues in the next segment;
        0 if there is none."""
        self._made_search = None if in_sync else BoundarySearch(locator, is_on=True)
        self._search_from = 0
        self._split: SplitPrefix | None = None
        self._made_partial: PartialFrame | None = None

    def _after_load(self) -> None:
        incomplete = (self.partial_frame() is not None) + _has_split(self)
        if _is_searching(self) + incomplete > 1 or self.remaining_small_frames > _MAX_SMALL_FRAMES:
            raise ValueError("contradictory framer state")

    @property
    def _search(self) -> BoundarySearch:
        """What searches a boundary; most streams are never out of sync."""
        if self._made_search is None:
            self._made_search = BoundarySearch(self._locator, is_on=False)
        return self._made_search

    @property
    def _prefix(self) -> SplitPrefix:
        """The size prefix that is split; it has no frame if none is."""
        if self._split is None:
            self._split = SplitPrefix()
        return self._split

    @property
    def partial(self) -> PartialFrame:
        """What there is of the frame that has begun and is not complete."""
        if self._made_partial is None:
            self._made_partial = PartialFrame()
        return self._made_partial

    def partial_frame(self) -> Frame | None:
        """Return the frame that has begun and is not complete; None if there is none."""
        return None if self._made_partial is None else self._made_partial.frame

    def is_in_sync(self) -> bool:
        """Return true if the next byte continues a frame of known size, or begins a frame."""
        return not _is_searching(self) and not _has_split(self)

    def needs_locator(self) -> bool:
        """Return true if the next items may be shown to the locator."""
        search, frame = self._made_search, self.partial_frame()
        if search is None:
            return False
        return search.is_on or (frame is not None and search.is_unconfirmed(frame))

    @property
    def skipped_bytes(self) -> int:
        """Bytes that were skipped while out of sync."""
        return 0 if self._made_search is None else self._made_search.skipped_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes kept of an incomplete frame and of a search."""
        searched = 0 if self._made_search is None else self._made_search.buffered_bytes
        frame = self.partial_frame()
        return searched if frame is None else searched + frame.buffered_bytes

    def shed(self) -> tuple[int, int]:
        """Drop what is buffered; return the stream offset it began at, and how many bytes.

        The beginning of an incomplete frame stays: it has the header.
        """
        if _is_searching(self):
            return self._search.offset, self._search.clear()
        frame = self.partial_frame()
        if frame is not None:
            return frame.stream_offset + _KEPT_BYTES, frame.drop_after(_KEPT_BYTES)
        return 0, 0

    def feed(self, items: list[StreamItem]) -> CutFrames:
        """Cut the next part of the stream."""
        cut = self.feed_until_loss(items)
        while cut.rest:
            more = self.feed_until_loss(cut.rest)
            cut.extend(more)
            cut.losses = cut.losses + more.losses
            cut.rest = more.rest
        return cut

    def feed_until_loss(self, items: list[StreamItem]) -> CutFrames:
        """Cut the next part of the stream, up to where sync is lost.

        The caller brings the locator up to date before it feeds the rest.
        """
        for index in range(len(items)):
            item = items[index]
            rest = self._gap(item) if isinstance(item, Gap) else self._cut_chunks([item])
            if self._losses:
                return _cut_frames(self, [*rest, *items[index + 1 :]])
        return _cut_frames(self, _NO_ITEMS)

    def finish(self) -> CutFrames:
        """End the stream: search the buffered bytes for frames, and skip the rest."""
        while _is_searching(self):
            chunks = self._search.search_buffered()
            if not chunks:
                self._search.clear()
                break
            while chunks:
                chunks = [*self._cut_chunks([chunks.pop(0)]), *chunks]
        return _cut_frames(self, _NO_ITEMS)

    # -- in sync ------------------------------------------------------------------------------

    def _cut_chunks(self, chunks: list[Chunk]) -> list[Chunk]:
        """Cut chunks, the last of the list first; if sync is lost, return the uncut rest, in order.

        When a search finds a boundary, the bytes from there are cut before the rest of the chunk.
        """
        losses_before = len(self._losses)
        while chunks:
            chunk = chunks.pop()
            if _is_searching(self):
                chunks += self._search.search(chunk)
            else:
                chunks += self._cut(chunk)
                if len(self._losses) > losses_before:
                    break
        return chunks[::-1] if chunks else chunks

    def _cut(self, chunk: Chunk) -> list[Chunk]:
        """Cut a chunk in sync; return what is left where sync was lost, in reverse order."""
        segments = chunk.segments
        lengths = segments.lengths
        index, last = chunk.first, chunk.last
        offset, used = chunk.stream_offset, 0
        while index < last:
            partial = self._made_partial
            if partial is not None and partial.frame is not None:
                first, skip, added_bytes = index, used, 0
                while True:
                    length = lengths[index] - used
                    if length >= partial.remaining - added_bytes:
                        used += partial.remaining - added_bytes
                        added_bytes = partial.remaining
                        break
                    added_bytes += length
                    if index + 1 == last:
                        used = lengths[index]
                        break
                    offset += lengths[index]
                    index, used = index + 1, 0
                partial.extend(partial.frame, spread_of(segments, first, skip, added_bytes))
                if not partial.remaining:
                    self._finish(segments.times[index], segments.packets[index])
            elif _has_split(self):
                split = self._split
                assert split is not None
                used = self._complete_prefix(split, segments, index)
                if used < 0:
                    # The prefix's earlier bytes are searched too. Otherwise the result would
                    # depend on where the stream was cut into segments.
                    before = split.chunk(offset)
                    begin, size = before.stream_offset, split.size
                    self._out_of_sync(begin, size, segments.times[index], segments.packets[index])
                    return [Chunk(offset, segments, index, last), before]
            else:
                used = self._cut_segment(segments, index, offset, used)
                end = offset + used + self._begun
                after = _cut_begun(self, segments, index, last, offset, used)
                while index < after:
                    offset += lengths[index]
                    index += 1
                    used = end - offset
            if _is_searching(self):
                return _from(chunk, index, offset, self._search_from)
            if index < last and used == lengths[index]:
                offset += used
                index, used = index + 1, 0
        return []

    def _cut_segment(self, segments: Segments, index: int, offset: int, used: int) -> int:
        """Cut a segment, which begins at stream ``offset``, from its byte ``used`` on.

        Returns the byte where cutting stopped: the segment's end, the begin of a frame that
        continues in the next segment (``_begun``), or the place where sync was lost.
        """
        _check(segments, index)
        if index + AHEAD < len(segments.starts):
            ahead = segments.starts[index + AHEAD]
            prefetch_head(bytes_from(start_of(segments.data), ahead))
        length = segments.lengths[index]
        start, captured = segments.starts[index], segments.captureds[index]
        time_ns, packet = segments.times[index], segments.packets[index]
        while used < length:
            if captured - used < 4 and captured == length:
                self._prefix.begin(segments, index, offset + used, used)
                return length
            if captured - used < 4:
                self._search.skipped_bytes += length - used
                end = offset + length
                self._out_of_sync(offset + used, None, time_ns, packet, search_from=end)
                return length
            size = int32_in(start_of(segments.data), start + used)
            if not _accepts(self, size):
                self._out_of_sync(offset + used, size, time_ns, packet)
                return used
            if used + size + 4 > length:
                self._begun = size + 4
                return used
            if used + size + 4 > captured:
                frame = frame_in_segment(segments, index, used, size + 4, offset + used)
                _results(self).add(frame)
            else:
                _results(self).put(segments, index, used, size + 4, offset + used, index)
            used += size + 4
        return used

    def _finish(self, time_ns: int, packet: int) -> None:
        """Complete the frame that has begun, with its last packet; NO_PACKET if that was lost."""
        partial, self._made_partial = self._made_partial, None
        frame = None if partial is None else partial.end(time_ns, packet)
        if frame is None:
            return
        if self._made_search is None or self._made_search.confirms(frame):
            _results(self).add(frame)
        else:
            _reject(self, frame)

    def _complete_prefix(self, split: SplitPrefix, segments: Segments, index: int) -> int:
        """Add the rest of a split size prefix; return how many bytes of the segment it takes.

        Returns -1 if the size was not captured, or is implausible.
        """
        time_ns, packet = segments.times[index], segments.packets[index]
        prefix_bytes = split.add(segments, index)
        if prefix_bytes < 0:
            return -1
        size = split.size
        if size is None:
            return prefix_bytes
        if not _accepts(self, size):
            return -1
        _begin_partial(self, split.end(size), size)
        self._split = None
        if size == 0:
            self._finish(time_ns, packet)
        return prefix_bytes

    # -- gaps and loss of sync -------------------------------------------------------------------

    def _gap(self, gap: Gap) -> list[StreamItem]:
        """Step over missing bytes; return the items to feed again if sync was lost before them."""
        if _is_searching(self):
            losses_before = len(self._losses)
            rest = self._cut_chunks(self._search.search_buffered())
            if len(self._losses) > losses_before:
                return [*rest, gap]
        if _is_searching(self):
            self._search.clear()
            return []
        partial = self._made_partial
        if partial is None or partial.frame is None or gap.length > partial.remaining:
            self._out_of_sync(gap.stream_offset, None, gap.time_ns, gap.packet)
            return []
        partial.lose(gap.length)
        if partial.remaining == 0:
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
        self._losses = [*self._losses, SyncLoss(stream_offset, size, time_ns, packet)]
        self._search.is_on = True
        partial = self._made_partial
        if partial is not None and partial.frame is not None:
            # The frame is still of use: it may have its header, and its size on the wire is known.
            partial.lose(partial.remaining)
            self._finish(0, NO_PACKET)
        self._split = None
        self._search_from = stream_offset if search_from is None else search_from


def _results(cutter: FrameCutter) -> CutFrames:
    if cutter._cut_so_far is None:
        cutter._cut_so_far = CutFrames()
    return cutter._cut_so_far


def _has_split(cutter: FrameCutter) -> bool:
    return cutter._split is not None and cutter._split.frame is not None


def _is_searching(cutter: FrameCutter) -> bool:
    return cutter._made_search is not None and cutter._made_search.is_on


def _cut_frames(cutter: FrameCutter, rest: list[StreamItem]) -> CutFrames:
    """Return the results so far, and begin new ones."""
    cut = _results(cutter)
    cut.rest, cut.losses = rest, cutter._losses
    cutter._cut_so_far, cutter._losses = None, _NO_LOSSES
    return cut


def _begin_partial(cutter: FrameCutter, frame: Frame, remaining: int) -> None:
    """Begin a frame, of which so many bytes are still to come."""
    cutter._made_partial = PartialFrame()
    cutter._made_partial.frame, cutter._made_partial.remaining = frame, remaining


def _reject(cutter: FrameCutter, frame: Frame) -> None:
    """Drop a false frame that a search had found; search on after it."""
    cutter._search.skipped_bytes += frame.length - frame.missing_bytes
    if not _is_searching(cutter):
        end = frame.stream_offset + frame.length
        time_ns, packet = frame.end_time_ns, frame.end_packet
        if time_ns is None or packet is None:
            time_ns, packet = frame.start_time_ns, frame.start_packet
        cutter._out_of_sync(end, None, time_ns, packet)


def _end_of_begun(
    cutter: FrameCutter,
    segments: Segments,
    first: int,
    last: int,
    offset: int,
    skip: int,
    length: int,
) -> int:
    """Return in which segment the frame ends that began at byte ``skip`` of ``first``.

    -1 if that is not in these segments, if a byte of it was not captured, or if a search found
    it: then a :class:`Frame` has to keep what there is of it.
    """
    search = cutter._made_search
    if search is not None and offset + skip == search._candidate_offset:
        return -1
    index, end = first, -skip
    while index < last:
        _check(segments, index)
        end += segments.lengths[index]
        if segments.captureds[index] < segments.lengths[index]:
            return -1
        if end >= length:
            return index
        index += 1
    return -1


def _cut_begun(
    cutter: FrameCutter, segments: Segments, first: int, last: int, offset: int, skip: int
) -> int:
    """Cut the frame that has begun, if one has; return in which segment it ends.

    -1 if there is none, or if it ends in none of these.
    """
    if cutter._begun == 0:
        return -1
    length, cutter._begun = cutter._begun, 0
    after = _end_of_begun(cutter, segments, first, last, offset, skip, length)
    if after < 0:
        time_ns, packet = segments.times[first], segments.packets[first]
        _begin_partial(cutter, frame_begun(length, offset + skip, time_ns, packet), length)
    else:
        _results(cutter).put(segments, first, skip, length, offset + skip, after)
    return after


def _accepts(cutter: FrameCutter, size: int) -> bool:
    """Return true if a frame may have a size; count the size if it is too small for a message."""
    if cutter.smallest_bytes <= size <= cutter.largest_bytes:
        return True
    if not 0 <= size < cutter.smallest_bytes or cutter.remaining_small_frames == 0:
        return False
    cutter.remaining_small_frames -= 1
    return True


def _from(chunk: Chunk, index: int, stream_offset: int, begin: int) -> list[Chunk]:
    """Return the rest of a chunk from stream offset ``begin`` on, its second part first.

    ``begin`` is in the segment at ``index``, whose own offset is ``stream_offset``, or at its end.
    """
    segments = chunk.segments
    skip = begin - stream_offset
    if skip == 0:
        return [Chunk(stream_offset, segments, index, chunk.last)]
    length, captured = segments.length[index], segments.captured[index]
    chunks = []
    if index + 1 < chunk.last:
        chunks.append(Chunk(stream_offset + length, segments, index + 1, chunk.last))
    if skip < length:
        shortened = Segments(
            segments.buffer,
            [segments.start[index] + skip],
            [length - skip],
            [max(0, captured - skip)],
            [segments.time_ns[index]],
            [segments.packet[index]],
        )
        chunks.append(Chunk(begin, shortened, 0, 1))
    return chunks
