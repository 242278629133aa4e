"""A trace is by the rules of the Trace Event Format, and has each request once."""

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

    from kanalyze.tables.row import Row

OFTEN = ("basics", "errors", "groups", "snaplen", "waits")


def trace(folder: Path, *arguments: object) -> dict[str, Any]:
    target = folder / "trace.json"
    words = ["requests", "--format", "perfetto", "-o", str(target), *map(str, arguments)]
    assert main(words) == 0
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
        each["pid"]: each["args"]["name"]
        for each in found["traceEvents"]
        if each["name"] == "process_name"
    }
    slices = [each for each in found["traceEvents"] if each["ph"] == "X" and "args" in each]
    shown = sorted(
        (
            names[each["pid"]].split(" ")[-1],
            round(each["ts"] * 1000),
            round(each["dur"] * 1000),
            each["args"].get("correlation_id", -1),
            each["args"]["status"],
        )
        for each in slices
    )
    expected = []
    for row in kanalyze.requests(path(name)):
        times = [row.request_start_ns, row.request_end_ns, row.response_start_ns]
        known = [each for each in [*times, row.response_end_ns] if each is not None]
        begin = row.request_start_ns or row.response_start_ns or 0
        identity = -1 if row.correlation_id is None else row.correlation_id
        span = begin - (zero_ns or 0), known[-1] - begin
        expected.append((row.connection, *span, identity, row.status))
    assert shown == sorted(expected)


@pytest.mark.parametrize("name", often(NAMES, OFTEN))
def test_slices_of_a_thread_are_one_in_another_or_apart(tmp_path: Path, name: str) -> None:
    """Viewers draw slices wrong if these overlap in part."""
    threads = defaultdict(list)
    for each in trace(tmp_path, path(name))["traceEvents"]:
        assert each["ph"] in "XMsf"
        if each["ph"] == "X":
            assert each["dur"] >= 0
            begin = round(each["ts"] * 1000)
            span = begin, -(begin + round(each["dur"] * 1000))
            threads[each["pid"], each["tid"]].append(span)
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
        phase: {each["id"]: each for each in events if each["ph"] == phase} for phase in ("s", "f")
    }
    assert ends["s"]
    assert ends["s"].keys() == ends["f"].keys()
    slices = [each for each in events if each["ph"] == "X" and "args" in each]
    for phase, api in (("s", "Produce"), ("f", "Fetch")):
        for each in ends[phase].values():
            around = [
                other["name"]
                for other in slices
                if (other["pid"], other["tid"]) == (each["pid"], each["tid"])
                and other["ts"] - 0.01 <= each["ts"] <= other["ts"] + other["dur"] + 0.01
            ]
            assert any(name.startswith(api) for name in around), (each, around)
    assert all(ends["s"][number]["ts"] <= ends["f"][number]["ts"] for number in ends["s"])


def test_requests_in_flight_at_once_are_on_separate_threads(tmp_path: Path) -> None:
    first = made.row(request_start_ns=0, request_end_ns=1, response_start_ns=50, response_end_ns=60)
    second = first._replace(request_start_ns=10, request_end_ns=11, correlation_id=8)
    later = first._replace(request_start_ns=60, request_end_ns=61, response_start_ns=70)
    events = written(tmp_path, [first, second, later._replace(response_end_ns=71)])
    assert [each["tid"] for each in events if "args" in each and each["ph"] == "X"] == [1, 2, 1]


def test_texts_from_the_wire_stay_json(tmp_path: Path) -> None:
    events = written(tmp_path, [made.row(client_id='"]}</script>\x00\ud800')])
    assert events[-1]["ph"] == "X"
    assert events[0]["args"]["name"].startswith('"]}</script>')


def test_a_trace_without_requests_is_valid_json(tmp_path: Path) -> None:
    assert written(tmp_path, []) == []


def test_columns_are_refused(capsys) -> None:
    words = ["requests", "--format", "perfetto", "--columns", "client_id", str(path("basics"))]
    assert main(words) == 2
    assert capsys.readouterr().err == "kanalyze: perfetto shows requests, without --columns\n"
