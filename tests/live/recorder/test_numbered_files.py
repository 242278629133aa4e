from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kanalyze.live.recorder.files import (
    numbered_files,
    remove_oldest,
    sync_file,
    sync_folder,
)

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"a-(?P<number>\d+)\.x", re.ASCII)


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"")


def test_files_are_sorted_by_number_not_by_name(tmp_path: Path) -> None:
    fill(tmp_path, "a-10.x", "a-9.x", "a-100.x", "b-1.x", "a-1.xx", "a-1.x.old")
    assert [number for number, _ in numbered_files(tmp_path, NAME)] == [9, 10, 100]


def test_folders_and_links_are_not_numbered_files(tmp_path: Path) -> None:
    (tmp_path / "a-1.x").mkdir()
    fill(tmp_path, "elsewhere")
    (tmp_path / "a-2.x").symlink_to(tmp_path / "elsewhere")
    assert numbered_files(tmp_path, NAME) == []


def test_the_files_with_the_lowest_numbers_are_removed(tmp_path: Path) -> None:
    fill(tmp_path, "a-1.x", "a-2.x", "a-3.x", "b-0.x")
    remove_oldest(tmp_path, NAME, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-2.x", "a-3.x", "b-0.x"]
    remove_oldest(tmp_path, NAME, 5)
    assert len(list(tmp_path.iterdir())) == 3
    remove_oldest(tmp_path, NAME, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["b-0.x"]


def test_files_and_folders_can_be_synced(tmp_path: Path) -> None:
    fill(tmp_path, "a-1.x")
    sync_file(tmp_path / "a-1.x")
    sync_folder(tmp_path)
