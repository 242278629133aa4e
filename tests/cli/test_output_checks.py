"""No command overwrites its inputs, nor a capture with rows, by any option."""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kanalyze.cli import output_checks
from kanalyze.cli.arguments import parser
from kanalyze.cli.main import main
from tests.support.captures import in_turn
from tests.support.packets import Packet, pcap_file, pcapng_file

ROOT = Path(__file__).parent.parent.parent
RUN = [sys.executable, "-c", "from kanalyze.cli.main import run; run()"]
BASICS = ROOT / "captures" / "basics.pcap"

WRITE = {
    "report --json": ["report", "--json", "{out}", "{capture}"],
    "report --html": ["report", "--html", "{out}", "{capture}"],
    "sql -o": ["sql", "--format", "csv", "-o", "{out}", "{capture}", "FROM range(99)"],
    "report -o": ["report", "--format", "md", "-o", "{out}", "{capture}"],
    "compare --json": ["compare", "--json", "{out}", "{capture}", "{capture}"],
    "requests -o": ["requests", "--format", "csv", "-o", "{out}", "{capture}"],
    "requests jsonl": ["requests", "--format", "jsonl", "-o", "{out}", "{capture}"],
    "requests parquet": ["requests", "--format", "parquet", "-o", "{out}", "{capture}"],
    "requests table": ["requests", "--format", "table", "-o", "{out}", "{capture}"],
    "records -o": ["records", "--format", "csv", "-o", "{out}", "{capture}"],
    "decode -o": ["decode", "--format", "jsonl", "-o", "{out}", "{capture}"],
    "connections -o": ["connections", "--format", "csv", "-o", "{out}", "{capture}"],
    "extract -o": ["extract", "-o", "{out}", "{capture}"],
    "anonymize -o": ["anonymize", "-o", "{out}", "{capture}"],
    "save -o": ["save", "-o", "{out}", "{capture}"],
    "anomalies -o": ["anomalies", "--format", "csv", "-o", "{out}", "{capture}"],
}
"""Each command that writes a file, by its options for that."""


@pytest.fixture
def capture(tmp_path) -> Path:
    return Path(shutil.copy(BASICS, tmp_path / "a.pcap"))


def written(name: str, out: object, capture: object) -> list[str]:
    return [text.format(out=out, capture=capture) for text in WRITE[name]]


def refused(capsys, *words: str) -> None:
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert told.err.startswith("kanalyze: ")
    for word in words:
        assert word in told.err


@pytest.mark.parametrize("name", WRITE)
def test_an_output_that_is_the_input_is_refused(name, capture, capsys):
    assert main(written(name, capture, capture)) == 2
    refused(capsys, str(capture), "is also an input")
    assert capture.read_bytes() == BASICS.read_bytes()
    assert [each.name for each in capture.parent.iterdir()] == ["a.pcap"]


@pytest.mark.parametrize("name", WRITE)
def test_a_capture_that_is_no_input_is_not_written_over_either(name, capture, capsys):
    assert main(written(name, capture, BASICS)) == 2
    refused(capsys, str(capture), "is a capture")
    assert capture.read_bytes() == BASICS.read_bytes()
    assert [each.name for each in capture.parent.iterdir()] == ["a.pcap"]


@pytest.mark.parametrize("kind", ["symbolic", "hard", "link as input", "through a folder"])
def test_links_are_seen_through(kind, capture, tmp_path, capsys):
    link = tmp_path / "b.csv"
    if kind == "hard":
        os.link(capture, link)
    elif kind == "through a folder":
        (tmp_path / "folder").symlink_to(tmp_path)
        link = tmp_path / "folder" / "a.pcap"
    else:
        link.symlink_to("a.pcap")
    out, source = (capture, link) if kind == "link as input" else (link, capture)
    assert main(["requests", "--format", "csv", "-o", str(out), str(source)]) == 2
    refused(capsys, str(out), "is also an input")
    assert capture.read_bytes() == BASICS.read_bytes()


