from __future__ import annotations

import json

from kanalyze.cli.main import main


def test_the_report_goes_to_the_terminal(fake, capsys):
    assert main(["report", "x.pcap"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("x.pcap\n")
    assert "Requests by API" in captured.out
    assert "NOT_LEADER_OR_FOLLOWER" in captured.out
    assert captured.err == ""
    assert "\x1b" not in captured.out


def test_filters_hold_for_the_report(fake, capsys):
    assert main(["report", "--api", "Fetch", "x.pcap"]) == 0
    out = capsys.readouterr().out
    assert "Fetch" in out
    assert "Produce" not in out


def test_json_goes_to_a_file_and_the_report_to_the_terminal(fake, capsys, tmp_path):
    target = tmp_path / "report.json"
    assert main(["report", "--json", str(target), "x.pcap"]) == 0
    assert "Requests by API" in capsys.readouterr().out
    assert json.loads(target.read_text())["totals"]["requests"] == 3


def test_json_goes_to_standard_output_when_asked(fake, capfd):
    assert main(["report", "--json", "-", "x.pcap"]) == 0
    assert json.loads(capfd.readouterr().out)["capture"]["captures"] == ["x.pcap"]


def test_an_input_without_kafka_is_still_a_report(fake, capsys):
    fake.rows = ()
    assert main(["report", "x.pcap"]) == 0
    assert "no Kafka requests found" in capsys.readouterr().out


def test_a_report_that_fails_leaves_no_json(fake, tmp_path):
    fake.error = KeyboardInterrupt()
    assert main(["report", "--json", str(tmp_path / "report.json"), "x.pcap"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_the_width_of_the_terminal_is_heeded(fake, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["report", "x.pcap"]) == 0
    assert "versions" in capsys.readouterr().out


def test_a_finding_of_a_user_that_fails_while_it_runs_is_an_error_of_one_line(
    fake, capsys, tmp_path
):
    head = "-- Mine.\n--\n-- severity: 1\n-- sure: yes\n-- why: a\n-- repair: b\n"
    (tmp_path / "mine.sql").write_text(f"{head}SELECT error(api_name) AS what FROM requests")
    assert main(["report", "x.pcap", "--queries", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("kanalyze: query 'mine': Invalid Input Error: ")
    assert told.err.count("\n") == 1
