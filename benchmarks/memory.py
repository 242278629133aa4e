"""Peak memory and time of whole commands on a capture, and on one ten times as long.

    python -m benchmarks.memory [CAPTURE.pcap ...]

Each capture is first repeated until it fills some buffers (16 MB): below that, memory grows with
the file because nothing is full yet. Prints a Markdown table. Needs 200 MB in the folder for
temporary files. Linux and macOS.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks import programs
from benchmarks.captures import make_repeated
from benchmarks.errors import run_main
from benchmarks.measure import Measured, measure

CAPTURES = Path(__file__).resolve().parent.parent / "captures"
DEFAULT = ("basics.pcap", "large.pcap", "mock.pcap")
ROUNDS = 3
MIN_BYTES = 16_000_000


def measure_repeated(source: Path, times: int) -> None:
    """Print a line for each command on so many times a capture."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        capture = folder / "long.pcap"
        packets = make_repeated(source, times, capture)
        megabytes = capture.stat().st_size / 1e6
        for name, command in programs.kanalyze_commands(capture, folder, (1,)).items():
            took = Measured.of([measure(command) for _ in range(ROUNDS)])
            print(
                f"| {source.name} | {times} | {packets:,} | {megabytes:.1f} | {name} "
                f"| {took.wall_s:.2f} | {took.peak_bytes / (1 << 20):.0f} |",
                flush=True,
            )


def main() -> None:
    """Measure every command on every capture at every length."""
    captures = [Path(text) for text in sys.argv[1:]] or [CAPTURES / name for name in DEFAULT]
    print(f"{programs.machine()}\n")
    print("| capture | times | packets | MB | command | seconds | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for source in captures:
        once = -(-MIN_BYTES // source.stat().st_size)
        for times in (once, 10 * once):
            measure_repeated(source, times)


if __name__ == "__main__":
    run_main(main)
