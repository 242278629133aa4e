"""Which files an argument names, with their sizes and times. Nothing is opened here.

In: paths, folders, globs, URLs of any of these. Out: files, with their sizes and times.

The rules are the same for one process, for a batch and for a stream on Spark:

- A folder stands for the files and links directly in it. A broken link is listed, so that it is
  reported. Pipes, devices and folders in it are skipped.
- A name that begins with a dot is hidden: folders and globs skip it, as in a shell. Programs that
  copy files use such names until the copy is complete. A hidden file that is named itself is read.
- A file that is named several times, or by links, is one file.
- Standard input and pipes can be read once, by one process: they are an error for several tasks.
- A file that changed recently may not be complete. A file without a known time, as in some stores,
  counts as complete.
- A missing file is an error for one process and a batch. A stream waits for it.
- A file that cannot be read is left out, unless it is the only one that is named.
- A file in a folder, or that fits a glob, is left out if the command writes it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from kanalyze.capture.io.source import STDIN, capture_name
from kanalyze.capture.io.stores import is_url, local_path, shown_url, split_url
from kanalyze.common import paths
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError, reason_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from kanalyze.capture.io.source import PathLike
    from kanalyze.capture.io.stores import Stores
    from kanalyze.common.paths import FileIdentity

__all__ = [
    "FoundCapture",
    "InputFile",
    "MissingFileError",
    "NamedFiles",
    "can_be_read_twice",
    "check_many_may_read",
    "file_of",
    "has_capture_name",
    "has_compressed_name",
    "is_one_of",
    "is_settled",
    "local_files",
    "named_files",
    "nothing_named",
    "same_file",
]

_COMPRESSED: Final = r"\.(gz|bz2|xz|zst|lz4)"
_CAPTURE_NAME: Final = re.compile(
    rf"\.(pcap|pcapng|cap|ntar|dmp)\d*(\.\d+)?({_COMPRESSED})*$", re.IGNORECASE
)
"""A number may follow, as ``tcpdump -C`` and log rotation write it."""

_COMPRESSED_NAME: Final = re.compile(rf"{_COMPRESSED}$", re.IGNORECASE)

_MAGIC: Final = re.compile(r"[*?[]")
"""Characters that make a name a pattern, as for :mod:`glob`."""


class MissingFileError(CaptureError):
    """A file is not there."""


class FoundCapture(NamedTuple):
    """A capture that an argument names."""

    path: str
    """For :func:`~kanalyze.capture.reader.open_capture`; a URL may hold credentials."""
    looked_at: bool = False
    """Whether it was opened, so that the fields below are known."""
    first_time_ns: int | None = None
    """Unix time in ns of its first packet; None without a packet."""
    total_bytes: int | None = None
    """Its size; None if not known."""
    most_packets: int | None = None
    """Most packets to read of it; None for all. A capture may grow between two passes."""


class InputFile(NamedTuple):
    """A file to be read."""

    path: str
    """As it was named; a URL may hold credentials."""
    total_bytes: int | None
    """None if not known."""
    modified_ns: int | None
    """Unix time in ns; None if not known."""

    @property
    def capture(self) -> FoundCapture:
        """The file as a capture to be read."""
        return FoundCapture(self.path, total_bytes=self.total_bytes)

    @property
    def identity(self) -> str:
        """The same for all names of one file; without credentials."""
        is_remote = local_path(self.path) is None
        return shown_url(self.path) if is_remote else same_file(self.path)


class NamedFiles(NamedTuple):
    """The files that an argument stands for."""

    paths: list[str]
    is_folder: bool
    """Whether the argument is a folder, whose files need not be captures."""
    is_explicit: bool = False
    """Whether the argument is the name of the file, and no folder and no pattern."""

    def without(self, outputs: Collection[FileIdentity]) -> NamedFiles:
        """Return the files without those that are written, unless the argument is their name."""
        if self.is_explicit or not outputs:
            return self
        return self._replace(paths=[path for path in self.paths if not is_one_of(path, outputs)])


def named_files(argument: PathLike, stores: Stores) -> NamedFiles:
    """Return the files of an argument: a file, a folder, a glob, a URL of any of these.

    A named file need not exist; a folder or a glob may stand for no file.

    Raises :class:`CaptureError` if a folder cannot be listed, or a store cannot be reached.
    """
    text = os.fspath(argument)
    if is_url(text):
        found, is_folder = stores.expand(text)
        return NamedFiles(found, is_folder, is_explicit=not is_folder and found == [text])
    try:
        return _local(text)
    except OSError as error:
        raise CaptureError(f"{text}: {reason_of(error).lower()}") from error


def nothing_named(argument: PathLike, named: NamedFiles) -> CaptureError:
    """Return the error for a folder or a glob without a capture."""
    what = "no capture in this folder" if named.is_folder else "no file has such a name"
    return CaptureError(f"{capture_name(argument)}: {what}")


def local_files(argument: PathLike) -> NamedFiles:
    """Return the files of this machine that an argument names, with any content.

    Folders and globs stand for all files in them. For a URL other than ``file://`` there are none.
    Raises OSError if a folder cannot be listed.
    """
    text = os.fspath(argument)
    if is_url(text):
        parts = split_url(text)
        if parts.scheme.lower() != "file":
            return NamedFiles([], is_folder=False)
        from urllib.parse import unquote  # not for paths

        text = unquote(parts.path)
    return _local(text)


def is_one_of(path: str, files: Collection[FileIdentity]) -> bool:
    """Return true if a path, or a ``file://`` URL, is one of some files of this machine."""
    local = local_path(path)
    return local is not None and paths.file_identity(local) in files


