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
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from kanalyze.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from _typeshed import ReadableBuffer


__all__ = ["STANDARD_OUTPUT", "OutputFile"]

STANDARD_OUTPUT = "-"
_OWNERS = stat.S_IRUSR | stat.S_IWUSR

_BUFFER_BYTES = 64 << 10
_MOST_LINKS = 40
"""As the kernel has it."""
_NEW_MODE = 0o666
"""Less what the umask says."""


class OutputFile:
    """A file to be written from its beginning to its end.

    A regular file is written under another name beside its place and takes its name when it is
    closed: readers see the old file or the complete new one. :meth:`abort` removes what was
    written. Standard output, pipes and devices are written as they are. All methods, and making
    one, raise OSError where the system does. A ``private`` file is for its owner alone, also where
    the one before was not.

    A symbolic link is replaced, not followed: another user may have made it, to have another file
    written over. One that stands for a file that this process has open (``/dev/stdout``) is that
    file.

    A capture is not replaced unless that is asked for: packets that are gone are gone.
    """

    def __init__(
        self, destination: str, *, private: bool = False, replaces_captures: bool = False
    ) -> None:
        """Begin to write; with ``replaces_captures`` also over a capture.

        Raises:
            UsageError: the file that is there is a capture.
        """
        self._target: Path | None = None
        self._partial: Path | None = None
        self._closed = False
        if destination == STANDARD_OUTPUT:
            self.file: BinaryIO = _standard_output()
            """What is written to."""
            return
        from pathlib import Path  # not for standard output

        target = Path(destination)
        descriptor = _own_descriptor(destination)
        if descriptor is not None:
            self._target = target
            self.file = _duplicate(descriptor, destination)
            return
        if _is_stream(target):
            self._target = target
            self.file = _open(destination, os.O_WRONLY)
            return
        if not replaces_captures:
            _check_no_capture(target, destination)
        self._target = target
        self._partial = target.with_name(f".{target.name[:200]}.{os.urandom(4).hex()}.partial")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        mode = _mode_of(target) & (_OWNERS if private else ~0)
        self.file = _open(destination, flags, self._partial, mode)

    @property
    def partial(self) -> Path | None:
        """Where the file is written until it is closed; None for a stream."""
        return self._partial

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
                with _errors_name(str(self._target)):
                    self._partial.replace(self._target)
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


def _own_descriptor(name: str) -> int | None:
    """Return the open descriptor that a name such as ``/dev/fd/3`` stands for; None for none."""
    own = (os.path.realpath("/proc/self/fd"), "/dev/fd")
    for _ in range(_MOST_LINKS):
        folder, last = os.path.split(name)
        if last.isascii() and last.isdigit() and os.path.realpath(folder) in own:
            return int(last)
        try:
            name = os.path.join(folder, os.readlink(name))  # noqa: PTH115, PTH118 - as texts
        except OSError:
            return None
    return None


def _duplicate(descriptor: int, shown: str) -> BinaryIO:
    """Duplicate an open file: it has the same position, and is closed separately."""
    with _errors_name(shown):
        return _buffered(os.dup(descriptor), shown)


def _is_stream(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def _check_no_capture(path: Path, shown: str) -> None:
    """Raise UsageError if the path is a capture, through links too; OSError as opening does."""
    if not path.is_file():
        return
    from kanalyze.capture.reader import is_capture  # most outputs are new

    if is_capture(path):
        raise UsageError(f"{shown}: is a capture, which is not written over: choose another name")


def _mode_of(path: Path) -> int:
    """Return the permissions that a file in this place gets: those of one that it replaces."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        found = path.lstat()
    except FileNotFoundError:
        return _NEW_MODE
    return _NEW_MODE if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode)


def _open(shown: str, flags: int, path: Path | None = None, mode: int = _NEW_MODE) -> BinaryIO:
    """Open a file to be written: ``path`` where that is not the name in errors, ``shown``."""
    with _errors_name(shown):
        return _buffered(os.open(path or shown, flags | os.O_CLOEXEC, mode), shown)


def _buffered(descriptor: int, shown: str) -> BinaryIO:
    return io.BufferedWriter(_NamedFile(descriptor, shown), _BUFFER_BYTES)


class _NamedFile(io.FileIO):
    """A file whose errors have its name, also when the disk is full."""

    def __init__(self, descriptor: int, shown: str) -> None:
        super().__init__(descriptor, "wb")
        self._shown = shown

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some of it, as the system likes; return how much."""
        with _errors_name(self._shown):
            return super().write(data)

    def close(self) -> None:
        """Close it; some file systems report only then that they are full."""
        with _errors_name(self._shown):
            super().close()


@contextmanager
def _errors_name(name: str) -> Iterator[None]:
    """Give errors of the system this name of the file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error
