"""The record layer: cuts a stream into records, and finds the next one after missing bytes.

In: chunks and gaps of one direction. Out: :class:`TlsRecord` and :class:`LostRecords`, in stream
order; of connections without keys only sizes and times (:class:`SealedData`).

A record's header has its length (RFC 8446 section 5.1, RFC 5246 section 6.2.1). A hole within a
record loses only that record. After a larger hole, or after bytes that are no header, the next
bytes that look like a header are searched; the record there has to be proven.

At most one record is buffered, and the header of the next. As long as it is not known where records
begin, the packets of the buffered bytes are noted too, so that a record that is proven later has
the time of its last byte.

:class:`RecordHeaders` reads only the headers, and buffers no more than one. After missing bytes, or
bytes that are no record, it expects the next record at the beginning of a packet. That is good
enough to count; :class:`RecordCutter` in contrast proves where records begin.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.streams import Gap
from kanalyze.model.tls import (
    ALERT,
    APPLICATION_DATA,
    HEADER_BYTES,
    find_record,
    looks_like_record,
    record_bytes,
    size_by_header,
)

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.model.streams import Segments, StreamItem

_MAX_NEEDED_BYTES: Final = 1 << 15
"""More than a record and the header of the next."""


_MAX_CUT_BYTES: Final = 1 << 9
"""Bytes that are kept of a record that is cut: those of a hello that say what it is."""
_ARRIVAL_BYTES: Final = 160
"""Memory of one noted packet."""
_ANY_TIME: Final = 1 << 64
"""Above every time, for searches by offset."""
_RUN_BYTES = 1 << 16
"""Bytes that are cut before the records are read, while they are in the processor's cache."""


def copy_bytes(data: memoryview, begin: int, end: int) -> bytes:
    """Return a copy of ``data[begin:end]``; raises IndexError if the buffer lacks some of it.

    Compiled, it makes no memoryview.
    """
    if begin < 0 or end > len(data):
        raise IndexError("bytes that are not in the buffer")
    if begin >= end:
        return b""
    if cython.compiled:
        first: Any = cython.address(data[begin])
        copied: bytes = first[: end - begin]
        return copied
    return bytes(data[begin:end])


def copy_from_array(array: bytearray, begin: int, end: int) -> bytes:
    """Return a copy of ``array[begin:end]``; raises IndexError if the array lacks some of it."""
    if begin < 0 or end > len(array):
        raise IndexError("bytes that are not in the array")
    if cython.compiled:
        first: Any = array
        copied: bytes = first[begin:end]
        return copied
    return bytes(array[begin:end])


class TlsRecord:
    """A record, and the packets that it came in.

    Attributes:
        kind: content type.
        header: the first five bytes.
        body: the bytes after the header.
        stream_offset: offset of the header.
        first_time_ns, first_packet: of the packet with the first byte.
        time_ns, packet: of the packet with the last byte.
    """

    _SAVED = Saved(
        "kind:count header:bytes body:bytes stream_offset:count first_time_ns:int "
        "first_packet:count time_ns:int packet:count"
    )

    def __init__(
        self,
        header: bytes,
        body: bytes,
        stream_offset: int,
        first: tuple[int, int],
        last: tuple[int, int],
    ) -> None:
        """Take the parts; ``first`` and ``last`` are time and number of the packets."""
        self.kind = header[0]
        self.header, self.body, self.stream_offset = header, body, stream_offset
        self.first_time_ns, self.first_packet = first
        self.time_ns, self.packet = last

    def without_body(self) -> TlsRecord:
        """Return the same record with an empty body."""
        first, last = (self.first_time_ns, self.first_packet), (self.time_ns, self.packet)
        return TlsRecord(self.header, b"", self.stream_offset, first, last)

    def _after_load(self) -> None:
        if len(self.header) != HEADER_BYTES or self.header[0] != self.kind:
            raise ValueError("no header of a record")


def _new_record(header: bytes, body: bytes, stream_offset: int) -> TlsRecord:
    """Return a record whose packets are not known yet."""
    made = TlsRecord.__new__(TlsRecord)
    made.kind, made.header, made.body, made.stream_offset = header[0], header, body, stream_offset
    return made


