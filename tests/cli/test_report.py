"""``kanalyze report``: formats, order, the page."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path


def test_the_report_is_text_on_standard_output(fake, capsys):
    assert main(["report", "x.pcap"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("verdict: nothing wrong was found in ")
    assert "Requests by API" in captured.out
    assert "NOT_LEADER_OR_FOLLOWER" in captured.out
    assert captured.err == ""
    assert "\x1b" not in captured.out


def test_json_to_standard_output_replaces_the_text(fake, capfd):
    assert main(["report", "--json", "-", "x.pcap"]) == 0
    assert json.loads(capfd.readouterr().out)["capture"]["captures"] == ["x.pcap"]


def test_an_input_without_kafka_has_a_report(fake, capsys):
    fake.rows = ()
    assert main(["report", "x.pcap"]) == 0
    assert "no Kafka requests found" in capsys.readouterr().out


def test_the_report_fits_the_width_of_the_terminal(fake, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["report", "x.pcap"]) == 0
    assert "received" in capsys.readouterr().out


# -- formats --------------------------------------------------------------------------------------

ERRORS = str(path("errors"))
FORMATS = {
    "text": "only requests that match: status error\n",
    "json": '"filter": {\n    "status": [\n      "error"\n    ]\n  }',
    "md": "\n- only requests that match: status error\n",
    "html": "only requests that match: status error",
}
"""Each format, and its text for the filter."""


def report_in(capfd, *words: str) -> str:
    assert main(["report", *words]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.few(1)
@pytest.mark.parametrize("name", FORMATS)
def test_each_format_goes_to_standard_output_or_to_a_file(name, capfd, tmp_path):
    report = report_in(capfd, "--format", name, "--status", "error", ERRORS)
    assert FORMATS[name] in report
    target = tmp_path / "report.anything"
    words = ["--status", "error", ERRORS, "-o", str(target)]
    assert report_in(capfd, "--format", name, *words) == ""
    assert target.read_text(encoding="utf-8") == report
    ending = {"text": "txt"}.get(name, name)
    named = tmp_path / f"report.{ending.upper()}"
    assert report_in(capfd, "-o", str(named), "--status", "error", ERRORS) == ""
    assert named.read_text(encoding="utf-8") == report


@pytest.mark.long
def test_one_run_can_write_all_formats(capfd, tmp_path):
    files = {name: tmp_path / f"r.{name}" for name in ("json", "html", "md")}
    words = ["--json", str(files["json"]), "--html", str(files["html"]), "-o", str(files["md"])]
    assert report_in(capfd, *words, ERRORS) == ""
    for name, file in files.items():
        assert file.read_text(encoding="utf-8") == report_in(capfd, "--format", name, ERRORS)
    printed = report_in(capfd, "--json", "-", "-o", str(tmp_path / "again.md"), ERRORS)
    assert printed == files["json"].read_text()
    assert (tmp_path / "again.md").read_bytes() == files["md"].read_bytes()


# -- order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("report_format", ["text", "md"])
def test_sort_and_limit_apply_to_tables_and_not_to_json(report_format, capfd, tmp_path):
    target = tmp_path / "r.json"
    words = ["--format", report_format, "--sort", "errors", "--limit", "2", "--json", str(target)]
    words += ["--sections", "all"]
    report = report_in(capfd, *words, ERRORS)
    assert "Clients by API, by errors" in report
    table = report.partition("Clients, by errors\n")[2].partition("\nBusiest")[0]
    assert "aiokafka-unknown-topic" in table
    assert "confluent-unknown-topic" not in table
    assert "and 13 more" in table
    assert target.read_text() == report_in(capfd, "--json", "-", ERRORS)


def test_the_limit_is_the_number_of_slowest_requests(capfd, tmp_path):
    target = tmp_path / "r.json"
    report = report_in(capfd, "--format", "md", "--limit", "12", "--json", str(target), ERRORS)
    slowest = json.loads(target.read_text())["slowest"]
    latencies = [line["latency_ns"] for line in slowest]
    assert len(latencies) == 12
    assert latencies == sorted(latencies, reverse=True)
    # The heading has two lines.
    rows = report.partition("Slowest requests")[2].partition("Wireshark")[0]
    assert sum(line.startswith("| ") for line in rows.splitlines()) == 12 + 2


@pytest.mark.parametrize("report_format", ["text", "md"])
def test_sections_are_those_that_are_named(report_format, fake, capsys):
    words = ["--format", report_format, "--sections", "brokers,apis", "x.pcap"]
    assert main(["report", *words]) == 0
    out = capsys.readouterr().out
    at = [out.index(title) for title in ("Requests by API", "Brokers")]
    assert at == sorted(at)
    assert "clients" not in out
    assert "Over time" not in out


def test_a_brief_report_has_no_tables(fake, capsys):
    assert main(["report", "--brief", "x.pcap"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("verdict: ")
    assert len(lines) <= 10
    assert "Requests by API" not in lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sections", "api"], "no section of a report: 'api'; did you mean apis?"),
        (["--sections", ""], "no section of a report: ''; there are apis, "),
        (["--brief", "--limit", "3"], "--brief has no tables, so --limit has no effect"),
        (["--brief", "--format", "md"], "--brief works for text only"),
        (
            ["--sections", "apis", "--format", "json"],
            "--sections works for text and md only: json has all sections and lines",
        ),
    ],
)
def test_sections_that_there_are_not_are_refused(words, message, fake, capsys):
    with suppress(SystemExit):
        assert main(["report", *words, "x.pcap"]) == 2
    assert message in capsys.readouterr().err


def test_a_failing_query_of_a_user_costs_that_query(fake, capsys, tmp_path):
    head = "-- Mine.\n--\n-- severity: 1\n-- sure: yes\n-- why: a\n-- repair: b\n"
    (tmp_path / "mine.sql").write_text(
        f"{head}SELECT error(api_name) AS what, 1 AS weight FROM requests"
    )
    assert main(["report", "x.pcap", "--queries", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.count("finding mine: not searched, Invalid Input Error: ") == 1
    assert "Requests by API" in captured.out


def test_a_page_is_written_in_addition_to_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, report = tmp_path / "r.html", tmp_path / "r.json"
    words = ["--html", str(page), "--json", str(report)]
    assert main(["report", *words, str(path("errors"))]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert page.stat().st_size < 1 << 20
    findings = json.loads(report.read_text())["findings"]
    assert {finding["name"] for finding in findings} == {"too_large"}
    out = capsys.readouterr().out.replace("\\\n", "")
    assert "1 of 1 Produce requests refused; client aiokafka-too-large" in out
    assert "captures/errors.pcapng --finding too_large" in " ".join(out.split())


def test_a_capture_without_faults_has_no_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--html", str(tmp_path / "r.html"), str(path("admin"))]) == 0
    assert "Findings\nnone\n" in capsys.readouterr().out
