"""Makes the folder that a rotating tcpdump leaves: a capture many times over, in many files.

    python -m benchmarks.rotate SOURCE.pcap TIMES MEGABYTES FOLDER

As `tcpdump -C MEGABYTES`: a file ends with the packet that makes it larger than so many million
bytes, wherever that is; connections and messages go on in the next one. Repetitions are those of
`benchmarks.repeat`. FOLDER is made.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from benchmarks.errors import run_main
from benchmarks.repeat import FILE_HEADER_BYTES, check_room, repetitions

if TYPE_CHECKING:
    from benchmarks.repeat import Repetition


def rotate(source: Path, times: int, file_bytes: int, folder: Path) -> list[Path]:
    """Write the files; return them in their order.

    Raises:
        BenchmarkError: SOURCE is no pcap that can be repeated, or the disk has no room.
    """
    parts = repetitions(source, times)
    check_room(folder, times * source.stat().st_size)
    folder.mkdir()
    with ExitStack() as stack:
        files = _Files(folder / source.stem, file_bytes, stack)
        for repetition in parts:
            files.write(repetition)
    return files.paths


class _Files:
    """Files that are filled one after another."""

    def __init__(self, stem: Path, file_bytes: int, stack: ExitStack) -> None:
        self._stem = stem
        self._file_bytes = file_bytes
        self._stack = stack
        self._file: IO[bytes] | None = None
        self.paths: list[Path] = []

    def write(self, repetition: Repetition) -> None:
        """Write packets; a file that is full is closed by the next packet, as tcpdump does it."""
        data, starts = repetition
        header = data[:FILE_HEADER_BYTES]
        ends = np.append(starts[1:], len(data))
        at = FILE_HEADER_BYTES
        while at < len(data):
            file = self._file_with_room(header.tobytes())
            last = np.searchsorted(ends, at + self._file_bytes - file.tell(), "right")
            stop = int(ends[min(int(last), len(ends) - 1)])
            file.write(data[at:stop].data)
            at = stop

    def _file_with_room(self, header: bytes) -> IO[bytes]:
        if self._file is None or self._file.tell() > self._file_bytes:
            self._stack.close()
            name = f"{self._stem.name}-{len(self.paths):05}.pcap"
            self.paths.append(self._stem.with_name(name))
            self._file = self._stack.enter_context(self.paths[-1].open("wb"))
            self._file.write(header)
        return self._file


def main() -> None:
    """Write what the command line asks for; say how many files there are."""
    source, times, megabytes, folder = sys.argv[1:]
    file_bytes = int(megabytes) * 1_000_000
    print(len(rotate(Path(source), int(times), file_bytes, Path(folder))), "files")


if __name__ == "__main__":
    run_main(main)
