"""Files of a series in one folder: named by a rising number, the oldest of them removed.

In: a folder and what names look like. Out: names, and fewer files. This module must not know what
is in them. No file is touched whose name is not one of the series.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from pathlib import Path

__all__ = ["numbered_files", "remove_oldest", "sync_file", "sync_folder"]


def numbered_files(folder: Path, name: re.Pattern[str]) -> list[tuple[int, Path]]:
    """Return the regular files whose whole name fits, with their number, by rising number.

    The number is group ``number`` of the pattern. Raises OSError.
    """
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            fits = name.fullmatch(entry.name)
            if fits and entry.is_file(follow_symlinks=False):
                found.append((int(fits["number"]), folder / entry.name))
    return sorted(found)


def remove_oldest(folder: Path, name: re.Pattern[str], keep: int) -> None:
    """Remove all files of a series but the ``keep`` with the highest numbers; raises OSError."""
    files = numbered_files(folder, name)
    for _, path in files[: max(len(files) - keep, 0)]:
        # Somebody else may clean up, too.
        with suppress(FileNotFoundError):
            path.unlink()


def sync_file(path: Path) -> None:
    """Wait until what a file holds is on the disk; raises OSError."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk; raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
