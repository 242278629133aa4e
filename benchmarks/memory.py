"""Peak memory and time of whole commands on a capture, and on one ten times as long.

    python benchmarks/memory.py [CAPTURE.pcap ...]

Each capture is first repeated until it fills some buffers (16 MB): below that, memory grows with
the file because nothing is full yet. Prints a Markdown table. Needs `pip install -e .` and 200 MB
in the folder for temporary files. Linux and macOS.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import repeat as repeating

CAPTURES = Path(__file__).resolve().parent.parent / "captures"
DEFAULT = ("basics.pcap", "large.pcap", "mock.pcap")
ROUNDS = 3
LEAST_BYTES = 16_000_000
_KIB_PER_MIB = 1024


def measure(command: list[str]) -> tuple[float, float]:
    """Run a command; return its seconds and its peak memory in MiB."""
    began = time.monotonic()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status, usage = os.wait4(process, 0)
    seconds = time.monotonic() - began
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {status}")
    peak = usage.ru_maxrss / (_KIB_PER_MIB if sys.platform == "linux" else _KIB_PER_MIB**2)
    return seconds, peak


def commands(capture: Path, folder: Path) -> dict[str, list[str]]:
    """Return what is measured."""
    kanalyze = str(Path(sys.executable).parent / "kanalyze")
    return {
        "report": [kanalyze, "report", str(capture), "--json", "-"],
        "requests": [kanalyze, "requests", str(capture), "-o", str(folder / "rows.parquet")],
    }


def main(captures: list[Path]) -> None:
    """Measure every command on every capture at every length."""
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}\n")
    print("| capture | times | packets | MB | command | seconds | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for source in captures:
        once = -(-LEAST_BYTES // source.stat().st_size)
        for times in (once, 10 * once):
            with tempfile.TemporaryDirectory() as text:
                folder = Path(text)
                capture = folder / "long.pcap"
                packets = repeating.repeat(source, times, capture)
                megabytes = capture.stat().st_size / 1e6
                for name, command in commands(capture, folder).items():
                    runs = [measure(command) for _ in range(ROUNDS)]
                    seconds = statistics.median(run[0] for run in runs)
                    peak = max(run[1] for run in runs)
                    print(
                        f"| {source.name} | {times} | {packets:,} | {megabytes:.1f} | {name} "
                        f"| {seconds:.2f} | {peak:.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main([Path(text) for text in sys.argv[1:]] or [CAPTURES / name for name in DEFAULT])
