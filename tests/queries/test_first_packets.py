"""A finding of several captures says which file its first packet is in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import path
from tests.support.cut_captures import packets_of, write_pcap

if TYPE_CHECKING:
    from pathlib import Path

PACKETS = 40
"""In each file, but the last."""


@pytest.mark.parametrize("name", ["fault-killed", "fault-throttled", "fault-rebalances"])
def test_the_packet_is_one_of_the_rows_that_the_finding_means(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(path(name))
    files = []
    for start in range(0, len(packets), PACKETS):
        files.append(str(tmp_path / f"{len(files):03}.pcap"))
        write_pcap(tmp_path / files[-1], packets[start : start + PACKETS])
    findings = kanalyze.report(files)["findings"]
    assert findings
    assert len(files) > 1
    for finding in findings:
        command = [finding["command"], *finding["options"], "--format", "jsonl"]
        assert main([*command, *files]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert (finding["first_capture"], finding["first_packet"]) in list(map(place, rows))


def place(row: dict[str, Any]) -> tuple[str, int]:
    return row["capture"], row["request_packet" if "request_packet" in row else "first_packet"]


def test_of_one_capture_the_file_is_known_anyway() -> None:
    file = str(path("fault-throttled"))
    findings = kanalyze.report(file)["findings"]
    assert {finding["first_capture"] for finding in findings} == {file}
