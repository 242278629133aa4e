"""One frame of a Kafka connection: its position, its times, and its captured bytes.

In: bytes at frame positions, alone or spread over many segments. Out: a
:class:`~kanalyze.kafka.wire.Source`.

Nothing is joined or copied before it is read: most of a large frame is record data that is never
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.framing.frame_pieces import FramePieces
from kanalyze.kafka.wire import MissingBytes, Truncated

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame_pieces import SegmentSpan
    from kanalyze.model.streams import Segments

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    NO_PACKET = -1  # in place of a packet's number, where there is none

__all__ = ["SKIMMED_BYTES", "Frame", "frame_begun", "frame_in_segment"]

_FIRST_WINDOW_BYTES = 2048
SKIMMED_BYTES = 64 * 1024
"""With fewer bytes, it takes longer to find the needed ones than to keep all."""
_NO_BYTES = memoryview(b"")


class Frame:
    """One frame: its position, its times, and its captured bytes.

    It is a :class:`~kanalyze.kafka.wire.Source`. Its bytes live as long as the buffers they came
    in; :meth:`detach` copies them.

    The bytes are in one of three forms: contiguous in the buffer of ``segments``; spread over many
    segments of one batch; or in pieces. Pieces take the most time and are made only when needed.

    Attributes:
        length: bytes with the 4-byte size prefix.
        stream_offset: offset of the size prefix in the stream.
        start_time_ns, start_packet: of the packet with the first byte.
        last_time_ns, last_packet: of the packet with the last byte; if it was lost, ``last_packet``
            is ``NO_PACKET``. Python code reads ``end_time_ns`` and ``end_packet`` instead.
        missing_bytes: bytes that the capture does not have: lost, or cut by a snap length.
        lost_bytes: the lost ones among them.
        buffered_bytes: bytes of the frame that are in memory.
        contiguous_bytes: how many bytes, from the first on, are in the buffer of ``segments`` from
            index ``begin`` on; 0 in the other forms.
        spread: the bytes from the first on, in segments of one batch; None in the other forms.
        window_bytes: how many bytes :meth:`window` joins at most.
        batch_sums: how far the CRC of each batch of records was computed before its bytes were
            dropped, by the batch's position: the position reached, and the CRC so far; None if
            CRCs are not checked, or nothing was dropped.
        skim_above: with more buffered bytes than this, it pays to drop those that are not needed.
    """

    _NOT_SAVED = ("begin", "buffered_bytes", "segments", "spread", "contiguous_bytes")
    _SAVED = Saved(
        "size:count stream_offset:count start_time_ns:int start_packet:count _end:2*int? "
        "missing_bytes:count lost_bytes:count skim_above:count window_bytes:count "
        "_pieces:FramePieces",
        FramePieces,
        added="batch_sums:dict[count,*(count,count)]?",
        arguments=4,
    )

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
        self.skim_above = SKIMMED_BYTES
        self.window_bytes = _FIRST_WINDOW_BYTES
        self.segments: Segments | None = None
        self.begin = self.contiguous_bytes = 0
        self.spread: SegmentSpan | None = None
        self._pieces: FramePieces | None = None
        self.batch_sums: dict[int, tuple[int, int]] | None = None

    def _before_save(self) -> None:
        self.in_pieces()

    def _after_load(self) -> None:
        self.buffered_bytes = self.in_pieces().buffered_bytes()
        if self.length - 4 >> 31 or self.received > self.length:
            raise ValueError("bytes behind the end of a frame")
        if self.lost_bytes > self.missing_bytes:
            raise ValueError("more lost bytes of a frame than missing ones")

    @property
    def _end(self) -> tuple[int | None, int | None]:
        is_ended = self.last_packet != NO_PACKET
        return (self.last_time_ns, self.last_packet) if is_ended else (None, None)

    @_end.setter
    def _end(self, end: tuple[int | None, int | None]) -> None:
        time_ns, packet = end
        if time_ns is not None and packet is not None:
            self.end_with(time_ns, packet)
        elif time_ns is not packet:
            raise ValueError("only one of the time and the packet of a frame's end")

    @property
    def size(self) -> int:
        """The declared size in bytes, 0 and up; the frame has 4 bytes more."""
        return self.length - 4

    @property
    def end_time_ns(self) -> int | None:
        """Time of the packet with the last byte; None if that packet was lost."""
        return None if self.last_packet == NO_PACKET else self.last_time_ns

    @property
    def end_packet(self) -> int | None:
        """Number of the packet with the last byte; None if that packet was lost."""
        return None if self.last_packet == NO_PACKET else self.last_packet

    def end_with(self, time_ns: int, packet: int) -> None:
        """Note the packet with the last byte."""
        self.last_time_ns = time_ns
        self.last_packet = packet

    def completion_packet(self) -> int:
        """Return the number of the last packet; that of the first one if the last was lost."""
        return self.start_packet if self.last_packet == NO_PACKET else self.last_packet

    @property
    def received(self) -> int:
        """Frame position after the last buffered byte."""
        return self.in_pieces().end()

    def whole(self) -> memoryview | None:
        """Return the frame's bytes if they are contiguous and complete, else None."""
        if self.segments is not None:
            if self.contiguous_bytes < self.length:
                return None
            return self.segments.view(self.begin, self.begin + self.length)
        piece = None if self._pieces is None else self._pieces.only_piece()
        return piece if piece is not None and len(piece) == self.length else None

    def add(self, at: int, piece: memoryview) -> None:
        """Add bytes at frame position ``at``; positions rise."""
        self.in_pieces().add(at, piece)
        self.buffered_bytes += len(piece)

    def add_spread(self, at: int, spread: SegmentSpan) -> None:
        """Add bytes in segments at frame position ``at``; positions rise."""
        self.buffered_bytes += spread.buffered_bytes
        if at > 0:
            self.in_pieces().add(at, spread)
            return
        self.spread = spread
        self.segments = spread.segments
        self.contiguous_bytes = max(spread.contiguous_end(0), 0)
        self.begin = spread.buffer_index(0)

    def window(self, at: int) -> memoryview:
        """Return the contiguous bytes from ``at`` on (see ``wire.Source``).

        Pieces are joined only as far as needed: most of a large frame is record data that nobody
        reads.
        """
        return self._join(at, self.window_bytes)

    def read(self, at: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes from ``at`` on (see ``wire.Source``)."""
        if at + length > self.length:
            raise Truncated(f"{length} bytes at {at} of a frame of {self.length}")
        joined = self._join(at, length)
        if len(joined) < length:
            raise MissingBytes(f"bytes {at + len(joined)} and on of the frame are not there")
        return joined[:length]

    def contiguous(self, at: int) -> memoryview:
        """Return the bytes from ``at`` on that are contiguous in one buffer: none are joined.

        Raises as :meth:`window` does. The decoder reads contiguous bytes, and those of ``spread``,
        without this: making a view takes longer than reading most bodies.
        """
        if at >= self.length:
            self._check_end(at)
            return _NO_BYTES
        return self.in_pieces().contiguous(at)

    def in_pieces(self) -> FramePieces:
        """Bring the bytes into the form of pieces, and return these."""
        pieces = self._pieces
        if pieces is None:
            pieces = self._pieces = FramePieces()
            if self.spread is not None:
                pieces.add(0, self.spread)
            elif self.segments is not None:
                pieces.add(0, self.segments.view(self.begin, self.begin + self.contiguous_bytes))
            self.spread = self.segments = None
            self.contiguous_bytes = 0
        return pieces

    def detach(self) -> None:
        """Copy the frame's bytes, so that it outlives the buffers they came in."""
        self.in_pieces().detach()

    def _check_end(self, at: int) -> None:
        """Raise Truncated for a position beyond the end of the frame."""
        if at > self.length:
            raise Truncated(f"position {at} of a frame of {self.length} bytes")

    def _join(self, at: int, least: int) -> memoryview:
        """Return the contiguous bytes from ``at`` on, at least ``least`` if there are as many."""
        if at >= self.length:
            self._check_end(at)
            return _NO_BYTES
        if self.segments is not None and self.contiguous_bytes == self.length and at >= 0:
            return self.segments.view(self.begin + at, self.begin + self.length)
        return self.in_pieces().join(at, least)


def frame_begun(length: int, stream_offset: int, time_ns: int, packet: int) -> Frame:
    """Make a :class:`Frame` of ``length`` bytes with its prefix; fast from compiled modules."""
    frame = Frame.__new__(Frame)
    frame._begin_at(length, stream_offset, time_ns, packet)
    return frame


def frame_in_segment(
    segments: Segments,
    index: int,
    used: int,
    length: int,
    stream_offset: int,
) -> Frame:
    """Make a frame of ``length`` bytes that begins at byte ``used`` of a segment and ends in it.

    At least its size prefix was captured.
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
