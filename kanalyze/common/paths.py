"""What is asked of files by their names, without pathlib: that takes 3 ms to import.

In: paths. Out: what the system knows of them. This module must not know what is in a file.
"""

from __future__ import annotations

import io
import os
import stat

__all__ = [
    "beside",
    "ending",
    "exists",
    "identity_of",
    "is_file",
    "is_folder",
    "is_hidden",
    "opened",
    "regular_bytes",
    "stat_of",
]


def stat_of(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return what the system knows of a file; None where there is none, or no telling."""
    try:
        return os.stat(path)
    except (OSError, ValueError):  # ValueError: a null byte in the path
        return None


def identity_of(status: os.stat_result) -> tuple[int, int] | None:
    """Return device and inode of a file; None if writing to it loses nothing, as to a device."""
    can_be_lost = stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)
    return (status.st_dev, status.st_ino) if can_be_lost else None


def exists(path: str | os.PathLike[str]) -> bool:
    """Tell whether there is anything of that name; links are followed."""
    return os.path.exists(path)


def is_file(path: str | os.PathLike[str]) -> bool:
    """Tell whether it is a regular file."""
    return os.path.isfile(path)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Tell whether it is a folder."""
    return os.path.isdir(path)


def is_hidden(name: str) -> bool:
    """Tell whether folders and globs pass over a name without folders."""
    return name.startswith(".")


def regular_bytes(path: str | os.PathLike[str]) -> int | None:
    """Return the size of a regular file; None for all else."""
    found = stat_of(path)
    return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None


def ending(path: str) -> str:
    """Return how a name ends, in lower case: the last dot and what follows; empty without one."""
    found = os.path.splitext(path.rstrip("/"))[1].lower()
    return "" if found == "." else found


def opened(path: str | os.PathLike[str]) -> io.FileIO:
    """Open a file to be read, unbuffered; raises OSError, and ValueError for a null byte."""
    return io.FileIO(path, "rb")


def beside(module_file: str, *names: str) -> str:
    """Return the path of a file in a module's folder, or in a folder of that."""
    return os.path.join(os.path.dirname(module_file), *names)
