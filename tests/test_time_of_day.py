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


# -- zones, and times by the captures -------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_a_time_of_day_is_of_the_zone_that_stands_behind_it(table):
    rows = list(table(str(BASICS), **DATED))
    there = {"since": "23:46:10[Europe/Berlin]", "until": "23:46:20.5[Europe/Berlin]"}
    assert list(table(str(BASICS), **there)) == rows
    # The capture begins on the next day there.
    next_day = {"since": "07:46:10[Asia/Tokyo]", "until": "2026-11-21T07:46:20.5[Asia/Tokyo]"}
    assert list(table(str(BASICS), **next_day)) == rows
    with_offset = {"since": "22:46:10Z[Asia/Tokyo]", "until": "2026-11-20T22:46:20.5Z[Asia/Tokyo]"}
    assert list(table(str(BASICS), **with_offset)) == rows


def begun_between(since_ns: int | None, until_ns: int | None) -> list[object]:
    return [
        row
        for row in kanalyze.requests(str(BASICS))
        if (since_ns is None or row.began_ns >= since_ns)
        and (until_ns is None or row.began_ns < until_ns)
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_times_may_be_by_the_first_and_the_last_packet(jobs, monkeypatch):
    monkeypatch.setattr("kanalyze.common.forked._MIN_BYTES", 0)
    capture = kanalyze.report(str(BASICS))["capture"]
    first_ns, last_ns = capture["first_time_ns"], capture["last_time_ns"]
    for options, since_ns, until_ns in (
        ({"since": "-1.5s"}, last_ns - 1_500_000_000, None),
        ({"until": "+2s"}, None, first_ns + 2_000_000_000),
        ({"since": "+1m", "until": "-1s"}, first_ns + 60_000_000_000, last_ns - 1_000_000_000),
        ({"since": "+100ms", "until": "-20s"}, first_ns + 10**8, last_ns - 20 * 10**9),
    ):
        rows = list(kanalyze.requests(str(BASICS), jobs=jobs, **options))
        assert rows == begun_between(since_ns, until_ns), options


def test_times_by_the_packets_of_a_saved_file_are_those_of_its_captures(tmp_path, capsys):
    saved = str(tmp_path / "s.duckdb")
    assert main(["save", str(BASICS), "-o", saved]) == 0
    for words in (["--since", "-1.5s"], ["--until", "+2s"]):
        outputs = []
        for capture in (str(BASICS), saved):
            capsys.readouterr()
            columns = ["--columns", "request_packet", "--format", "csv"]
            assert main(["requests", capture, *columns, *words]) == 0
            outputs.append(capsys.readouterr().out)
        assert outputs[0] == outputs[1]
        assert outputs[0].count("\n") > 2


def test_extract_takes_times_by_the_packets(tmp_path, capsys):
    out = tmp_path / "end.pcapng"
    assert main(["extract", str(BASICS), "--since", "-1.5s", "-o", str(out)]) == 0
    last_ns = kanalyze.report(str(BASICS))["capture"]["last_time_ns"]
    assert [row.began_ns for row in kanalyze.requests(str(out)) if row.request_start_ns] == [
        row.began_ns for row in begun_between(last_ns - 1_500_000_000, None) if row.request_start_ns
    ]


def test_a_pipe_has_no_end_that_a_time_could_be_before(monkeypatch, capfdbinary):
    done = run_piped(
        *("requests", "-", "--since", "-1h"),
        data=BASICS.read_bytes(),
        monkeypatch=monkeypatch,
        captured=capfdbinary,
    )
    assert done.returncode == 2
    assert b"--since -1h, needs captures that can be read twice" in done.stderr


@pytest.mark.parametrize("text", ["-1h", "+5m"])
def test_batch_refuses_times_by_the_packets(text, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main(["batch", str(BASICS), "--out", out, "--since", text]) == 2
    assert f"give {text!r} with a date" in capsys.readouterr().err


def test_the_options_name_the_zone_of_what_is_typed_and_shown(capsys):
    def shown(*words: str) -> str:
        assert main(["requests", str(BASICS), *words]) == 0
        return capsys.readouterr().out

    berlin = shown("--tz", "Europe/Berlin", "--since", "23:46:10", "--limit", "2").splitlines()
    assert berlin[0].startswith("2026-11-20 CET  ")
    assert berlin[1].startswith("23:46:10.")
    utc = shown("--utc", "--since", "22:46:10", "--limit", "2").splitlines()
    assert utc[0].startswith("2026-11-20 UTC  ")
    assert [line.partition("  ")[2] for line in utc] == [line.partition("  ")[2] for line in berlin]
    assert main(["report", str(BASICS), "--tz", "Asia/Tokyo", "--sections", "over_time"]) == 0
    report = capsys.readouterr().out
    assert "2026-11-21 07:46:09.448 to 2026-11-21 07:46:33.326 JST, UTC+9 (23.9 s)" in report
    assert "07:46:09.000" in report.splitlines()[-1]
    assert main(["report", str(BASICS), "--tz", "Mars/Olympus"]) == 2
    assert "no time zone: 'Mars/Olympus'" in capsys.readouterr().err
