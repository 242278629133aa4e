"""A folder for temporary files that is removed even if the process is killed.

In: nothing. Out: a folder.

A process that is killed cannot remove anything. So each folder has a file that its process locks
while it runs, and a process that makes a folder removes the other folders whose lock is free. The
file gets its name after it is locked: otherwise another process could find it unlocked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from kanalyze.common import unfinished

__all__ = ["ScratchFolder"]

_PREFIX = "kanalyze-tables-"
_LOCK = "lock"


class ScratchFolder:
    """An empty folder in the system's folder for temporary files."""

    def __init__(self) -> None:
        """Make a folder, and remove those of dead processes."""
        _remove_abandoned()
        self.path = Path(tempfile.gettempdir()).absolute() / f"{_PREFIX}{os.urandom(8).hex()}"
        # Not by tempfile, which tells the name when the folder is already there.
        unfinished.begin(self.path)
        self.path.mkdir(mode=0o700)
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        unnamed = self.path / f"{_LOCK}.new"
        self._lock = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder with its files; a second call does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            self._finalizer()
            unfinished.end(self.path)


def _remove_abandoned() -> None:
    """Remove the folders of processes that no longer run."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # The folder may belong to another user, or another process may have removed it.
        with suppress(OSError):
            if _is_abandoned(folder):
                shutil.rmtree(folder)


def _is_abandoned(folder: Path) -> bool:
    """Return true if the lock of a folder is free; raises OSError if that cannot be checked.

    A folder without a lock file is just being made by another process.
    """
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
