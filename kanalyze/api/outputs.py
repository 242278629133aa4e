"""Refuses an output that is an input.

In: the path of an output, and captures. Out: nothing, or a UsageError. This module must not open
anything: it compares files by device and inode, so links are followed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from kanalyze.common import paths
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO, TypeAlias

    _Input: TypeAlias = str | os.PathLike[str] | BinaryIO

__all__ = ["check_output"]


def check_output(output: str | os.PathLike[str], captures: Iterable[_Input]) -> None:
    """Raise UsageError if a file that is to be written is one of the captures, by any name."""
    there = paths.stat_of(output)
    written = None if there is None else paths.identity_of(there)
    if written is None:
        return
    for found in _files(captures):
        if paths.identity_of(found) == written:
            raise UsageError(f"{os.fspath(output)}: is also an input: use another output file")


def _files(captures: Iterable[_Input]) -> Iterator[os.stat_result]:
    """Yield what the system knows of the files in captures: names, folders, globs, open files."""
    from kanalyze.capture.listing import local_files  # imported late: slow

    for capture in captures:
        # A folder that cannot be listed is reported when it is read; not every file has a number.
        with suppress(OSError):
            if not isinstance(capture, str | os.PathLike):
                yield os.fstat(capture.fileno())
                continue
            for name in local_files(capture):
                status = paths.stat_of(name)
                if status is not None:
                    yield status