def has_compressed_name(path: str) -> bool:
    """Return true if a name has the extension of a compressed file; nothing is opened."""
    return _COMPRESSED_NAME.search(path) is not None


def file_of(path: str, stores: Stores) -> InputFile:
    """Return the properties of a file that several tasks will read.

    Raises:
        MissingFileError: it is not there.
        CaptureError: it can be read only once.
    """
    if is_url(path):
        try:
            facts = stores.about(path)
        except CaptureError:
            # It may be readable nevertheless; opening it will show.
            return InputFile(path, None, None)
        if facts is None:
            raise MissingFileError(f"{capture_name(path)}: no such file")
        return InputFile(path, facts.total_bytes, facts.modified_ns)
    from pathlib import Path  # not for one process

    check_many_may_read(path)
    if "\0" in path:  # Python says so in words that differ from one version to the next
        raise MissingFileError(f"{path}: null byte in the path")
    try:
        status = Path(path).stat()
    except (OSError, ValueError) as error:  # ValueError: characters that no path can have
        raise MissingFileError(f"{path}: {reason_of(error).lower()}") from None
    return InputFile(path, status.st_size, status.st_mtime_ns)


def check_many_may_read(path: str) -> None:
    """Raise :class:`CaptureError` for an input that only one process can read, and only once."""
    if path == STDIN:
        raise CaptureError("standard input: cannot be read by several tasks")
    if not can_be_read_twice(path):
        raise CaptureError(f"{capture_name(path)}: can be read only once")


def can_be_read_twice(path: str) -> bool:
    """Return true if a path is a file; true if it does not exist, because opening it will raise."""
    if is_url(path):
        return True
    return path != STDIN and (paths.is_file(path) or not paths.exists(path))


def same_file(path: str) -> str:
    """Return a text that is equal for all paths to one file, and for its ``file://`` URL.

    Any other URL is returned as it is; it may hold credentials.
    """
    local = local_path(path)
    return path if path == STDIN or local is None else os.path.realpath(local)


def is_settled(file: InputFile, *, now_ns: int, settle_ns: int) -> bool:
    """Return true if a file has not changed for ``settle_ns``; 0 accepts every file."""
    if not settle_ns or file.modified_ns is None:
        return True
    return now_ns - file.modified_ns >= settle_ns


def has_capture_name(path: str) -> bool:
    """Return true if a path or a URL has the extension of a capture."""
    name = path.partition("?")[0] if is_url(path) else path
    return _CAPTURE_NAME.search(name) is not None


# -- this machine ---------------------------------------------------------------------------------


def _local(text: str) -> NamedFiles:
    if paths.is_folder(text):
        return NamedFiles(_inside(text), is_folder=True)
    if _is_pattern(text):
        return NamedFiles(_fitting(text), is_folder=False)
    return NamedFiles([text], is_folder=False, is_explicit=True)


def _inside(folder: str) -> list[str]:
    """Return the files directly in a folder, and broken links."""
    from pathlib import Path  # not for files

    return [
        str(entry)
        for entry in sorted(Path(folder).iterdir())
        if not paths.is_hidden(entry.name)
        and (entry.is_file() or (entry.is_symlink() and not entry.exists()))
    ]


def _is_pattern(text: str) -> bool:
    return not paths.exists(text) and _MAGIC.search(text) is not None


def _fitting(pattern: str) -> list[str]:
    import glob  # not for files

    names = sorted(glob.glob(pattern))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [name for name in names if not paths.is_folder(name)]
