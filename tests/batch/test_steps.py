"""A load in steps: the tables of one run, also if it is killed; captures may overlap in time."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.checkpoint import Cut
from kanalyze.batch.run_plan import InputFile, RunPlan
from kanalyze.batch.steps import StartTimes, first_step
from kanalyze.cli.main import main
from tests.batch.test_batch import Expected, make_settled, report, row_files, rows
from tests.support.captures import path
from tests.support.cut_captures import packets_of, write_pcap
from tests.support.few_findings import WITH_FEW_FINDINGS
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ("requests", "connections", "anomalies", "groups", "metadata")


def points(name: str, folder: Path, count: int, files: int, seed: int) -> list[Path]:
    """Give each packet to one of several capture points, whose files begin at different times."""
    noise = random.Random(seed)
    packets = packets_of(path(name))
    written = []
    for point in range(count):
        own = [packet for packet in packets if noise.randrange(count) == 0]
        packets = [packet for packet in packets if packet not in own]
        if point == count - 1:
            own = sorted([*own, *packets], key=lambda packet: packet.time_ns)
        places = sorted(noise.sample(range(1, len(own)), files - 1))
        for number, (start, end) in enumerate(zip([0, *places], [*places, None], strict=True)):
            written.append(folder / f"point{point}-{number:02}.pcap")
            write_pcap(written[-1], own[start:end])
    return written


def runs_of(out: Path) -> set[str]:
    return {name.rpartition("/")[2][4:10] for name in row_files(out) if "/run-" in name}


def assert_equal(out: Path, expected: Expected) -> None:
    for table in TABLES:
        assert rows(out, table) == expected.tables[table], table
    assert report(out) == expected.report


@pytest.mark.few(1)
@pytest.mark.parametrize("buckets", [2, 9])
@pytest.mark.parametrize(
    ("name", "count", "seed"), [("groups", 1, 1), ("basics", 2, 2), ("groups", 3, 3)]
)
def test_steps_make_the_tables_of_one_run(name, count, seed, buckets, tmp_path, monkeypatch):
    """With 9 buckets segments are sent in files, with 2 each task reads all captures."""
    cuts = []
    monkeypatch.setattr("kanalyze.batch.run.Cut", lambda *cut: cuts.append(Cut(*cut)) or cuts[-1])
    folder = tmp_path / "captures"
    folder.mkdir()
    files = points(name, folder, count, 6, seed)
    make_settled(files)
    sizes = sum(file.stat().st_size for file in files)
    out = tmp_path / "out"
    arguments = [folder, "--out", out, "--checkpoint", tmp_path / "state", "--finish"]
    options = ["--engine", "process", "--jobs", 1, "--buckets", buckets]
    options += ["--step-size", sizes // (6 * count) or 1]
    assert main(["batch", *map(str, [*arguments, *options])]) == 0
    assert_equal(out, Expected(tmp_path, files))
    assert len(runs_of(out)) > 2
    # Captures of several points go on beyond the end of a step.
    assert any(cut.taken for cut in cuts) == (count > 1)


@pytest.mark.usefixtures("last_report")
def test_a_killed_load_goes_on_after_its_last_step(tmp_path):
    folder, out, state = tmp_path / "captures", tmp_path / "out", tmp_path / "state"
    folder.mkdir()
    files = points("groups", folder, 1, 6, 4)
    make_settled(files)
    arguments = [folder, "--out", out, "--checkpoint", state, "--finish", "--step-size", 1]
    arguments = [*map(str, arguments), "--engine", "process", "--jobs", "1"]
    record = out / ".kanalyze" / "commit.json"

    def run_number() -> int:
        return int(json.loads(record.read_text())["run"]) if record.exists() else 0

    committed: dict[str, int] = {}
    command = f"{WITH_FEW_FINDINGS}from kanalyze.cli.main import run; run()"
    for least in (1, 3):
        process = subprocess.Popen([sys.executable, "-c", command, "batch", *arguments])
        wait_until(
            lambda least=least, process=process: run_number() >= least or process.poll() is not None
        )
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        # What was committed is not done again.
        found = {name: (out / name).stat().st_ino for name in row_files(out)}
        closed = {name: inode for name, inode in found.items() if "/run-" in name}
        assert committed.items() <= closed.items()
        committed = closed
    steps = run_number()
    assert main(["batch", *arguments]) == 0
    assert run_number() > steps
    assert committed.items() <= {n: (out / n).stat().st_ino for n in row_files(out)}.items()
    assert_equal(out, Expected(tmp_path, files))


def test_a_step_ends_where_the_next_capture_begins(tmp_path):
    files = points("groups", tmp_path, 3, 4, 5)
    inputs = [InputFile(str(file), file.stat().st_size, 0) for file in files]
    run = RunPlan(1, "x", inputs, [], [], None, None)
    starts = StartTimes()
    begins = dict(zip([file.path for file in inputs], starts.of(inputs), strict=True))
    assert first_step(run, sum(file.total_bytes or 0 for file in inputs), starts) is run
    step = first_step(run, 1, starts)
    assert step.until_ns is not None
    assert [begins[file.path] for file in step.files] == [min(begins.values())]
    assert step.until_ns == sorted(begins.values())[1]
    missing = InputFile(str(tmp_path / "missing.pcap"), None, None)
    step = first_step(run._replace(files=[*inputs, missing]), inputs[0].total_bytes or 0, starts)
    assert step.files[0] == missing


def test_captures_of_one_time_are_one_step(tmp_path):
    for number in range(3):
        shutil.copy(path("mock"), tmp_path / f"{number}.pcap")
    inputs = [InputFile(str(file), file.stat().st_size, 0) for file in tmp_path.iterdir()]
    run = RunPlan(1, "x", inputs, [], [], None, None)
    assert first_step(run, 1, StartTimes()) is run


@pytest.mark.usefixtures("last_report")
def test_a_capture_that_comes_late_for_a_step_is_read_with_it(tmp_path):
    """It belongs to a step that ended in the middle of captures of the other point."""
    folder, out = tmp_path / "captures", tmp_path / "out"
    folder.mkdir()
    files = points("groups", folder, 2, 5, 6)
    late = files[2].rename(tmp_path / files[2].name)
    make_settled([*folder.iterdir(), late])
    options = ["--out", out, "--checkpoint", tmp_path / "state", "--step-size", 1]
    arguments = [*map(str, [folder, *options]), "--engine", "process", "--jobs", "1"]
    assert main(["batch", *arguments]) == 0
    steps = len(runs_of(out))
    assert steps > 1
    late.rename(files[2])
    assert main(["batch", *arguments, "--finish"]) == 0
    assert_equal(out, Expected(tmp_path, files))
