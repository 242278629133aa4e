"""Reads only the headers of the records of one direction.

In: chunks and gaps of what one end sent. Out: the number of records and bytes, and
:class:`SealedData` of records with application data.

Only an incomplete header is buffered. After missing bytes, or bytes that are no record, the next
record is expected at the beginning of a packet. That is good enough to count;
:class:`~kanalyze.tls.records.RecordCutter` in contrast proves where records begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.saved import Saved
from kanalyze.model.streams import Gap
from kanalyze.model.tls import ALERT, APPLICATION_DATA, HEADER_BYTES, looks_like_record

if TYPE_CHECKING:
    from kanalyze.model.streams import Segments, StreamItem

__all__ = ["RecordHeaders", "SealedData"]

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
