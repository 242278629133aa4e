"""Where captured bytes come from: files, standard input, URLs, objects that behave like files.

In: a path, ``-``, a URL, or a binary file object. Out: :class:`ByteSource`.
"""

from __future__ import annotations

import io
import os
import stat
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias

from kanalyze.capture.io.stores import is_url, shown_url
from kanalyze.common import paths
from kanalyze.errors import CaptureError

if TYPE_CHECKING:
    from kanalyze.capture.io.stores import Stores

STDIN = "-"
"""The path that stands for standard input."""
_STDIN_NAME = "standard input"
_STDIN_DESCRIPTOR = 0

PathLike: TypeAlias = str | os.PathLike[str]
BinaryFile: TypeAlias = IO[bytes] | io.RawIOBase | io.BufferedIOBase


class DamagedDataError(Exception):
    """The compressed data is truncated or wrong; the data before it has been delivered."""

    def __init__(self, detail: str, *, cut: bool) -> None:
        super().__init__(detail)
        self.cut = cut


class ByteSource(Protocol):
    """Bytes in order."""

    def readinto(self, target: memoryview) -> int:
        """Fill the start of ``target``; return the number of bytes, 0 only at the end.

        It may return before ``target`` is full: the data of a pipe is returned as it comes.
        """


class FileSource:
    """An open binary file as a :class:`ByteSource` that counts bytes."""

    def __init__(
        self, file: BinaryFile, name: str, *, owned: bool, total_bytes: int | None = None
    ) -> None:
        self.name = name
        self.bytes_read = 0
        self.total_bytes = _size(file) if total_bytes is None else total_bytes
        """None if unknown (a pipe)."""
        self._file = file
        self._owned = owned
        # At most one system call per read: a buffered reader's readinto waits for a full buffer.
        self._readinto = getattr(file, "readinto1", None) or getattr(file, "readinto", None)

    def readinto(self, target: memoryview) -> int:
        """Fill the start of ``target``: see :class:`ByteSource`.

        Raises :class:`CaptureError` when the system cannot read.
        """
        try:
            if self._readinto is not None:
                count = self._readinto(target) or 0
            else:
                data = self._file.read(len(target)) or b""
                count = len(data)
                target[:count] = data
        except OSError as error:
            raise CaptureError(f"{self.name}: {_reason(error)}") from error
        self.bytes_read += count
        return int(count)

    @property
    def can_seek(self) -> bool:
        """Whether :meth:`seek` works, as for files on disk and in most stores."""
        return self._file.seekable()

    def seek(self, offset: int) -> None:
        """Continue at ``offset``, in bytes from the file's beginning; it may be beyond its end.

        Raises :class:`CaptureError` if the system refuses.
        """
        try:
            self._file.seek(offset)
        except (OSError, ValueError) as error:
            raise CaptureError(f"{self.name}: {_reason(error)}") from error

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned:
            self._file.close()


def capture_name(path: PathLike | BinaryFile) -> str:
    """Return a capture's name in messages and rows: the path as given, without credentials.

    A path of spaces or of nothing, as of a shell's variable that is not set, is quoted.
    """
    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if not text.strip():
            return repr(text)
        return shown_url(text) if is_url(text) else text
    file_name = getattr(path, "name", None)
    return file_name if isinstance(file_name, str) else "<stream>"


def open_source(
    path: PathLike | BinaryFile, name: str | None = None, stores: Stores | None = None
) -> FileSource:
    """Open a path, ``-`` for standard input, a URL, or take a binary file as it is.

    ``stores`` are file systems that have been connected to before.

    Raises :class:`CaptureError` when the path cannot be opened.
    """
    if not isinstance(path, str | os.PathLike):
        return FileSource(path, name or capture_name(path), owned=False)
    if path == STDIN:
        standard_input = io.FileIO(_STDIN_DESCRIPTOR, closefd=False)
        return FileSource(standard_input, name or _STDIN_NAME, owned=True)
    label = name or capture_name(path)
    if isinstance(path, str) and is_url(path):
        if stores is None:
            from kanalyze.capture.io.stores import Stores  # not for files

            stores = Stores()
        stored, total_bytes = stores.open(path)
        return FileSource(stored, label, owned=True, total_bytes=total_bytes)
    try:
        return FileSource(paths.opened(path), label, owned=True)
    except (OSError, ValueError) as error:
        # ValueError: a null byte in the path.
        raise CaptureError(f"{label!s}: {_reason(error)}") from error


def _size(file: BinaryFile) -> int | None:
    """Bytes that the file has on disk; None if it is no regular file."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, AttributeError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)
