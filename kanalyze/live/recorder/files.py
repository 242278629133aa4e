"""Files of limited size and number: pcapng files of packets, Parquet files of rows.

In: packets, rows, the time. Out: a pcapng file that Wireshark can read at any time, and older files
beside it; Parquet files in a folder, each complete once it has its name.

Packets contain user data: only the owner can read the files, and symbolic links are not followed.
The current file of rows has a hidden name. If the program is killed it is lost, because a Parquet
file cannot be read without its footer; the next run removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kanalyze.capture.formats.pcapng_encoder import (
    LONGEST_OWN_BEGIN,
    PacketBlocks,
    PacketComments,
    decryption_secrets,
    interface_description,
    is_written_by_kanalyze,
    section_header,
)
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.errors import KanalyzeError, UsageError, reason_of
from kanalyze.export.parquet import ParquetWriter
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tls.keylog import TLS_KEY_LOG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from io import FileIO

    from kanalyze.model.packets import PacketBatch
    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tls.keylog import KeyLog


def numbered_files(folder: Path, name: re.Pattern[str]) -> list[tuple[int, Path]]:
    """Return the numbers and paths of the regular files whose names match, sorted by number.

    The number is group ``number`` of the pattern. Raises OSError.
    """
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            match = name.fullmatch(entry.name)
            if match and entry.is_file(follow_symlinks=False):
                files.append((int(match["number"]), folder / entry.name))
    return sorted(files)


def remove_oldest(folder: Path, name: re.Pattern[str], keep: int) -> None:
    """Remove the files that match, except the ``keep`` highest numbers; raises OSError."""
    files = numbered_files(folder, name)
    for _, path in files[: max(len(files) - keep, 0)]:
        # Another program may remove files too.
        with suppress(FileNotFoundError):
            path.unlink()


def sync_file(path: Path) -> None:
    """Flush a file to the disk; raises OSError."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk; raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class PcapngWriter(ClosedAtEnd):
    """Writes packets to a file, and starts another one when it is full.

    The current file is always ``NAME.pcapng``; full files are renamed to ``NAME-000001.pcapng``,
    ``NAME-000002.pcapng`` and so on. A file is created with its first packet: without packets there
    is no file, and those of earlier runs stay unchanged.

    All methods raise OSError, for example if the disk is full. Then these packets are not written,
    the earlier ones can still be read, and the next call tries again.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        interface: str = "",
        max_bytes: int = 256 << 20,
        max_files: int = 8,
        key_log: KeyLog | None = None,
    ) -> None:
        """Check the path; a file of an earlier run is later renamed like a full file.

        Args:
            path: the current file.
            interface: the name of the interface in the file; empty for no name.
            max_bytes: the maximum size of a file; a single larger write makes a larger file.
            max_files: the number of files, including the current one; the oldest are removed.
            key_log: the secrets that decrypted sessions are written before their packets; None to
                write no secrets.

        Raises:
            UsageError: a limit is below 1.
            KanalyzeError: the file cannot be written, was not written by kanalyze, or is being
                written by another run.
        """
        if min(max_bytes, max_files) < 1:
            raise UsageError("files of packets need limits of at least 1")
        self._path = Path(path)
        self.target = str(path)
        """The path as the user named it."""
        self._rolled = re.compile(
            rf"{re.escape(self._path.stem)}-(?P<number>\d{{6,18}}){re.escape(self._path.suffix)}",
            re.ASCII,
        )
        self._interface = interface
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._key_log = key_log
        self._sessions: set[bytes] = set()
        """Identifiers of the sessions whose secrets are in the file."""
        self.packets = 0
        """Packets written to all files so far."""
        self._interfaces: dict[int, int] = {}
        """The numbers of the interfaces described in the file, by link type."""
        self._file: FileIO | None = None
        self._size = 0
        """Size of the complete blocks in the file; above 0 if it has packets."""
        try:
            _check_own(self._path)
            with tempfile.TemporaryFile(dir=self._path.parent):
                pass  # the folder is writable
        except OSError as error:
            raise KanalyzeError(f"cannot write to {path}: {reason_of(error)}") from None

    def write(
        self, packets: PacketBatch, comments: Mapping[int, Sequence[str]] | None = None
    ) -> None:
        """Write packets in their order, unbuffered.

        ``comments`` are texts by index of the packet in the batch. Characters that UTF-8 does not
        have are escaped, and each text is cut at 65,535 bytes.
        """
        if not len(packets):
            return
        blocks = PacketBlocks(packets, PacketComments.of(comments or {}))
        if self._size + blocks.total_bytes > self._max_bytes:
            self.roll()
        file = self._create() if self._file is None else self._file
        head = b"" if self._size else section_header()
        sessions = set(self._sessions)
        head += self._secrets(sessions)
        description = partial(interface_description, name=self._interface)
        descriptions, interfaces = blocks.interfaces(self._interfaces, description)
        self._append(file, head + descriptions, blocks.encoded(interfaces))
        self._interfaces, self._sessions = interfaces, sessions
        self.packets += len(packets)

    def _secrets(self, sessions: set[bytes]) -> bytes:
        """Return a block with the secrets that the file does not have yet; add their sessions."""
        lines = b"" if self._key_log is None else b"".join(self._key_log.used_lines(sessions))
        return decryption_secrets(TLS_KEY_LOG, lines) if lines else b""

    def roll(self) -> None:
        """Close and rename the file, if there is one; the next packet starts another."""
        if self._size:
            self.close()
            self._rotate()

    def close(self) -> None:
        """Close the file; may be called again."""
        file, self._file = self._file, None
        size, self._size = self._size, 0
        self._interfaces, self._sessions = {}, set()
        if file is not None:
            file.close()
            if not size:
                self._path.unlink(missing_ok=True)

    def _create(self) -> FileIO:
        """Create the file, and lock it until it is closed."""
        if _check_own(self._path):
            self._rotate()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, stat.S_IRUSR | stat.S_IWUSR)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._file

    def _append(self, file: FileIO, *parts: bytes | bytearray) -> None:
        try:
            for part in parts:
                unwritten = memoryview(part)
                while unwritten:
                    unwritten = unwritten[file.write(unwritten) :]
        except OSError:
            # Readers stop at an incomplete block.
            with suppress(OSError):
                file.seek(self._size)
                file.truncate()
            raise
        self._size += sum(map(len, parts))

    def _rotate(self) -> None:
        """Rename the file to the next number, and remove the oldest files."""
        folder = self._path.parent
        files = numbered_files(folder, self._rolled)
        number = files[-1][0] + 1 if files else 1
        with suppress(FileNotFoundError):  # the user moved the old file away
            if self._path.stat().st_size:
                self._path.rename(folder / f"{self._path.stem}-{number:06}{self._path.suffix}")
            else:
                self._path.unlink()  # an empty file, left by a killed run or a full disk
        remove_oldest(folder, self._rolled, self._max_files - 1)


def _check_own(path: Path) -> bool:
    """Return true if the file exists, was written by kanalyze, and is not being written.

    Raises OSError for any other file.
    """
    try:
        # Without following a link, and without waiting for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileExistsError(errno.EEXIST, "it is a link") from None
        raise
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not _is_own(file):
            raise FileExistsError(errno.EEXIST, "it exists, and was not written by kanalyze")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError(errno.EEXIST, "another run writes to it") from None
        except OSError:
            pass  # not every file system has locks
    return True


def _is_own(file: FileIO) -> bool:
    """Return true if a file is empty, or begins as files of kanalyze do."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return False
    begin = file.read(LONGEST_OWN_BEGIN)
    return not begin or is_written_by_kanalyze(begin)


