from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kanalyze.batch.run_plan import InputFile, find_files, options_of, select
from kanalyze.batch.table_options import make_plan
from kanalyze.capture.inputs import find_inputs
from kanalyze.errors import CaptureError
from tests.support.captures import path

S = 10**9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one capture under four names, and files that are no captures."""
    for name in ("b.pcap", "a.pcapng.gz", "trace.pcap7", "no-ending"):
        shutil.copy(path("mock"), tmp_path / name)
    for name in ("README.md", "text.pcap", "empty"):
        (tmp_path / name).write_text("" if name == "empty" else "no capture\n")
    (tmp_path / "inside").mkdir()
    shutil.copy(path("mock"), tmp_path / "inside" / "c.pcap")
    return tmp_path


def found_names(*arguments: object, may_be_none: bool = False) -> list[str]:
    files = find_files([str(argument) for argument in arguments], may_be_none=may_be_none)
    return [Path(file.path).name for file in files.values()]


def test_files_of_a_folder_are_selected_by_content_or_ending(folder):
    names = ["a.pcapng.gz", "b.pcap", "no-ending", "text.pcap", "trace.pcap7"]
    assert found_names(folder) == names
    assert found_names(f"file://{folder}") == names


def test_unreadable_files_are_left_for_the_readers_to_report(folder):
    (folder / "failing").symlink_to("/proc/self/mem")  # can be opened, but not read
    (folder / "damaged.gz").write_bytes(b"\x1f\x8b\x08\x00garbage!")
    assert {"failing", "damaged.gz"} <= set(found_names(folder))


def test_dangling_links_are_found_as_one_process_reports_them(folder):
    for name in ("gone.pcap", "gone"):
        (folder / name).symlink_to(folder / f"was-{name}")
    (folder / "loop.pcap").symlink_to("loop.pcap")
    left_out = []
    read = find_inputs([folder], leave_out=left_out.append)
    left_out_names = {Path(file.detail.split(": ")[0]).name for file in left_out}
    assert {"gone.pcap", "gone", "loop.pcap"} < left_out_names
    assert set(found_names(folder)) == left_out_names | {Path(file.path).name for file in read}
    found = find_files([str(folder)], may_be_none=False).values()
    files = {Path(file.path).name: file for file in found}
    gone = InputFile(str(folder / "gone.pcap"), None, None)
    assert files["gone.pcap"] == gone
    # As an argument, it is an error.
    for argument in (folder / "gone.pcap", folder / "g*.pcap"):
        with pytest.raises(CaptureError, match=r"gone\.pcap: no such file"):
            found_names(argument)


def test_files_have_sizes_and_modification_times(folder):
    os.utime(folder / "b.pcap", ns=(5 * S, 7 * S))
    for argument in (str(folder / "b.pcap"), f"file://{folder}/b.pcap"):
        (file,) = find_files([argument], may_be_none=False).values()
        assert file == InputFile(argument, path("mock").stat().st_size, 7 * S)


def test_a_file_that_is_named_twice_is_found_once(folder, monkeypatch):
    (folder / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    assert found_names("b.pcap", folder / "b.pcap", "link/b.pcap", "./*.pcap") == [
        "text.pcap",
        "b.pcap",
    ]


def test_a_glob_finds_the_files_it_matches(folder):
    assert found_names(folder / "*.pcap") == ["b.pcap", "text.pcap"]
    assert found_names(folder / "*" / "*.pcap") == ["c.pcap"]
    assert found_names(folder / "x*", may_be_none=True) == []


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("{folder}/none.pcap", "none.pcap: no such file or directory$"),
        ("file://{folder}/none.pcap", "none.pcap: no such file$"),
        ("{folder}/x*", r"x\*: no file has such a name$"),
        ("{folder}/empty-folder", "empty-folder: no capture in this folder$"),
        ("{folder}/pipe", "pipe: can be read only once$"),
        ("-", "standard input"),
    ],
)
def test_an_argument_without_captures_is_an_error(argument, message, folder):
    (folder / "empty-folder").mkdir()
    os.mkfifo(folder / "pipe")
    with pytest.raises(CaptureError, match=message):
        found_names(argument.format(folder=folder))


def test_a_file_and_its_url_have_the_same_identity(folder):
    file = folder / "b.pcap"
    arguments = [str(file), f"file://{file}", f"file://{folder}/./b.pcap"]
    ((identity, one),) = find_files(arguments, may_be_none=False).items()
    assert identity == one.identity == str(file.resolve())


def test_credentials_are_not_kept():
    file = InputFile("s3://key:secret@bucket/a.pcap?token=x", 1, None)
    assert file.identity == "s3://bucket/a.pcap"


def test_files_are_selected_as_new_changed_or_unsettled():
    listed = [
        InputFile("/read", 10, 5 * S),
        InputFile("/longer", 20, 5 * S),
        InputFile("/new", 10, 40 * S),
        InputFile("/fresh", 10, 41 * S),
        InputFile("/timeless", None, None),
    ]
    files = {file.identity: file for file in listed}
    selection = select(files, {"/read": 10, "/longer": 10}, now_ns=100 * S, settle_ns=60 * S)
    assert [file.path for file in selection.new] == ["/new", "/timeless"]
    assert [file.path for file in selection.changed] == ["/longer"]
    assert [file.path for file in selection.unsettled] == ["/fresh"]
    assert not select(files, {}, now_ns=100 * S, settle_ns=0).unsettled


def options(**given: str) -> dict[str, Any]:
    found = options_of(make_plan(given))
    # Options are saved as JSON, and compared after they are loaded.
    assert json.loads(json.dumps(found)) == found
    return found


def test_options_that_change_rows_are_distinguished():
    plain = options()
    others = [
        options(api="Fetch"),
        options(api="Fetch,Produce"),
        options(errors="true"),
        options(slowerThan="10ms"),
        options(broker="10.0.0.1:9092"),
        options(port="9092"),
        options(maxMemory="2G"),
    ]
    for index, other in enumerate(others):
        assert other not in [plain, *others[:index]]


def test_options_that_do_not_change_rows_are_ignored():
    assert options(errors="false") == options()
    assert options(numPartitions="3", mode="quarantine") == options()
