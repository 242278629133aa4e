"""A file in a shared folder is complete or does not exist."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kanalyze.batch.shared_folder import SharedFolder
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize("as_location", [str, lambda path: path.as_uri()])
def test_files_are_written_and_read_by_path_and_by_url(tmp_path, as_location) -> None:
    folder = SharedFolder(as_location(tmp_path / "not there yet" / "a folder"))
    assert folder.read("list/1") is None
    assert folder.files("list") == []
    folder.write("list/2", b"two")
    folder.write("list/1", b"one")
    folder.write("list/1", b"another")
    assert folder.files("") == [("list/1", 7), ("list/2", 3)]
    assert (folder.read("list/1"), folder.read("list/2")) == (b"another", b"two")
    assert (tmp_path / "not there yet" / "a folder" / "list" / "2").read_bytes() == b"two"


def test_what_pyarrow_does_not_know_is_opened_by_fsspec() -> None:
    folder = SharedFolder("memory://archive/rows")
    folder.write("run/1", b"one")
    folder.move("run/1", "run/2")
    assert (folder.read("run/1"), folder.read("run/2")) == (None, b"one")
    assert folder.files("") == [("run/2", 3)]
    folder.remove("run")
    assert folder.files("") == []


def test_the_path_of_a_local_file_is_plain_if_it_is_no_pattern(tmp_path: Path) -> None:
    assert SharedFolder(str(tmp_path)).plain_path("a/b") == f"{tmp_path}/a/b"
    for name in ("a*", "a?", "[a]"):
        assert SharedFolder(str(tmp_path / name)).plain_path("b") is None
    assert SharedFolder("s3://bucket/a?region=x").plain_path("b") is None


def test_removing_a_missing_file_is_no_error(tmp_path: Path) -> None:
    folder = SharedFolder(str(tmp_path))
    folder.write("states/1/0", b"")
    folder.write("states/2/0", b"")
    folder.remove("states/1")
    folder.remove("states/1")
    assert folder.files("states") == [("states/2/0", 0)]


@pytest.mark.parametrize("location", ["nosuchscheme://user:secret@host/folder", "file:///\0"])
def test_a_folder_that_cannot_be_opened_is_reported_in_one_line(location: str) -> None:
    with pytest.raises(UsageError, match=location.partition(":")[0]) as caught:
        SharedFolder(location).read("x")
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_folder_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    folder = SharedFolder(str(tmp_path / "file"))
    with pytest.raises(UsageError, match="file") as caught:
        folder.write("states/1", b"")
    assert "\n" not in str(caught.value)


def test_files_are_listed_moved_read_and_removed(tmp_path: Path) -> None:
    folder = SharedFolder(str(tmp_path))
    assert folder.files("none") == []
    with folder.new_file("rows/day=1/a") as file:
        file.write(b"rows")
    folder.write("rows/b", b"x")
    assert folder.files("rows") == [("rows/b", 1), ("rows/day=1/a", 4)]
    folder.move("rows/day=1/a", "rows/b")
    assert folder.read("rows/b") == b"rows"
    with folder.open_file("rows/b") as file:
        assert file.read() == b"rows"
    folder.remove("rows/b")
    folder.remove("rows/b")
    assert folder.files("") == []
    with pytest.raises(UsageError, match="none"):
        folder.open_file("rows/none")


def modes_below(folder: Path) -> dict[str, str]:
    """The permissions of all files and folders, by name relative to the folder."""
    return {
        str(path.relative_to(folder)): oct(path.stat().st_mode & 0o777)
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def _no_mask() -> Iterator[None]:
    """Whatever is not asked for is allowed to everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_no_mask")
def test_a_folder_is_made_private_with_all_that_is_in_it(tmp_path: Path) -> None:
    folder = SharedFolder(str(tmp_path))
    folder.make_private("run")
    assert modes_below(tmp_path) == {"run": "0o700"}
    folder.write("run/states/part", b"")
    folder.make_private("run")
    expected = {"run": "0o700", "run/states": "0o700", "run/states/part": "0o600"}
    assert modes_below(tmp_path) == expected
    SharedFolder("s3://bucket/a?region=x").make_private("run")  # set up there


def test_a_folder_that_cannot_be_made_private_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="file") as caught:
        SharedFolder(str(tmp_path / "file")).make_private("run")
    assert len(str(caught.value).splitlines()) == 1
