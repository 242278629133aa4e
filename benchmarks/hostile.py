"""CPU time and peak memory of captures that are made to take long or much memory.

    python -m benchmarks.hostile [--megabytes N] [--command COMMAND] [KIND ...]

Makes each kind of `benchmarks.hostile_inputs` in turn, runs `kanalyze requests` (or another command
that takes a capture) on it, and prints a Markdown table: CPU seconds for each MB of the capture,
without what an empty capture takes, and the peak. The bound is one CPU second a MB. Linux, macOS.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import programs
from benchmarks.errors import run_main
from benchmarks.hostile_inputs import KINDS
from benchmarks.measure import measure

MEGABYTES = 4.0
EMPTY = "packets without bytes"


def made(kind: str, size: int, folder: Path) -> Path:
    """Make a capture of a kind in a process of its own: those who measure have to stay small."""
    target = folder / "hostile.pcap"
    words = ["-m", "benchmarks.hostile_inputs", kind, str(size), str(target)]
    subprocess.run([sys.executable, *words], check=True)
    return target


def main() -> None:
    """Measure the kinds that the command line names, or all of them."""
    parser = argparse.ArgumentParser(description="Measure captures that are made to take long.")
    parser.add_argument("kinds", metavar="KIND", nargs="*", help="default: all")
    parser.add_argument("--megabytes", type=float, default=MEGABYTES)
    parser.add_argument("--command", default="requests")
    arguments = parser.parse_args()
    print(f"{programs.with_revision(programs.machine())}\n")
    print(f"| {arguments.command} | MB | CPU s | CPU s a MB | peak MiB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        command = [programs.KANALYZE, arguments.command]
        start_s = measure([*command, str(made(EMPTY, 0, folder))]).cpu_s
        for kind in arguments.kinds or KINDS:
            capture = made(kind, int(arguments.megabytes * 1e6), folder)
            megabytes = capture.stat().st_size / 1e6
            run = measure([*command, str(capture)])
            print(
                f"| {kind} | {megabytes:.1f} | {run.cpu_s:.1f} "
                f"| {(run.cpu_s - start_s) / megabytes:.2f} | {run.peak_bytes / (1 << 20):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    run_main(main)
