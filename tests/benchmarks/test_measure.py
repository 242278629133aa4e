from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import measure as module
from benchmarks.errors import BenchmarkError
from benchmarks.measure import Measured, Run, least_peak_bytes, measure, peak_together
from tests.support.gate import Gate

if TYPE_CHECKING:
    from pathlib import Path

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
    for run in (measure, peak_together):
        with pytest.raises(BenchmarkError, match=r"exit 3: .*: enough$"):
            run(python("import sys; print('enough', file=sys.stderr); sys.exit(3)"))


@pytest.mark.long
def test_peak_together_sums_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(tmp_path)
    gate.open_after_looks(monkeypatch, module, "_group")
    child = HOLD + gate.wait
    code = f"{HOLD}import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {child!r}])"
    peak_bytes = peak_together(python(code))
    if sys.platform == "linux":
        assert peak_bytes is not None
        assert 600 * MIB < peak_bytes < 750 * MIB
    else:
        assert peak_bytes is None


def test_other_processes_do_not_count() -> None:
    held = b"x" * (300 * MIB)
    peak_bytes = peak_together(python(WAIT)) or 0
    assert peak_bytes < len(held)


def test_runs_are_summarized_by_medians_and_the_highest_peak() -> None:
    runs = [Run(3.0, 2.0, 10), Run(1.0, 9.0, 30), Run(2.0, 1.0, 20)]
    assert Measured.of(runs) == Measured(2.0, 1.0, 3.0, 2.0, 30)
