"""Writes packets with comments to pcapng files of limited size.

In: packets. Out: a file that Wireshark can read at any time, and older files beside it. Must not
know: why packets are recorded.

Packets contain user data: only the owner can read the files, and symbolic links are not followed.

The format is that of the Internet-Draft draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import struct
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.live.recorder.numbered_files import numbered_files, remove_oldest
from kanalyze.model.packet_arrays import PacketArrays, overlapping
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from io import FileIO
    from types import TracebackType

    from numpy.typing import NDArray

    from kanalyze.model.packets import PacketBatch

__all__ = ["PcapngWriter"]

_SECTION: Final = 0x0A0D0D0A
_BYTE_ORDER: Final = 0x1A2B3C4D
_UNKNOWN_LENGTH: Final = -1
_INTERFACE: Final = 1
_ENHANCED: Final = 6
_APPLICATION: Final = f"kanalyze {__version__}".encode()

_END: Final = 0
_COMMENT: Final = 1
_USER_APPLICATION: Final = 4
_INTERFACE_NAME: Final = 2
_RESOLUTION: Final = 9
_NANOSECONDS: Final = b"\x09"
_MAX_OPTION_BYTES: Final = 0xFFFF

_PACKET: Final = np.dtype(
    [
        ("kind", "<u4"),
        ("length", "<u4"),
        ("interface", "<u4"),
        ("time_high", "<u4"),
        ("time_low", "<u4"),
        ("captured", "<u4"),
        ("wire", "<u4"),
    ]
)
_PACKET_FRAME_BYTES: Final = _PACKET.itemsize + 4
"""The fields before a packet, and the block length behind it."""


class PcapngWriter:
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
    ) -> None:
        """Check the path; a file of an earlier run is later renamed as a full one is.

        Args:
            path: the current file.
            interface: the name of the interface in the file; none if empty.
            max_bytes: the size of a file; a single larger write makes a larger file.
            max_files: the number of files with the current one; the oldest are removed.

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
            raise KanalyzeError(f"cannot write to {path}: {error.strerror or error}") from None

    def write(
        self, packets: PacketBatch, comments: Mapping[int, Sequence[str]] | None = None
    ) -> None:
        """Write packets in their order, unbuffered.

        ``comments`` are texts by index of the packet in the batch. Characters that UTF-8 does not
        have are escaped, and each text is cut at 65,535 bytes.
        """
        if not len(packets):
            return
        columns = PacketArrays.of(packets)
        options = {row: _comment_options(texts) for row, texts in (comments or {}).items()}
        offsets = _offsets(columns, options)
        if self._size + offsets[-1] > self._max_bytes:
            self.roll()
        file = self._create() if self._file is None else self._file
        head = b"" if self._size else _SECTION_BLOCK
        interfaces = self._numbered(columns)
        data = self._encoded(columns, offsets, options, interfaces)
        self._put(file, head + self._described(interfaces), data)
        self._interfaces = interfaces
        self.packets += len(packets)

    def roll(self) -> None:
        """Close and rename the file, if there is one; the next packet starts another."""
        if self._size:
            self.close()
            self._put_aside()

    def close(self) -> None:
        """Close the file. Does nothing the second time."""
        file, self._file = self._file, None
        size, self._size = self._size, 0
        self._interfaces = {}
        if file is not None:
            file.close()
            if not size:
                self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _create(self) -> FileIO:
        """Create the file, and lock it until it is closed."""
        if _check_own(self._path):
            self._put_aside()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, stat.S_IRUSR | stat.S_IWUSR)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._file

    def _put(self, file: FileIO, *parts: bytes | bytearray) -> None:
        try:
            for part in parts:
                rest = memoryview(part)
                while rest:
                    rest = rest[file.write(rest) :]
        except OSError:
            # Readers stop at an incomplete block.
            with suppress(OSError):
                file.seek(self._size)
                file.truncate()
            raise
        self._size += sum(map(len, parts))

    def _put_aside(self) -> None:
        """Rename the file to the next number, and remove the oldest files."""
        folder = self._path.parent
        files = numbered_files(folder, self._rolled)
        number = files[-1][0] + 1 if files else 1
        with suppress(FileNotFoundError):  # the user moved the old file away
            if self._path.stat().st_size:
                self._path.rename(folder / f"{self._path.stem}-{number:06}{self._path.suffix}")
            else:
                self._path.unlink()  # of a run that was killed, or of a full disk
        remove_oldest(folder, self._rolled, self._max_files - 1)

    def _numbered(self, packets: PacketArrays) -> dict[int, int]:
        """Return the numbers of interfaces, with new ones for the packets."""
        numbers = dict(self._interfaces)
        for link_type in np.unique(packets.link_type).tolist():
            numbers.setdefault(link_type, len(numbers))
        return numbers

    def _described(self, interfaces: Mapping[int, int]) -> bytes:
        """Return the blocks of the interfaces that the file does not describe yet."""
        name = self._interface.encode("utf-8", "backslashreplace")
        named = _option(_INTERFACE_NAME, name) if name else b""
        options = named + _option(_RESOLUTION, _NANOSECONDS) + _end()
        return b"".join(
            _block(_INTERFACE, struct.pack("<HHI", link_type, 0, 0) + options)
            for link_type in interfaces
            if link_type not in self._interfaces
        )

    @staticmethod
    def _encoded(
        packets: PacketArrays,
        offsets: NDArray[np.int64],
        options: Mapping[int, bytes],
        interfaces: Mapping[int, int],
    ) -> bytearray:
        """Return the blocks of packets, which begin at ``offsets``; the last one is the end."""
        begins, lengths = offsets[:-1], np.diff(offsets)
        fields = np.empty(len(packets), _PACKET)
        time_ns = np.maximum(packets.time_ns, 0)
        fields["kind"], fields["length"] = _ENHANCED, lengths
        types, type_of = np.unique(packets.link_type, return_inverse=True)
        fields["interface"] = np.array([interfaces[each] for each in types.tolist()])[type_of]
        fields["time_high"], fields["time_low"] = time_ns >> 32, time_ns & 0xFFFFFFFF
        fields["captured"], fields["wire"] = packets.captured_bytes, packets.wire_bytes
        data = bytearray(int(offsets[-1]))
        view = memoryview(data)
        overlapping(view, f"V{_PACKET.itemsize}")[begins] = fields.view(f"V{_PACKET.itemsize}")
        overlapping(view, "<u4")[offsets[1:] - 4] = lengths
        # Copying packet by packet is faster than indexing by byte.
        sources = zip(packets.offset.tolist(), packets.captured_bytes.tolist(), strict=True)
        targets = (begins + _PACKET.itemsize).tolist()
        for target, (source, size) in zip(targets, sources, strict=True):
            view[target : target + size] = packets.buffer[source : source + size]
        for row, option in options.items():
            end = int(offsets[row + 1]) - 4
            view[end - len(option) : end] = option
        return data


