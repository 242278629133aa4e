"""What the process that runs a batch does besides its tasks: does it grow with the captures?

    python -m benchmarks.driver_work [--master URL] [--buckets N] FOLDER [FOLDER ...]

Runs `kanalyze batch` on each folder of captures, and prints a table in Markdown: CPU time of the
process that started the tasks, without and with the report, which is made in it, and the wall time.
Tasks run in two processes, or on a Spark cluster, whose driver has a JVM that counts too. With more
than 4 buckets segments are sent from task to task.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.process_tree import cpu_s_of
from kanalyze.batch.process_engine import ProcessEngine
from kanalyze.batch.run import run_batch
from kanalyze.batch.run_plan import Settings
from kanalyze.batch.table_options import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.batch.engine import Engine

_PROCESSES = 2
_REPORT = "summing up"


class _Phase(NamedTuple):
    name: str
    cpu_s: float
    wall_s: float


def _engine(master: str | None) -> tuple[Engine, Callable[[], float]]:
    """Return an engine, and what returns the CPU seconds of its driver."""
    if master is None:
        return ProcessEngine(_PROCESSES), time.process_time
    from kanalyze.spark.engine import SparkEngine
    from kanalyze.spark.session import start

    spark = start(master)
    pid = spark.sparkContext._gateway.proc.pid
    return SparkEngine(spark), lambda: time.process_time() + cpu_s_of(pid)


def _phases(
    folder: Path, engine: Engine, cpu_s: Callable[[], float], buckets: int | None
) -> list[_Phase]:
    """Run a batch; return what its phases took in this process."""
    begun: list[_Phase] = []

    def begin(name: str) -> None:
        begun.append(_Phase(name, cpu_s(), time.monotonic()))

    with tempfile.TemporaryDirectory() as out:
        settings = Settings((str(folder),), out, buckets=buckets)
        plan = make_plan({"table": "requests"})
        begin("planning")
        run_batch(engine, plan, settings, warn=print, report_phase=begin)
        begin("end")
    return [
        _Phase(one.name, following.cpu_s - one.cpu_s, following.wall_s - one.wall_s)
        for one, following in itertools.pairwise(begun)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--master", help="the URL of a Spark master; none: two processes")
    parser.add_argument("--buckets", type=int, help="as of kanalyze batch")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    engine, cpu_s = _engine(chosen.master)
    print("| captures | MB | driver CPU s | report CPU s | wall s |")
    print("|---|---:|---:|---:|---:|")
    for folder in chosen.folders:
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        phases = _phases(folder, engine, cpu_s, chosen.buckets)
        report_s = sum(phase.cpu_s for phase in phases if phase.name == _REPORT)
        driver_s = sum(phase.cpu_s for phase in phases) - report_s
        wall_s = sum(phase.wall_s for phase in phases)
        print(
            f"| {folder.name} | {size:,.0f} | {driver_s:.1f} | {report_s:.1f} | {wall_s:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