ANY_NUMBER: Final = 1 << 48
"""Upper bound of record numbers: no connection sends so many records."""


class TrialRange(NamedTuple):
    """The numbers that a record may have."""

    lowest: int
    highest: int
    """Included."""
    most_trials: int
    """How many numbers may be tried if the number cannot be computed."""


@Saved(
    "stream_offset:count length:count records:count? time_ns:int packet:count",
    TlsRecord,
    added="cut:TlsRecord?",
)
class LostRecords(NamedTuple):
    """Bytes of a stream between two records, whose records cannot be read."""

    stream_offset: int
    length: int
    records: int | None
    """Number of lost records; None if it is not known."""
    time_ns: int
    """Time of the latest packet when the loss ended."""
    packet: int
    cut: TlsRecord | None = None
    """The beginning of the first of these records, if it was captured."""


Proof: TypeAlias = "Callable[[TlsRecord, int], bool | None]"
"""Takes bytes that look like a record, and the number of bytes before them that are in no record.
Returns whether it is a record; None if that cannot be decided."""


class RecordCutter:
    """Cuts one direction into records."""

    _NOT_SAVED = ("_prove",)
    _SAVED = Saved(
        "_buffer:bytearray _offset:count _need:count _is_in_sync:bool _search_from:count "
        "_lost_from:count? _skip:count _first_ns:int _first_packet:count _latest_ns:int "
        "_latest_packet:count _arrivals:list[(count,int,count)]",
        TlsRecord,
        added="_cut:TlsRecord?",
    )

    def __init__(self, prove: Proof, stream_offset: int, *, from_start: bool) -> None:
        """Begin.

        Args:
            prove: called with what looks like a record, if the boundaries are not known.
            stream_offset: offset of the first byte that will be fed.
            from_start: whether a record begins there.
        """
        self._prove = prove
        self._buffer = bytearray()
        self._offset = stream_offset
        """Stream offset of the first byte in the buffer."""
        self._need = HEADER_BYTES
        """Buffered bytes that are needed for the next step."""
        self._is_in_sync = from_start
        """Whether a record begins at the first byte of the buffer."""
        self._search_from = 0
        """Index in the buffer from which to search for a header."""
        self._lost_from: int | None = None if from_start else stream_offset
        """Stream offset from which bytes are in no record; None if there are no such bytes."""
        self._skip = 0
        """Bytes that have not come yet of a record with a hole."""
        self._cut: TlsRecord | None = None
        """The beginning of the first record of those that are lost."""
        self._arrivals: list[tuple[int, int, int]] = []
        """The packets of the buffered bytes while records are searched: the stream offset of the
        end of its bytes, its time and number."""
        self._first_ns = self._first_packet = 0
        """Time and number of the packet with the first byte in the buffer."""
        self._latest_ns = self._latest_packet = 0
        """Of the latest packet."""

    def _after_load(self) -> None:
        is_lost = self._skip or not self._is_in_sync
        if not HEADER_BYTES <= self._need <= _MAX_NEEDED_BYTES or (
            is_lost and (self._lost_from is None or self._lost_from > self._offset)
        ):
            raise ValueError("no place in a stream of records")

    @property
    def buffered_bytes(self) -> int:
        """Bytes held."""
        return len(self._buffer) + _ARRIVAL_BYTES * len(self._arrivals)

    @property
    def has_lost(self) -> bool:
        """Whether the latest bytes are in no record."""
        return self._lost_from is not None

    @property
    def latest(self) -> tuple[int, int]:
        """Time and number of the latest packet."""
        return self._latest_ns, self._latest_packet

    def feed(self, added: Iterable[StreamItem]) -> Iterator[TlsRecord | LostRecords | None]:
        """Yield the complete records, and the lost ones.

        None is a pause: it cannot be decided whether a record begins here, but a message of the
        other direction may help. After the pause, ``prove`` is called again.
        """
        for item in added:
            if isinstance(item, Gap):
                self._latest_ns, self._latest_packet = item.time_ns, item.packet
                yield from self._miss(item.length)
                continue
            segments, index = item.segments, item.first
            while index < item.last:
                records: list[TlsRecord] = []
                first, index = index, self._cut_segments(segments, index, item.last, records)
                yield from records
                yield from self._resume()
                if index == first:
                    yield from self._feed_segment(segments, index)
                    index += 1

    # -- in sync ----------------------------------------------------------------------------------

    def _cut_segments(
        self, segments: Segments, index: int, last: int, records: list[TlsRecord]
    ) -> int:
        """Cut segments as long as records follow each other; return the index of the first not cut.

        At most :data:`_RUN_BYTES` at once.
        """
        most = self._offset + _RUN_BYTES
        while index < last and self._is_in_sync and not self._skip and self._offset < most:
            captured = segments.captureds[index]
            if captured < segments.lengths[index]:
                break
            begin = segments.starts[index]
            self._cut_segment(segments, index, begin, begin + captured, records)
            index += 1
        return index

    def _cut_segment(
        self, segments: Segments, index: int, at: int, end: int, records: list[TlsRecord]
    ) -> None:
        """Cut bytes of a segment; if no bytes are buffered, without copying them to the buffer."""
        data, time_ns, packet = segments.data, segments.times[index], segments.packets[index]
        if self._buffer:
            self._buffer += copy_bytes(data, at, end)
            if len(self._buffer) >= self._need:
                self._latest_ns, self._latest_packet = time_ns, packet
                self._cut_buffer(records)
            return
        self._latest_ns, self._latest_packet = time_ns, packet
        self._first_ns, self._first_packet = self._latest_ns, self._latest_packet
        while True:
            size = 0
            if end - at >= HEADER_BYTES:
                body_bytes = data[at + 3] << 8 | data[at + 4]
                size = size_by_header(data[at], data[at + 1], data[at + 2], body_bytes)
            if size <= 0 or size > end - at:
                break
            body = copy_bytes(data, at + HEADER_BYTES, at + size)
            record = _new_record(copy_bytes(data, at, at + HEADER_BYTES), body, self._offset)
            record.first_time_ns = record.time_ns = self._latest_ns
            record.first_packet = record.packet = self._latest_packet
            records.append(record)
            at += size
            self._offset += size
        if at < end:
            self._buffer += copy_bytes(data, at, end)
            self._need = size if size > 0 else HEADER_BYTES
            if size < 0:
                self._lose_sync()

    def _cut_buffer(self, records: list[TlsRecord]) -> None:
        """Cut the buffered records, if in sync; the latest packet completed them."""
        if not self._is_in_sync:
            return
        buffer, at = self._buffer, 0
        while True:
            available = len(buffer) - at
            size = HEADER_BYTES
            if available >= HEADER_BYTES:
                body_bytes = buffer[at + 3] << 8 | buffer[at + 4]
                size = size_by_header(buffer[at], buffer[at + 1], buffer[at + 2], body_bytes)
            if size < 0 or size > available:
                break
            records.append(self._record(at, size))
            at += size
            self._first_ns, self._first_packet = self._latest_ns, self._latest_packet
        del buffer[:at]
        self._offset += at
        self._need = size if size > 0 else HEADER_BYTES
        if size < 0:
            self._lose_sync()
        elif self._arrivals:
            self._first_ns, self._first_packet = self._arrival(self._offset)
            self._arrivals.clear()

    def _lose_sync(self) -> None:
        """Note that no record begins at the buffer's first byte."""
        if not self._arrivals:
            self._arrivals.append((self._offset + len(self._buffer), *self.latest))
        self._is_in_sync = False
        self._lost_from = self._offset
        self._search_from = 1

    def _record(self, at: int, size: int) -> TlsRecord:
        """Return a record in the buffer."""
        body = copy_from_array(self._buffer, at + HEADER_BYTES, at + size)
        header = copy_from_array(self._buffer, at, at + HEADER_BYTES)
        made = _new_record(header, body, self._offset + at)
        made.first_time_ns, made.first_packet = self._first_ns, self._first_packet
        made.time_ns, made.packet = self._latest_ns, self._latest_packet
        if self._arrivals:
            offset = self._offset + at
            made.first_time_ns, made.first_packet = self._arrival(offset)
            made.time_ns, made.packet = self._arrival(offset + size - 1)
        return made

    def _arrival(self, offset: int) -> tuple[int, int]:
        """Return time and number of the packet with a byte; if it did not come yet, the latest."""
        index = bisect_right(self._arrivals, (offset, _ANY_TIME, 0))
        return self._arrivals[index][1:] if index < len(self._arrivals) else self.latest

    # -- missing bytes ----------------------------------------------------------------------------

    def _feed_segment(
        self, segments: Segments, index: int
    ) -> Iterator[TlsRecord | LostRecords | None]:
        """Take a segment that is cut, within a record with a hole, or while not in sync."""
        begin, captured = segments.start[index], segments.captured[index]
        time_ns, packet = segments.time_ns[index], segments.packet[index]
        missing, end = segments.length[index] - captured, begin + captured
        if self._skip or not captured:
            self._latest_ns, self._latest_packet = time_ns, packet
        if self._skip:
            skipped = min(self._skip, captured)
            self._offset += skipped
            self._skip -= skipped
            begin += skipped
            if not self._skip:
                yield self._lost(1)
        if begin < end and self._is_in_sync:
            records: list[TlsRecord] = []
            self._cut_segment(segments, index, begin, end, records)
            yield from records
        elif begin < end:
            buffer = self._buffer
            self._arrivals.append((self._offset + len(buffer) + captured, time_ns, packet))
            buffer += segments.view(begin, end)
            if len(buffer) == captured or len(buffer) >= self._need:
                self._latest_ns, self._latest_packet = time_ns, packet
        yield from self._resume()
        if missing:
            self._latest_ns, self._latest_packet = time_ns, packet
            yield from self._miss(missing)

    def _resume(self) -> Iterator[TlsRecord | LostRecords | None]:
        """While not in sync, search the next record, and cut from there."""
        while not self._is_in_sync and len(self._buffer) >= self._need:
            yield from self._search()
            records: list[TlsRecord] = []
            self._cut_buffer(records)
            yield from records

    def _miss(self, length: int) -> Iterator[LostRecords]:
        """Note missing bytes after those in the buffer."""
        buffered = len(self._buffer)
        if self._lost_from is None:
            self._lost_from = self._offset
            if self._is_in_sync and buffered > HEADER_BYTES:
                self._cut = self._record(0, min(buffered, HEADER_BYTES + _MAX_CUT_BYTES))
        if self._skip:
            skip = self._skip - length
        elif self._is_in_sync and buffered >= HEADER_BYTES:
            skip = self._need - buffered - length
        else:
            skip = -1
        self._offset += buffered + length
        self._buffer.clear()
        self._arrivals.clear()
        self._search_from = 0
        self._need = HEADER_BYTES
        self._skip = max(0, skip)
        self._is_in_sync = skip >= 0
        if skip == 0:
            yield self._lost(1)

    def _lost(self, count: int | None) -> LostRecords:
        """Return the loss up to the first byte in the buffer, where a record begins."""
        assert self._lost_from is not None
        begin, self._lost_from = self._lost_from, None
        cut, self._cut = self._cut, None
        return LostRecords(begin, self._offset - begin, count, *self.latest, cut)

    def _search(self) -> Iterator[LostRecords | None]:
        """Search a record in the buffer; if one is found, be in sync at its first byte."""
        buffer = self._buffer
        while True:
            at = find_record(buffer, self._search_from)
            if at is None:
                self._drop(max(0, len(buffer) - (HEADER_BYTES - 1)))
                self._need = HEADER_BYTES
                return
            self._drop(at)
            size = record_bytes(buffer) or 0
            if len(buffer) < size:
                self._need = size
                return
            proven = self._is_record(size)
            if proven is None:
                yield None
                proven = self._is_record(size)
            if proven is None:
                self._need = size + HEADER_BYTES
                return
            if proven:
                break
            self._search_from = 1
        self._search_from = 0
        self._is_in_sync = True
        if self._offset == self._lost_from:
            self._lost_from = self._cut = None
        else:
            yield self._lost(None)

    def _is_record(self, size: int) -> bool | None:
        """Return true if the buffer begins with a record; None if the next header is needed."""
        record = self._record(0, size)
        assert self._lost_from is not None
        proven = self._prove(record, self._offset - self._lost_from)
        if proven is None and len(self._buffer) >= size + HEADER_BYTES:
            return record_bytes(self._buffer, size) is not None
        return proven

    def _drop(self, count: int) -> None:
        """Drop bytes in which no record begins."""
        if count:
            del self._buffer[:count]
            self._offset += count
            del self._arrivals[: bisect_right(self._arrivals, (self._offset, _ANY_TIME, 0))]
        self._search_from = 0


