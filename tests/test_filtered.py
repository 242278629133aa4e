"""A filtered report states its filter, and ``--port`` means the same to every command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path

RUN = "from kanalyze.cli.main import run; run()"
CLUSTER, BASICS = str(path("cluster")), str(path("basics"))


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main([*arguments, "--format", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# -- ports ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["requests", "connections"])
def test_only_rows_of_the_given_ports_are_written(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = rows_of(capsys, command, CLUSTER)
    ports = sorted({row["broker_port"] for row in everything})
    assert len(ports) > 2
    one = rows_of(capsys, command, CLUSTER, "--port", str(ports[0]))
    assert one == [row for row in everything if row["broker_port"] == ports[0]]
    two = rows_of(capsys, command, CLUSTER, "--port", str(ports[0]), "--port", str(ports[1]))
    assert two == [row for row in everything if row["broker_port"] in ports[:2]]


def test_connections_of_a_given_port_are_read_as_kafka() -> None:
    # The first packet that the filter leaves is a broker's: the port says which end is the broker.
    found = list(kanalyze.requests(BASICS, port=[9092]))
    assert found
    assert {row.broker_port for row in found} == {9092}
    assert list(kanalyze.requests(BASICS, port=[1])) == []


def test_live_and_requests_give_the_same_rows_for_a_port(
    capsys: pytest.CaptureFixture[str],
) -> None:
    of_file = rows_of(capsys, "requests", CLUSTER, "--port", "9103")
    with path("cluster").open("rb") as capture:
        command = [sys.executable, "-c", RUN, "live", "-", "--port", "9103"]
        done = subprocess.run(
            [*command, "--format", "rows"], stdin=capture, capture_output=True, check=True
        )
    of_live = [json.loads(line) for line in done.stdout.splitlines()]
    assert of_file
    timed = [(row["request_start_ns"], row["correlation_id"]) for row in of_file]
    assert sorted(timed) == sorted(
        (row["request_start_ns"], row["correlation_id"]) for row in of_live
    )


# -- reports --------------------------------------------------------------------------------------

GIVEN = {
    "api": ["fetch"],
    "client_id": ["*"],
    "client_ip": ["127.0.0.0/8"],
    "broker": ["127.0.0.1"],
    "port": [9092],
    "topic": ["basics-*"],
    "partition": [0, "basics-*-1"],
    "group": [],
    "connection": "127.0.0.1:51304",
    "packet": [305, 1],
    "correlation_id": ["7", 8],
    "anomaly": ("lost_bytes",),
    "status": ("ok", "error"),
    "error": [0, "not_leader_or_follower"],
    "errors": False,
    "slower_than": "5ms",
    "since": "2026-01-01",
    "until": None,
}
CONDITIONS = {
    "api": ["Fetch"],
    "client_id": ["*"],
    "client_ip": ["127.0.0.0/8"],
    "broker": ["127.0.0.1"],
    "port": [9092],
    "topic": ["basics-*"],
    "partition": ["0", "basics-*-1"],
    "connection": ["127.0.0.1:51304"],
    "packet": [1, 305],
    "correlation_id": [7, 8],
    "anomaly": ["lost_bytes"],
    "status": ["error", "ok"],
    "error": ["NONE", "NOT_LEADER_OR_FOLLOWER"],
    "slower_than_ns": 5_000_000,
    "since": "2026-01-01T00:00:00.000000000Z",
}


def test_a_report_states_its_filter() -> None:
    summary = kanalyze.report(BASICS, **GIVEN)
    assert summary["filter"] == CONDITIONS
    assert kanalyze.report(BASICS)["filter"] == {}
    assert kanalyze.report(BASICS, errors=True, api="18")["filter"] == {
        "api": ["18"],
        "errors": True,
    }


def test_the_text_of_a_report_states_its_filter(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "report.json"
    arguments = ["--api", "fetch", "--slower-than", "5ms", "--errors", "--port", "9092"]
    arguments += ["--status", "ERROR", "--error", "3", "--partition", "0", "--partition", "a-1"]
    arguments += ["--topic", "\x1b[31m*"]
    assert main(["report", BASICS, *arguments, "--json", str(target)]) == 0
    output = capsys.readouterr().out
    line = " ".join(output.split()).partition("only requests that match: ")[2]
    for condition in (
        "API Fetch; port 9092; topic \\u001b[31m*; partition 0 or a-1; status error; ",
        "error UNKNOWN_TOPIC_OR_PARTITION; ",
        "with errors, or with a response that was not read; slower than 5 ms",
    ):
        assert condition in line
    assert "\x1b" not in output
    assert json.loads(target.read_bytes())["filter"]["api"] == ["Fetch"]
    assert main(["report", BASICS]) == 0
    assert "only requests that match" not in capsys.readouterr().out
