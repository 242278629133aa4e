from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kanalyze.capture.inputs import find_inputs
from kanalyze.errors import CaptureError
from kanalyze.spark.batch.inventory import InputFile, find_files, select
from tests.support.captures import path

S = 10**9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One capture under four names, and what is none."""
    for name in ("b.pcap", "a.pcapng.gz", "trace.pcap7", "no-ending"):
        shutil.copy(path("mock"), tmp_path / name)
    for name in ("README.md", "text.pcap", "empty"):
        (tmp_path / name).write_text("" if name == "empty" else "no capture\n")
    (tmp_path / "inside").mkdir()
    shutil.copy(path("mock"), tmp_path / "inside" / "c.pcap")
    return tmp_path


def found(*arguments: object, may_be_none: bool = False) -> list[str]:
    files = find_files([str(each) for each in arguments], may_be_none=may_be_none)
    return [Path(file.path).name for file in files]


def test_a_folder_is_what_is_or_is_called_a_capture_in_it(folder):
    names = ["a.pcapng.gz", "b.pcap", "no-ending", "text.pcap", "trace.pcap7"]
    assert found(folder) == names
    assert found(f"file://{folder}") == names


def test_what_cannot_be_read_is_left_to_those_who_tell_of_it(folder):
    (folder / "failing").symlink_to("/proc/self/mem")  # can be opened, and not be read
    (folder / "damaged.gz").write_bytes(b"\x1f\x8b\x08\x00garbage!")
    assert {"failing", "damaged.gz"} <= set(found(folder))


def test_a_link_to_what_is_gone_is_told_as_one_process_tells_it(folder):
    for name in ("gone.pcap", "gone"):
        (folder / name).symlink_to(folder / f"was-{name}")
    (folder / "loop.pcap").symlink_to("loop.pcap")
    left_out = []
    read = find_inputs([folder], leave_out=left_out.append)
    told = {Path(each.detail.split(": ")[0]).name for each in left_out}
    assert {"gone.pcap", "gone", "loop.pcap"} < told
    assert set(found(folder)) == told | {Path(each.path).name for each in read}
    files = {Path(each.path).name: each for each in find_files([str(folder)], may_be_none=False)}
    gone = InputFile(str(folder / "gone.pcap"), None, None)
    assert files["gone.pcap"] == gone
    # Named by somebody, it is an error.
    for argument in (folder / "gone.pcap", folder / "g*.pcap"):
        with pytest.raises(CaptureError, match=r"gone\.pcap: no such file"):
            found(argument)


def test_sizes_and_times_are_told(folder):
    os.utime(folder / "b.pcap", ns=(5 * S, 7 * S))
    for argument in (str(folder / "b.pcap"), f"file://{folder}/b.pcap"):
        (file,) = find_files([argument], may_be_none=False)
        assert file == InputFile(argument, path("mock").stat().st_size, 7 * S)


def test_a_file_that_is_named_twice_is_there_once(folder, monkeypatch):
    (folder / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    assert found("b.pcap", folder / "b.pcap", "link/b.pcap", "./*.pcap") == [
        "text.pcap",
        "b.pcap",
    ]


def test_a_glob_is_the_files_it_matches(folder):
    assert found(folder / "*.pcap") == ["b.pcap", "text.pcap"]
    assert found(folder / "*" / "*.pcap") == ["c.pcap"]
    assert found(folder / "x*", may_be_none=True) == []


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("{folder}/none.pcap", "none.pcap: no such file or directory$"),
        ("file://{folder}/none.pcap", "none.pcap: no such file$"),
        ("{folder}/x*", r"x\*: no file has such a name$"),
        ("{folder}/empty-folder", "empty-folder: no capture in this folder$"),
        ("{folder}/pipe", "pipe: can be read only once$"),
        ("-", "standard input"),
    ],
)
def test_what_is_not_there_is_an_error(argument, told, folder):
    (folder / "empty-folder").mkdir()
    os.mkfifo(folder / "pipe")
    with pytest.raises(CaptureError, match=told):
        found(argument.format(folder=folder))


def test_a_file_and_its_url_are_one(folder):
    file = folder / "b.pcap"
    arguments = [str(file), f"file://{file}", f"file://{folder}/./b.pcap"]
    (one,) = find_files(arguments, may_be_none=False)
    assert one.identity == str(file.resolve())


def test_credentials_are_not_kept():
    file = InputFile("s3://key:secret@bucket/a.pcap?token=x", 1, None)
    assert file.identity == "s3://bucket/a.pcap"


def test_what_is_new_what_has_changed_and_what_may_be_written():
    files = [
        InputFile("/read", 10, 5 * S),
        InputFile("/longer", 20, 5 * S),
        InputFile("/new", 10, 40 * S),
        InputFile("/fresh", 10, 41 * S),
        InputFile("/timeless", None, None),
    ]
    selection = select(files, {"/read": 10, "/longer": 10}, now_ns=100 * S, settle_ns=60 * S)
    assert [file.path for file in selection.new] == ["/new", "/timeless"]
    assert [file.path for file in selection.changed] == ["/longer"]
    assert [file.path for file in selection.unsettled] == ["/fresh"]
    assert not select(files, {}, now_ns=100 * S, settle_ns=0).unsettled
