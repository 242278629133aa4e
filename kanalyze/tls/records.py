"""The record layer: cuts a stream into records, and finds the next one after missing bytes.

In: chunks and gaps of one direction. Out: :class:`TlsRecord` and :class:`LostRecords`, in stream
order. Must not know: keys, or what is in a record; whoever has keys proves where a record begins.

A record says its length (RFC 8446 section 5.1, RFC 5246 section 6.2.1). A hole within a record
costs that record. After a hole that is larger, or bytes that are no header, the next place is
looked for where the bytes look like a header; the record there has to be proven.

At most one record is held, and the header of the next. As long as it is not known where records
begin, the packets that the bytes came in are noted beside them: a record that is proven later
arrived when its last byte did.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields, items
from kanalyze.model.streams import Gap
from kanalyze.model.tls_record import HEADER_BYTES, find_record, record_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kanalyze.common.plain_values import State
    from kanalyze.model.segments import Segments
    from kanalyze.model.streams import StreamItem

__all__ = ["LostRecords", "RecordCutter", "TlsRecord", "TrialRange"]

_MOST_NEEDED_BYTES: Final = 1 << 15
"""More than a record and the header of the next."""


_ARRIVAL_BYTES: Final = 160
"""What it takes to note a packet."""
_ANY_TIME: Final = 1 << 64


class TlsRecord(NamedTuple):
    """A record, and the packets that it came in."""

    kind: int
    """Content type."""
    header: bytes
    body: memoryview
    """Valid until the next record is asked for."""
    stream_offset: int
    """Of the header."""
    first_time_ns: int
    """Of the packet with the first byte."""
    first_packet: int
    time_ns: int
    """Of the packet with the last byte."""
    packet: int

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(self.kind, self.header, bytes(self.body), self.stream_offset),
            *(self.first_time_ns, self.first_packet, self.time_ns, self.packet),
        )

    @classmethod
    def from_state(cls, state: object) -> TlsRecord:
        """Make one from a state; raises ValueError for any other value."""
        made = cls(*fields(state, "nyyninin"))
        if len(made.header) != HEADER_BYTES:
            raise ValueError("no header of a record")
        return made._replace(body=memoryview(made.body))


class TrialRange(NamedTuple):
    """The numbers that a record may have."""

    lowest: int
    highest: int
    """Included."""
    most_trials: int
    """How many of them may be tried, where there is no better way."""


class LostRecords(NamedTuple):
    """Bytes of a stream between two records, whose records cannot be read."""

    stream_offset: int
    length: int
    records: int | None
    """How many; None where that is not known."""
    time_ns: int
    """Of the packet after which a record may follow."""
    packet: int

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return self.stream_offset, self.length, self.records, self.time_ns, self.packet

    @classmethod
    def from_state(cls, state: object) -> LostRecords:
        """Make one from a state; raises ValueError for any others."""
        return cls(*fields(state, "nnNin"))


Proof: TypeAlias = "Callable[[TlsRecord, int], bool | None]"
"""Tells of what looks like a record, and of how many bytes before it are in none, whether it is
one; None where nobody can tell."""


class RecordCutter:
    """Cuts one direction into records."""

    _LEFT_OUT = ("_prove",)

    def __init__(self, prove: Proof, stream_offset: int, *, from_start: bool) -> None:
        """Begin.

        Args:
            prove: asked of what looks like a record, where the boundaries are not known.
            stream_offset: of the first byte that will be fed.
            from_start: whether a record begins there.
        """
        self._prove = prove
        self._buffer = bytearray()
        self._offset = stream_offset
        """Of the first byte in the buffer."""
        self._need = HEADER_BYTES
        """Bytes without which nothing can be said."""
        self._is_in_sync = from_start
        self._search_from = 0
        """Index in the buffer."""
        self._lost_from: int | None = None if from_start else stream_offset
        """Where the bytes begin that are in no record yet."""
        self._skip = 0
        """Bytes to come of a record with a hole."""
        self._arrivals: list[tuple[int, int, int]] = []
        """Of the bytes in the buffer, where it is not known where records begin: for each packet
        the stream offset of the end of its bytes, its time and number."""
        self._first = self._latest = (0, 0)
        """Time and number of the packet with the first byte in the buffer, and of the latest."""

    def state(self) -> State:
        """Return what :meth:`load_state` takes, after all that was fed was read."""
        return (
            *(bytes(self._buffer), self._offset, self._need, self._is_in_sync),
            *(self._search_from, self._lost_from, self._skip, *self._first, *self._latest),
            tuple(self._arrivals),
        )

    def load_state(self, state: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        buffer, self._offset, self._need, self._is_in_sync, *others = fields(state, "ynnbnNninint")
        self._search_from, self._lost_from, self._skip, *places, arrivals = others
        is_lost = self._skip or not self._is_in_sync
        if not HEADER_BYTES <= self._need <= _MOST_NEEDED_BYTES or (
            is_lost and (self._lost_from is None or self._lost_from > self._offset)
        ):
            raise ValueError("no place in a stream of records")
        self._buffer[:] = buffer
        self._arrivals = [fields(each, "nin") for each in items(arrivals, "t")]
        self._first, self._latest = (places[0], places[1]), (places[2], places[3])

    @property
    def buffered_bytes(self) -> int:
        """Bytes held."""
        return len(self._buffer) + _ARRIVAL_BYTES * len(self._arrivals)

    @property
    def has_lost(self) -> bool:
        """Whether bytes are in no record, and no record came behind them yet."""
        return self._lost_from is not None

    @property
    def latest(self) -> tuple[int, int]:
        """Time and number of the latest packet."""
        return self._latest

    @property
    def is_in_sync(self) -> bool:
        """Whether it is known where the next record begins."""
        return self._is_in_sync

    def feed(self, added: Iterable[StreamItem]) -> Iterator[TlsRecord | LostRecords | None]:
        """Yield the records that are complete, and what is lost.

        None is a pause: nobody can tell whether a record begins here, and what the other direction
        says may change that. Whoever goes on is asked again.
        """
        for item in added:
            if isinstance(item, Gap):
                self._latest = (item.time_ns, item.packet)
                yield from self._miss(item.length)
                continue
            yield from self._feed_segments(item.segments, item.first, item.last)

    def _feed_segments(
        self, segments: Segments, first: int, last: int
    ) -> Iterator[TlsRecord | LostRecords | None]:
        data, buffer = segments.buffer, self._buffer
        starts, lengths, captureds = segments.start, segments.length, segments.captured
        times, packets = segments.time_ns, segments.packet
        for index in range(first, last):
            start, captured = starts[index], captureds[index]
            if not self._is_in_sync and captured:
                end = self._offset + len(buffer) + captured
                self._arrivals.append((end, times[index], packets[index]))
            if buffer and not self._skip:
                buffer += data[start : start + captured]
                if len(buffer) >= self._need:
                    self._latest = (times[index], packets[index])
                    yield from self._cut()
            else:
                self._latest = (times[index], packets[index])
                yield from self._take(data[start : start + captured])
            if captured < lengths[index]:
                self._latest = (times[index], packets[index])
                yield from self._miss(lengths[index] - captured)

    # -- in sync ----------------------------------------------------------------------------------

    def _take(self, view: memoryview) -> Iterator[TlsRecord | LostRecords | None]:
        """Take bytes where a record begins, or was cut by a hole."""
        if self._skip:
            skipped = min(self._skip, len(view))
            self._offset += skipped
            self._skip -= skipped
            view = view[skipped:]
            if not self._skip:
                yield self._lost(1)
        if len(view):
            self._first = self._latest
            self._buffer += view
            yield from self._cut()

    def _cut(self) -> Iterator[TlsRecord | LostRecords | None]:
        """Yield the records in the buffer; the latest packet brought its end."""
        if not self._is_in_sync:
            yield from self._search()
            if not self._is_in_sync:
                return
        buffer, at = self._buffer, 0
        view = memoryview(buffer)
        try:
            while True:
                if len(buffer) - at < HEADER_BYTES:
                    self._need = HEADER_BYTES
                    break
                size = record_bytes(buffer, at)
                if size is None:
                    self._is_in_sync = False
                    break
                if at + size > len(buffer):
                    self._need = size
                    break
                record = self._record(view, at, size)
                yield record
                record.body.release()
                at += size
                self._first = self._latest
        finally:
            view.release()
        del buffer[:at]
        self._offset += at
        if self._is_in_sync:
            if self._arrivals:
                self._first = self._arrival(self._offset)
                self._arrivals.clear()
        else:
            if not self._arrivals:
                self._arrivals.append((self._offset + len(buffer), *self._latest))
            self._lost_from = self._offset
            self._search_from = 1
            yield from self._cut()

    def _record(self, view: memoryview, at: int, size: int) -> TlsRecord:
        header = bytes(view[at : at + HEADER_BYTES])
        body = view[at + HEADER_BYTES : at + size]
        offset, first, last = self._offset + at, self._first, self._latest
        if self._arrivals:
            first, last = self._arrival(offset), self._arrival(offset + size - 1)
        return TlsRecord(header[0], header, body, offset, *first, *last)

    def _arrival(self, offset: int) -> tuple[int, int]:
        """Return time and number of the packet with a byte; of one to come, the latest."""
        index = bisect_right(self._arrivals, (offset, _ANY_TIME, 0))
        return self._arrivals[index][1:] if index < len(self._arrivals) else self._latest

    # -- missing bytes ----------------------------------------------------------------------------

    def _miss(self, length: int) -> Iterator[LostRecords]:
        """Note missing bytes behind what is in the buffer."""
        held = len(self._buffer)
        if self._lost_from is None:
            self._lost_from = self._offset
        if self._skip:
            left = self._skip - length
        elif self._is_in_sync and held >= HEADER_BYTES:
            left = self._need - held - length
        else:
            left = -1
        self._offset += held + length
        self._buffer.clear()
        self._arrivals.clear()
        self._search_from = 0
        self._need = HEADER_BYTES
        self._skip = max(0, left)
        self._is_in_sync = left >= 0
        if left == 0:
            yield self._lost(1)

    def _lost(self, count: int | None) -> LostRecords:
        """Return what was lost up to the first byte in the buffer; a record begins there."""
        assert self._lost_from is not None
        begin, self._lost_from = self._lost_from, None
        return LostRecords(begin, self._offset - begin, count, *self._latest)

    def _search(self) -> Iterator[LostRecords | None]:
        """Look for a record in the buffer; in sync at its first byte once there is one."""
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
            self._lost_from = None
        else:
            yield self._lost(None)

    def _is_record(self, size: int) -> bool | None:
        """Tell whether the buffer begins with a record; None where the next header has to say."""
        view = memoryview(self._buffer)
        record = self._record(view, 0, size)
        assert self._lost_from is not None
        proven = self._prove(record, self._offset - self._lost_from)
        record.body.release()
        view.release()
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
