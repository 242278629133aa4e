from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kanalyze.queries import database
from kanalyze.queries.database import ScratchFolder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_scratch_folder_exists_until_it_is_closed(folder: Path) -> None:
    made = ScratchFolder()
    (made.path / "file").write_bytes(b"x")
    assert made.path.parent == folder
    made.close()
    made.close()
    assert list(folder.iterdir()) == []


def test_a_folder_in_use_is_not_removed() -> None:
    first = ScratchFolder()
    second = ScratchFolder()
    assert first.path.is_dir()
    for scratch_folder in (first, second):
        scratch_folder.close()


def test_the_folder_of_a_killed_process_is_removed(folder: Path) -> None:
    code = (
        "import os, tempfile\n"
        f"tempfile.tempdir = {str(folder)!r}\n"
        "from kanalyze.queries.database import ScratchFolder\n"
        "made = ScratchFolder()\n"
        "os._exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (abandoned,) = folder.iterdir()
    made = ScratchFolder()
    assert list(folder.iterdir()) == [made.path] != [abandoned]
    made.close()


def test_a_folder_that_is_being_created_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process removes abandoned folders after each step of creating this one."""
    existing = []

    def remove_abandoned() -> None:
        made = list(Path(tempfile.gettempdir()).iterdir())
        database._remove_abandoned()
        existing.extend(path.is_dir() for path in made)

    lock, rename = fcntl.flock, Path.rename

    def flock(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
            remove_abandoned()
        lock(file, operation)

    def renamed(self: Path, target: Path) -> Path:
        remove_abandoned()
        found = rename(self, target)
        remove_abandoned()
        return found

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(Path, "rename", renamed)
    made = ScratchFolder()
    assert existing == [True, True, True]
    made.close()


def test_other_folders_are_left_alone(folder: Path) -> None:
    (folder / "kanalyze-tables-of-someone").mkdir()
    (folder / "other").mkdir()
    os.close(os.open(folder / "other" / "lock", os.O_CREAT))
    ScratchFolder().close()
    assert {path.name for path in folder.iterdir()} == {"kanalyze-tables-of-someone", "other"}
