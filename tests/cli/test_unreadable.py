"""Files in a folder that cannot be read: a line on standard error, and an anomaly."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import kanalyze
from kanalyze.cli.main import main
from tests.support.captures import path

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copy(path("mock"), tmp_path / "good.pcap")
    (tmp_path / "junk.pcap").write_bytes(b"junk")
    (tmp_path / "notes.txt").write_bytes(b"notes")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    ["report", "requests --format csv", "records", "decode", "connections", "anomalies"],
)
def test_each_command_reports_unreadable_files(folder, command, capsys):
    assert main([*command.split(), str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.err == (
        f"kanalyze: left out: {folder}/junk.pcap: is not a pcap or pcapng file"
        " (it begins with 6a 75 6e 6b)\n"
    )
    assert captured.out


def test_an_unreadable_file_is_an_anomaly(folder, capsys):
    assert main(["report", str(folder)]) == 0
    assert "capture_unreadable 1" in capsys.readouterr().out
    assert (
        main(["anomalies", "--kind", "capture_unreadable", "--format", "jsonl", str(folder)]) == 0
    )
    [row] = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["kind"] == "capture_unreadable"
    assert row["detail"].startswith(f"{folder}/junk.pcap: is not")


def test_the_library_reports_unreadable_files_too(folder):
    rows = kanalyze.anomalies(str(folder))
    assert [row.kind for row in rows if row.stage == "capture"] == ["capture_unreadable"]
    report = kanalyze.report(str(folder))
    assert report["quality"]["anomalies"]["capture_unreadable"]["count"] == 1


def test_ten_of_many_unreadable_files_are_named(folder, capsys):
    for number in range(50):
        (folder / f"junk{number}.pcap").write_bytes(b"junk")
    assert main(["report", str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 11
    assert captured.err.endswith("--kind capture_unreadable lists them\n")
    assert "capture_unreadable 51" in captured.out


def test_workers_count_an_unreadable_file_once(folder, monkeypatch):
    monkeypatch.setattr("kanalyze.runtime.workers._LEAST_BYTES", 0)
    report = kanalyze.report(str(folder), jobs=2)
    assert report["quality"]["anomalies"]["capture_unreadable"]["count"] == 1
