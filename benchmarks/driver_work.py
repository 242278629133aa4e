"""What the process that runs a batch does besides its tasks: does it grow with the captures?

    python -m benchmarks.driver_work FOLDER [FOLDER ...]

Runs `kanalyze batch` on each folder of captures with two processes for tasks, and prints a table in
Markdown: the CPU time of the process that started them, without and with the report, which is
made in it, and the wall time.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from kanalyze.spark.batch.batch import run_batch
from kanalyze.spark.batch.process_engine import ProcessEngine
from kanalyze.spark.batch.run_plan import Settings
from kanalyze.spark.source.readers import make_plan

_PROCESSES = 2
_REPORT = "summing up"


class _Phase(NamedTuple):
    name: str
    cpu_s: float
    wall_s: float


def _phases(folder: Path) -> list[_Phase]:
    """Run a batch; return what its phases took in this process."""
    begun: list[_Phase] = []

    def begin(name: str) -> None:
        begun.append(_Phase(name, time.process_time(), time.monotonic()))

    with tempfile.TemporaryDirectory() as out:
        settings = Settings((str(folder),), out)
        plan = make_plan({"table": "requests"})
        begin("planning")
        run_batch(ProcessEngine(_PROCESSES), plan, settings, warn=print, report_phase=begin)
        begin("end")
    return [
        _Phase(one.name, following.cpu_s - one.cpu_s, following.wall_s - one.wall_s)
        for one, following in itertools.pairwise(begun)
    ]


def main(folders: list[Path]) -> None:
    """Print the table."""
    print("| captures | MB | driver CPU s | report CPU s | wall s |")
    print("|---|---:|---:|---:|---:|")
    for folder in folders:
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        phases = _phases(folder)
        report_s = sum(phase.cpu_s for phase in phases if phase.name == _REPORT)
        driver_s = sum(phase.cpu_s for phase in phases) - report_s
        wall_s = sum(phase.wall_s for phase in phases)
        print(
            f"| {folder.name} | {size:,.0f} | {driver_s:.1f} | {report_s:.1f} | {wall_s:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
