"""The decrypted bytes of a direction, as a stream that the later stages read.

In: contents of records in order, and the gaps between them. Out:
:class:`~kanalyze.model.streams.Chunk` and :class:`~kanalyze.model.streams.Gap`.

A content has the time and number of the packet that completed its record, because it cannot be
decrypted before. Only its first byte has those of the packet with the record's first byte, because
a message that begins there began to arrive then.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from kanalyze.common.saved import Saved
from kanalyze.model.streams import Chunk, Gap, Segments

if TYPE_CHECKING:
    from kanalyze.model.streams import StreamItem
    from kanalyze.tls.records import TlsRecord

__all__ = ["UNKNOWN_GAP_BYTES", "PlaintextWriter"]

UNKNOWN_GAP_BYTES: Final = 1 << 30
"""Length of a gap whose real length is not known: larger than any message, so that no message
continues after it."""
_FIRST_ROOM = 16
"""Segments that fit before the columns grow; larger columns are not kept after a chunk."""


class PlaintextWriter:
    """Writes the plaintext stream of one direction.

    Attributes:
        starts, lengths, times, packets: columns of the segments since the last chunk, with free
            space at the end.
    """

    _NOT_SAVED = (
        *("_chunk_offset", "_columns", "_count", "_data", "_items", "_room", "lengths", "packets"),
        *("starts", "times"),
    )
    _SAVED = Saved("_offset:count")

    def __init__(self) -> None:
        self._items: list[StreamItem] = []
        self._offset = 0
        self._chunk_offset = 0
        self._data = bytearray()
        """The contents since the last chunk."""
        self._room = 0
        """Number of segments that the columns have room for."""
        self._count = 0

    def _after_load(self) -> None:
        self._chunk_offset = self._offset

    @property
    def stream_offset(self) -> int:
        """Offset of the next byte; 0 is the first (known) byte of application data."""
        return self._offset

    def add(self, content: bytes | memoryview, record: TlsRecord) -> None:
        """Add the content of a record."""
        size = len(content)
        if not size:
            return
        at = len(self._data)
        self._data += content
        if record.first_packet != record.packet and size > 1:
            self._segment(at, 1, record.first_time_ns, record.first_packet)
            at += 1
            size -= 1
        self._segment(at, size, record.time_ns, record.packet)

    def add_gap(self, length: int | None, time_ns: int, packet: int) -> None:
        """Add missing bytes before a packet; None where their number is not known."""
        self._end_chunk()
        size = UNKNOWN_GAP_BYTES if length is None else length
        self._items.append(Gap(self._offset, size, time_ns, packet))
        self._offset += size
        self._chunk_offset = self._offset

    def take(self) -> list[StreamItem]:
        """Return the chunks and gaps since the last call."""
        self._end_chunk()
        items, self._items = self._items, []
        return items

    def _segment(self, start: int, size: int, time_ns: int, packet: int) -> None:
        at = self._count
        if at == self._room:
            self._make_room()
        self.starts[at], self.lengths[at] = start, size
        self.times[at], self.packets[at] = time_ns, packet
        self._count = at + 1
        self._offset += size

    def _make_room(self) -> None:
        """Make the columns twice as long: an array cannot grow while there is a view of it."""
        more = array("q", bytes(8 * max(self._room, _FIRST_ROOM)))
        if not self._room:
            self._columns = [array("q") for _ in range(4)]
        self._columns = [column + more for column in self._columns]
        self.starts, self.lengths, self.times, self.packets = self._columns
        self._room += len(more)

    def _end_chunk(self) -> None:
        count = self._count
        if not count:
            return
        buffer = memoryview(self._data).toreadonly()
        starts, lengths, times, packets = (column[:count] for column in self._columns)
        segments = Segments(buffer, starts, lengths, lengths, times, packets)
        self._items.append(Chunk(self._chunk_offset, segments, 0, count))
        self._chunk_offset = self._offset
        self._data, self._count = bytearray(), 0
        if self._room > _FIRST_ROOM:
            self._room = 0
            self._make_room()
