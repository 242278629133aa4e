"""A trace follows the rules of the Trace Event Format, and contains each request once."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from kanalyze.export.perfetto import PerfettoWriter
from tests.support import rows as made
from tests.support.captures import NAMES, often, path

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row

OFTEN = ("basics", "errors", "groups", "snaplen", "waits")


def trace(folder: Path, *arguments: object) -> dict[str, Any]:
    target = folder / "trace.json"
    command_line = ["requests", "--format", "perfetto", "-o", str(target), *map(str, arguments)]
    assert main(command_line) == 0
    found: dict[str, Any] = json.loads(target.read_bytes())
    return found


def written(folder: Path, rows: list[Row]) -> list[dict[str, Any]]:
    with PerfettoWriter(str(folder / "trace.json")) as writer:
        writer.write(rows)
    found: list[dict[str, Any]] = json.loads((folder / "trace.json").read_bytes())["traceEvents"]
    return found


@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_each_request_is_a_slice_of_its_connection(tmp_path: Path, name: str) -> None:
    found = trace(tmp_path, path(name))
    zero_ns = found["otherData"]["first_request_ns"]
    names = {
        event["pid"]: event["args"]["name"]
        for event in found["traceEvents"]
        if event["name"] == "process_name"
    }
    slices = [event for event in found["traceEvents"] if event["ph"] == "X" and "args" in event]
    actual = sorted(
        (
            names[event["pid"]].split(" ")[-1],
            round(event["ts"] * 1000),
            round(event["dur"] * 1000),
            event["args"].get("correlation_id", -1),
            event["args"]["status"],
        )
        for event in slices
    )
    expected = []
    for row in kanalyze.requests(path(name)):
        times = [row.request_start_ns, row.request_end_ns, row.response_start_ns]
        known_times_ns = [
            time_ns for time_ns in [*times, row.response_end_ns] if time_ns is not None
        ]
        begin = row.request_start_ns or row.response_start_ns or 0
        identity = -1 if row.correlation_id is None else row.correlation_id
        span = begin - (zero_ns or 0), known_times_ns[-1] - begin
        expected.append((row.connection, *span, identity, row.status))
    assert actual == sorted(expected)


@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_slices_of_a_thread_are_nested_or_separate(tmp_path: Path, name: str) -> None:
    """Viewers draw partly overlapping slices wrong."""
    threads = defaultdict(list)
    for event in trace(tmp_path, path(name))["traceEvents"]:
        assert event["ph"] in "XMsf"
        if event["ph"] == "X":
            assert event["dur"] >= 0
            begin = round(event["ts"] * 1000)
            span = begin, -(begin + round(event["dur"] * 1000))
            threads[event["pid"], event["tid"]].append(span)
    for spans in threads.values():
        open_until: list[int] = []
        for begin, minus_end in sorted(spans):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            assert not open_until or -minus_end <= open_until[-1]
            open_until.append(-minus_end)


def test_an_arrow_goes_from_produce_to_each_fetch_of_the_same_offsets(tmp_path: Path) -> None:
    events = trace(tmp_path, path("basics"))["traceEvents"]
    ends = {
        phase: {event["id"]: event for event in events if event["ph"] == phase}
        for phase in ("s", "f")
    }
    assert ends["s"]
    assert ends["s"].keys() == ends["f"].keys()
    slices = [event for event in events if event["ph"] == "X" and "args" in event]
    for phase, api in (("s", "Produce"), ("f", "Fetch")):
        for event in ends[phase].values():
            around = [
                slice_["name"]
                for slice_ in slices
                if (slice_["pid"], slice_["tid"]) == (event["pid"], event["tid"])
                and slice_["ts"] - 0.01 <= event["ts"] <= slice_["ts"] + slice_["dur"] + 0.01
            ]
            assert any(name.startswith(api) for name in around), (event, around)
    assert all(ends["s"][number]["ts"] <= ends["f"][number]["ts"] for number in ends["s"])


def test_requests_in_flight_at_once_are_on_separate_threads(tmp_path: Path) -> None:
    first = made.row(request_start_ns=0, request_end_ns=1, response_start_ns=50, response_end_ns=60)
    second = first._replace(request_start_ns=10, request_end_ns=11, correlation_id=8)
    later = first._replace(request_start_ns=60, request_end_ns=61, response_start_ns=70)
    events = written(tmp_path, [first, second, later._replace(response_end_ns=71)])
    assert [event["tid"] for event in events if "args" in event and event["ph"] == "X"] == [1, 2, 1]


def test_texts_from_the_wire_stay_json(tmp_path: Path) -> None:
    events = written(tmp_path, [made.row(client_id='"]}</script>\x00\ud800')])
    assert events[-1]["ph"] == "X"
    assert events[0]["args"]["name"].startswith('"]}</script>')


def test_a_trace_without_requests_is_valid_json(tmp_path: Path) -> None:
    assert written(tmp_path, []) == []


def test_columns_are_refused(capsys) -> None:
    command_line = [
        "requests",
        "--format",
        "perfetto",
        "--columns",
        "client_id",
        str(path("basics")),
    ]
    assert main(command_line) == 2
    assert capsys.readouterr().err == "kanalyze: perfetto shows requests, without --columns\n"
