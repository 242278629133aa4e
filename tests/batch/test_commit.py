from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from kanalyze.batch.commit import RECORD, STAGING, Commit, Commits
from kanalyze.errors import UsageError


class Listed(NamedTuple):
    name: str


class Killed(BaseException):
    pass


class FakeFiles:
    """A folder in memory; the process that changes it is killed before a chosen change."""

    shown = "out"

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.changes_left: int | None = None
        """Changes that still succeed; None is no limit."""

    def read(self, name: str) -> bytes | None:
        return self.contents.get(name)

    def write(self, name: str, data: bytes) -> None:
        self._change()
        self.contents[name] = data

    def files(self, folder: str) -> list[Listed]:
        inside = f"{folder}/" if folder else ""
        return [Listed(name) for name in sorted(self.contents) if name.startswith(inside)]

    def move(self, old: str, new: str) -> None:
        self._change()
        self.contents[new] = self.contents.pop(old)

    def remove(self, name: str) -> None:
        self._change()
        for existing in list(self.contents):
            if existing == name or existing.startswith(f"{name}/"):
                del self.contents[existing]

    def rows(self) -> dict[str, bytes]:
        return {name: data for name, data in self.contents.items() if not name.startswith(".")}

    def _change(self) -> None:
        if self.changes_left is not None:
            if not self.changes_left:
                raise Killed
            self.changes_left -= 1


def staged(files: FakeFiles, run: int, *names: str, removed: list[str] | None = None) -> Commit:
    """Write files as a run would, and return its commit."""
    moved = []
    for name in names:
        files.write(f"{STAGING}/{name}", f"{name} of {run}".encode())
        moved.append((f"{STAGING}/{name}", f"{run}/{name}"))
    return Commit(run, moved, removed or [], {"archive": "x"})


def test_a_commit_moves_staged_files_into_place():
    files = FakeFiles()
    commits = Commits(files)
    assert commits.last is None
    commits.commit(staged(files, 1, "a", "b"))
    assert files.rows() == {"1/a": b"a of 1", "1/b": b"b of 1"}
    assert not files.files(STAGING)
    assert commits.last is not None
    assert commits.last.run == 1
    again = Commits(files)
    assert again.last == commits.last
    assert not again.completed


def test_replaced_files_are_removed():
    files = FakeFiles()
    Commits(files).commit(staged(files, 1, "a", "b"))
    Commits(files).commit(staged(files, 2, "a", removed=["1/a", "1/b"]))
    assert files.rows() == {"2/a": b"a of 2"}


@pytest.mark.parametrize("changes", range(12))
def test_a_run_killed_anywhere_counts_completely_or_not_at_all(changes):
    files = FakeFiles()
    Commits(files).commit(staged(files, 1, "a", "b"))
    files.changes_left = changes
    with pytest.raises(Killed):
        # The changes: removal of staging, 3 files, the record, 3 moves, 2 removals, the mark,
        # removal of staging.
        Commits(files).commit(staged(files, 2, "a", "b", "c", removed=["1/a", "1/b"]))
    files.changes_left = None
    is_recorded = json.loads(files.contents[RECORD])["run"] == 2
    assert is_recorded == (changes > 4)
    again = Commits(files)
    assert again.completed == (4 < changes < 11)
    assert again.last is not None
    assert again.last.run == (2 if is_recorded else 1)
    before = {"1/a": b"a of 1", "1/b": b"b of 1"}
    after = {"2/a": b"a of 2", "2/b": b"b of 2", "2/c": b"c of 2"}
    assert files.rows() == (after if is_recorded else before)
    assert not files.files(STAGING)


def test_a_killed_completion_is_completed_later():
    files = FakeFiles()
    commits = Commits(files)
    commit = staged(files, 1, *"abcdef")
    files.changes_left = 2
    with pytest.raises(Killed):
        commits.commit(commit)
    for _ in range(5):
        files.changes_left = 1
        with pytest.raises(Killed):
            Commits(files)
    files.changes_left = None
    assert Commits(files).completed
    assert sorted(files.rows()) == [f"1/{name}" for name in "abcdef"]


def test_a_missing_staged_file_is_an_error():
    files = FakeFiles()
    commits = Commits(files)
    commit = staged(files, 1, "a", "b")
    files.changes_left = 2
    with pytest.raises(Killed):
        commits.commit(commit)
    files.changes_left = None
    del files.contents[f"{STAGING}/b"]
    with pytest.raises(UsageError, match=r"^out: .*/b of an interrupted run is gone$"):
        Commits(files)


def test_the_second_of_two_concurrent_runs_is_refused():
    files = FakeFiles()
    first, second = Commits(files), Commits(files)
    first.commit(staged(files, 1, "a"))
    with pytest.raises(UsageError, match="another run has written to it meanwhile"):
        second.commit(staged(files, 1, "b"))
    assert files.rows() == {"1/a": b"a of 1"}


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"[]",
        b'{"format": 1}',
        b'{"format": 1, "run": 1, "is_done": true, "moved": [["a"]], "removed": [], "about": {}}',
        b'{"format": 1, "run": 1, "is_done": true, "moved": [], "removed": ["../x"], "about": {}}',
        b'{"format": 1, "run": 1, "is_done": true, "moved": [], "removed": ["/x"], "about": {}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_record_is_an_error(record):
    files = FakeFiles()
    files.contents[RECORD] = record
    with pytest.raises(UsageError, match=r"^out: .*commit.json is damaged$"):
        Commits(files)


def test_a_record_of_another_format_is_an_error():
    files = FakeFiles()
    files.contents[RECORD] = b'{"format": 2}'
    with pytest.raises(UsageError, match="another version of kanalyze wrote it"):
        Commits(files)
