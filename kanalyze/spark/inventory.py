"""Which files there are to be read, and which of them are new.

In: paths, folders, globs, URLs, and what was read before. Out: files with their sizes and times.
Must not know: what is in captures, nor who reads them.

A folder may hold anything. Of what has a capture's name nobody looks inside here, however many
there are: who reads it tells what is none. What has another name is looked at.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyarrow import ArrowException
from pyarrow.fs import FileSystem, FileType

from kanalyze.capture.inputs import (
    FoundCapture,
    can_be_read_twice,
    has_capture_name,
    look_at,
    may_be_a_capture,
    named_files,
)
from kanalyze.capture.source import STDIN, capture_name
from kanalyze.capture.stores import Stores
from kanalyze.capture.urls import is_url, shown_url
from kanalyze.errors import CaptureError
from kanalyze.named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["InputFile", "Selection", "find_files", "select"]

_HADOOP_S3: Final = re.compile(r"^s3[an]://")


class InputFile(NamedTuple):
    """A file to be read."""

    path: str
    """As it was named; a URL may hold credentials."""
    total_bytes: int | None
    """None where there is no telling, as below."""
    modified_ns: int | None
    """Unix time in ns."""

    @property
    def capture(self) -> FoundCapture:
        """What is to be read."""
        return FoundCapture(self.path, total_bytes=self.total_bytes)

    @property
    def identity(self) -> str:
        """Tells it from others, however it is named; without credentials."""
        return shown_url(self.path) if is_url(self.path) else os.path.realpath(self.path)


class Selection(NamedTuple):
    """What is to be done with each file that is there."""

    new: list[InputFile]
    """To be read."""
    changed: list[InputFile]
    """Were read, and have another size now."""
    unsettled: list[InputFile]
    """Somebody may still be writing them."""


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
        files = list(_named(argument, stores))
        if not files and not may_be_none:
            raise CaptureError(f"{capture_name(argument)}: no capture there")
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
    """Tell what is new.

    Args:
        files: those that are there.
        read: the sizes of those that were read before, by identity.
        now_ns: Unix time.
        settle_ns: how long nobody must have written to a file that is to be read.
    """
    selection = Selection([], [], [])
    for file in files:
        if file.identity in read:
            if read[file.identity] != file.total_bytes:
                selection.changed.append(file)
        elif file.modified_ns is not None and now_ns - file.modified_ns < settle_ns:
            selection.unsettled.append(file)
        else:
            selection.new.append(file)
    return selection


def _named(argument: str, stores: Stores) -> Iterator[InputFile]:
    if argument == STDIN:
        raise CaptureError("standard input: cannot be read by several tasks")
    named = named_files(argument, stores)
    for path in named.paths:
        if not named.is_folder:
            yield _input_file(path)
        elif _is_read(path, stores):
            yield _in_folder(path)


def _is_read(path: str, stores: Stores) -> bool:
    """Tell whether a file in a folder is to be read: tasks tell of those that cannot be."""
    if has_capture_name(path):
        return True
    try:
        look_at(FoundCapture(path), stores)
    except CaptureError as error:
        return may_be_a_capture(path, error)
    return True


def _in_folder(path: str) -> InputFile:
    """Return a file that nobody named: where it is not there, as behind a link, tasks tell."""
    try:
        return _input_file(path)
    except CaptureError:
        return InputFile(path, None, None)


def _input_file(path: str) -> InputFile:
    if is_url(path):
        return InputFile(path, *_stored(path))
    if not can_be_read_twice(path):
        raise CaptureError(f"{path}: can be read only once")
    try:
        status = Path(path).stat()
    except OSError as error:
        raise CaptureError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return InputFile(path, status.st_size, status.st_mtime_ns)


def _stored(url: str) -> tuple[int | None, int | None]:
    """Return the size and the time of a file in a store, as far as it tells them."""
    try:
        system, inside = FileSystem.from_uri(_HADOOP_S3.sub("s3://", url))
        info = system.get_file_info(inside)
    except (ArrowException, OSError, ValueError):
        return None, None
    if info.type == FileType.NotFound:
        raise CaptureError(f"{capture_name(url)}: no such file")
    return info.size, info.mtime_ns