def _offsets(packets: PacketArrays, options: Mapping[int, bytes]) -> NDArray[np.int64]:
    """Return the offset of the block of each packet, and the end of the last one."""
    lengths = (packets.captured_bytes + 3 & ~3) + _PACKET_FRAME_BYTES
    for row, option in options.items():
        lengths[row] += len(option)
    return np.concatenate(([0], np.cumsum(lengths)))


def _comment_options(texts: Sequence[str]) -> bytes:
    options = [_option(_COMMENT, text.encode("utf-8", "backslashreplace")) for text in texts]
    return b"".join(options) + _end()


def _option(code: int, value: bytes) -> bytes:
    value = value[:_MAX_OPTION_BYTES]
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _end() -> bytes:
    return struct.pack("<HH", _END, 0)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


_SECTION_BLOCK: Final = _block(
    _SECTION,
    struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _UNKNOWN_LENGTH)
    + _option(_USER_APPLICATION, _APPLICATION)
    + _end(),
)


def _check_own(path: Path) -> bool:
    """Return whether there is a file, which kanalyze wrote and no run is writing.

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
    """Return whether a file is empty, or begins as files of kanalyze do."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return False
    begin = file.read(len(_APPLICATION) + 64)
    is_section = begin[:4] == struct.pack("<I", _SECTION)
    return not begin or (is_section and b"kanalyze" in begin)
