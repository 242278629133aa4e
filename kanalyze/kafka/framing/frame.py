"""One frame of a Kafka connection: its captured bytes, its position and times, and its header.

In: bytes at frame positions, alone or spread over many segments. Out: a :class:`Frame`; the header
at its begin, and where the body follows.

Nothing is joined or copied before it is read: most of a large frame is record data that is never
read.

Layouts of headers: https://kafka.apache.org/protocol (Request Header v0 to v2, Response Header v0
and v1).
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.kafka.wire import Malformed, MissingBytes, Truncated, skip_tags

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    NO_PACKET = -1  # in place of a packet's number, where there is none
    AHEAD = 6  # how many segments or messages before they are read their bytes are fetched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kanalyze.kafka.schema.catalog import Catalog
    from kanalyze.model.streams import Segments


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
        at, index, buffered = -skip, first, 0
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

    def reach(self) -> int:
        """Return the position after the last byte that was captured; 0 if none was."""
        reach, at = 0, -self._skip
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
        return self._at[-1] + (piece.reach() if isinstance(piece, SegmentSpan) else len(piece))

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


_FIRST_WINDOW_BYTES = 2048
SKIMMED_BYTES = 64 * 1024
"""With fewer bytes, it takes longer to find the needed ones than to keep all."""
_NO_BYTES = memoryview(b"")


class Frame:
    """One frame: its position, its times, and its captured bytes.

    Its bytes live as long as the buffers they came in; :meth:`detach` copies them.

    The bytes are contiguous in the buffer of ``segments``, or in pieces, which take more time.

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
            index ``begin`` on; 0 if they are in pieces.
        window_bytes: how many bytes :meth:`window` joins at most.
        batch_sums: how far the CRC of each batch of records was computed before its bytes were
            dropped, by the batch's position: the position reached, and the CRC so far; None if
            CRCs are not checked, or nothing was dropped.
        skim_above: with more buffered bytes than this, it pays to drop those that are not needed.
    """

    _NOT_SAVED = ("begin", "buffered_bytes", "segments", "contiguous_bytes")
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
        self.in_pieces().add(at, spread)

    def window(self, at: int) -> memoryview:
        """Return the contiguous bytes from ``at`` on; empty only at the end of the frame.

        Raises MissingBytes where the byte at ``at`` is not there, Truncated where ``at`` is beyond
        the end. Pieces are joined only as far as needed: most of a large frame is record data that
        nobody reads.
        """
        return self._join(at, self.window_bytes)

    def read(self, at: int, length: int) -> memoryview:
        """Return exactly ``length`` bytes from ``at`` on; raises as :meth:`window`."""
        if at + length > self.length:
            raise Truncated(f"{length} bytes at {at} of a frame of {self.length}")
        joined = self._join(at, length)
        if len(joined) < length:
            raise MissingBytes(f"bytes {at + len(joined)} and on of the frame are not there")
        return joined[:length]

    def contiguous(self, at: int) -> memoryview:
        """Return the bytes from ``at`` on that are contiguous in one buffer: none are joined.

        Raises as :meth:`window` does. The decoder reads those of ``segments`` without this: making
        a view takes longer than reading most bodies.
        """
        if at >= self.length:
            _check_end(at, self.length)
            return _NO_BYTES
        return self.in_pieces().contiguous(at)

    def in_pieces(self) -> FramePieces:
        """Bring the bytes into the form of pieces, and return these."""
        pieces = self._pieces
        if pieces is None:
            pieces = self._pieces = FramePieces()
            if self.segments is not None:
                pieces.add(0, self.segments.view(self.begin, self.begin + self.contiguous_bytes))
            self.segments = None
            self.contiguous_bytes = 0
        return pieces

    def keep_only(self, ranges: list[tuple[int, int]], until: int) -> None:
        """Drop all bytes before frame position ``until`` that are in none of ``ranges``.

        ``ranges`` rise and do not overlap.
        """
        kept_ranges = [(begin, min(end, until)) for begin, end in ranges if begin < until]
        kept_ranges.append((until, self.length))
        pieces = self.in_pieces()
        pieces.keep_only(kept_ranges)
        self.buffered_bytes = pieces.buffered_bytes()
        # The frame is not skimmed again until it has twice as many bytes.
        self.skim_above = max(SKIMMED_BYTES, 2 * self.buffered_bytes)

    def drop_after(self, at: int) -> int:
        """Drop all bytes from frame position ``at`` on; return how many. They count as lost."""
        before = self.buffered_bytes
        self.keep_only([(0, at)], self.received)
        dropped = before - self.buffered_bytes
        self.missing_bytes += dropped
        self.lost_bytes += dropped
        return dropped

    def detach(self) -> None:
        """Copy the frame's bytes, so that it outlives the buffers they came in."""
        self.in_pieces().detach()

    def _join(self, at: int, least: int) -> memoryview:
        """Return the contiguous bytes from ``at`` on, at least ``least`` if there are as many."""
        if at >= self.length:
            _check_end(at, self.length)
            return _NO_BYTES
        if self.segments is not None and self.contiguous_bytes == self.length and at >= 0:
            return self.segments.view(self.begin + at, self.begin + self.length)
        return self.in_pieces().join(at, least)


