from __future__ import annotations

import pytest

from kanalyze.cli.arguments import parser


def test_filters_may_be_repeated():
    arguments = parser().parse_args(
        ["report", "--api", "Produce", "--api", "Fetch", "--topic", "a", "x.pcap", "y.pcap"]
    )
    assert arguments.api == ["Produce", "Fetch"]
    assert arguments.topic == ["a"]
    assert arguments.client_id == []
    assert arguments.captures == ["x.pcap", "y.pcap"]


def test_report_and_requests_take_the_same_filters():
    filters = [
        *("--api", "1", "--client-id", "a", "--client-ip", "1.2.3.4", "--broker", "1.2.3.4:1"),
        *("--topic", "t", "--group", "g", "--errors", "--slower-than", "1ms"),
        *("--status", "ok", "--error", "-1", "--partition", "t-0"),
        *("--since", "0", "--until", "1", "--port", "9092", "x.pcap"),
    ]
    report = vars(parser().parse_args(["report", *filters]))
    requests = vars(parser().parse_args(["requests", *filters]))
    own_of_report = ("html", "json", "limit", "queries", "sort", "threshold")
    for option in ("command", "output", "format", *own_of_report):
        report.pop(option)
    for option in ("command", "output", "format", "columns", "wireshark"):
        requests.pop(option)
    assert report == requests
    assert report["port"] == [9092]
    assert report["errors"] is True


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nope"],
        ["report"],
        ["report", "--port", "0", "x"],
        ["report", "--port", "65536", "x"],
        ["report", "--port", "kafka", "x"],
        ["report", "--err", "x"],
        ["requests", "--format", "xml", "x"],
    ],
)
def test_invalid_arguments_end_with_status_2(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(argv)
    assert caught.value.code == 2
    assert "usage: kanalyze" in capsys.readouterr().err


def test_standard_input_is_a_capture():
    assert parser().parse_args(["report", "-"]).captures == ["-"]


@pytest.mark.parametrize("command", [[], ["report"], ["requests"], ["live"]])
def test_help_has_examples_and_fits_a_terminal(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        parser().parse_args([*command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert max(map(len, text.splitlines())) <= 100
