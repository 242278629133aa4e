"""One process and a batch find the same captures in a folder."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.run_plan import find_files, select
from kanalyze.capture.inputs import (
    InputFile,
    MissingFileError,
    file_of,
    find_inputs,
    is_settled,
    local_files,
    look_in_folder,
    named_files,
    same_file,
)
from kanalyze.capture.io.stores import Stores
from kanalyze.errors import CaptureError
from tests.support.packets import Packet, pcap_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

S = 10**9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files of every kind."""
    inside = tmp_path / "in"
    inside.mkdir()
    capture = pcap_file([Packet(b"x", S)])
    for name in ("a.pcap", "plain", ".hidden.pcap", ".a.pcap.Xy12"):
        (inside / name).write_bytes(capture)
    (inside / "c.pcap.gz").write_bytes(gzip.compress(capture))
    (inside / "link.pcap").symlink_to("a.pcap")
    (inside / "gone.pcap").symlink_to("nowhere")
    (inside / "called.pcap").write_bytes(b"no capture")
    (inside / "cut.dat").write_bytes(capture[:20])
    (inside / "README.md").write_text("no capture")
    (inside / "empty").write_bytes(b"")
    (inside / "empty.cap").write_bytes(b"")
    (inside / "sub").mkdir()
    (inside / "sub" / "d.pcap").write_bytes(capture)
    os.mkfifo(inside / "pipe.pcap")
    return inside


READ = {"a.pcap", "plain", "c.pcap.gz"}
REPORTED = {"called.pcap", "cut.dat", "empty.cap"}


def names(paths: Iterable[str]) -> set[str]:
    """The names of files, also of those that are named by a link."""
    return {Path(os.path.realpath(path)).name for path in paths}


def one_process(folder: Path) -> tuple[set[str], set[str]]:
    left_out: list[str] = []
    found = find_inputs([folder], leave_out=lambda each: left_out.append(each.detail))
    return names(each.path for each in found), names(text.split(": ")[0] for text in left_out)


def batch(folder: Path) -> tuple[set[str], set[str]]:
    """Tasks report the files that they cannot read."""
    files = find_files([str(folder)], may_be_none=False).values()
    reported = [f.path for f in files if isinstance(look_in_folder(f.path, Stores()), CaptureError)]
    return names(f.path for f in files) - names(reported), names(reported)


@pytest.mark.parametrize("how", [one_process, batch])
def test_a_process_and_a_batch_read_and_report_the_same_files(folder: Path, how: Callable) -> None:
    assert how(folder) == (READ, REPORTED | {"nowhere"})


def test_a_file_and_links_to_it_are_read_once(folder: Path) -> None:
    arguments = [str(folder / name) for name in ("link.pcap", "a.pcap")]
    assert len(find_inputs(arguments)) == len(find_files(arguments, may_be_none=False)) == 1


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_hidden_files_are_read_only_by_name(folder: Path, form: str) -> None:
    here, stores = form.format(folder), Stores()
    for argument in (here, f"{here}/*"):
        listed = named_files(argument, stores).paths
        assert listed
        assert not [path for path in listed if Path(path).name.startswith(".")]
    hidden = sorted(Path(path).name for path in named_files(f"{here}/.*", stores).paths)
    assert hidden == [".a.pcap.Xy12", ".hidden.pcap"]
    assert named_files(f"{here}/.hidden.pcap", stores).paths == [f"{here}/.hidden.pcap"]
    assert not [path for path in local_files(here).paths if "/." in path]


@pytest.mark.parametrize("name", ["pipe.pcap", "p*.pcap"])
def test_a_pipe_is_an_error_for_tasks(folder: Path, name: str) -> None:
    argument = str(folder / name)
    with pytest.raises(CaptureError, match=r"pipe\.pcap: can be read only once$"):
        find_files([argument], may_be_none=True)


def test_standard_input_is_an_error_for_tasks() -> None:
    with pytest.raises(CaptureError, match="standard input: cannot be read by several tasks"):
        find_files(["-"], may_be_none=True)


def test_a_missing_file_is_an_error_of_its_own_class(folder: Path) -> None:
    stores = Stores()
    for path in (f"{folder}/none.pcap", f"file://{folder}/none.pcap", f"{folder}/gone.pcap"):
        with pytest.raises(MissingFileError, match="no such file"):
            file_of(path, stores)
    with pytest.raises(MissingFileError, match="null byte"):
        file_of("a\0b", stores)


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_file_has_its_size_and_time(folder: Path, form: str) -> None:
    os.utime(folder / "a.pcap", ns=(5 * S, 7 * S))
    path = form.format(folder / "a.pcap")
    assert file_of(path, Stores()) == InputFile(path, 41, 7 * S)


def test_links_are_the_file_that_they_lead_to(folder: Path) -> None:
    assert same_file(str(folder / "link.pcap")) == same_file(str(folder / "a.pcap"))
    url = "https://host/a.pcap?part=1"
    assert (same_file("-"), same_file(url)) == ("-", url)


def test_a_file_is_settled_some_time_after_its_last_change() -> None:
    def settled(modified_ns: int | None, settle_ns: int) -> bool:
        return is_settled(InputFile("a", 1, modified_ns), now_ns=100 * S, settle_ns=settle_ns)

    assert settled(40 * S, 60 * S)
    assert not settled(41 * S, 60 * S)
    # Some stores have no times.
    assert settled(None, 60 * S)
    # Clocks differ: a file with a time in the future is read too.
    assert settled(101 * S, 0)
    files = {"a": InputFile("a", 1, 101 * S)}
    assert not select(files, {}, now_ns=100 * S, settle_ns=0).unsettled
