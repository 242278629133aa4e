"""Lists the files of a batch, and selects those that are new.

In: paths, folders, globs, URLs, and what was read before. Out: files with their sizes and times.

A folder may contain any files. A file with the name of a capture is not opened here, as there may
be many: the task that reads it reports a file that is no capture. Other files are opened.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kanalyze.capture.inputs import (
    InputFile,
    MissingFileError,
    file_of,
    has_capture_name,
    is_settled,
    look_in_folder,
    named_files,
    nothing_named,
)
from kanalyze.capture.io.stores import Stores
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.capture.inputs import NamedFiles

__all__ = ["InputFile", "Selection", "find_files", "select"]


class Selection(NamedTuple):
    """The files that exist, divided by what a run does with them."""

    new: list[InputFile]
    """Files to read."""
    changed: list[InputFile]
    """Files that were read and have another size now."""
    unsettled: list[InputFile]
    """Files that may still be written."""


def find_files(arguments: Sequence[str], *, may_be_none: bool) -> list[InputFile]:
    """Return the files that arguments name, each once, sorted by name (2 before 10).

    Args:
        arguments: files, folders, globs, URLs of any of these.
        may_be_none: a folder or a glob may have no capture (yet).

    Raises:
        CaptureError: a file is missing, an argument names no file, or it names something that tasks
            cannot read: standard input or a pipe.
    """
    stores = Stores()
    by_identity: dict[str, InputFile] = {}
    for argument in arguments:
        named = named_files(argument, stores)
        files = list(_files(named, stores))
        if not files and not may_be_none:
            raise nothing_named(argument, named)
        for file in files:
            by_identity.setdefault(file.identity, file)
    return sorted(by_identity.values(), key=_sort_key)


def _sort_key(file: InputFile) -> tuple[list[tuple[int, str]], str]:
    """Return a sort key by name, with the numbers in names sorted by value (2 before 10)."""
    parts = re.split(r"([0-9]+)", file.path)
    # Every second part is a number.
    key = [(int(part), "") if index % 2 else (-1, part) for index, part in enumerate(parts)]
    return key, file.path


def select(
    files: Iterable[InputFile], read: Mapping[str, int | None], *, now_ns: int, settle_ns: int
) -> Selection:
    """Divide files by what a run does with them.

    Args:
        files: the files that exist.
        read: the sizes of those that were read before, by identity.
        now_ns: present Unix time in ns.
        settle_ns: a file is read if it was not written to for this time.
    """
    selection = Selection([], [], [])
    for file in files:
        if file.identity in read:
            if read[file.identity] != file.total_bytes:
                selection.changed.append(file)
        elif not is_settled(file, now_ns=now_ns, settle_ns=settle_ns):
            selection.unsettled.append(file)
        else:
            selection.new.append(file)
    return selection


def _files(named: NamedFiles, stores: Stores) -> Iterator[InputFile]:
    for path in named.paths:
        if not named.is_folder:
            yield file_of(path, stores)
        # Tasks report files that cannot be read.
        elif has_capture_name(path) or look_in_folder(path, stores) is not None:
            yield _file_in_folder(path, stores)


def _file_in_folder(path: str, stores: Stores) -> InputFile:
    """Return a file in a folder; if a link has no target, tasks report that."""
    try:
        return file_of(path, stores)
    except MissingFileError:
        return InputFile(path, None, None)
