"""Packets to streams: link, IP and TCP headers, and reassembly."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kanalyze.capture.reader import open_capture
from kanalyze.errors import CaptureError
from kanalyze.model.streams import Gap
from kanalyze.net.tcp.reassembly import Reassembler
from tests.fuzz.invariant import holds

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch
    from kanalyze.model.streams import Chunk, StreamItem, StreamUpdate
    from kanalyze.net.tcp.reassembly import ReassembledBatch

_BUFFER_BYTES = 4096
_MAX_ANOMALIES_A_PACKET = 8
_LONGEST_PACKET_BYTES = 1 << 20
"""Longer than packets that network cards segment or merge, whose IP header has no length."""


def reassemble(data: bytes) -> None:
    """Rebuild all streams of a capture; chunks and gaps tile each of them."""
    try:
        reader = open_capture(io.BytesIO(data), name="x", buffer_bytes=_BUFFER_BYTES)
    except CaptureError:
        return
    reassembler = Reassembler()
    seen = _Streams()
    with reader:
        for batch in reader.batches():
            seen.add_packets(batch)
            seen.take_batch(reassembler.feed(batch))
    seen.take_batch(reassembler.finish())
    seen.check_end()
    holds(reassembler.counters.tcp_segments <= seen.packets, "more segments than packets")


@dataclass
class _Streams:
    """Sums over all updates so far."""

    packets: int = 0
    captured_bytes: int = 0
    given_bytes: int = 0
    given_wire_bytes: int = 0
    items: int = 0
    updates: int = 0
    anomalies: int = 0
    connections: int = 0

    def __post_init__(self) -> None:
        self._ends: dict[int, list[int]] = {}
        self._closed: set[int] = set()

    def add_packets(self, batch: PacketBatch) -> None:
        self.packets += len(batch)
        self.captured_bytes += sum(batch.captured_bytes)

    def take_batch(self, batch: ReassembledBatch) -> None:
        self.anomalies += len(batch.anomalies)
        for update in batch.updates:
            self._take(update)

    def _take(self, update: StreamUpdate) -> None:
        serial = update.connection.serial
        holds(serial not in self._closed, "an update of a closed connection")
        ends = self._ends.setdefault(serial, [0, 0])
        self.updates += 1
        for side in (0, 1):
            for item in update.items[side]:
                self.items += 1
                holds(item.stream_offset == ends[side], "chunks and gaps do not tile the stream")
                ends[side] += self._length(item)
        if update.closed:
            self._closed.add(serial)

    def _length(self, item: StreamItem) -> int:
        if isinstance(item, Gap):
            holds(0 < item.length < 1 << 32, "a gap of an impossible length")
            return item.length
        return self._chunk_length(item)

    def _chunk_length(self, chunk: Chunk) -> int:
        segments = chunk.segments
        holds(0 <= chunk.first < chunk.last <= len(segments.start), "a chunk without segments")
        total = 0
        for index in range(chunk.first, chunk.last):
            length, captured = segments.length[index], segments.captured[index]
            start = segments.start[index]
            holds(0 <= captured <= length > 0, "a segment's lengths contradict each other")
            # A segment that was cut before its first byte has no bytes to check.
            inside = 0 <= start <= len(segments.buffer) - captured
            holds(inside or not captured, "a segment beyond the buffer")
            total += length
            self.given_bytes += captured
        self.given_wire_bytes += total
        return total

    def check_end(self) -> None:
        self.connections = len(self._ends)
        holds(self._closed == self._ends.keys(), "a connection that never closed")
        holds(
            sorted(self._closed) == list(range(1, self.connections + 1)),
            "serials are not consecutive",
        )
        holds(self.given_bytes <= self.captured_bytes, "more bytes returned than captured")
        most = _LONGEST_PACKET_BYTES * self.packets
        holds(self.given_wire_bytes <= most, "more bytes returned than packets may hold")
        holds(self.items <= 4 * self.packets, "more chunks and gaps than packets allow")
        holds(self.updates <= 4 * self.packets, "more updates than packets allow")
        holds(self.anomalies <= _MAX_ANOMALIES_A_PACKET * self.packets, "too many anomalies")
