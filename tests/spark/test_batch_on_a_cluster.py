"""The batch command on a cluster that loses a worker, and the command killed while it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.commit import RECORD, STAGING
from tests.batch.test_batch import Expected, all_files, report, row_files, rows
from tests.spark.drivers.batch import HELD_FROM
from tests.spark.drivers.marking import GO_ON, REBUILDING, marks_in
from tests.support.captures import path
from tests.support.cut_captures import cut
from tests.support.spark import settings
from tests.support.spark_cluster import WORKERS, kill_tree
from tests.support.waiting import LONG_S, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.spark_cluster import StandaloneCluster

pytestmark = pytest.mark.long
BATCH = "tests.spark.drivers.batch"


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    folder = tmp_path / "captures"
    folder.mkdir()
    for name in ("groups", "codecs", "basics"):
        cut(path(name), folder, 3)
    return folder


@pytest.mark.parametrize("buckets", [6, 17])
def test_the_loss_of_a_worker_changes_no_row(
    cluster: StandaloneCluster, buckets: int, captures: Path, tmp_path: Path
) -> None:
    """Both when each task reads all captures, and when segments are sent in files."""
    expected, out = Expected(tmp_path, captures.iterdir()), tmp_path / "out"
    arguments = [str(captures), "--out", str(out), "--buckets", str(buckets)]
    with cluster.driver(BATCH, *arguments) as driver:

        def are_waiting() -> bool:
            started = {mark.partition for mark in marks_in(driver.folder, REBUILDING)}
            return sum(partition >= HELD_FROM for partition in started) == WORKERS

        wait_until(are_waiting, "each worker has a waiting task")
        cluster.kill_worker(0)
        (driver.folder / GO_ON).touch()
        assert driver.result() == 0
        attempts = marks_in(driver.folder, REBUILDING)
    assert len(attempts) > len({mark.partition for mark in attempts})
    assert rows(out) == expected.requests
    assert rows(out, "anomalies") == expected.anomalies
    assert report(out) == expected.report
    assert len(row_files(out)) == len(
        [name for name in all_files(out) if name.endswith(".parquet")]
    )


@pytest.mark.parametrize("moment", [f"{STAGING}/requests", f"{STAGING}/report.json", RECORD])
def test_the_next_run_completes_a_killed_one(moment: str, captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    conf = [f"{name}={value}" for name, value in settings(tmp_path).items()]
    command = [
        *(sys.executable, "-c", "from kanalyze.cli.main import run; run()"),
        *("batch", str(captures), "--out", str(out), "--master", "local[1]", "--buckets", "2"),
        *("--checkpoint", str(tmp_path / "state"), "--settle", "0", "--finish"),
        *(text for setting in conf for text in ("--conf", setting)),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        wait_until((out / moment).exists, moment)
        kill_tree(process.pid)
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr
    expected = Expected(tmp_path, captures.iterdir())
    assert rows(out) == expected.requests
    assert report(out) == expected.report
    assert json.loads((out / RECORD).read_text())["is_done"] is True
    assert not (out / STAGING).exists()
