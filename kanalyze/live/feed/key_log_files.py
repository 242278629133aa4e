"""Reads key logs while programs write them.

In: paths, a clock. Out: a :class:`~kanalyze.tls.keylog.KeyLog`, and messages. Must not know: what
secrets are for; shows none.

A file may come into being later, grow, be truncated, or be replaced by another one. Of a file only
what was added is read, at most every :data:`LOOK_EVERY_NS` and :data:`MOST_BYTES_A_LOOK`.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from kanalyze.common import paths
from kanalyze.common.argument_values import shown
from kanalyze.errors import UsageError
from kanalyze.tls.installed import require_ciphers
from kanalyze.tls.keylog import LONGEST_LINE_BYTES, KeyLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["LOOK_EVERY_NS", "MOST_BYTES_A_LOOK", "MOST_BYTES_BEFORE", "KeyLogFiles"]

LOOK_EVERY_NS: Final = 200_000_000
MOST_BYTES_A_LOOK: Final = 1 << 20
"""Of each file: some 6,000 lines, 20 ms."""
MOST_BYTES_BEFORE: Final = 128 << 20
"""Of what a file has already when it is opened, the end: more secrets than a key log keeps."""
_SETTLED_NS: Final = 2_000_000_000
"""A line without an end counts as complete if nothing follows it for so long."""
_TAIL_BYTES: Final = 256
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class KeyLogFiles:
    """Key logs that grow."""

    def __init__(self, files: Sequence[str], warn: Callable[[str], None]) -> None:
        """Read what is there.

        ``warn`` receives messages: a file that does not exist yet is one.

        Raises:
            UsageError: a file cannot be read, or has lines but none with a secret; the text names
                it. Or there is nothing to decrypt with.
        """
        require_ciphers()
        self.log = KeyLog(grows=True)
        self.warn = warn
        """Receives messages."""
        self._files: list[_GrowingFile] = []
        self._due_ns = 0
        self._complaints: set[str] = set()
        try:
            for path in dict.fromkeys(files):
                self._files.append(_begun(path, self.log, warn))
        except UsageError:
            self.close()
            raise

    def tick(self, clock_ns: int) -> bool:
        """Read what was added, if it is time to look; tell whether there are new secrets.

        ``clock_ns`` is the time of a monotonic clock.
        """
        if clock_ns < self._due_ns:
            return False
        self._due_ns = clock_ns + LOOK_EVERY_NS
        version = self.log.version
        for file in self._files:
            self._read(file, clock_ns)
        return self.log.version != version

    def end(self) -> None:
        """Read all that is there, also a last line without an end."""
        for file in self._files:
            _read_all(partial(self._read, file, None))
            file.end()

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()

    def _read(self, file: _GrowingFile, clock_ns: int | None) -> int:
        """Read some of a file; return how many bytes. What goes wrong is a message, once."""
        try:
            count = file.read(clock_ns)
        except OSError as error:
            file.close()
            self._complain(f"{file.path}: {error.strerror or error}")
            return 0
        if count and file.has_no_secret:
            self._complain(f"{file.path}: no line has a secret of TLS")
        return count

    def _complain(self, text: str) -> None:
        if text not in self._complaints and len(self._complaints) < 100:
            self._complaints.add(text)
            self.warn(text)


def _begun(path: str, log: KeyLog, warn: Callable[[str], None]) -> _GrowingFile:
    """Return a file whose present content is read; raises UsageError."""
    file = _GrowingFile(path, log)
    try:
        _read_all(partial(file.read, None))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # a null byte
        raise UsageError(f"not a path: {shown(path)}") from error
    if not file.is_open:
        warn(f"{path}: is not there yet; its secrets are used when it is")
    if file.skipped_bytes:
        warn(f"{path}: only the last {MOST_BYTES_BEFORE >> 20} MiB are read")
    if file.has_no_secret:
        file.close()
        raise UsageError(f"{path}: not a TLS key log: no line has a secret")
    return file


def _read_all(read: Callable[[], int]) -> None:
    """Read until nothing is there, or a bound: a pipe may have no end."""
    remaining_bytes = 2 * MOST_BYTES_BEFORE
    while remaining_bytes > 0 and (count := read()):
        remaining_bytes -= count


class _GrowingFile:
    """A file that is read as it grows."""

    def __init__(self, path: str, log: KeyLog) -> None:
        self.path = path
        self._log = log
        self._forget()

    def _forget(self) -> None:
        self.skipped_bytes = 0
        """Of the file that is open, at its beginning."""
        self._descriptor: int | None = None
        self._offset = 0
        self._tail = b""
        """The bytes before the offset."""
        self._size_and_mtime: tuple[int, int] | None = None
        """Size and time of the file when it was read last."""
        self._last_line = b""
        """A line without an end."""
        self._last_line_ns: int | None = None
        """The time since when it waits; None once it was taken for a line."""
        self._skips_line = False
        self._lines = self._wrong_lines = 0
        """Of the file that is open."""

    @property
    def is_open(self) -> bool:
        """Whether there is a file."""
        return self._descriptor is not None

    @property
    def has_no_secret(self) -> bool:
        """Whether the file has lines, all of them wrong."""
        return 0 < self._lines == self._wrong_lines

    def read(self, clock_ns: int | None) -> int:
        """Read what was added, or some of it; return how many bytes. Raises OSError.

        ``clock_ns`` is the time of a monotonic clock; without it a line that has no end waits on.
        """
        if self._descriptor is None and not self._open():
            return 0
        piece = self._added()
        if not piece and self._is_replaced():
            self.end()
            self.close()
            if not self._open():
                return 0
            piece = self._added()
        if piece:
            self._take(piece)
            self._last_line_ns = clock_ns
        elif self._last_line and clock_ns is not None:
            self._take_settled(clock_ns)
        return len(piece)

    def end(self) -> None:
        """Take what follows the last line end for a line."""
        if self._last_line:
            self._feed(self._last_line + b"\n")
        self._last_line = b""

    def close(self) -> None:
        """Close the file, and forget what was read of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._forget()

    def _open(self) -> bool:
        """Open the file if it is there."""
        try:
            self._descriptor = os.open(self.path, _OPEN)
        except FileNotFoundError:
            return False
        status = os.fstat(self._descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size > MOST_BYTES_BEFORE:
            self._offset = self.skipped_bytes = status.st_size - MOST_BYTES_BEFORE
            self._skips_line = True
        return True

    def _added(self) -> bytes:
        """Return the next bytes."""
        assert self._descriptor is not None
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            with suppress(BlockingIOError):
                return os.read(self._descriptor, MOST_BYTES_A_LOOK)
            return b""
        size_and_mtime = (status.st_size, status.st_mtime_ns)
        if size_and_mtime == self._size_and_mtime:
            return b""
        tail = os.pread(self._descriptor, len(self._tail), self._offset - len(self._tail))
        if status.st_size < self._offset or tail != self._tail:  # written anew
            self._offset, self._tail, self._last_line = 0, b"", b""
        piece = os.pread(self._descriptor, MOST_BYTES_A_LOOK, self._offset)
        self._offset += len(piece)
        self._tail = (self._tail + piece)[-_TAIL_BYTES:]
        if self._offset >= status.st_size:
            self._size_and_mtime = size_and_mtime
        return piece

    def _is_replaced(self) -> bool:
        """Tell whether another file has the name now."""
        assert self._descriptor is not None
        status_at_path = paths.stat_of(self.path)
        if status_at_path is None:
            return False
        opened = os.fstat(self._descriptor)
        return (status_at_path.st_dev, status_at_path.st_ino) != (opened.st_dev, opened.st_ino)

    def _take(self, piece: bytes) -> None:
        lines, end, last_line = (self._last_line + piece).rpartition(b"\n")
        if self._skips_line:
            lines, last_line = lines.partition(b"\n")[2], last_line if end else b""
            self._skips_line = not end
        # As much of a line that is too long as shows that.
        self._last_line = last_line[: LONGEST_LINE_BYTES + 1]
        if lines:
            self._feed(lines + b"\n")

    def _take_settled(self, clock_ns: int) -> None:
        if self._last_line_ns is not None and clock_ns - self._last_line_ns >= _SETTLED_NS:
            self._last_line_ns = None
            self._feed(self._last_line + b"\n")  # if more follows after all, it is read again

    def _feed(self, lines: bytes) -> None:
        log = self._log
        before = log.lines, log.wrong_lines
        log.feed(lines)
        self._lines += log.lines - before[0]
        self._wrong_lines += log.wrong_lines - before[1]
