from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import process_tree
from benchmarks.errors import BenchmarkError
from benchmarks.process_tree import OTHER, WORKER, measure_tree
from tests.support.gate import Gate
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

MIB = 1 << 20
WORK = "import time\nwhile time.process_time() < 0.5: pass\n"
HOLD = "held = b'x' * (200 << 20); "


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


@pytest.fixture
def opened_after_looks(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """A gate that opens after processes were inspected a few times."""
    gate.open_after_looks(monkeypatch, process_tree, "_processes")
    return gate


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-S", "-c", code, *words]


def starts(code: str, *words: str, more: str = "") -> list[str]:
    """A program that starts another one in a new session, and does not wait for it."""
    command = python(code, *words)
    return python(f"import subprocess; subprocess.Popen({command!r}, start_new_session=True){more}")


@pytest.mark.long
def test_time_of_processes_that_nobody_waits_for_counts(opened_after_looks: Gate) -> None:
    run = measure_tree(starts(WORK + opened_after_looks.wait))
    assert run.cpu_s > 0.5
    assert run.cpu_of(OTHER) > 0.45


def test_wall_time_is_that_of_the_command_alone(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that the command started runs until the wall time is known."""
    end, taken_s = process_tree._end, []
    watch = process_tree._watch
    monkeypatch.setattr(process_tree, "_MAX_S", LONG_S)

    def watched(*arguments: Any) -> float:
        taken_s.append(watch(*arguments))
        return taken_s[0]

    def ended(*arguments: Any) -> None:
        gate.open()
        end(*arguments)

    monkeypatch.setattr(process_tree, "_watch", watched)
    monkeypatch.setattr(process_tree, "_end", ended)
    assert [measure_tree(starts(gate.wait)).wall_s] == taken_s


def test_processes_are_distinguished_by_kind(opened_after_looks: Gate) -> None:
    run = measure_tree(starts(HOLD + opened_after_looks.wait, "pyspark.daemon"))
    assert 200 * MIB < run.peak_of(WORKER) < 300 * MIB
    assert 0 < run.peak_of(OTHER) < 100 * MIB
    assert run.peak_bytes == run.peak_of(WORKER)
    assert run.together_bytes > 200 * MIB


def test_a_failed_command_is_reported_and_leaves_no_process() -> None:
    command = starts("import time; time.sleep(1)", more="; import sys; sys.exit('enough')")
    with pytest.raises(BenchmarkError, match=r"exit 1: .*: enough$"):
        measure_tree(command)


def test_environment_variables_are_passed_on() -> None:
    code = "import os, sys; sys.exit(os.environ['KANALYZE_BENCHMARK'] != '7')"
    assert measure_tree(python(code), {"KANALYZE_BENCHMARK": "7"}).wall_s > 0