_ALERT_BYTES = 2
"""Of an alert that is not encrypted."""


@Saved("packet:count kind:count body_bytes:count begin_ns:int end_ns:int")
class SealedData(NamedTuple):
    """A record of application data, or an encrypted alert."""

    packet: int
    """Number of the latest packet of the direction when the record was complete."""
    kind: int
    body_bytes: int
    begin_ns: int
    """Of the packet with the first byte."""
    end_ns: int
    """Of the packet with the last byte."""


class RecordHeaders:
    """Steps over the records of one direction."""

    _SAVED = Saved(
        "records:count bytes:count _head:bytes? _left:count _size:count _begin_ns:int _packet:count"
    )

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        """With the headers; of records whose header was captured."""
        self._head: bytes | None = b""
        """Header of the current record, as far as it came; None while no boundary is known."""
        self._left = 0
        """Bytes of the current record that have not come yet."""
        self._size = 0
        """Size of its body."""
        self._begin_ns = 0
        self._packet = 0

    def feed(self, items: list[StreamItem]) -> list[SealedData]:
        """Take the items that were added to the stream; return the records that they complete."""
        records: list[SealedData] = []
        for item in items:
            if isinstance(item, Gap):
                self._packet = max(self._packet, item.packet)
                self._miss(item.length, item.time_ns, records)
            else:
                self._feed_segments(item.segments, item.first, item.last, records)
        return records

    def _feed_segments(
        self, segments: Segments, first: int, last: int, records: list[SealedData]
    ) -> None:
        lengths, captureds, times = segments.lengths, segments.captureds, segments.times
        starts, packets = segments.starts, segments.packets
        for index in range(first, last):
            captured = captureds[index]
            self._packet = max(self._packet, packets[index])
            if captured < self._left:
                self._left -= captured
            else:
                start = starts[index]
                self._step(segments.view(start, start + captured), times[index], records)
            if captured < lengths[index]:
                self._miss(lengths[index] - captured, times[index], records)

    def _step(self, data: memoryview, time_ns: int, records: list[SealedData]) -> None:
        """Step over the records that end in a segment."""
        at = 0
        if self._left:
            at = self._left
            self._end(time_ns, records)
        elif self._head is None:
            self._head = b""
        while at < len(data):
            assert self._head is not None
            if not self._head:
                self._begin_ns = time_ns
            head_part = data[at : at + HEADER_BYTES - len(self._head)]
            self._head += bytes(head_part)
            at += len(head_part)
            if len(self._head) < HEADER_BYTES:
                return
            if not looks_like_record(self._head):
                self._head = None
                return
            self._size = self._head[3] << 8 | self._head[4]
            self._left = self._size
            self.records += 1
            self.bytes += HEADER_BYTES + self._size
            if at + self._left > len(data):
                self._left -= len(data) - at
                return
            at += self._left
            self._end(time_ns, records)

    def _end(self, time_ns: int, records: list[SealedData]) -> None:
        """End the current record."""
        assert self._head is not None
        kind = self._head[0]
        if kind == APPLICATION_DATA or (kind == ALERT and self._size > _ALERT_BYTES):
            records.append(SealedData(self._packet, kind, self._size, self._begin_ns, time_ns))
        self._head, self._left = b"", 0

    def _miss(self, length: int, time_ns: int, records: list[SealedData]) -> None:
        """Note missing bytes."""
        if length < self._left:
            self._left -= length
        elif length == self._left:
            self._end(time_ns, records)
        else:
            self._head, self._left = None, 0

    def _after_load(self) -> None:
        if self._left and (self._head is None or len(self._head) != HEADER_BYTES):
            raise ValueError("a record without a header")
