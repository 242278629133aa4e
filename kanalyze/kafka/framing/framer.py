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

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.boundary_search import BoundarySearch
from kanalyze.kafka.framing.partial_frame import PartialFrame, SplitPrefix
from kanalyze.kafka.framing.trimming import drop_after
from kanalyze.model.streams import Chunk, Gap, Segments

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.kafka.codec.machine import int32_at
    from kanalyze.kafka.framing.frame import NO_PACKET, frame_begun, frame_in_segment
    from kanalyze.kafka.framing.frame_pieces import spread_of

if TYPE_CHECKING:
    from kanalyze.kafka.framing.boundary_search import FrameLocator
    from kanalyze.kafka.framing.frame import Frame
    from kanalyze.model.streams import StreamItem

__all__ = ["LARGEST_FRAME_BYTES", "CutFrames", "FrameCutter", "SyncLoss"]

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


class CutFrames:
    """The results of one step of a :class:`FrameCutter`, in stream order."""

    def __init__(self, frames: list[Frame], losses: list[SyncLoss], rest: list[StreamItem]) -> None:
        self.frames = frames
        self.losses = losses
        self.rest = rest
        """Items to feed next: the step ended because sync was lost."""


class SizeLimits:
    """Which declared sizes may be those of a message.

    A few that are too small are accepted, because SASL tokens have the same framing and may be
    empty. Their limit keeps a stream of zeros from being cut into endless frames.
    """

    _NOT_SAVED = ("_largest", "_smallest")
    _SAVED = Saved("remaining_small_frames:count", bare=True)

    def __init__(self, smallest: int, largest: int) -> None:
        self._smallest = smallest
        self._largest = largest
        self.remaining_small_frames = _MAX_SMALL_FRAMES
        """How many frames that are too small are still accepted."""

    def accepts(self, size: int) -> bool:
        """Return true if a frame may have this size; count the size if it is too small."""
        if self._smallest <= size <= self._largest:
            return True
        if not 0 <= size < self._smallest or self.remaining_small_frames == 0:
            return False
        self.remaining_small_frames -= 1
        return True


