"""No option lets a command overwrite its inputs, or write over a capture."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kanalyze.cli import output_checks
from kanalyze.cli.main import main
from kanalyze.spec import commands as spec
from tests.support.captures import in_turn
from tests.support.packets import Packet, pcap_file, pcapng_file

ROOT = Path(__file__).parent.parent.parent
RUN = [sys.executable, "-c", "from kanalyze.cli.main import run; run()"]
BASICS = ROOT / "captures" / "basics.pcap"

COMMANDS = {
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
"""Commands that write a file, by the command and the option."""


def started(
    *words: str, data: bytes | None = None, **streams: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own, with ``data`` or these streams."""
    where: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if data is not None:
        where["input"] = data
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*RUN, *words], check=False, env=environment, **{**where, **streams})


@pytest.fixture
def capture(tmp_path) -> Path:
    return Path(shutil.copy(BASICS, tmp_path / "a.pcap"))


def arguments_of(name: str, out: object, capture: object) -> list[str]:
    return [text.format(out=out, capture=capture) for text in COMMANDS[name]]


def assert_refused(capsys, *parts: str) -> None:
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("kanalyze: ")
    for part in parts:
        assert part in captured.err


@pytest.mark.parametrize("name", COMMANDS)
def test_captures_are_not_overwritten(name, capture, capsys):
    for source, problem in ((capture, "is also an input"), (BASICS, "is a capture")):
        assert main(arguments_of(name, capture, source)) == 2
        assert_refused(capsys, str(capture), problem)
        assert capture.read_bytes() == BASICS.read_bytes()
        assert [file.name for file in capture.parent.iterdir()] == ["a.pcap"]


@pytest.mark.parametrize("kind", ["symbolic", "hard", "link as input", "through a folder"])
def test_links_to_an_input_are_refused(kind, capture, tmp_path, capsys):
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
    assert_refused(capsys, str(out), "is also an input")
    assert capture.read_bytes() == BASICS.read_bytes()


@pytest.mark.parametrize(
    "inputs", [["{}/a.pcap", "{}/b.pcap"], ["{}", "{}/b.pcap"], ["file://{}/b.pcap"]]
)
def test_an_output_that_is_named_as_an_input_is_refused(inputs, capture, tmp_path, capsys):
    (tmp_path / "b.pcap").write_bytes(b"not a capture yet")
    named = [each.format(tmp_path) for each in inputs]
    assert main(["report", "--json", str(tmp_path / "b.pcap"), *named]) == 2
    assert_refused(capsys, "b.pcap", "is also an input")
    assert (tmp_path / "b.pcap").read_bytes() == b"not a capture yet"


FOLDERS = {"folder": "{}", "glob": "{}/[ab].*", "url": "file://{}/", "url glob": "file://{}/[ab].*"}


@pytest.mark.few(6)
@pytest.mark.parametrize("way", FOLDERS)
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "compare --json"])
def test_an_output_in_a_folder_that_is_read_is_left_out(name, way, capture, tmp_path, capsys):
    """It is there from the command before, whatever it contains."""
    out = tmp_path / "b.out"
    folder = FOLDERS[way].format(tmp_path)
    assert main(arguments_of(name, out, capture)) == 0
    expected = capsys.readouterr().out
    for before in (b"not a capture", b"", out.read_bytes()):
        if name.startswith(("extract", "anonymize")) and before[:4] == b"\n\r\r\n":
            continue  # a capture is not replaced
        out.write_bytes(before)
        assert main(arguments_of(name, out, folder)) == 0
        captured = capsys.readouterr()
        assert captured.err == f"kanalyze: left out: {out}: this command writes it\n"
        if captured.out and not name.startswith("report"):
            assert captured.out == expected
        assert out.read_bytes() not in (b"not a capture", b"")
    assert capture.read_bytes() == BASICS.read_bytes()


