"""Files by their paths: no path raises an error."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kanalyze.common import paths
from kanalyze.common.paths import is_database, saved_files
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

DATABASE = b"checksum" + b"DUCK" + bytes(20)


def test_files_folders_and_links_are_recognized(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(b"12345")
    link = tmp_path / "link"
    link.symlink_to(file)
    assert [paths.regular_bytes(each) for each in (file, link, tmp_path)] == [5, 5, None]
    assert (paths.is_file(link), paths.is_folder(tmp_path), paths.exists(file)) == (True,) * 3
    with paths.opened(file) as opened:
        assert opened.read() == b"12345"


@pytest.mark.parametrize("path", ["/nowhere/at/all", "null\0byte"])
def test_a_path_without_a_file_has_no_status_and_no_size(path: str) -> None:
    assert paths.stat_of(path) is None
    assert paths.regular_bytes(path) is None


@pytest.mark.parametrize(
    ("name", "ending"),
    [("a.PCAP", ".pcap"), ("a.tar.gz", ".gz"), ("folder.d/", ".d"), ("x.", ""), (".hidden", "")],
)
def test_the_ending_of_a_name_is_in_lower_case(name: str, ending: str) -> None:
    assert paths.ending(name) == ending


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a.duckdb"
    path.write_bytes(DATABASE)
    return path


def test_a_database_is_recognized_by_its_first_bytes():
    assert is_database(DATABASE[:12])
    assert not is_database(DATABASE[:11])
    assert not is_database(b"DUCK" + bytes(20))
    assert not is_database(b"")


def test_each_database_is_found_once(database, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(database)
    other = tmp_path / "b"
    other.write_bytes(DATABASE)
    assert saved_files([str(link), database, other]) == [str(link), str(other)]


def test_other_inputs_are_no_saved_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    short = tmp_path / "short"
    short.write_bytes(b"DUCK")
    inputs = ["-", str(tmp_path), str(tmp_path / "none"), tmp_path / "pipe", short, "a\0b", 7]
    assert saved_files(inputs) == []


def test_a_database_and_a_capture_together_are_refused(database, tmp_path):
    with pytest.raises(UsageError, match=r"a\.duckdb: is a saved file, which is not read together"):
        saved_files(["-", str(database)])
