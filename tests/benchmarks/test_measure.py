from __future__ import annotations

import sys

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.measure import Measured, Run, least_peak_bytes, measure

MIB = 1 << 20
HOLD = "held = b'x' * (300 << 20); "
WAIT = "import time; time.sleep(0.5)"


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_the_peak_is_the_memory_of_the_command() -> None:
    peak_bytes = measure(python(HOLD + "del held")).peak_bytes
    # The peak is at least the memory that this process has taken so far.
    assert 300 * MIB < peak_bytes < max(450 * MIB, least_peak_bytes() + MIB)


def test_waiting_takes_no_cpu_time() -> None:
    run = measure(python(WAIT))
    assert run.wall_s > 0.5
    # Some systems measure in ticks, to a hundredth of a second.
    assert run.cpu_s < run.wall_s - 0.45


def test_time_of_child_processes_counts() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {work!r}])"
    assert measure(python(code)).cpu_s > 0.3


def test_the_error_of_a_failed_command_is_reported() -> None:
    with pytest.raises(BenchmarkError, match=r"exit 3: .*: enough$"):
        measure(python("import sys; print('enough', file=sys.stderr); sys.exit(3)"))


def test_runs_are_summarized_by_medians_the_quickest_and_the_highest_peak() -> None:
    took = Measured.of([Run(3.0, 2.0, 10), Run(1.0, 9.0, 30), Run(2.0, 1.5, 20)], 40)
    assert (took.wall_s, took.least_wall_s, took.cpu_s, took.least_cpu_s) == (2.0, 1.0, 2.0, 1.5)
    assert (took.peak_bytes, took.together_bytes) == (30, 40)
