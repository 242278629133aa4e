from __future__ import annotations

import pytest

from kanalyze.cli.arguments import parser


def test_filters_may_be_repeated():
    made = parser().parse_args(
        ["report", "--api", "Produce", "--api", "Fetch", "--topic", "a", "x.pcap", "y.pcap"]
    )
    assert made.api == ["Produce", "Fetch"]
    assert made.topic == ["a"]
    assert made.client_id == []
    assert made.captures == ["x.pcap", "y.pcap"]


def test_both_commands_take_the_same_filters():
    filters = [
        *("--api", "1", "--client-id", "a", "--client-ip", "1.2.3.4", "--broker", "1.2.3.4:1"),
        *("--topic", "t", "--group", "g", "--errors", "--slower-than", "1ms"),
        *("--status", "ok", "--error", "-1", "--partition", "t-0"),
        *("--since", "0", "--until", "1", "--port", "9092", "x.pcap"),
    ]
    report = vars(parser().parse_args(["report", *filters]))
    requests = vars(parser().parse_args(["requests", *filters]))
    own_of_report = ("html", "json", "limit", "queries", "sort", "threshold")
    for own in ("command", "output", "format", *own_of_report):
        report.pop(own)
    for own in ("command", "output", "format", "columns", "wireshark"):
        requests.pop(own)
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
def test_arguments_that_make_no_sense_exit_with_2(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(argv)
    assert caught.value.code == 2
    assert "usage: kanalyze" in capsys.readouterr().err


def test_standard_input_is_a_capture():
    assert parser().parse_args(["report", "-"]).captures == ["-"]


@pytest.mark.parametrize("command", [[], ["report"], ["requests"]])
def test_help_has_examples_and_fits_a_terminal(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        parser().parse_args([*command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert max(map(len, text.splitlines())) <= 84
