"""Commits the files of a run atomically, with a redo log of one record.

In: files in a staging folder, and their final names. Out: the files in their places.

A run writes to :data:`STAGING`, which nobody reads. When all files are there, it writes a record:
which files get which names, and which files are removed. With the record the run is committed.
Then files are moved, and the record is marked as done. The next run completes a record that is not
marked (files already moved are no longer in staging), or else removes what is in staging. Between
the record and its mark a reader may see files of both runs.

If two runs begin from the same record, the second commit is refused.

Runs share the staging folder, so a second one would remove the files of the first. A folder on this
machine is locked by the operating system, which releases the lock when the process ends, even if it
is killed. A store behind a URL has no locks: users must not start two runs at the same time.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kanalyze.capture.inputs import has_capture_name
from kanalyze.capture.io.stores import Stores, is_url
from kanalyze.errors import UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.batch.shared_folder import SharedFolder

STAGING: Final = ".kanalyze/staging"
"""The folder that a run writes to; readers of tables skip names that begin with a dot."""
RECORD: Final = ".kanalyze/commit.json"
_FORMAT: Final = 1
_LOCK: Final = ".kanalyze/lock"


@dataclass(frozen=True)
class Commit:
    """The record of a run."""

    run: int
    """1 for the first one."""
    moved: list[tuple[str, str]] = field(default_factory=list)
    """Files in staging, and the name that each gets; in this order."""
    removed: list[str] = field(default_factory=list)
    """Files of earlier runs, removed after that."""
    about: dict[str, Any] = field(default_factory=dict)
    """Values for the next run, as JSON values."""


class Commits:
    """The commits to a folder. Only the record of the last one is kept."""

    def __init__(self, files: SharedFolder) -> None:
        """Complete the last run if it was interrupted, and empty the staging folder.

        Raises:
            UsageError: the folder cannot be read or written, the record is damaged, or a file of
                the interrupted run is missing.
        """
        self._files = files
        self.completed = False
        """Whether an interrupted run was completed."""
        self.last, is_done = self._read()
        """The last commit; None if there was no run."""
        if self.last is not None and not is_done:
            self._complete(self.last)
            self.completed = True
        else:
            files.remove(STAGING)

    def commit(self, commit: Commit) -> None:
        """Commit a run, and move its files to their places.

        Raises:
            UsageError: see the constructor; or another run committed meanwhile.
        """
        staged = {file.name for file in self._files.files(STAGING)}
        is_complete = all(old in staged for old, _ in commit.moved)
        if self._read()[0] != self.last or not is_complete:
            raise UsageError(f"{self._files.shown}: another run has written to it meanwhile")
        self._write(commit, is_done=False)
        self.last = commit
        self._complete(commit)

    def discard(self) -> None:
        """Remove the staged files, after a failure before :meth:`commit`."""
        self._files.remove(STAGING)

    def _complete(self, commit: Commit) -> None:
        staged = {file.name for file in self._files.files(STAGING)}
        existing: set[str] | None = None
        for old, new in commit.moved:
            if old in staged:
                self._files.move(old, new)
                continue
            if existing is None:
                existing = {file.name for file in self._files.files("")}
            if new not in existing:
                raise UsageError(f"{self._files.shown}: {old} of an interrupted run is gone")
        for name in commit.removed:
            self._files.remove(name)
        self._write(commit, is_done=True)
        self._files.remove(STAGING)

    def _write(self, commit: Commit, *, is_done: bool) -> None:
        record = {
            "format": _FORMAT,
            "run": commit.run,
            "is_done": is_done,
            "moved": commit.moved,
            "removed": commit.removed,
            "about": commit.about,
        }
        self._files.write(RECORD, json.dumps(record).encode("ascii"))

    def _read(self) -> tuple[Commit | None, bool]:
        data = self._files.read(RECORD)
        if data is None:
            return None, True
        try:
            record = json.loads(data)
            if record["format"] != _FORMAT:
                raise UsageError(f"{self._files.shown}: another version of kanalyze wrote it")
            moved = [(str(old), str(new)) for old, new in record["moved"]]
            removed = [str(name) for name in record["removed"]]
            _check_names([*removed, *(name for names in moved for name in names)])
            commit = Commit(int(record["run"]), moved, removed, dict(record["about"]))
            return commit, record["is_done"] is True
        except (ValueError, TypeError, LookupError, RecursionError):
            raise UsageError(f"{self._files.shown}: {RECORD} is damaged") from None


def _check_names(names: Iterable[str]) -> None:
    """Raise ValueError for a name that is not below the folder."""
    for name in names:
        if not name or name.startswith("/") or ".." in name.split("/"):
            raise ValueError(name)


def archive_among(inputs: Sequence[str]) -> str | None:
    """Return the archive that is named, the output of ``kanalyze batch``; None if none is.

    Raises:
        UsageError: something else is named besides.
        CaptureError: a URL cannot be read.
    """
    archives = [text for text in inputs if _is_archive(text)]
    if archives and len(inputs) > 1:
        raise UsageError(f"{archives[0]}: is what kanalyze batch wrote: query it alone")
    return archives[0] if archives else None


def _is_archive(text: str) -> bool:
    if not is_url(text):
        return (Path(text) / RECORD).is_file()
    if has_capture_name(text) or "*" in text:
        return False
    return Stores().about(f"{text.rstrip('/')}/{RECORD}") is not None


@contextmanager
def only_run(out: SharedFolder) -> Iterator[None]:
    """Lock a folder while the ``with`` block runs.

    Folders that were created for the lock are removed afterwards if they are empty.

    Raises:
        UsageError: another run has locked it, or it cannot be written.
    """
    if is_url(out.location):
        yield
        return
    path = Path(out.location) / _LOCK
    created = [folder for folder in (path.parent, *path.parents[1:]) if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(f"{out.shown}: {reason_of(error)}") from None
    try:
        _lock(lock, path, out.shown)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(lock)
        for folder in created:
            _remove_if_empty(folder)


def _lock(lock: int, path: Path, shown: str) -> None:
    """Lock an open file; raise UsageError if another run has locked it, or just removed it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_same_file = os.fstat(lock).st_ino == path.stat().st_ino
    except (BlockingIOError, FileNotFoundError):
        is_same_file = False
    if not is_same_file:
        raise UsageError(f"{shown}: another run is writing to it")


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # a run has written to it