@pytest.mark.parametrize("given", ["folder", "glob", "url", "several"])
def test_inputs_are_those_that_arguments_stand_for(given, capture, tmp_path, capsys):
    (tmp_path / "b.pcap").write_bytes(b"not a capture yet")
    inputs = {
        "folder": [str(tmp_path)],
        "glob": [f"{tmp_path}/*.pcap"],
        "url": [f"file://{tmp_path}/"],
        "several": [str(capture), str(tmp_path / "b.pcap")],
    }
    assert main(["report", "--json", str(tmp_path / "b.pcap"), *inputs[given]]) == 2
    refused(capsys, "b.pcap", "is also an input")
    assert (tmp_path / "b.pcap").read_bytes() == b"not a capture yet"


@pytest.mark.parametrize("option", ["--topic-ids", "--definitions", "--keylog"])
def test_other_files_that_are_read_are_inputs_too(option, tmp_path, capsys):
    ids = tmp_path / "ids.json"
    ids.write_text("{}")
    given = tmp_path if option == "--definitions" else ids
    assert main(["report", "--json", str(ids), option, str(given), str(BASICS)]) == 2
    refused(capsys, str(ids), "is also an input")
    assert ids.read_text() == "{}"


@pytest.mark.parametrize("command", ["report --json a.pcap -", "requests --format csv - -o a.pcap"])
def test_standard_input_is_an_input(command, capture):
    with capture.open("rb") as file:
        done = subprocess.run(
            [*RUN, *command.split()],
            stdin=file,
            capture_output=True,
            check=False,
            cwd=capture.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"a.pcap: is also an input" in done.stderr
    assert capture.read_bytes() == BASICS.read_bytes()


@pytest.mark.parametrize("command", ["report", "requests --format csv", "decode", "anomalies"])
def test_standard_output_is_an_output(command, capture):
    """With ``>> a.pcap``, the input would grow while it is read."""
    with capture.open("ab") as file:
        done = subprocess.run(
            [*RUN, *command.split(), str(capture)],
            stdout=file,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 2
    assert b"standard output: is also an input" in done.stderr
    assert capture.read_bytes() == BASICS.read_bytes()


def test_a_pipe_that_would_wait_for_itself_is_refused(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main(["report", "--json", str(tmp_path / "pipe"), str(tmp_path / "pipe")]) == 2
    refused(capsys, "is also an input")


def test_live_saves_no_packets_over_those_that_it_reads(tmp_path):
    """A run renames the file of an earlier run; here that file is also the input."""
    saved = tmp_path / "a.pcapng"
    data = pcapng_file([Packet(b"x", 1_000)])
    saved.write_bytes(data)
    with saved.open("rb") as file:
        done = subprocess.run(
            [*RUN, "live", "-", "--save", str(saved), "--format", "jsonl"],
            stdin=file,
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 2
    assert b"a.pcapng: is also an input" in done.stderr
    assert saved.read_bytes() == data


@pytest.mark.few(1)
@pytest.mark.parametrize("chosen", ["jsonl", "rows"])
def test_live_writes_no_report_over_a_capture(chosen, capture):
    done = subprocess.run(
        [*RUN, "live", "-", "--json", str(capture), "--format", chosen],
        input=BASICS.read_bytes(),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert b"a.pcap: is a capture" in done.stderr
    assert capture.read_bytes() == BASICS.read_bytes()


def test_two_outputs_are_not_one_file(tmp_path, capsys):
    there = str(tmp_path / "a.pcapng")
    again = str(tmp_path / "." / "a.pcapng")
    assert main(["live", "-", "--format", "jsonl", "--save", there, "--json", again]) == 2
    refused(capsys, "--save", "--json", "a.pcapng")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["--out", "--json", "report.json"])
def test_batch_writes_over_no_input(given, capture, tmp_path, capsys):
    out = str(tmp_path / "out")
    source = str(capture)
    if given == "report.json":
        (tmp_path / "out").mkdir()
        source = str(capture.rename(tmp_path / "out" / "report.json"))
    options = {
        "--out": ["--out", source],
        "--json": ["--out", out, "--json", source],
        "report.json": ["--out", out],
    }
    assert main(["batch", source, *options[given]]) == 2
    refused(capsys, source, "is also an input")
    assert Path(source).read_bytes() == BASICS.read_bytes()


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
@pytest.mark.parametrize("make", [pcap_file, pcapng_file])
def test_captures_are_known_by_their_content(make, packed, tmp_path, capsys):
    there = tmp_path / "rows.csv"
    there.write_bytes(packed(make([Packet(b"x", 1_000)])))
    before = there.read_bytes()
    assert main(["requests", "-o", str(there), str(BASICS)]) == 2
    refused(capsys, str(there), "is a capture")
    assert there.read_bytes() == before


@pytest.mark.parametrize("before", [b"", b"capture,connection\n", gzip.compress(b"rows", mtime=0)])
def test_a_file_that_is_no_capture_may_be_replaced(before, tmp_path, capsys):
    there = tmp_path / "rows.csv"
    there.write_bytes(before)
    assert main(["requests", "--errors", "-o", str(there), str(BASICS)]) == 0
    assert capsys.readouterr().err == ""
    assert there.read_bytes().startswith(b"capture,connection,")


def test_the_same_device_may_be_both(capsys):
    assert main(["report", "--json", os.devnull, str(BASICS)]) == 0
    assert "Requests by API" in capsys.readouterr().out


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "given"), in_turn(WRITE, ["a planted link", "a loop"]))
def test_a_link_is_replaced_by_the_output(name, given, tmp_path, capsys):
    mine, link = tmp_path / "mine", tmp_path / "out"
    mine.write_text("mine")
    link.symlink_to("mine" if given == "a planted link" else "out")
    assert main(written(name, link, BASICS)) == 0
    assert capsys.readouterr().err == ""
    assert not link.is_symlink()
    assert link.stat().st_size > 100
    assert mine.read_text() == "mine"


def test_a_loop_among_the_inputs_is_one_line(tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    out = tmp_path / "loop" / "out.csv"
    assert main(["report", str(tmp_path / "loop")]) == 2
    refused(capsys, "loop: ")
    assert main(["requests", "-o", str(out), str(BASICS)]) == 2
    refused(capsys, f"{out}: Too many levels of symbolic links")


NO_FILES = {
    "all", "api", "around", "at_least", "broker", "buckets", "buffer", "client_id", "client_ip",
    "columns", "conf", "duration", "engine", "error", "errors", "fail_on", "filter", "finding",
    "finish", "force", "format", "group", "help", "host", "interface", "interval", "jobs", "kind",
    "least_ms", "least_percent", "limit", "list", "master", "max_memory", "max_records",
    "metrics", "metrics_host", "no_progress", "param", "partition", "port", "query", "replace",
    "save_errors", "save_files", "save_size", "save_slower_than", "search", "settle", "shell",
    "since", "slower_than", "sort", "split_size", "status", "strip_records", "tables", "threshold",
    "topic", "until",
    "values",
    "whole_connections", "wireshark", "with_handshake", "with_secrets", "write_every",
    "write_files", "write_size",
}  # fmt: skip


def test_each_argument_is_known_as_an_input_an_output_or_neither():
    """This fails if a new option for a file is not in INPUTS or OUTPUTS."""
    [commands] = [
        action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)
    ]
    known = NO_FILES | set(output_checks.INPUTS) | set(output_checks.OUTPUTS)
    for name, command in commands.choices.items():
        given = {action.dest for action in command.parser._actions}
        assert given <= known, name


def test_the_file_of_a_key_is_an_input(capture, tmp_path, capsys):
    key = tmp_path / "key.txt"
    key.write_text("secret")
    assert main(["anonymize", "-o", str(key), "--key", f"@{key}", str(capture)]) == 2
    refused(capsys, str(key), "is also an input")
    assert key.read_text() == "secret"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["extract", "-o", "x.csv"], "x.csv: extract writes a capture (pcapng), not .csv: use "),
        (["anonymize", "-o", "x.json"], "x.json: anonymize writes a capture (pcapng), not .json"),
        (["save", "-o", "x.Parquet"], "x.Parquet: save writes a database (DuckDB), not .parquet"),
    ],
)
def test_an_ending_of_something_else_is_a_mistake(words, what, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*words, str(BASICS)]) == 2
    assert what in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["extract", "-o", "-"],
        ["anonymize", "-o", "-"],
        ["requests", "--format", "parquet"],
        ["records", "--format", "parquet"],
        ["report", "--format", "html"],
    ],
)
def test_a_terminal_gets_no_binary_data(words, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([*words, str(BASICS)]) == 2
    assert "is not for a terminal: use -o FILE, or a pipe" in capsys.readouterr().err
