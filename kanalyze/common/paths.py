"""Questions about files, without pathlib, which takes 3 ms to import.

In: paths. Out: what the file system says of them.
"""

from __future__ import annotations

import io
import os
import stat
from typing import TypeAlias

__all__ = [
    "FileIdentity",
    "beside",
    "ending",
    "exists",
    "file_identity",
    "identity_of",
    "is_file",
    "is_folder",
    "is_hidden",
    "opened",
    "regular_bytes",
    "stat_of",
]


FileIdentity: TypeAlias = tuple[int, int]
"""Device and inode of a file."""


def stat_of(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of a file; None if it does not exist or the system refuses to tell."""
    try:
        return os.stat(path)
    except (OSError, ValueError):  # ValueError: a null byte in the path
        return None


def identity_of(status: os.stat_result) -> FileIdentity | None:
    """Return device and inode of a regular file or a named pipe.

    None for anything else, such as a device: writing to it destroys no data.
    """
    has_data = stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)
    return (status.st_dev, status.st_ino) if has_data else None


def file_identity(path: str | os.PathLike[str]) -> FileIdentity | None:
    """Return :func:`identity_of` of a path; None if it does not exist."""
    status = stat_of(path)
    return None if status is None else identity_of(status)


def exists(path: str | os.PathLike[str]) -> bool:
    """Return true if a path exists; links are followed."""
    return os.path.exists(path)


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return true if a path is a regular file."""
    return os.path.isfile(path)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return true if a path is a folder."""
    return os.path.isdir(path)


def is_hidden(name: str) -> bool:
    """Return true if folder listings and globs leave a file name out: it begins with a dot."""
    return name.startswith(".")


def regular_bytes(path: str | os.PathLike[str]) -> int | None:
    """Return the size of a regular file; None for anything else."""
    status = stat_of(path)
    return status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None


def ending(path: str) -> str:
    """Return the extension of a name in lower case, with its dot; empty without one."""
    extension = os.path.splitext(path.rstrip("/"))[1].lower()
    return "" if extension == "." else extension


def opened(path: str | os.PathLike[str]) -> io.FileIO:
    """Open a file to be read, unbuffered; raises OSError, and ValueError for a null byte."""
    return io.FileIO(path, "rb")


def beside(module_file: str, *names: str) -> str:
    """Return the path of a file in a module's folder, or in a folder below it."""
    return os.path.join(os.path.dirname(module_file), *names)
