"""Writes packets with comments to pcapng files of limited size.

In: packets. Out: a file that Wireshark can read at any time, and older files beside it.

Packets contain user data: only the owner can read the files, and symbolic links are not followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kanalyze.capture.formats.pcapng_encoder import (
    LONGEST_OWN_BEGIN,
    PacketBlocks,
    decryption_secrets,
    interface_description,
    is_written_by_kanalyze,
    section_header,
)
from kanalyze.common.closing import ClosedAtEnd
from kanalyze.errors import KanalyzeError, UsageError, reason_of
from kanalyze.live.recorder.numbered_files import numbered_files, remove_oldest
from kanalyze.tls.keylog import TLS_KEY_LOG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from io import FileIO

    from kanalyze.model.packets import PacketBatch
    from kanalyze.tls.keylog import KeyLog

__all__ = ["PcapngWriter"]


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
        blocks = PacketBlocks(packets, comments or {})
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
