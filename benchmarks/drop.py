"""Makes a lossy capture of a whole one: packets are left out at random.

    python -m benchmarks.drop SOURCE.pcap TARGET.pcap [SHARE]

SOURCE is a pcap as for `benchmarks.repeat`, and is held in memory. Each packet is left out with the
same probability, SHARE (0.001 unless told). The same source always loses the same packets.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.errors import BenchmarkError, run_main
from benchmarks.repeat import FILE_HEADER_BYTES, check_room, record_starts

SHARE = 0.001
_SEED = 2026


def drop(source: Path, target: Path, share: float = SHARE) -> int:
    """Write the lossy capture; return how many packets are left out.

    Raises:
        BenchmarkError: SOURCE is no such pcap, SHARE is no share of it, or the disk has no room.
    """
    if not 0 <= share < 1:
        raise BenchmarkError(f"{share} is no share of packets to drop: from 0 to below 1")
    check_room(target, source.stat().st_size)
    data = np.fromfile(source, np.uint8)
    starts = record_starts(data, source.name)
    is_dropped = np.random.default_rng(_SEED).random(len(starts)) < share
    lengths = np.diff(starts, append=len(data))
    # Of every byte after the file's header, whether its packet stays.
    stays = np.concatenate([np.ones(FILE_HEADER_BYTES, bool), np.repeat(~is_dropped, lengths)])
    data[stays].tofile(target)
    return int(is_dropped.sum())


def main() -> None:
    """Write what the command line asks for; say how many packets are missing."""
    source, target, *more = sys.argv[1:]
    print(drop(Path(source), Path(target), *map(float, more)), "packets dropped")


if __name__ == "__main__":
    run_main(main)
