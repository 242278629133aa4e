from __future__ import annotations

import sys

import pytest

from kanalyze.api.reports import report_on, tables_of
from kanalyze.api.tables import opened_tables
from kanalyze.cli import batch
from kanalyze.cli.arguments import parser
from kanalyze.cli.batch_progress import BatchProgress
from kanalyze.cli.main import main
from kanalyze.cli.progress import Progress
from kanalyze.queries.findings import finding_kinds
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import path
from tests.support.clocks import FastClock

GIVEN = ["batch", "captures/", "--out", "archive"]


def test_arguments_are_parsed():
    made = parser().parse_args(
        [
            *("batch", "a.pcap", "b/", "--out", "s3a://bucket/archive"),
            *("--master", "local[2]", "--checkpoint", "state", "--settle", "1.5", "--finish"),
            *("--replace", "--buckets", "16", "--split-size", "32M", "--json", "report.json"),
            *("--conf", "spark.driver.memory=4g", "--conf", "a=b=c", "--api", "Fetch"),
        ]
    )
    assert made.captures == ["a.pcap", "b/"]
    assert (made.out, made.master) == ("s3a://bucket/archive", "local[2]")
    assert (made.checkpoint, made.settle) == ("state", 1.5)
    assert (made.finish, made.replace) == (True, True)
    assert (made.buckets, made.split_size) == (16, 32 << 20)
    assert made.conf == [("spark.driver.memory", "4g"), ("a", "b=c")]
    assert (made.json, made.api) == ("report.json", ["Fetch"])


def test_defaults_of_options():
    made = parser().parse_args(GIVEN)
    assert (made.checkpoint, made.settle, made.finish, made.replace) == (None, 60, False, False)
    assert (made.master, made.buckets, made.split_size) == (None, None, 64 << 20)


@pytest.mark.parametrize(
    "argv",
    [
        ["batch", "captures/"],
        ["batch", "--out", "archive"],
        [*GIVEN, "--buckets", "0"],
        [*GIVEN, "--buckets", "many"],
        [*GIVEN, "--settle", "-1"],
        [*GIVEN, "--settle", "nan"],
        [*GIVEN, "--settle", "inf"],
        [*GIVEN, "--settle", "x"],
        [*GIVEN, "--split-size", "x"],
        [*GIVEN, "--conf", "spark.driver.memory"],
        [*GIVEN, "--conf", "=4g"],
    ],
)
def test_arguments_that_make_no_sense_exit_with_2(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(argv)
    assert caught.value.code == 2
    assert "usage: kanalyze batch" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--finish"], "--finish needs --checkpoint"),
        (["--split-size", "1000"], "--split-size: use at least 1048576 bytes"),
        (["--api", "Nope"], "unknown API: 'Nope'"),
        (["--since", "soon"], "soon"),
        (["--topic-ids", "no/such/file"], "no/such/file"),
        (["--definitions", "no/such/folder"], "no/such/folder"),
        (["--threshold", "nothing.least=1"], "unknown threshold: 'nothing.least'"),
        (["--queries", "no/such/folder"], "no/such/folder"),
        (["--queries", "."], "query 'wrong': "),
        (["--master", "nowhere"], "not a Spark master: 'nowhere'"),
        (["--json", "no/such/folder/report.json"], "no/such/folder"),
        (["--format", "json", "--sort", "p99"], "--sort and --limit work for text and md only"),
        (["--format", "md", "--json", "-"], "--json - and --format md would both use standard"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line_before_spark_starts(
    more, told, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.sql").write_text(
        "-- Wrong.\n--\n-- severity: 1\n-- sure: yes\n-- why: -\n-- repair: -\nSELECT FROM (\n"
    )
    assert main([*GIVEN, *more]) == 2
    err = capsys.readouterr().err
    assert err.startswith("kanalyze: ")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.few(2)
@pytest.mark.parametrize("report_format", ["text", "md", "json"])
def test_the_report_is_shown_as_that_of_one_machine(report_format, capfd, monkeypatch):
    capture = str(path("errors"))

    def run(arguments, _plan, _settings, options):
        kinds = finding_kinds()
        with opened_tables(Analysis([capture]), tables_of(kinds)) as tables:
            return report_on(tables, kinds, most_slowest=options.most_slowest)

    monkeypatch.setattr(batch, "_run", run)
    order = [] if report_format == "json" else ["--sort", "errors", "--limit", "12"]
    assert main([*GIVEN, "--format", report_format, *order]) == 0
    shown = capfd.readouterr().out
    assert main(["report", "--format", report_format, *order, capture]) == 0
    assert shown == capfd.readouterr().out


def test_help_has_examples_and_fits_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(["batch", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert max(map(len, text.splitlines())) <= 84


def test_without_spark_it_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setattr("kanalyze.spark.session.find_spec", lambda name: None)
    assert main(GIVEN) == 2
    assert capsys.readouterr().err == (
        "kanalyze: Spark is not installed: pip install kanalyze[spark]\n"
    )


@pytest.mark.parametrize("is_terminal", [True, False])
def test_phases_are_printed_only_on_a_terminal(is_terminal, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    BatchProgress().begin("reading 2 captures in 1 tasks")
    told = "kanalyze: reading 2 captures in 1 tasks\n" if is_terminal else ""
    assert capsys.readouterr().err == told
    BatchProgress(Progress(is_wanted=False)).begin("reading 2 captures in 1 tasks")
    assert capsys.readouterr().err == ""


def test_without_a_terminal_the_tasks_are_a_line_now_and_then(capsys):
    clock = FastClock(until_s=40)

    def tasks_done():
        seconds = int(clock.seconds())
        return [(10, 40), (35, 40), None, (7, 8)][min(seconds // 10 - 1, 3)] if seconds else None

    progress = BatchProgress(Progress(clock=clock))
    progress.begin("reading 2 captures in 40 tasks")
    with progress.shown(tasks_done):
        clock.run()
    assert capsys.readouterr().err.splitlines() == [
        "kanalyze: reading 2 captures in 40 tasks: 25 %, 10 of 40 tasks, for 10 s",
        "kanalyze: reading 2 captures in 40 tasks: 87 %, 35 of 40 tasks, 2.5 tasks/s, 2 s left",
        "kanalyze: reading 2 captures in 40 tasks: for 30 s",
        "kanalyze: reading 2 captures in 40 tasks: 87 %, 7 of 8 tasks, for 40 s",
    ]
