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
    status = paths.stat_of(output)
    output_identity = None if status is None else paths.identity_of(status)
    if output_identity is None:
        return
    for capture_status in _statuses(captures):
        if paths.identity_of(capture_status) == output_identity:
            raise UsageError(f"{os.fspath(output)}: is also an input: use another output file")


def _statuses(captures: Iterable[_Input]) -> Iterator[os.stat_result]:
    """Yield the status of each file of captures, which are paths, folders, globs or open files."""
    from kanalyze.capture.listing import local_files  # imported late: slow

    for capture in captures:
        # A folder that cannot be listed is reported when it is read. An open file in memory has no
        # descriptor.
        with suppress(OSError):
            if not isinstance(capture, str | os.PathLike):
                yield os.fstat(capture.fileno())
                continue
            for name in local_files(capture):
                status = paths.stat_of(name)
                if status is not None:
                    yield status
