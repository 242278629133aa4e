"""What a direction sent, decrypted, as the stages behind read any stream.

In: contents of records in order, and what is missing between them. Out:
:class:`~kanalyze.model.streams.Chunk` and :class:`~kanalyze.model.streams.Gap`. Must not know:
where the contents come from.

A content has the time and number of the packet that completed its record: nobody could read it
before. Only its first byte has those of the packet with the record's first byte: that is when a
message that begins there began to arrive.

Compiled by Cython, with the types in ``plaintext.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kanalyze.common.plain_values import fields
from kanalyze.model.segments import Segments
from kanalyze.model.streams import Chunk, Gap

if TYPE_CHECKING:
    from kanalyze.common.plain_values import State
    from kanalyze.model.streams import StreamItem
    from kanalyze.tls.records import TlsRecord

__all__ = ["UNKNOWN_GAP_BYTES", "PlaintextWriter"]

UNKNOWN_GAP_BYTES: Final = 1 << 30
"""The length of a gap of which nobody knows it: larger than any message, so that none goes on
behind it."""


class PlaintextWriter:
    """Writes the plaintext stream of one direction."""

    _LEFT_OUT = (
        *("_chunk_offset", "_data", "_items", "_lengths", "_packets", "_starts", "_times"),
    )

    def __init__(self) -> None:
        self._items: list[StreamItem] = []
        self._offset = 0
        self._chunk_offset = 0
        self._data = bytearray()
        """The contents since the last chunk."""
        self._starts: list[int] = []
        self._lengths: list[int] = []
        self._times: list[int] = []
        self._packets: list[int] = []

    def state(self) -> State:
        """Return what :meth:`load_state` takes, after :meth:`take`."""
        return (self._offset,)

    def load_state(self, state: object) -> None:
        """Continue from a state; raises ValueError for any other value."""
        (self._offset,) = fields(state, "n")
        self._chunk_offset = self._offset

    @property
    def stream_offset(self) -> int:
        """Of the next byte; 0 is the first byte of application data, or the first that is known."""
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
        """Return what was added since the last call."""
        self._end_chunk()
        taken, self._items = self._items, []
        return taken

    def _segment(self, start: int, size: int, time_ns: int, packet: int) -> None:
        self._starts.append(start)
        self._lengths.append(size)
        self._times.append(time_ns)
        self._packets.append(packet)
        self._offset += size

    def _end_chunk(self) -> None:
        if not self._lengths:
            return
        buffer = memoryview(self._data).toreadonly()
        lengths = self._lengths
        segments = Segments(buffer, self._starts, lengths, lengths, self._times, self._packets)
        self._items.append(Chunk(self._chunk_offset, segments, 0, len(lengths)))
        self._chunk_offset = self._offset
        self._data = bytearray()
        self._starts, self._lengths, self._times, self._packets = [], [], [], []