_NS_PER_S: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME: Final = re.compile(r"kanalyze-\d{8}T\d{6}Z-(?P<number>\d{6,18})\.parquet", re.ASCII)
_PARTIAL: Final = re.compile(
    # The name of the open file here, and that of its OutputFile while it is written.
    r"\.\.?kanalyze-\d{8}T\d{6}Z-(?P<number>\d{6,18})\.parquet\.open(\.[0-9a-f]{8}\.partial)?",
    re.ASCII,
)


class RollingParquet(ClosedAtEnd):
    """Writes rows to ``kanalyze-BEGIN-NUMBER.parquet``: BEGIN is a time in UTC, NUMBER rises.

    A file is created with its first row: without rows there is no file. All methods raise OSError,
    for example if the disk is full; then the open file is lost with its rows, and the next row
    starts another one.

    There are two times. ``now_ns``, the Unix time of packets, may jump. ``clock_ns`` is the time of
    a monotonic clock, which ends a file in any case.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        every_s: int = 300,
        max_bytes: int = 256 << 20,
        max_files: int = 288,
        columns: tuple[Column, ...] = COLUMNS,
    ) -> None:
        """Create the folder if needed; remove unfinished files of earlier runs.

        Args:
            folder: the folder, which is locked against other runs.
            every_s: a file is closed at this age in seconds, by either time.
            max_bytes: a file is closed at this size; it may be one row group larger.
            max_files: the maximum number of files, with those of earlier runs; the oldest are
                removed.
            columns: the columns of rows.

        Raises:
            UsageError: a limit is below 1.
            KanalyzeError: the folder cannot be created or written to, or another run writes to it.
        """
        if min(every_s, max_bytes, max_files) < 1:
            raise UsageError("files of rows need limits of at least 1")
        self._columns = with_times(columns)
        self._every_ns = every_s * _NS_PER_S
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._folder = Path(folder)
        self.target = str(folder)
        """The folder as the user named it."""
        self._writer: ParquetWriter | None = None
        self._partial = self._target = self._folder
        self._begun_ns = self._begun_clock_ns = 0
        self._rows = 0
        """Number of rows in the open file."""
        self.files = 0
        """Finished files."""
        self.lost_rows = 0
        """Rows of files that could not be finished."""
        self._lock = -1
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self._folder)
            for _, path in numbered_files(self._folder, _PARTIAL):
                path.unlink(missing_ok=True)
            remove_oldest(self._folder, _NAME, max_files)
            files = numbered_files(self._folder, _NAME)
        except OSError as error:
            self._unlock()
            raise KanalyzeError(f"cannot write to {folder}: {reason_of(error)}") from None
        self._number = files[-1][0] if files else 0

    def add(self, block: RowBlock, now_ns: int, clock_ns: int) -> None:
        """Write rows."""
        self.tick(now_ns, clock_ns)
        if not len(block):
            return
        self._rows += len(block)
        try:
            writer = self._create(now_ns, clock_ns) if self._writer is None else self._writer
            writer.write_block(block)
            is_full = writer.output.file.tell() >= self._max_bytes
        except BaseException:
            self._discard()
            raise
        if is_full:
            self.roll()

    def tick(self, now_ns: int, clock_ns: int) -> None:
        """Close the open file if it is old enough; call this also if there are no rows."""
        if self._writer is None:
            return
        # Clocks of two machines may be an hour apart; a time before the begin counts as no age.
        age_ns = max(now_ns - self._begun_ns, clock_ns - self._begun_clock_ns)
        if age_ns >= self._every_ns:
            self.roll()

    def roll(self) -> None:
        """Close the open file, if any, and give it its name; the next row starts another."""
        if self._writer is None:
            return
        try:
            self._writer.close()
            sync_file(self._partial)
            self._partial.replace(self._target)
        except BaseException:
            self._discard()
            raise
        self._writer = None
        self._rows = 0
        self.files += 1
        sync_folder(self._folder)
        remove_oldest(self._folder, _NAME, self._max_files)

    def close(self) -> None:
        """Close the open file and unlock the folder; may be called again.

        After an error elsewhere these rows are still complete.
        """
        try:
            self.roll()
        finally:
            self._unlock()

    def _create(self, now_ns: int, clock_ns: int) -> ParquetWriter:
        self._number += 1
        begin = _EPOCH + timedelta(seconds=now_ns // _NS_PER_S)
        self._target = self._folder / f"kanalyze-{begin:%Y%m%dT%H%M%SZ}-{self._number:06}.parquet"
        self._partial = self._folder / f".{self._target.name}.open"
        self._begun_ns, self._begun_clock_ns = now_ns, clock_ns
        # A symbolic link of that name would be followed.
        self._partial.unlink(missing_ok=True)
        self._writer = ParquetWriter(str(self._partial), self._columns)
        return self._writer

    def _discard(self) -> None:
        self.lost_rows += self._rows
        self._rows = 0
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()
            self._partial.unlink(missing_ok=True)

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _locked(folder: Path) -> int:
    """Lock a folder; return the descriptor that has the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise KanalyzeError(f"cannot write to {folder}: another run writes to it") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
