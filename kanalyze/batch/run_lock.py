"""Prevents two runs over the same archive on this machine.

In: the folder of an archive. Out: nothing, or an error.

Runs share one staging folder, so a second one would remove the files of the first. A folder on this
machine is locked by the operating system, which releases the lock when the process ends, even if it
is killed. A store behind a URL has no locks: users must not start two runs at the same time.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.errors import UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.batch.commit import Folder

__all__ = ["only_run"]

_LOCK: Final = ".kanalyze/lock"
_LOCAL: Final = "file:"


@contextmanager
def only_run(out: Folder) -> Iterator[None]:
    """Lock a folder while the ``with`` block runs.

    Folders that were created for the lock are removed afterwards if they are empty.

    Raises:
        UsageError: another run has locked it, or it cannot be written.
    """
    if not out.url.startswith(f"{_LOCAL}/") or out.url.startswith(f"{_LOCAL}//"):
        yield
        return
    path = Path(out.url.removeprefix(_LOCAL)) / _LOCK
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
