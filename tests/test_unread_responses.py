"""A response whose codes were not read is no error, and no success: every output says so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support import kafka as k
from tests.support.captures import CHOSEN, NAMES, TROUBLED, analysis, often
from tests.support.traffic import Line, capture_of

if TYPE_CHECKING:
    from pathlib import Path

UNREAD = 3


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A capture of 2 requests that are ok, 1 that failed, and 3 whose answer was not read."""
    packets: list[bytes] = []
    line = Line(packets).open()
    for number, code in enumerate((0, 0, 27)):
        line.client(k.heartbeat(number)).broker(k.heartbeat_answer(number, code))
    for number in range(10, 10 + UNREAD):
        # An API of a vendor, with an answer in the layout of most.
        line.client(k.request(10_000, 0, number, b"\x08cluster\0"))
        line.broker(k.response(number, bytes(5) + b"\0\x1f\0"))
    line.close()
    file = tmp_path / "vendor.pcap"
    file.write_bytes(capture_of(packets))
    return str(file)


def test_the_report_counts_them_apart(capture):
    report = kanalyze.report(capture)
    totals = report["totals"]
    assert (totals["ok"], totals["error"], totals["malformed"]) == (2, 1, UNREAD)
    assert totals["unread"] == UNREAD
    unread = {api["api_name"]: (api["errors"], api["unread"]) for api in report["apis"]}
    assert unread == {"Heartbeat": (1, 0), "Unknown10000": (0, UNREAD)}
    for table in ("clients", "brokers"):
        assert [(line["errors"], line["unread"]) for line in report[table]] == [(1, UNREAD)]


def test_tables_have_a_column_of_them_only_if_there_are_any(capture, capsys):
    assert main(["report", capture]) == 0
    assert "errors  not read" in capsys.readouterr().out
    assert main(["report", capture, "--api", "Heartbeat"]) == 0
    assert "not read" not in capsys.readouterr().out


def test_errors_only_does_not_hide_them(capture, capsys):
    arguments = ["requests", capture, "--errors", "--format", "jsonl"]
    assert main([*arguments, "--columns", "status,error_code,errors,anomalies"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["status"] for line in lines] == ["error"] + ["malformed"] * UNREAD
    assert [line["error_code"] for line in lines] == [27] + [None] * UNREAD
    assert all(line["anomalies"] == ["unknown_api"] for line in lines[1:])


@pytest.mark.parametrize("name", often([*NAMES, *TROUBLED], CHOSEN))
def test_a_response_is_ok_only_if_its_codes_were_read(name):
    for row in analysis(name)[0]:
        assert (row.status == "ok") <= (row.error_code == 0)
        assert (row.error_code is None) <= (row.status not in ("ok", "error"))
