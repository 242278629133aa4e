"""Refuses an output that is an input.

In: the path of an output, and captures. Out: what captures must not be read from folders, or a
UsageError. Nothing is opened: files are compared by device and inode, so links are followed.
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

    from kanalyze.common.paths import FileIdentity

    _Input: TypeAlias = str | os.PathLike[str] | BinaryIO

__all__ = ["check_output"]


def check_output(
    output: str | os.PathLike[str], captures: Iterable[_Input]
) -> frozenset[FileIdentity]:
    """Raise UsageError if a file that is to be written is one of the captures, by any name.

    A file that a folder or a glob names is left out of the captures instead. Return the identity of
    the output, as :class:`~kanalyze.runtime.pipeline.Analysis` takes it; nothing if it is new.
    """
    output_identity = paths.file_identity(output)
    if output_identity is None:
        return frozenset()
    for capture_status in _statuses(captures):
        if paths.identity_of(capture_status) == output_identity:
            raise UsageError(f"{os.fspath(output)}: is also an input: use another output file")
    return frozenset({output_identity})


def _statuses(captures: Iterable[_Input]) -> Iterator[os.stat_result]:
    """Yield the status of each file that captures name themselves, and of open files."""
    from kanalyze.capture.listing import local_files  # imported late: slow

    for capture in captures:
        # A folder that cannot be listed is reported when it is read. An open file in memory has no
        # descriptor.
        with suppress(OSError):
            if not isinstance(capture, str | os.PathLike):
                yield os.fstat(capture.fileno())
                continue
            named = local_files(capture)
            status = paths.stat_of(named.paths[0]) if named.is_explicit else None
            if status is not None:
                yield status
