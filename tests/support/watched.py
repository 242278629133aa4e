"""A capture file read like a live capture: a few packets at a time, passed to a recorder."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING

from kanalyze.capture.inputs import find_inputs
from kanalyze.capture.merge import MergedCaptures
from kanalyze.model.packets import PacketBatch
from kanalyze.runtime.pipeline import Analysis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kanalyze.live.recorder.packet_recorder import PacketRecorder


_MAX_PACKET_BYTES = 1 << 17


def part_of(batch: PacketBatch, first: int, end: int, buffer: bytearray) -> PacketBatch:
    """Some packets of a batch, copied into a buffer that is used again."""
    rows = slice(first, end)
    places = zip(batch.offset[rows].tolist(), batch.captured_bytes[rows].tolist(), strict=True)
    data = b"".join(b"\xee" * 3 + batch.buffer[at : at + size] for at, size in places)
    # Code that kept a view of earlier bytes sees these in their place.
    buffer[: len(data)] = data
    lengths = batch.captured_bytes[rows]
    return PacketBatch(
        memoryview(buffer),
        batch.number[rows],
        batch.time_ns[rows],
        array("q", [at + 3 * row for row, at in enumerate(accumulate(lengths, initial=3))][:-1]),
        lengths,
        batch.wire_bytes[rows],
        batch.link_type[rows],
    )


class Watched(MergedCaptures):
    """Reads a file, a few packets at a time, and gives them to a recorder on the way."""

    def __init__(self, path: Path, recorder: PacketRecorder, at_once: int) -> None:
        super().__init__(find_inputs([str(path)]))
        self.can_be_read_again = False
        self.description = None
        self.now_ns = 0
        self._recorder = recorder
        self._at_once = at_once

    def batches(self) -> Iterator[PacketBatch]:
        buffer = bytearray(self._at_once * _MAX_PACKET_BYTES)
        for batch in super().batches():
            for first in range(0, len(batch), self._at_once):
                part = part_of(batch, first, first + self._at_once, buffer)
                self._recorder.add_packets(part)
                self.now_ns = max(part.time_ns)
                yield part


def watch(path: Path, recorder: PacketRecorder, at_once: int = 40) -> None:
    """Pass a whole file to a recorder, and close the recorder."""
    source = Watched(path, recorder, at_once)
    for rows in Analysis([], source=source, on_tokens=recorder.redact).batches():
        recorder.add_rows(rows)
        recorder.tick(source.now_ns)
    recorder.close()
