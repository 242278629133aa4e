"""Reads key logs while programs write them.

In: paths, a clock. Out: a :class:`~kanalyze.tls.keylog.KeyLog`, and messages, which show no secret.

A file may be created later, grow, be truncated, or be replaced by another one. Files are checked
every :data:`LOOK_EVERY_NS`; only the added bytes are read, up to :data:`MAX_BYTES_A_LOOK`.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from kanalyze.common import paths
from kanalyze.common.argument_values import opening
from kanalyze.errors import UsageError, reason_of
from kanalyze.tls.keylog import LONGEST_LINE_BYTES, NOT_A_KEY_LOG, KeyLog, require_ciphers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOOK_EVERY_NS: Final = 200_000_000
MAX_BYTES_A_LOOK: Final = 1 << 20
"""Maximum number of bytes to read of each file at a time: some 6,000 lines, 20 ms."""
MAX_BYTES_BEFORE: Final = 128 << 20
"""Of a file that is longer when it is opened, only this many bytes at its end are read. They hold
more secrets than a key log keeps."""
_SETTLED_NS: Final = 2_000_000_000
"""A last line without a line end counts as complete if nothing follows it for this time."""
_TAIL_BYTES: Final = 256
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class KeyLogFiles:
    """Key logs that grow."""

    def __init__(self, files: Sequence[str], warn: Callable[[str], None]) -> None:
        """Read the present content of the files.

        ``warn`` receives messages, for example about a file that does not exist yet.

        Raises:
            UsageError: a file cannot be read, or has lines but no secrets; the text names the file.
                Or the library for decryption is not installed.
        """
        require_ciphers()
        self.log = KeyLog(grows=True)
        self.warn = warn
        """Receives messages."""
        self._files: list[_GrowingFile] = []
        self._due_ns = 0
        self._reported: set[str] = set()
        try:
            for path in dict.fromkeys(files):
                self._files.append(_opened(path, self.log, warn))
        except UsageError:
            self.close()
            raise

    def tick(self, clock_ns: int) -> bool:
        """Read the added bytes, if the next check is due; return whether there are new secrets.

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
        """Read the rest of all files, also a last line without a line end."""
        for file in self._files:
            _read_all(partial(self._read, file, None))
            file.end()

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()

    def _read(self, file: _GrowingFile, clock_ns: int | None) -> int:
        """Read a part of a file; return the number of bytes. Each error is reported once."""
        try:
            count = file.read(clock_ns)
        except OSError as error:
            file.close()
            self._report(f"{file.path}: {reason_of(error)}")
            return 0
        if count and file.has_no_secret:
            self._report(f"{file.path}: no line has a TLS secret")
        return count

    def _report(self, text: str) -> None:
        if text not in self._reported and len(self._reported) < 100:
            self._reported.add(text)
            self.warn(text)


def _opened(path: str, log: KeyLog, warn: Callable[[str], None]) -> _GrowingFile:
    """Open a file and read its present content; raises UsageError."""
    file = _GrowingFile(path, log)
    with opening(path):
        _read_all(partial(file.read, None))
    if not file.is_open:
        warn(f"{path}: does not exist yet; it is read as soon as it does")
    if file.skipped_bytes:
        warn(f"{path}: only the last {MAX_BYTES_BEFORE >> 20} MiB are read")
    if file.has_no_secret:
        file.close()
        raise UsageError(f"{path}: {NOT_A_KEY_LOG}")
    return file


def _read_all(read: Callable[[], int]) -> None:
    """Read until there are no more bytes, or up to a limit, because a pipe may have no end."""
    remaining_bytes = 2 * MAX_BYTES_BEFORE
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
        """Bytes at the beginning of the open file that were not read."""
        self._descriptor: int | None = None
        self._offset = 0
        self._tail = b""
        """The bytes before the offset, which show whether the file was truncated and rewritten."""
        self._size_and_mtime: tuple[int, int] | None = None
        """Size and modification time of the file when it was last read to its end."""
        self._last_line = b""
        """The bytes after the last line end."""
        self._last_line_ns: int | None = None
        """When the last line last grew; None once it was read as a complete line."""
        self._skips_line = False
        self._lines = self._wrong_lines = 0
        """Numbers of lines of the open file."""

    @property
    def is_open(self) -> bool:
        """True if the file exists and is open."""
        return self._descriptor is not None

    @property
    def has_no_secret(self) -> bool:
        """True if the file has lines, but none with a secret."""
        return 0 < self._lines == self._wrong_lines

    def read(self, clock_ns: int | None) -> int:
        """Read the added bytes, or the first of them; return their number. Raises OSError.

        ``clock_ns`` is the time of a monotonic clock. If it is None, a last line without a line end
        is not read yet.
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
        """Read the bytes after the last line end as a line."""
        if self._last_line:
            self._feed(self._last_line + b"\n")
        self._last_line = b""

    def close(self) -> None:
        """Close the file and reset all state."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._forget()

    def _open(self) -> bool:
        """Open the file; return False if it does not exist."""
        try:
            self._descriptor = os.open(self.path, _OPEN)
        except FileNotFoundError:
            return False
        status = os.fstat(self._descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size > MAX_BYTES_BEFORE:
            self._offset = self.skipped_bytes = status.st_size - MAX_BYTES_BEFORE
            self._skips_line = True
        return True

    def _added(self) -> bytes:
        """Return the next bytes, at most :data:`MAX_BYTES_A_LOOK`; empty if there are none."""
        assert self._descriptor is not None
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            with suppress(BlockingIOError):
                return os.read(self._descriptor, MAX_BYTES_A_LOOK)
            return b""
        size_and_mtime = (status.st_size, status.st_mtime_ns)
        if size_and_mtime == self._size_and_mtime:
            return b""
        tail = os.pread(self._descriptor, len(self._tail), self._offset - len(self._tail))
        if status.st_size < self._offset or tail != self._tail:  # truncated and rewritten
            self._offset, self._tail, self._last_line = 0, b"", b""
        piece = os.pread(self._descriptor, MAX_BYTES_A_LOOK, self._offset)
        self._offset += len(piece)
        self._tail = (self._tail + piece)[-_TAIL_BYTES:]
        if self._offset >= status.st_size:
            self._size_and_mtime = size_and_mtime
        return piece

    def _is_replaced(self) -> bool:
        """Return true if another file has the path now."""
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
        # Of a line that is too long, enough bytes are kept for the key log to reject it.
        self._last_line = last_line[: LONGEST_LINE_BYTES + 1]
        if lines:
            self._feed(lines + b"\n")

    def _take_settled(self, clock_ns: int) -> None:
        if self._last_line_ns is not None and clock_ns - self._last_line_ns >= _SETTLED_NS:
            self._last_line_ns = None
            self._feed(self._last_line + b"\n")  # if more bytes follow, the line is read again

    def _feed(self, lines: bytes) -> None:
        log = self._log
        lines_before, wrong_lines_before = log.lines, log.wrong_lines
        log.feed(lines)
        self._lines += log.lines - lines_before
        self._wrong_lines += log.wrong_lines - wrong_lines_before
