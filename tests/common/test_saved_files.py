from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kanalyze.common.saved_files import is_database, saved_files
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

DATABASE = b"checksum" + b"DUCK" + bytes(20)


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
