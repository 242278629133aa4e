from __future__ import annotations

import sys

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.process_tree import OTHER, WORKER, measure_tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

MIB = 1 << 20
WORK = "import time\nwhile time.process_time() < 0.5: pass"
HOLD = "held = b'x' * (200 << 20); import time; time.sleep(0.7)"


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-S", "-c", code, *words]


def starts(code: str, *words: str, more: str = "") -> list[str]:
    """A program that starts another one in a session of its own, and does not wait for it."""
    command = python(code, *words)
    return python(f"import subprocess; subprocess.Popen({command!r}, start_new_session=True){more}")


def test_time_of_processes_that_nobody_waits_for_counts() -> None:
    run = measure_tree(starts(WORK))
    assert 0.5 < run.cpu_s < 2
    assert run.cpu_of(OTHER) > 0.25


def test_it_has_taken_as_long_as_the_command_itself() -> None:
    assert measure_tree(starts("import time; time.sleep(1.5)")).wall_s < 1.4


def test_processes_are_told_apart() -> None:
    run = measure_tree(starts(HOLD, "pyspark.daemon"))
    assert 200 * MIB < run.peak_of(WORKER) < 300 * MIB
    assert 0 < run.peak_of(OTHER) < 100 * MIB
    assert run.peak_bytes == run.peak_of(WORKER)
    assert run.together_bytes > 200 * MIB


def test_a_command_that_fails_says_why_and_leaves_nothing_running() -> None:
    command = starts("import time; time.sleep(1)", more="; import sys; sys.exit('enough')")
    with pytest.raises(BenchmarkError, match=r"exit 1: .*: enough$"):
        measure_tree(command)


def test_settings_of_the_environment_are_given_on() -> None:
    code = "import os, sys; sys.exit(os.environ['KANALYZE_BENCHMARK'] != '7')"
    assert measure_tree(python(code), {"KANALYZE_BENCHMARK": "7"}).wall_s > 0
