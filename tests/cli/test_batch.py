from __future__ import annotations

import sys

import pytest

from kanalyze.api.reports import report_on, tables_of
from kanalyze.api.tables import opened_tables
from kanalyze.cli import batch
from kanalyze.cli.arguments import parser
from kanalyze.cli.batch import BatchProgress
from kanalyze.cli.main import main
from kanalyze.cli.progress import Progress
from kanalyze.queries.findings import finding_kinds
from kanalyze.runtime.pipeline import Analysis
from tests.support.captures import path
from tests.support.clocks import FastClock

BATCH = ["batch", "captures/", "--out", "archive"]


def test_arguments_are_parsed():
    arguments = parser().parse_args(
        [
            *("batch", "a.pcap", "b/", "--out", "s3a://bucket/archive"),
            *("--master", "local[2]", "--checkpoint", "state", "--settle", "1.5", "--finish"),
            *("--replace", "--buckets", "16", "--split-size", "32M", "--json", "report.json"),
            *("--conf", "spark.driver.memory=4g", "--conf", "a=b=c", "--api", "Fetch"),
        ]
    )
    assert arguments.captures == ["a.pcap", "b/"]
    assert (arguments.out, arguments.master) == ("s3a://bucket/archive", "local[2]")
    assert (arguments.checkpoint, arguments.settle) == ("state", 1.5)
    assert (arguments.finish, arguments.replace) == (True, True)
    assert (arguments.buckets, arguments.split_size) == (16, 32 << 20)
    assert arguments.conf == [("spark.driver.memory", "4g"), ("a", "b=c")]
    assert (arguments.json, arguments.api) == ("report.json", ["Fetch"])


def test_defaults_of_options():
    args = parser().parse_args(BATCH)
    assert (args.checkpoint, args.settle, args.finish, args.replace) == (None, 60, False, False)
    assert (args.master, args.buckets, args.split_size) == (None, None, 64 << 20)
    assert args.follow is None
    assert parser().parse_args([*BATCH, "--follow"]).follow == 60
    assert parser().parse_args([*BATCH, "--follow", "0.5"]).follow == 0.5


@pytest.mark.few(2)
@pytest.mark.parametrize("report_format", ["text", "md", "json"])
def test_the_report_is_printed_as_the_report_command_prints_it(report_format, capfd, monkeypatch):
    capture = str(path("errors"))

    def run(arguments, _plan, _settings, options):
        kinds = finding_kinds()
        with opened_tables(Analysis([capture]), tables_of(kinds)) as tables:
            return report_on(tables, kinds, most_slowest=options.most_slowest)

    monkeypatch.setattr(batch, "_run", run)
    order = [] if report_format == "json" else ["--sort", "errors", "--limit", "12"]
    assert main(["batch", capture, *BATCH[2:], "--format", report_format, *order]) == 0
    report = capfd.readouterr().out
    assert main(["report", "--format", report_format, *order, capture]) == 0
    assert report == capfd.readouterr().out


def test_without_spark_the_message_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("kanalyze.spark.session.find_spec", lambda name: None)
    assert main(BATCH) == 2
    assert capsys.readouterr().err == (
        "kanalyze: Spark is not installed: pip install 'kanalyze[spark]'; or use --engine process\n"
    )


@pytest.mark.parametrize("is_terminal", [True, False])
def test_phases_are_printed_only_on_a_terminal(is_terminal, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    BatchProgress().begin("reading 2 captures in 1 tasks")
    line = "kanalyze: reading 2 captures in 1 tasks\n" if is_terminal else ""
    assert capsys.readouterr().err == line
    BatchProgress(Progress(is_wanted=False)).begin("reading 2 captures in 1 tasks")
    assert capsys.readouterr().err == ""


def test_a_log_has_a_line_of_tasks_every_ten_seconds(capsys):
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
