from __future__ import annotations

import pytest

from benchmarks.event_log import READ, REBUILD, Stage
from benchmarks.process_tree import JVM, OTHER, WORKER, ProcessUse, TreeRun
from benchmarks.spark_tables import Folder, Result, hours_per_tb, markdown
from benchmarks.spark_tasks import Took

MIB = 1 << 20
BATCH = "kanalyze batch local[2]"
STAGES = [
    Stage(0, run_s=20.0, kind=READ),
    Stage(1, run_s=1.0),
    Stage(3, run_s=6.0, kind=REBUILD),
    Stage(6, run_s=1.0),
    Stage(8, run_s=4.0, kind=REBUILD),
]


def result(wall_s: float, cpu_s: float, stages: list[Stage]) -> Result:
    processes = [
        ProcessUse(OTHER, 1.0, 50 * MIB),
        ProcessUse(JVM, 5.0, 900 * MIB),
        ProcessUse(WORKER, 8.0, 200 * MIB),
        ProcessUse(WORKER, 9.0, 210 * MIB),
    ]
    return Result(TreeRun(wall_s, cpu_s, 1300 * MIB, processes), 2, 5000, stages)


EMPTY = Folder("empty", 24, 1, {BATCH: result(10.0, 5.0, STAGES[1:2])})
BULK = Folder("bulk", 2_000_000_000, 32, {BATCH: result(50.0, 23.0, STAGES)})


def lines(*beginning: str) -> list[list[str]]:
    took = Took(100_000_000, 25_000_000, 600, 0.5, 2.0)
    text = markdown([EMPTY, BULK], {"bulk": took}, ["2 cores"])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [row[len(beginning) :] for row in rows if row[: len(beginning)] == list(beginning)]


def test_a_line_has_rates_per_core() -> None:
    expected = ["50.0", "23.0", "40", "20", "5,000", "900", "1,300", "11.1", "2.5"]
    assert lines("bulk", "2,000.0", "32", BATCH) == [expected]


def test_processes_are_listed_by_kind() -> None:
    processes = ["5.0", "17.0", "1.0", "900", "210", "50"]
    stages = ["20.0", "100", "10.0", "2", "400", "1,000", "2.0"]
    assert lines("bulk", BATCH) == [processes, stages]
    assert lines("empty", BATCH) == []


def test_tasks_without_spark_have_rates() -> None:
    assert lines("bulk", "100.0") == [["600", "0.50", "200", "25.00%", "2.00", "50", "300"]]


def test_hours_per_terabyte_do_not_include_the_start_up() -> None:
    # Two cores take 40 s for 2 GB, and use 18 s of CPU time.
    expected = pytest.approx((80 * 500 / 3600, 18 * 500 / 3600))
    assert hours_per_tb(EMPTY, BULK, BATCH) == expected
