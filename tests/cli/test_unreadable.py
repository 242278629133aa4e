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


def test_an_unreadable_file_is_an_anomaly(folder, capsys):
    assert main(["report", str(folder)]) == 0
    captured = capsys.readouterr()
    assert "capture_unreadable 1" in captured.out
    assert captured.err == (
        f"kanalyze: left out: {folder}/junk.pcap: is not a pcap or pcapng file"
        " (it begins with 6a 75 6e 6b)\n"
    )
    assert (
        main(["anomalies", "--kind", "capture_unreadable", "--format", "jsonl", str(folder)]) == 0
    )
    [row] = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["kind"] == "capture_unreadable"
    assert row["detail"].startswith(f"{folder}/junk.pcap: is not")


def test_ten_of_many_unreadable_files_are_named(folder, capsys):
    for number in range(50):
        (folder / f"junk{number}.pcap").write_bytes(b"junk")
    assert main(["report", str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 11
    assert captured.err.endswith("--kind capture_unreadable lists them\n")
    assert "capture_unreadable 51" in captured.out


def test_workers_count_an_unreadable_file_once(folder, monkeypatch):
    monkeypatch.setattr("kanalyze.common.forked._MIN_BYTES", 0)
    report = kanalyze.report(str(folder), jobs=2)
    assert report["quality"]["anomalies"]["capture_unreadable"]["count"] == 1


COMMANDS = (
    *("report", "requests --format csv", "records", "decode", "connections", "anomalies"),
    *("sql", "save -o out.duckdb", "extract -o out.pcapng", "anonymize -o out.pcapng"),
)


@pytest.mark.few(8)
@pytest.mark.parametrize("expanded", ["by us", "by the shell"])
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_leaves_out_an_unreadable_file_of_several(
    tmp_path, monkeypatch, command, expanded, capsys
):
    monkeypatch.chdir(tmp_path)
    shutil.copy(path("mock"), "good.pcap")
    for name in ("empty.pcap", "none.pcap"):
        (tmp_path / name).write_bytes(b"")
    names = ["*.pcap"] if expanded == "by us" else ["empty.pcap", "good.pcap", "none.pcap"]
    query = ["FROM requests"] if command == "sql" else []
    assert main([*command.split(), *names, *query]) == 0
    left_out = "records (--records keeps them, without keys and values), and packets"
    saved = f"out.duckdb: leaves out {left_out}"
    assert capsys.readouterr().err == (
        "kanalyze: left out: empty.pcap: is empty\nkanalyze: left out: none.pcap: is empty\n"
        + (f"kanalyze: {saved}\n" if command.startswith("save") else "")
    )
    (tmp_path / "out.pcapng").unlink(missing_ok=True)
    assert main([*command.split(), "[en]*.pcap", *query]) == 2
    assert capsys.readouterr().err == (
        "kanalyze: no capture that can be read: empty.pcap: is empty, and 1 more\n"
    )
    for named in ("empty.pcap", "n*.pcap"):
        assert main([*command.split(), named, *query]) == 2
        assert capsys.readouterr().err.endswith(".pcap: is empty\n")


def test_a_missing_file_among_several_is_an_error(tmp_path, capsys):
    shutil.copy(path("mock"), tmp_path / "good.pcap")
    assert main(["report", f"{tmp_path}/good.pcap", f"{tmp_path}/godo.pcap"]) == 2
    assert capsys.readouterr().err == f"kanalyze: {tmp_path}/godo.pcap: no such file\n"


def test_the_library_leaves_out_an_unreadable_file_of_several(tmp_path):
    shutil.copy(path("mock"), tmp_path / "good.pcap")
    (tmp_path / "junk.pcap").write_bytes(b"junk")
    names = [f"{tmp_path}/junk.pcap", f"{tmp_path}/good.pcap"]
    assert len(list(kanalyze.requests(*names))) == len(list(kanalyze.requests(names[1])))
    rows = kanalyze.anomalies(*names)
    assert [row.kind for row in rows if row.stage == "capture"] == ["capture_unreadable"]
    kanalyze.save(f"{tmp_path}/*.pcap", output=tmp_path / "a.pcapdb")
    kanalyze.save(str(tmp_path), output=tmp_path / "a.pcapdb")
