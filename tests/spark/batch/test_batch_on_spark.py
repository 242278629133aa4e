"""What holds of a batch in processes holds on Spark too.

A run on Spark takes seconds: the tests here are those of test_batch.py that need few runs, and
those of Spark alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.errors import UsageError
from kanalyze.spark import report as spark_report
from kanalyze.spark.batch import spark_engine
from tests.spark.batch.test_batch import (
    Expected,
    archive,
    begun,
    captures,
    check_growing,
    expected,
    go_on,
    good,
    growing,
    once,
    one_run,
    report,
    rows,
    run,
    test_anomalies_tell_what_is_wrong_with_files,
    test_captures_that_are_not_there_are_one_line,
    test_captures_that_cannot_be_read_are_told,
    test_lines_name_their_request_by_its_number,
    test_nothing_else_is_left,
    test_rows_are_by_day_and_hour,
    test_rows_are_those_of_one_process,
    test_so_they_are_of_every_capture,
    test_the_report_is_that_of_one_process,
)
from tests.support.captures import path
from tests.support.spark import settings
from tests.support.waiting import LONG_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.batch.test_batch import Growing

__all__ = [
    "archive",
    "begun",
    "captures",
    "expected",
    "good",
    "growing",
    "once",
    "one_run",
    "run",
    "test_anomalies_tell_what_is_wrong_with_files",
    "test_captures_that_are_not_there_are_one_line",
    "test_captures_that_cannot_be_read_are_told",
    "test_lines_name_their_request_by_its_number",
    "test_nothing_else_is_left",
    "test_rows_are_by_day_and_hour",
    "test_rows_are_those_of_one_process",
    "test_so_they_are_of_every_capture",
    "test_the_report_is_that_of_one_process",
]


@pytest.fixture(scope="module")
def engine(spark: object) -> list[str]:
    return ["--engine", "spark"]


@pytest.mark.usefixtures("few_findings")
@pytest.mark.long
@pytest.mark.parametrize("is_killed", [True, False])
def test_an_archive_grows_on_spark(
    is_killed: bool, run: Any, archive: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_growing(is_killed, run, archive, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
def test_what_spark_began_processes_go_on_with_and_the_other_way_round(
    run: Any, archive: Growing, tmp_path: Path
) -> None:
    """Both write the same checkpoint."""
    processes = ("--engine", "process", "--jobs", "1")
    assert go_on(run, archive, *processes, upto=2).status == 0
    assert go_on(run, archive, "--finish", upto=4).status == 0
    of_one = Expected(tmp_path, [*archive.files[1:], *archive.folder.iterdir()])
    for table, found in of_one.tables.items():
        assert rows(archive.out, table) == found
    assert report(archive.out) == of_one.report


def test_of_a_small_archive_it_is_said_that_spark_takes_longer(spark: object) -> None:
    local = spark_engine.SparkEngine(spark, print)  # type: ignore[arg-type]
    told = "--engine process does the same in less time"
    assert local.advice(3_000_000) == f"3 MB of captures on one machine: {told}"
    assert local.advice(10**12) is None
    assert spark_engine.advice_for("yarn", 10**9) == f"1 GB of captures: {told}"
    assert spark_engine.advice_for("yarn", 10**11) is None


@pytest.mark.long
@pytest.mark.usefixtures("few_findings")
def test_spark_writes_rows_where_its_tasks_cannot(
    run: Any, archive: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("no credentials")

    monkeypatch.setattr(spark_engine.SharedFolder, "write", refuse)
    moved = archive._replace(out=f"file://{archive.out}")  # a store's URL, which is tried
    ran = go_on(run, moved, "--finish", upto=4)
    assert ran.status == 0
    told = "Spark writes the rows, which takes longer, as its tasks cannot: no credentials"
    assert ran.err.count(f"kanalyze: {told}\n") == 1
    of_one = Expected(tmp_path, [*archive.files[1:], *archive.folder.iterdir()])
    for table, found in of_one.tables.items():
        assert rows(archive.out, table) == found
    assert report(archive.out) == of_one.report


@pytest.mark.long
def test_a_report_on_many_rows_is_made_on_spark(
    run: Any, growing: Growing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_engine, "most_rows_here", lambda master: -1)
    monkeypatch.setattr(spark_report, "MOST_ROWS_HERE", -1)
    growing.add(0, 1)
    assert run(*growing.arguments).status == 0
    growing.add(2, 3, 4, 5)
    assert run(*growing.arguments, "--finish").status == 0
    assert report(growing.out) == Expected(tmp_path, growing.folder.iterdir()).report


@pytest.mark.long
def test_the_command_in_a_process_of_its_own(tmp_path):
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