def _check_end(at: int, length: int) -> None:
    """Raise Truncated for a position beyond the end of a frame."""
    if at > length:
        raise Truncated(f"position {at} of a frame of {length} bytes")


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


def plain_body(data: bytes, head: bytes, header_version: int) -> int:
    """Return the position of a body in its frame; 0 for any header that is not plain.

    Args:
        data: the frame, with its size prefix.
        head: of a request: its key and version, four bytes; of a response: empty.
        header_version: that of the request, or of the response.
    """
    size = len(data)
    body = 8
    flexible = 1
    if head:
        if size < 14:
            return 0
        for i in range(4):
            if data[4 + i] != head[i]:
                return 0
        if header_version == 0:
            return 12
        length = data[12] * 256 + data[13]
        flexible = 2
        body = 14
        if length < 0x8000:
            body += length
        elif length < 0xFFFF:  # any negative length except null's
            return 0
    if header_version < flexible:
        return body if body <= size else 0
    return body + 1 if body < size and data[body] == 0 else 0


# api_key, api_version, correlation_id; then the length of client_id
_version_0 = Struct(">hhi").unpack_from
_version_1 = Struct(">hhih").unpack_from
_correlation_id = Struct(">i").unpack_from


class RequestHeader:
    """The header of a request.

    Attributes:
        api_key, api_version, correlation_id: the first three numbers.
        client_id: bytes that are no UTF-8 become escapes; None for null, and in version 0.
        body: index in the view of the first byte after the header.
    """

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        body: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body


class ResponseHeader(NamedTuple):
    """The header of a response."""

    correlation_id: int
    body: int
    """Index in the view of the first byte after the header."""


def parse_request_header(
    view: bytes | memoryview, pos: int, limit: int, catalog: Catalog
) -> RequestHeader:
    """Read the request header at ``view[pos]``, which ends at ``limit`` at the latest.

    Raises Truncated if it ends later, Malformed for a length below -1 and for tags that don't rise.
    Keys and versions are not checked: unknown ones are read as
    :meth:`~kanalyze.kafka.schema.catalog.Catalog.request_header_version` says.
    """
    start = pos + 10
    if start > limit:
        return _short_header(view, pos, limit, catalog)
    key, version, correlation_id, length = _version_1(view, pos)
    header_version = catalog.request_header_version(key, version)
    if header_version == 0:
        return request_header_of(key, version, correlation_id, None, pos + 8)
    client_id, end = None, start
    if length >= 0:
        end += length
        if end > limit:
            raise Truncated("the bytes end within a request header")
        client_id = str(view[start:end], "utf-8", "backslashreplace")
    elif length < -1:
        raise Malformed("client_id: negative length")
    if header_version == 2 and catalog.api(key) is not None:
        # The body of an unknown API is not read; nor are its tags, which may not exist.
        end = _after_tags(view, end, limit)
    return request_header_of(key, version, correlation_id, client_id, end)


def rest_of(frame: Frame, at: int) -> bytes:
    """Return the bytes of a frame from a position on; raises as :meth:`Frame.read`."""
    segments = frame.segments
    if segments is not None and frame.contiguous_bytes == frame.length:
        return bytes(segments.view(frame.begin + at, frame.begin + frame.length))
    return bytes(frame.read(at, frame.length - at))


def _short_header(
    view: bytes | memoryview, pos: int, limit: int, catalog: Catalog
) -> RequestHeader:
    """Read a header that has no room for a client id, as only version 0 allows."""
    if pos + 8 <= limit:
        key, version, correlation_id = _version_0(view, pos)
        if catalog.request_header_version(key, version) == 0:
            return request_header_of(key, version, correlation_id, None, pos + 8)
    raise Truncated("the bytes end within a request header")


def parse_response_header(
    view: bytes | memoryview, pos: int, limit: int, header_version: int
) -> ResponseHeader:
    """Read the response header at ``view[pos]``, which ends at ``limit`` at the latest.

    ``header_version`` is what
    :meth:`~kanalyze.kafka.schema.catalog.Catalog.response_header_version` says for its request: the
    bytes don't say it. Raises as :func:`parse_request_header` does.
    """
    if pos + 4 > limit:
        raise Truncated("the bytes end within a response header")
    correlation_id = _correlation_id(view, pos)[0]
    end = pos + 4
    if header_version >= 1:
        end = _after_tags(view, end, limit)
    return ResponseHeader(correlation_id, end)


def _after_tags(view: bytes | memoryview, pos: int, limit: int) -> int:
    """Skip the header's tag section, which is nearly always one zero byte."""
    if pos < limit and view[pos] == 0:
        return pos + 1
    end = skip_tags(view, pos, limit)
    if end > limit:
        raise Truncated("the bytes end within a header")
    return end


def request_header_of(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: int
) -> RequestHeader:
    """Make a :class:`RequestHeader`; fast from compiled modules."""
    header = RequestHeader.__new__(RequestHeader)
    header.api_key, header.api_version = api_key, api_version
    header.correlation_id = correlation_id
    header.client_id = client_id
    header.body = body
    return header
