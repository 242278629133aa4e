"""Lists numbered files in a folder, and removes the oldest ones.

In: a folder and a pattern of names. Out: paths of files. Files whose names do not match the pattern
are not touched.
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
    """Return the numbers and paths of the regular files whose names match, sorted by number.

    The number is group ``number`` of the pattern. Raises OSError.
    """
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            match = name.fullmatch(entry.name)
            if match and entry.is_file(follow_symlinks=False):
                files.append((int(match["number"]), folder / entry.name))
    return sorted(files)


def remove_oldest(folder: Path, name: re.Pattern[str], keep: int) -> None:
    """Remove the files that match, except the ``keep`` highest numbers; raises OSError."""
    files = numbered_files(folder, name)
    for _, path in files[: max(len(files) - keep, 0)]:
        # Another program may remove files too.
        with suppress(FileNotFoundError):
            path.unlink()


def sync_file(path: Path) -> None:
    """Flush a file to the disk; raises OSError."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk; raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
