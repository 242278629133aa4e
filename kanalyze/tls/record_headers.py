"""Steps over the records of one direction, and reads nothing but their headers.

In: chunks and gaps of what one end sent. Out: how many records and bytes they are, and
:class:`SealedData` of those with application data. Must not know: keys, the other direction.

Nothing is held but an incomplete header. After bytes that are missing, or that are no record, a
record is looked for where a packet begins: good enough to count, while
:class:`~kanalyze.tls.records.RecordCutter` proves where records begin.

Compiled by Cython, with the types in ``record_headers.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.common.plain_values import fields
from kanalyze.model.streams import Gap
from kanalyze.model.tls_record import ALERT, APPLICATION_DATA, HEADER_BYTES, looks_like_record

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.segments import Segments
    from kanalyze.model.streams import StreamItem

__all__ = ["RecordHeaders", "SealedData"]

_ALERT_BYTES = 2
"""Of an alert that is not encrypted."""


class SealedData(NamedTuple):
    """A record of application data, or an encrypted alert."""

    packet: int
    """The latest that the direction needed until the record was complete."""
    kind: int
    body_bytes: int
    begin_ns: int
    """Of the packet with the first byte."""
    end_ns: int
    """Of the packet with the last byte."""


class RecordHeaders:
    """Steps over the records of one direction."""

    __slots__ = ("_begin_ns", "_head", "_left", "_packet", "_size", "bytes", "records")

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        """With the headers; of records that began in the capture."""
        self._head: bytes | None = b""
        """Of the record that begins; None while no boundary is known."""
        self._left = 0
        """Bytes to come of the record."""
        self._size = 0
        """Of its body."""
        self._begin_ns = 0
        self._packet = 0

    def feed(self, items: list[StreamItem]) -> list[SealedData]:
        """Take what was added to the stream; return what was completed."""
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
        """End the record."""
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

    def state(self) -> State:
        """Return what :meth:`from_state` takes."""
        return (
            *(self.records, self.bytes, self._head, self._left, self._size, self._begin_ns),
            self._packet,
        )

    @classmethod
    def from_state(cls, state: object) -> RecordHeaders:
        """Make one from a state; raises ValueError for any other value."""
        made = cls()
        values = fields(state, "nnYnnin")
        made.records, made.bytes, made._head, made._left, made._size = values[:5]
        made._begin_ns, made._packet = values[5:]
        head = made._head
        if made._left and (head is None or len(head) != HEADER_BYTES):
            raise ValueError("a record without a header")
        return made
