"""A folder for files that go when a process ends, even if it was killed.

In: nothing. Out: a folder. This module must not know what is put there.

A process that is killed cannot remove anything. So a folder holds a file that is locked as long as
its process lives, and whoever makes a folder removes those beside it that no process holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["ScratchFolder"]

_PREFIX = "kanalyze-tables-"
_LOCK = "lock"


class ScratchFolder:
    """An empty folder among the temporary files."""

    def __init__(self) -> None:
        """Make one, and remove those that dead processes left."""
        _remove_abandoned()
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        self.path = Path(self._folder.name)
        self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it with all that is in it; a second time changes nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            self._folder.cleanup()


def _remove_abandoned() -> None:
    """Remove the folders of processes that are no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # Of another user, or removed meanwhile by another process.
        with suppress(OSError):
            if _is_abandoned(folder):
                shutil.rmtree(folder)


def _is_abandoned(folder: Path) -> bool:
    """Return whether nobody holds the lock of a folder; raises OSError if it cannot be told.

    A folder without a lock is one that is being made.
    """
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
