"""Lists the files of a batch, and selects those that are new.

In: paths, folders, globs, URLs, and what was read before. Out: files with their sizes and times.
Must not know: what is in captures, nor who reads them.

A folder may contain anything. A file with the name of a capture is not opened here, as there may be
many: the task that reads it reports if it is none. Other files are opened.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kanalyze.capture.inputs import look_in_folder
from kanalyze.capture.io.stores import Stores
from kanalyze.capture.listing import (
    InputFile,
    MissingFileError,
    file_of,
    has_capture_name,
    is_settled,
    named_files,
    nothing_named,
)
from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.capture.listing import NamedFiles

__all__ = ["InputFile", "Selection", "find_files", "select"]


class Selection(NamedTuple):
    """The files that exist, by what to do with them."""

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
        CaptureError: a file is missing, an argument names nothing, or something that tasks cannot
            read: standard input, a pipe.
    """
    stores = Stores()
    found: dict[str, InputFile] = {}
    for argument in arguments:
        named = named_files(argument, stores)
        files = list(_files(named, stores))
        if not files and not may_be_none:
            raise nothing_named(argument, named)
        for file in files:
            found.setdefault(file.identity, file)
    return sorted(found.values(), key=_in_order)


def _in_order(file: InputFile) -> tuple[list[tuple[int, str]], str]:
    """Sort by name, numbers in it by their values: those that follow one another are neighbours."""
    parts = re.split(r"([0-9]+)", file.path)
    # Every other one is a number.
    return [(int(p), "") if at % 2 else (-1, p) for at, p in enumerate(parts)], file.path


def select(
    files: Iterable[InputFile], read: Mapping[str, int | None], *, now_ns: int, settle_ns: int
) -> Selection:
    """Divide files by what to do with them.

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
        # Tasks report those that cannot be read.
        elif has_capture_name(path) or look_in_folder(path, stores) is not None:
            yield _in_folder(path, stores)


def _in_folder(path: str, stores: Stores) -> InputFile:
    """Return a file of a folder; if it does not exist, as behind a link, tasks report it."""
    try:
        return file_of(path, stores)
    except MissingFileError:
        return InputFile(path, None, None)