class FrameCutter:
    """Cuts one direction of a connection into frames; a state machine without I/O."""

    _NOT_SAVED = ("_frames", "_losses")
    _SAVED = Saved("_search:here _search_from:count _sizes:here partial:here _prefix:here")

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
        self._sizes = SizeLimits(smallest_bytes, largest_bytes)
        self._frames: list[Frame] = []
        self._losses: list[SyncLoss] = []
        self._search = BoundarySearch(locator, is_on=not in_sync)
        self._search_from = 0
        self._prefix = SplitPrefix()
        self.partial = PartialFrame()

    def _after_load(self) -> None:
        incomplete = (self.partial.frame is not None) + (self._prefix.frame is not None)
        if (
            self._search.is_on + incomplete > 1
            or self._sizes.remaining_small_frames > _MAX_SMALL_FRAMES
        ):
            raise ValueError("contradictory framer state")

    @property
    def in_sync(self) -> bool:
        """True if the next byte continues a frame of known size, or begins a frame."""
        return not self._search.is_on and self._prefix.frame is None

    @property
    def needs_locator(self) -> bool:
        """True if the next items may be shown to the locator."""
        frame = self.partial.frame
        return self._search.is_on or (frame is not None and self._search.is_unconfirmed(frame))

    @property
    def skipped_bytes(self) -> int:
        """Bytes that were skipped while out of sync."""
        return self._search.skipped_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes kept of an incomplete frame and of a search."""
        return self.partial.buffered_bytes + self._search.buffered_bytes

    def shed(self) -> tuple[int, int]:
        """Drop what is buffered; return the stream offset it began at, and how many bytes.

        The beginning of an incomplete frame stays: it has the header.
        """
        if self._search.is_on:
            return self._search.offset, self._search.clear()
        frame = self.partial.frame
        if frame is not None:
            return frame.stream_offset + _KEPT_BYTES, drop_after(frame, _KEPT_BYTES)
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
        """End the stream: search the buffered bytes for frames, and skip the rest."""
        while self._search.is_on:
            chunks = self._search.search_buffered()
            if not chunks:
                self._search.clear()
                break
            while chunks:
                chunks = [*self._cut_chunks([chunks.pop(0)]), *chunks]
        return self._cut_frames(_NO_ITEMS)

    def _cut_frames(self, rest: list[StreamItem]) -> CutFrames:
        """Return the results so far, and begin new ones."""
        cut = CutFrames(self._frames, self._losses or _NO_LOSSES, rest)
        self._frames = []
        if self._losses:
            self._losses = []
        return cut

    # -- in sync ------------------------------------------------------------------------------

    def _cut_chunks(self, chunks: list[Chunk]) -> list[Chunk]:
        """Cut chunks, the last of the list first; if sync is lost, return the uncut rest, in order.

        When a search finds a boundary, the bytes from there are cut before the rest of the chunk.
        """
        losses_before = len(self._losses)
        while chunks:
            chunk = chunks.pop()
            if self._search.is_on:
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
        partial = self.partial
        index, last = chunk.first, chunk.last
        offset, used = chunk.stream_offset, 0
        while index < last:
            if partial.frame is not None:
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
            elif self._prefix.frame is not None:
                used = self._complete_prefix(self._prefix.frame, segments, index)
                if used < 0:
                    # The prefix's earlier bytes are searched too. Otherwise the result would
                    # depend on where the stream was cut into segments.
                    before = self._prefix.chunk(self._prefix.frame, offset)
                    begin, size = before.stream_offset, self._prefix.size
                    self._out_of_sync(begin, size, segments.times[index], segments.packets[index])
                    return [Chunk(offset, segments, index, last), before]
            else:
                used = self._cut_segment(segments, index, offset, used)
            if self._search.is_on:
                return _from(chunk, index, offset, self._search_from)
            if index < last and used == lengths[index]:
                offset += used
                index, used = index + 1, 0
        return []

    def _cut_segment(self, segments: Segments, index: int, offset: int, used: int) -> int:
        """Cut a segment, which begins at stream ``offset``, from its byte ``used`` on.

        Returns the byte where cutting stopped: the segment's end, the begin of a frame that
        continues in the next segment, or the place where sync was lost.
        """
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
            size = int32_at(segments.data, start + used)
            if not self._sizes.accepts(size):
                self._out_of_sync(offset + used, size, time_ns, packet)
                return used
            if used + size + 4 > length:
                self.partial.frame = frame_begun(size + 4, offset + used, time_ns, packet)
                self.partial.remaining = size + 4
                return used
            self._frames.append(frame_in_segment(segments, index, used, size + 4, offset + used))
            used += size + 4
        return used

    def _finish(self, time_ns: int, packet: int) -> None:
        """Complete the frame that has begun, with its last packet; NO_PACKET if that was lost."""
        frame = self.partial.end(time_ns, packet)
        if frame is None:
            return
        if self._search.confirms(frame):
            self._frames.append(frame)
        else:
            self._reject(frame)

    def _reject(self, frame: Frame) -> None:
        """Drop a false frame that a search had found; search on after it."""
        self._search.skipped_bytes += frame.length - frame.missing_bytes
        if not self._search.is_on:
            end = frame.stream_offset + frame.length
            time_ns, packet = frame.end_time_ns, frame.end_packet
            if time_ns is None or packet is None:
                time_ns, packet = frame.start_time_ns, frame.start_packet
            self._out_of_sync(end, None, time_ns, packet)

    def _complete_prefix(self, frame: Frame, segments: Segments, index: int) -> int:
        """Add the rest of a split size prefix; return how many bytes of the segment it takes.

        Returns -1 if the size was not captured, or is implausible.
        """
        time_ns, packet = segments.times[index], segments.packets[index]
        prefix_bytes = self._prefix.add(segments, index)
        if prefix_bytes < 0:
            return -1
        size = self._prefix.size
        if size is None:
            return prefix_bytes
        if not self._sizes.accepts(size):
            return -1
        self._prefix.end(frame, size)
        self.partial.frame, self.partial.remaining = frame, size
        if size == 0:
            self._finish(time_ns, packet)
        return prefix_bytes

    # -- gaps and loss of sync -------------------------------------------------------------------

    def _gap(self, gap: Gap) -> list[StreamItem]:
        """Step over missing bytes; return the items to feed again if sync was lost before them."""
        search = self._search
        if search.is_on:
            losses_before = len(self._losses)
            rest = self._cut_chunks(search.search_buffered())
            if len(self._losses) > losses_before:
                return [*rest, gap]
        if search.is_on:
            search.clear()
            return []
        partial = self.partial
        if partial.frame is None or gap.length > partial.remaining:
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
        self._losses.append(SyncLoss(stream_offset, size, time_ns, packet))
        self._search.is_on = True
        if self.partial.frame is not None:
            # The frame is still of use: it may have its header, and its size on the wire is known.
            self.partial.lose(self.partial.remaining)
            self._finish(0, NO_PACKET)
        self._prefix.clear()
        self._search_from = stream_offset if search_from is None else search_from


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
