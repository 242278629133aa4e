"""The destination of an export: a file that appears complete or not at all, or a stream.

In: a path, or ``-`` for standard output. Out: an open binary file; and the base of the writers of
rows into such files.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from kanalyze.common import unfinished
from kanalyze.common.closing import ClosedOrAborted
from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from _typeshed import ReadableBuffer

    from kanalyze.spec.columns import AnyRow, Column
    from kanalyze.tables.columns.block import RowBlock

STANDARD_OUTPUT = "-"
_OWNERS = stat.S_IRUSR | stat.S_IWUSR

_BUFFER_BYTES = 64 << 10
_MAX_LINKS = 40
"""The limit of symbolic links that the Linux kernel follows."""
_NEW_MODE = 0o666
"""Permissions of a new file, before the umask is applied."""


class OutputFile(ClosedOrAborted):
    """A file that is written once, from beginning to end.

    A regular file is written under a temporary name in the same folder, and renamed when it is
    closed. Readers see the old file or the complete new one. :meth:`abort` removes the temporary
    file. Standard output, pipes and devices are written directly. A ``private`` file can be read by
    its owner alone, even if the file that it replaces could be read by others. All methods raise
    OSError if the system does.

    A symbolic link is replaced, not followed: another user may have made it to have one of the
    user's files overwritten. A link to a file that this process has open (``/dev/stdout``) means
    that open file.

    A capture is replaced only with ``replaces_captures``, because lost packets cannot be recovered.
    """

    def __init__(
        self, destination: str, *, private: bool = False, replaces_captures: bool = False
    ) -> None:
        """Open the file; with ``replaces_captures`` it may replace a capture.

        Raises:
            UsageError: a capture with this name exists.
            OSError: the file cannot be opened.
        """
        self._target: str | None = None
        self._partial: str | None = None
        self._closed = False
        if destination == STANDARD_OUTPUT:
            self.file: BinaryIO = _standard_output()
            """The binary file to write to."""
            return
        descriptor = _own_descriptor(destination)
        if descriptor is not None:
            self._target = destination
            self.file = _duplicate(descriptor, destination)
            return
        if _is_stream(destination):
            self._target = destination
            self.file = _open(destination, os.O_WRONLY)
            return
        if not replaces_captures:
            _check_no_capture(destination)
        self._target = destination.rstrip("/") or destination or os.curdir
        folder, name = os.path.split(self._target)
        partial = f".{name[:200]}.{os.urandom(4).hex()}.partial"
        self._partial = os.path.join(folder, partial)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        mode = _mode_of(self._target) & (_OWNERS if private else ~0)
        unfinished.begin(self._partial)
        try:
            self.file = _open(destination, flags, self._partial, mode)
        except OSError:
            unfinished.end(self._partial)
            raise

    @property
    def partial(self) -> Path | None:
        """Path of the temporary file; None for a stream."""
        from pathlib import Path  # imported late: most outputs do not need it

        return None if self._partial is None else Path(self._partial)

    def close(self) -> None:
        """Flush, and give the file its final name. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._target is None:
            self.file.flush()
            return
        try:
            self.file.close()
            if self._partial is not None:
                with _errors_name(self._target):
                    os.replace(self._partial, self._target)
                unfinished.end(self._partial)
        except OSError:
            self._remove()
            raise

    def abort(self) -> None:
        """Remove the unfinished file, as far as possible."""
        if self._closed:
            return
        self._closed = True
        if self._target is None:
            return
        with suppress(OSError):
            self.file.close()
        self._remove()

    def _remove(self) -> None:
        if self._partial is not None:
            with suppress(OSError):
                os.unlink(self._partial)
            unfinished.end(self._partial)


def _standard_output() -> BinaryIO:
    """Return standard output with a buffer of its own.

    With PYTHONUNBUFFERED, Python's own stream may write only a part of the data if a signal arrives
    in between, and the rest would be lost.
    """
    output = sys.stdout.buffer
    if isinstance(output, io.RawIOBase):
        return open(output.fileno(), "wb", closefd=False)
    return output


def _own_descriptor(name: str) -> int | None:
    """Return the open descriptor that a name such as ``/dev/fd/3`` means; None for other names."""
    descriptor_folders = (os.path.realpath("/proc/self/fd"), "/dev/fd")
    for _ in range(_MAX_LINKS):
        folder, last = os.path.split(name)
        if last.isascii() and last.isdigit() and os.path.realpath(folder) in descriptor_folders:
            return int(last)
        try:
            name = os.path.join(folder, os.readlink(name))
        except OSError:
            return None
    return None


def _duplicate(descriptor: int, name: str) -> BinaryIO:
    """Duplicate a descriptor: the two share a position and are closed separately."""
    with _errors_name(name):
        return _buffered(os.dup(descriptor), name)


def _is_stream(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def _check_no_capture(path: str) -> None:
    """Raise UsageError if the path is a capture or links to one; raises OSError like opening."""
    if not os.path.isfile(path):
        return
    from kanalyze.capture.reader import is_capture  # imported late: most outputs are new

    if is_capture(path):
        raise UsageError(f"{path}: is a capture and is not overwritten: use another name")


def _mode_of(path: str) -> int:
    """Return the permissions for a file with this path: those of the file that it replaces."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return _NEW_MODE
    return _NEW_MODE if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)


def _open(name: str, flags: int, path: str | None = None, mode: int = _NEW_MODE) -> BinaryIO:
    """Open a file for writing: ``path``, or else ``name``, which is the name in errors."""
    with _errors_name(name):
        return _buffered(os.open(path or name, flags | os.O_CLOEXEC, mode), name)


def _buffered(descriptor: int, name: str) -> BinaryIO:
    return io.BufferedWriter(_NamedFile(descriptor, name), _BUFFER_BYTES)


class _NamedFile(io.FileIO):
    """A file whose errors have its name, even errors of writing such as a full disk."""

    def __init__(self, descriptor: int, shown: str) -> None:
        super().__init__(descriptor, "wb")
        self._shown = shown

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as much as the system accepts; return the number of bytes."""
        with _errors_name(self._shown):
            return super().write(data)

    def close(self) -> None:
        """Close the file. Some file systems report a full disk only here."""
        with _errors_name(self._shown):
            super().close()


@contextmanager
def _errors_name(name: str) -> Iterator[None]:
    """Set the file name in OSErrors that pass through."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


# -- writers of rows -------------------------------------------------------------------------------


class FileWriter(ClosedOrAborted, ABC):
    """A writer of rows into a file. Writing and closing raise OSError if the system does.

    At the end of its ``with`` block it is closed; after an exception it is aborted.
    """

    def __init__(self, destination: str, columns: Sequence[Column], *, private: bool) -> None:
        """Open the file, for rows with these columns; see :class:`OutputFile`."""
        self.output = OutputFile(destination, private=private)
        self._columns = tuple(columns)

    def write(self, rows: Sequence[AnyRow]) -> None:
        """Write rows in this order."""
        from kanalyze.export.schema import integer_columns  # imported late: few outputs have rows
        from kanalyze.tables.columns.block import RowBlock

        self.write_block(RowBlock.of_rows(rows, integer_columns(self._columns)))

    @abstractmethod
    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block like ``write``."""

    def close(self) -> None:
        """Finish the file. Nothing can be written afterwards."""
        self.output.close()

    def abort(self) -> None:
        """Remove the file."""
        self.output.abort()
