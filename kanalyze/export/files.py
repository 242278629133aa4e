"""Where an export goes: a file that appears whole or not at all, or a stream.

In: a path, or ``-`` for standard output. Out: an open binary file. This module must not know what
is written.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["STANDARD_OUTPUT", "OutputFile"]

STANDARD_OUTPUT = "-"
_OWNERS = stat.S_IRUSR | stat.S_IWUSR


class OutputFile:
    """A file to be written from its beginning to its end.

    A regular file is written under another name beside its place and takes its name when it is
    closed: whoever looks sees the old file or the whole new one. :meth:`abort` removes what was
    written. Standard output, pipes and devices are written as they are. All methods, and making
    one, raise OSError where the system does. A ``private`` file is for its owner alone, also where
    the one before was not.
    """

    def __init__(self, destination: str, *, private: bool = False) -> None:
        self._target: Path | None = None
        self._partial: Path | None = None
        self._closed = False
        if destination == STANDARD_OUTPUT:
            self.file: BinaryIO = _standard_output()
            """What is written to."""
            return
        # Through symbolic links: the file they point to is what is replaced.
        target = Path(destination).resolve()
        if _is_stream(target):
            self._target = target
            self.file = target.open("wb")
            return
        self._target = target
        self._partial = target.with_name(f".{target.name[:200]}.{os.urandom(4).hex()}.partial")
        mode = _mode_of(target) & (_OWNERS if private else ~0)
        try:
            self.file = _create(self._partial, mode)
        except OSError as error:
            # Of the other name nobody knows.
            raise OSError(error.errno, error.strerror, str(target)) from error

    def close(self) -> None:
        """Finish: flush, and give the file its name. Does nothing the second time."""
        if self._closed:
            return
        self._closed = True
        if self._target is None:
            self.file.flush()
            return
        try:
            self.file.close()
            if self._partial is not None:
                self._partial.replace(self._target)
        except OSError:
            self._remove()
            raise

    def abort(self) -> None:
        """Give up: remove what was written, as far as that can be."""
        if self._closed:
            return
        self._closed = True
        if self._target is None:
            return
        with suppress(OSError):
            self.file.close()
        self._remove()

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _remove(self) -> None:
        if self._partial is not None:
            with suppress(OSError):
                self._partial.unlink()


def _standard_output() -> BinaryIO:
    """Return standard output, which takes all that it is given.

    Where Python was told not to buffer (PYTHONUNBUFFERED), its own takes a part of it when a signal
    comes meanwhile, and the rest would be lost.
    """
    output = sys.stdout.buffer
    if isinstance(output, io.RawIOBase):
        return open(output.fileno(), "wb", closefd=False)
    return output


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _mode_of(path: Path) -> int:
    """Return the permissions that a file in this place gets."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0o666
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return stat.S_IMODE(found.st_mode)


def _create(path: Path, mode: int) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    return os.fdopen(descriptor, "wb")
