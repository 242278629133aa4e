"""Capture files: pcap, pcapng, and both as gzip data."""

from __future__ import annotations

import io
from operator import add, ge, le
from typing import TYPE_CHECKING

from kanalyze.capture.reader import open_capture
from kanalyze.errors import CaptureError
from tests.fuzz.invariant import holds

if TYPE_CHECKING:
    from kanalyze.capture.reader import CaptureReader
    from kanalyze.model.packets import PacketBatch

_MIN_RECORD_BYTES = 12
"""The shortest packet in a file: the header and trailer of a simple packet block."""
_BUFFER_BYTES = 4096
RATIOS = {
    b"\x1f\x8b": 1032,
    b"\x04\x22": 256,
    b"\x28\xb5": 1 << 15,
    b"BZ": 1 << 16,
    b"\xfd7": 1 << 14,
}
"""About the highest compression ratio of each codec, by the first bytes of its data."""
_MAX_ANOMALIES = 100


def read_capture(data: bytes) -> None:
    """Read a file to its end: CaptureError, or packets that lie within the buffer."""
    file = io.BytesIO(data)
    try:
        reader = open_capture(file, name="x", buffer_bytes=_BUFFER_BYTES)
    except CaptureError as error:
        holds("\n" not in str(error), "a message of several lines")
        return
    ratio = RATIOS.get(data[:2], 1)
    packets = 0
    with reader:
        for batch in reader.batches():
            holds(batch.number[0] == packets + 1, "packet numbers are not consecutive")
            packets += len(batch)
            _check_batch(batch)
            holds(
                len(batch.buffer) <= 2 * (_BUFFER_BYTES + ratio * len(data)),
                "a buffer larger than the file",
            )
    _check_end(reader, packets, len(data), ratio)


def _check_batch(batch: PacketBatch) -> None:
    count = len(batch)
    columns = (
        batch.number,
        batch.time_ns,
        batch.offset,
        batch.captured_bytes,
        batch.wire_bytes,
        batch.link_type,
    )
    holds(count > 0, "an empty batch")
    holds(all(len(column) == count for column in columns), "columns of different lengths")
    holds(
        batch.number[-1] - batch.number[0] == count - 1,
        "packet numbers are not consecutive in a batch",
    )
    holds(min(batch.offset) >= 0, "a packet before the buffer")
    holds(min(batch.captured_bytes) >= 0, "a packet of negative length")
    ends = list(map(add, batch.offset, batch.captured_bytes))
    holds(max(ends) <= len(batch.buffer), "a packet beyond the buffer")
    holds(all(map(le, ends[:-1], batch.offset[1:])), "packets that overlap")
    holds(all(map(ge, batch.wire_bytes, batch.captured_bytes)), "more bytes captured than sent")


def _check_end(reader: CaptureReader, packets: int, length: int, ratio: int) -> None:
    holds(reader.packets == packets, "packets returned and counted differ")
    holds(packets * _MIN_RECORD_BYTES <= ratio * length, "more packets than there are bytes for")
    holds(0 <= reader.bytes_read <= length, "more bytes read than there are")
    holds(len(reader.anomalies) <= _MAX_ANOMALIES, "an unbounded number of anomalies")
