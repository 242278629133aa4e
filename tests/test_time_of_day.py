"""``--since 22:46``, the form that tables print: of the day on which the captures begin."""

from __future__ import annotations

import io

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import path
from tests.support.piped import run_piped

BASICS = path("basics")
DATED = {"since": "2026-11-20T22:46:10", "until": "2026-11-20T22:46:20.5"}
OF_DAY = {"since": "22:46:10", "until": "22:46:20.5"}
TABLES = [kanalyze.requests, kanalyze.connections, kanalyze.anomalies]


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_those_of_the_same_time_with_a_date(table):
    rows = list(table(str(BASICS), **OF_DAY))
    assert rows == list(table(str(BASICS), **DATED))
    assert rows != list(table(str(BASICS)))
    read_once = table(io.BytesIO(BASICS.read_bytes()), **OF_DAY)
    assert [row._replace(capture="") for row in read_once] == [r._replace(capture="") for r in rows]


def test_several_captures_have_the_day_of_the_first(monkeypatch):
    both = [str(path("groups")), str(BASICS)]
    rows = list(kanalyze.requests(*both, **OF_DAY))
    assert rows == list(kanalyze.requests(*both[::-1], **DATED))
    monkeypatch.setattr("kanalyze.common.forked._MIN_BYTES", 0)
    assert list(kanalyze.requests(*both, **OF_DAY, jobs=2)) == rows


def test_a_report_of_a_pipe_takes_a_time_of_day(monkeypatch, capfdbinary):
    reports = [
        run_piped(
            *("report", "-"),
            *(word for name, text in times.items() for word in (f"--{name}", text)),
            data=BASICS.read_bytes(),
            monkeypatch=monkeypatch,
            captured=capfdbinary,
        )
        for times in (OF_DAY, DATED)
    ]
    assert reports[0].returncode == 0
    assert reports[0].stdout == reports[1].stdout
    assert b"Requests by API" in reports[0].stdout


def test_batch_refuses_a_time_without_a_date(tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main(["batch", str(BASICS), "--out", out, "--since", "22:46"]) == 2
    assert capsys.readouterr().err == (
        "kanalyze: an archive may have many days: give '22:46' with a date"
        " (such as 2026-01-31T22:46)\n"
    )
