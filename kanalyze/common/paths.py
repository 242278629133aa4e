"""Questions about files, without pathlib, which takes 3 ms to import.

In: paths. Out: what the file system says of them, and whether they are saved files (told from
captures by their first bytes).
"""

from __future__ import annotations

import io
import os
import stat
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

FileIdentity: TypeAlias = tuple[int, int]
"""Device and inode of a file."""

MAGIC_BYTES = 12
_MAGIC_AT, _MAGIC = 8, b"DUCK"


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


def is_database(beginning: bytes) -> bool:
    """Return true if a file with this beginning is a DuckDB database, which a saved file is."""
    return beginning[_MAGIC_AT:MAGIC_BYTES] == _MAGIC


def saved_files(inputs: Sequence[object]) -> list[str]:
    """Return the saved files among the inputs, each once; empty if all are captures.

    Raises:
        UsageError: there are saved files and captures.
    """
    files = [file for file in inputs if isinstance(file, str | os.PathLike) and _is_saved(file)]
    if not files:
        return []
    if len(files) < len(inputs):
        other = next(file for file in inputs if file not in files)
        raise UsageError(
            f"{os.fspath(files[0])}: is a saved file, which is not read together with a capture "
            f"({other}): save that too"
        )
    name_of_path: dict[str, str] = {}
    for file in files:
        name_of_path.setdefault(os.path.realpath(file), os.fspath(file))
    return list(name_of_path.values())


def _is_saved(path: str | os.PathLike[str]) -> bool:
    if regular_bytes(path) is None:
        return False
    try:
        with opened(path) as file:
            return is_database(file.read(MAGIC_BYTES))
    except OSError:
        return False  # the reader of captures opens it again and reports why it cannot