def test_an_output_in_a_folder_that_is_compared_is_left_out(capture, tmp_path, capsys):
    out = tmp_path / "b.out"
    for _ in range(2):
        assert main(["compare", "--json", str(out), str(tmp_path), str(capture)]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"kanalyze: left out: {out}: this command writes it\n"


@pytest.mark.parametrize("way", ["folder", "glob"])
@pytest.mark.parametrize("name", ["report.txt", "b.pcap"])
def test_standard_output_in_a_folder_that_is_read_is_left_out(way, name, capture):
    argument = "." if way == "folder" else "./*"
    with (capture.parent / name).open("wb") as file:
        done = started("report", argument, stdout=file, cwd=capture.parent)
    prefix = "" if way == "folder" else "./"
    assert done.stderr.decode() == f"kanalyze: left out: {prefix}{name}: this command writes it\n"
    text = (capture.parent / name).read_text()
    assert text.splitlines()[1] == f"{prefix}a.pcap"
    assert "capture_unreadable" not in text


def test_if_a_folder_has_only_the_output_there_is_no_capture(tmp_path, capsys):
    out = tmp_path / "a.csv"
    out.write_text("before")
    assert main(["requests", "-o", str(out), str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"kanalyze: left out: {out}: this command writes it\n"
        f"kanalyze: {tmp_path}: no capture in this folder\n"
    )
    assert out.read_text() == "before"


@pytest.mark.parametrize("option", ["--topic-ids", "--definitions", "--keylog"])
def test_files_that_options_read_are_inputs(option, tmp_path, capsys):
    ids = tmp_path / "ids.json"
    ids.write_text("{}")
    value = tmp_path if option == "--definitions" else ids
    assert main(["report", "--json", str(ids), option, str(value), str(BASICS)]) == 2
    assert_refused(capsys, str(ids), "is also an input")
    assert ids.read_text() == "{}"


@pytest.mark.parametrize("command", ["report --json a.pcap -", "requests --format csv - -o a.pcap"])
def test_standard_input_is_an_input(command, capture):
    with capture.open("rb") as file:
        done = started(*command.split(), stdin=file, cwd=capture.parent)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"a.pcap: is also an input" in done.stderr
    assert capture.read_bytes() == BASICS.read_bytes()


@pytest.mark.parametrize("command", ["report", "requests --format csv", "decode", "anomalies"])
def test_standard_output_is_an_output(command, capture):
    """With ``>> a.pcap``, the input would grow while it is read."""
    with capture.open("ab") as file:
        done = started(*command.split(), str(capture), stdout=file)
    assert done.returncode == 2
    assert b"standard output: is also an input" in done.stderr
    assert capture.read_bytes() == BASICS.read_bytes()


def test_one_pipe_as_input_and_output_is_refused(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main(["report", "--json", str(tmp_path / "pipe"), str(tmp_path / "pipe")]) == 2
    assert_refused(capsys, "is also an input")


def test_live_does_not_save_packets_over_its_input(tmp_path):
    """Live renames a file that an earlier run saved. Here that file is also the input."""
    saved = tmp_path / "a.pcapng"
    data = pcapng_file([Packet(b"x", 1_000)])
    saved.write_bytes(data)
    with saved.open("rb") as file:
        done = started("live", "-", "--save", str(saved), "--format", "jsonl", stdin=file)
    assert done.returncode == 2
    assert b"a.pcapng: is also an input" in done.stderr
    assert saved.read_bytes() == data


@pytest.mark.few(1)
@pytest.mark.parametrize("output_format", ["jsonl", "rows"])
def test_live_writes_no_report_over_a_capture(output_format, capture):
    words = ("live", "-", "--json", str(capture), "--format", output_format)
    done = started(*words, data=BASICS.read_bytes())
    assert done.returncode == 2
    assert b"a.pcap: is a capture" in done.stderr
    assert capture.read_bytes() == BASICS.read_bytes()


def test_two_outputs_to_one_file_are_refused(tmp_path, capsys):
    first = str(tmp_path / "a.pcapng")
    second = str(tmp_path / "." / "a.pcapng")
    assert main(["live", "-", "--format", "jsonl", "--save", first, "--json", second]) == 2
    assert_refused(capsys, "--save", "--json", "a.pcapng")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["--out", "--json", "report.json"])
def test_batch_does_not_overwrite_its_input(output, capture, tmp_path, capsys):
    out = str(tmp_path / "out")
    source = str(capture)
    if output == "report.json":
        (tmp_path / "out").mkdir()
        source = str(capture.rename(tmp_path / "out" / "report.json"))
    options = {
        "--out": ["--out", source],
        "--json": ["--out", out, "--json", source],
        "report.json": ["--out", out],
    }
    assert main(["batch", source, *options[output]]) == 2
    assert_refused(capsys, source, "is also an input")
    assert Path(source).read_bytes() == BASICS.read_bytes()


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("make", [pcap_file, pcapng_file])
def test_captures_are_recognized_by_content(make, compress, tmp_path, capsys):
    target = tmp_path / "rows.csv"
    target.write_bytes(compress(make([Packet(b"x", 1_000)])))
    before = target.read_bytes()
    assert main(["requests", "-o", str(target), str(BASICS)]) == 2
    assert_refused(capsys, str(target), "is a capture")
    assert target.read_bytes() == before


@pytest.mark.parametrize("before", [b"", b"capture,connection\n", gzip.compress(b"rows", mtime=0)])
def test_a_file_that_is_no_capture_is_replaced(before, tmp_path, capsys):
    target = tmp_path / "rows.csv"
    target.write_bytes(before)
    assert main(["requests", "--errors", "-o", str(target), str(BASICS)]) == 0
    assert capsys.readouterr().err == ""
    assert target.read_bytes().startswith(b"capture,connection,")


def test_a_device_may_be_an_output(capsys):
    assert main(["report", "--json", os.devnull, str(BASICS)]) == 0
    assert "Requests by API" in capsys.readouterr().out


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "kind"), in_turn(COMMANDS, ["a planted link", "a loop"]))
def test_the_output_replaces_a_link_and_not_its_target(name, kind, tmp_path, capsys):
    other, link = tmp_path / "other", tmp_path / "out"
    other.write_text("other")
    link.symlink_to("other" if kind == "a planted link" else "out")
    assert main(arguments_of(name, link, BASICS)) == 0
    assert capsys.readouterr().err == ""
    assert not link.is_symlink()
    assert link.stat().st_size > 100
    assert other.read_text() == "other"


def test_a_loop_of_links_is_reported_in_one_line(tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    out = tmp_path / "loop" / "out.csv"
    assert main(["report", str(tmp_path / "loop")]) == 2
    assert_refused(capsys, "loop: ")
    assert main(["requests", "-o", str(out), str(BASICS)]) == 2
    assert_refused(capsys, f"{out}: Too many levels of symbolic links")


def test_each_option_for_a_file_is_an_input_or_an_output():
    """This fails if a new option for a file is not in INPUTS or OUTPUTS."""
    for name, command in spec.COMMANDS.items():
        files = {option.name for option in command.options if option.is_file}
        assert files <= {*output_checks.INPUTS, *output_checks.OUTPUTS}, name


def test_a_key_file_is_an_input(capture, tmp_path, capsys):
    key = tmp_path / "key.txt"
    key.write_text("secret")
    assert main(["anonymize", "-o", str(key), "--key", f"@{key}", str(capture)]) == 2
    assert_refused(capsys, str(key), "is also an input")
    assert key.read_text() == "secret"


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
def test_formats_for_files_are_not_written_to_a_terminal(words, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main([*words, str(BASICS)]) == 2
    assert "is not for a terminal: use -o FILE, or a pipe" in capsys.readouterr().err
