"""What Spark's tasks take on one core, without Spark: reading captures, and rebuilding connections.

    python -m benchmarks.spark_tasks [--rounds N] [--buckets N] CAPTURE...

All captures one after another, in this process, large ones in parts as `kanalyze batch` reads
them; then all buckets. Blocks are in temporary files. Prints the quickest round, as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.errors import BenchmarkError, run_main
from kanalyze.batch.archive.blocks import from_arrow_stream, load_report
from kanalyze.batch.archive.planning import ReadSummary, splits_to_reread
from kanalyze.batch.archive.tasks import Job, read_splits, rebuilding
from kanalyze.batch.engine import other_tables
from kanalyze.batch.run_plan import Settings
from kanalyze.batch.table_options import make_plan
from kanalyze.capture.inputs import FoundCapture
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.splits import plan_splits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.batch.archive.blocks import Told
    from kanalyze.capture.splits import Split

_SPLIT_BYTES = Settings((), "").split_bytes


class Took(NamedTuple):
    """What one core took, in the quickest of some rounds."""

    capture_bytes: int
    block_bytes: int
    """What is sent from the tasks that read to those that rebuild."""
    rows: int
    """Of all connections."""
    read_s: float
    rebuild_s: float
    """Once: names of topics that others told are not known."""


def take(captures: Sequence[Path], buckets: int) -> Took:
    """Read captures and rebuild their connections.

    Raises:
        BenchmarkError: a part of a capture begins at another place than was thought.
    """
    with TemporaryDirectory() as folder:
        job = Job(
            *(make_plan({}), buckets),
            prunes_payload=True,
            others=other_tables(),
            block_folder=folder,
        )
        splits = [split for capture in captures for split in _splits(capture)]
        began = time.perf_counter()
        told = list(read_splits(job, enumerate(splits)))
        read_s = time.perf_counter() - began
        reports = [load_report(one.data) for one in told if one.kind == "report"]
        if splits_to_reread(reports):
            raise BenchmarkError("a part of a capture would have to be read again")
        groups = [group for one in told if one.kind == "groups" for group in load_report(one.data)]
        rebuild = rebuilding(job, ReadSummary(reports, buckets), folder, groups)
        began = time.perf_counter()
        rows = sum(map(_count, rebuild({}, ((bucket, None) for bucket in range(buckets)))))
        rebuild_s = time.perf_counter() - began
        return Took(
            sum(capture.stat().st_size for capture in captures),
            sum(file.stat().st_size for file in Path(folder).iterdir()),
            rows,
            read_s,
            rebuild_s,
        )


def _splits(capture: Path) -> list[Split]:
    found = FoundCapture(str(capture), total_bytes=capture.stat().st_size)
    return plan_splits(found, Stores(), _SPLIT_BYTES)


def _count(told: Told) -> int:
    """Return how many requests a task told."""
    return sum(map(len, from_arrow_stream(told.data))) if told.kind == "requests" else 0


def main() -> None:
    """Print what the tasks took on the captures of the command line."""
    parser = argparse.ArgumentParser(description="What Spark's tasks take on one core.")
    parser.add_argument("captures", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--buckets", type=int, default=8)
    arguments = parser.parse_args()
    runs = [take(arguments.captures, arguments.buckets) for _ in range(arguments.rounds)]
    quickest = runs[0]._replace(
        read_s=min(run.read_s for run in runs), rebuild_s=min(run.rebuild_s for run in runs)
    )
    print(json.dumps(quickest._asdict()))


if __name__ == "__main__":
    run_main(main)
