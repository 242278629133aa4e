"""A batch on Spark behaves like a batch in processes.

A run on Spark takes seconds: here are those tests of test_batch.py that need few runs, and
tests of Spark alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.batch.sums import load_sums, sums_database, sums_of
from kanalyze.spark import engine as spark_engine
from tests.batch.test_batch import (
    Expected,
    archive,
    assert_growing_archive_matches_one_run,
    assert_segments_in_files_give_the_rows_of_one_process,
    assert_unreadable_states_lose_no_row,
    begun,
    captures,
    expected,
    flipped,
    growing,
    one_run,
    one_run_out,
    readable,
    report,
    rows,
    run,
    run_with_more,
    test_anomalies_describe_damaged_and_unreadable_files,
    test_files_have_the_columns_of_the_documentation,
    test_lines_have_the_id_of_their_request,
    test_missing_captures_are_reported_in_one_line,
    test_no_other_files_are_left,
    test_rows_are_in_folders_by_day_and_hour,
    test_rows_match_one_process,
    test_the_report_matches_one_process,
    test_the_report_on_every_capture_matches_one_process,
    test_unreadable_captures_are_reported,
)
from tests.support.captures import path
from tests.support.spark import settings
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.batch.test_batch import Growing

__all__ = [
    "archive",
    "begun",
    "captures",
    "expected",
    "growing",
    "one_run",
    "one_run_out",
    "readable",
    "run",
    "test_anomalies_describe_damaged_and_unreadable_files",
    "test_files_have_the_columns_of_the_documentation",
    "test_lines_have_the_id_of_their_request",
    "test_missing_captures_are_reported_in_one_line",
    "test_no_other_files_are_left",
    "test_rows_are_in_folders_by_day_and_hour",
    "test_rows_match_one_process",
    "test_the_report_matches_one_process",
    "test_the_report_on_every_capture_matches_one_process",
    "test_unreadable_captures_are_reported",
]


@pytest.fixture(scope="module")
def engine(spark: object) -> list[str]:
    return ["--engine", "spark"]


@pytest.mark.long
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_growing_archive_on_spark_ends_with_the_rows_of_one_run(
    is_killed: bool, run: Any, archive: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_growing_archive_matches_one_run(is_killed, run, archive, tmp_path, monkeypatch)


def test_spark_reads_the_timestamps(one_run_out: Path, spark: SparkSession) -> None:
    rows = spark.read.parquet(str(one_run_out / "requests"))
    seconds = rows.selectExpr("unix_micros(request_start_time)", "request_start_ns DIV 1000")
    found = seconds.where("request_start_ns IS NOT NULL").take(100)
    assert len(found) == 100
    assert all(time == expected for time, expected in found)


def test_tasks_are_few_unless_cores_may_be_added() -> None:
    assert spark_engine.most_tasks(3, None) == spark_engine.most_tasks(3, "false") == 6
    assert spark_engine.most_tasks(3, "true") is None


@pytest.mark.long
def test_an_archive_grows_whose_segments_are_sent_in_files(
    run: Any, growing: Growing, tmp_path: Path
) -> None:
    assert_segments_in_files_give_the_rows_of_one_process(run, growing, tmp_path)


@pytest.mark.long
def test_either_engine_continues_an_archive_of_the_other(
    run: Any, archive: Growing, tmp_path: Path
) -> None:
    """Both engines write the same checkpoint."""
    processes = ("--engine", "process", "--jobs", "1")
    assert run_with_more(run, archive, *processes, end=2).status == 0
    assert run_with_more(run, archive, "--finish", end=4).status == 0
    expected_run = Expected(tmp_path, [*archive.files[1:], *archive.folder.iterdir()])
    for table, expected_rows in expected_run.tables.items():
        assert rows(archive.out, table) == expected_rows
    assert report(archive.out) == expected_run.report


def test_small_archives_are_advised_to_use_processes(spark: object) -> None:
    local = spark_engine.SparkEngine(spark)  # type: ignore[arg-type]
    advice = "--engine process does the same in less time"
    assert local.advice(3_000_000) == f"3 MB of captures on one machine: {advice}"
    assert local.advice(10**12) is None
    assert spark_engine.advice_for("yarn", 10**9) == f"1 GB of captures: {advice}"
    assert spark_engine.advice_for("yarn", 10**11) is None


@pytest.mark.long
def test_the_command_runs_in_its_own_process(tmp_path):
    out = tmp_path / "out of it"
    conf = [f"{name}={value}" for name, value in settings(tmp_path).items()]
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from kanalyze.cli.main import run; run()"),
            *("batch", str(path("mock")), "--out", str(out), "--master", "local[1]"),
            *("--json", "-"),
            *(text for setting in conf for text in ("--conf", setting)),
        ],
        capture_output=True,
        check=False,
        text=True,
        timeout=LONG_S,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == report(out)
    assert rows(out) == Expected(tmp_path, [path("mock")]).requests


@pytest.mark.long
def test_connections_whose_state_is_damaged_are_closed_and_no_row_is_lost(run, archive, tmp_path):
    assert_unreadable_states_lose_no_row(flipped, "damaged", run, archive, tmp_path)


def test_tasks_sum_up_rows(spark: SparkSession, one_run_out: Path) -> None:
    """Several groups of files are summed up in tasks, to what one would be."""
    names = sorted(
        str(file.relative_to(one_run_out)) for file in (one_run_out / "requests").rglob("*.parquet")
    )
    assert len(names) > 1
    engine = spark_engine.SparkEngine(spark)
    groups = [{"requests": names[index::2], "connections": []} for index in range(2)]
    summed = engine.run(sums_of, [(str(one_run_out), group) for group in groups])
    parts = [load_sums(data) for data in summed]
    whole = load_sums(sums_of(str(one_run_out), {"requests": names, "connections": []}))
    assert whole is not None
    with sums_database([part for part in parts if part is not None]) as database:
        (found,) = database.ask("SELECT sum(many) AS rows FROM request_sums").to_pylist()
    with sums_database([whole]) as database:
        assert database.ask("SELECT sum(many) AS rows FROM request_sums").to_pylist() == [found]
    assert found["rows"] > 0
