"""Makes a capture whose record data does not compress: random bytes where no row looks.

    python -m benchmarks.randomize SOURCE.pcap TARGET.pcap

What clients of a benchmark send compresses to next to nothing, unlike most real data. SOURCE is a
pcap as for `benchmarks.repeat`, and is held in memory. Which bytes are record data is what
`kanalyze.batch.archive.payload_pruning` says of the whole capture at once; copies in retransmitted
packets stay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.errors import run_main
from benchmarks.repeat import (
    FILE_HEADER_BYTES,
    RECORD_HEADER_BYTES,
    Bytes,
    Places,
    check_room,
    record_starts,
)
from kanalyze.batch.archive.packed_segments import as_arrays
from kanalyze.batch.archive.payload_pruning import PayloadPruner
from kanalyze.kafka.codec.compiler import Decoders
from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.model.packet_arrays import PacketArrays
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.tables.requests.extract import Extractors

if TYPE_CHECKING:
    from kanalyze.model.packets import PacketBatch

_LINK_TYPE_AT = 20
_SEED = 2026


def randomize(source: Path, target: Path) -> int:
    """Write the capture; return how many bytes are random.

    Raises:
        BenchmarkError: SOURCE is no such pcap, or the disk has no room for TARGET.
    """
    check_room(target, source.stat().st_size)
    data = np.fromfile(source, np.uint8)
    starts = record_starts(data, source.name)
    segments = as_arrays(read_headers(_packets(data, starts), LayerStats()))
    catalog = Catalog()
    pruner = PayloadPruner(catalog, Decoders(catalog), Extractors(catalog).needed_fields)
    holes = pruner.holes(segments)
    random = np.random.default_rng(_SEED)
    places = (segments.payload_start[holes.row] + holes.start).tolist()
    for place, length in zip(places, holes.length.tolist(), strict=True):
        data[place : place + length] = random.integers(0, 256, length, np.uint8)
    data.tofile(target)
    return int(holes.length.sum())


def _packets(data: Bytes, starts: Places) -> PacketBatch:
    """Return all packets as one batch over the file; times do not matter."""
    lengths = data[starts[:, None] + np.arange(8, 16)].view("<u4").astype(np.int64)
    count = len(starts)
    link_type = int(data[_LINK_TYPE_AT:FILE_HEADER_BYTES].view("<u4")[0])
    columns = PacketArrays(
        buffer=memoryview(data),
        number=np.arange(1, count + 1, dtype=np.int64),
        time_ns=np.zeros(count, np.int64),
        offset=starts + RECORD_HEADER_BYTES,
        captured_bytes=lengths[:, 0],
        wire_bytes=lengths[:, 1],
        link_type=np.full(count, link_type, np.int32),
    )
    return columns.batch()


def main() -> None:
    """Write what the command line asks for; say how much of it is random."""
    source, target = sys.argv[1:]
    print(randomize(Path(source), Path(target)), "random bytes")


if __name__ == "__main__":
    run_main(main)
