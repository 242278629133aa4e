"""Packets to pcapng files, with comments, in files of bounded size.

In: packets. Out: a file that Wireshark reads, complete up to the last packet whenever it is looked
at; older ones beside it. This module must not know why packets are kept.

Packets hold what people sent: files are for their owner alone, and none is written through a link.

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
_LENGTH_NOT_GIVEN: Final = -1
_INTERFACE: Final = 1
_ENHANCED: Final = 6
_APPLICATION: Final = f"kanalyze {__version__}".encode()

_END: Final = 0
_COMMENT: Final = 1
_USER_APPLICATION: Final = 4
_INTERFACE_NAME: Final = 2
_RESOLUTION: Final = 9
_NANOSECONDS: Final = b"\x09"
_MOST_OPTION_BYTES: Final = 0xFFFF

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
"""What is around a packet: fields before it, the length of the block behind it."""


class PcapngWriter:
    """Writes packets to a file, and begins another one when that is full.

    The file that is written is ``NAME.pcapng`` always; one that is full becomes
    ``NAME-000001.pcapng``, the next one ``NAME-000002.pcapng``. A file begins with its first
    packet: without packets there is none, and what an earlier run wrote stays as it is.

    All methods raise OSError where the system does, as when the disk is full. Then what was to be
    written is not, what was written before can be read, and the next write tries again.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        interface: str = "",
        most_bytes: int = 256 << 20,
        most_files: int = 8,
    ) -> None:
        """Set up; a file of that name that an earlier run wrote is kept like one that is full.

        Args:
            path: of the file.
            interface: what to say that packets were captured on; nothing if empty.
            most_bytes: of one file; a single write that is larger makes a larger file.
            most_files: with the one that is written; when there are more, the oldest go.

        Raises:
            UsageError: a limit is below 1.
            KanalyzeError: the file cannot be written, or there is one that is not ours, or that
                another run writes to.
        """
        if min(most_bytes, most_files) < 1:
            raise UsageError("files of packets need limits of at least 1")
        self._path = Path(path)
        self.place = str(path)
        """As it was named."""
        self._rolled = re.compile(
            rf"{re.escape(self._path.stem)}-(?P<number>\d{{6,18}}){re.escape(self._path.suffix)}",
            re.ASCII,
        )
        self._interface = interface
        self._most_bytes = most_bytes
        self._most_files = most_files
        self.packets = 0
        """Written so far, to all files."""
        self._interfaces: dict[int, int] = {}
        """Numbers in the file of those described, by link type."""
        self._file: FileIO | None = None
        self._size = 0
        """Of the file, up to which it can be read; with packets it is more than 0."""
        try:
            _check_own(self._path)
            with tempfile.TemporaryFile(dir=self._path.parent):
                pass  # there may be one
        except OSError as error:
            raise KanalyzeError(f"cannot write to {path}: {error.strerror or error}") from None

    def write(
        self, packets: PacketBatch, comments: Mapping[int, Sequence[str]] | None = None
    ) -> None:
        """Write packets in their order, and hand them to the system.

        ``comments`` are texts by index of the packet in the batch; what cannot be written as
        UTF-8 is escaped, and each is cut at 65,535 bytes.
        """
        if not len(packets):
            return
        columns = PacketArrays.of(packets)
        options = {row: _comment_options(texts) for row, texts in (comments or {}).items()}
        places = _places(columns, options)
        if self._size + places[-1] > self._most_bytes:
            self.roll()
        file = self._begun() if self._file is None else self._file
        head = b"" if self._size else _SECTION_BLOCK
        interfaces = self._numbered(columns)
        data = self._encoded(columns, places, options, interfaces)
        self._put(file, head + self._described(interfaces), data)
        self._interfaces = interfaces
        self.packets += len(packets)

    def roll(self) -> None:
        """Put the file aside, if there is one; the next packet begins another."""
        if self._size:
            self.close()
            self._put_aside()

    def close(self) -> None:
        """Finish the file. Does nothing the second time."""
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

    def _begun(self) -> FileIO:
        """Make the file, and hold a lock on it as long as it is written."""
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
            # A block that ends in its middle would be the end for whoever reads.
            with suppress(OSError):
                file.seek(self._size)
                file.truncate()
            raise
        self._size += sum(map(len, parts))

    def _put_aside(self) -> None:
        """Rename the file to the next number, and remove what is too many."""
        folder = self._path.parent
        files = numbered_files(folder, self._rolled)
        number = files[-1][0] + 1 if files else 1
        with suppress(FileNotFoundError):  # whoever wanted a new file took the old one away
            if self._path.stat().st_size:
                self._path.rename(folder / f"{self._path.stem}-{number:06}{self._path.suffix}")
            else:
                self._path.unlink()  # of a run that was killed, or had no room
        remove_oldest(folder, self._rolled, self._most_files - 1)

    def _numbered(self, packets: PacketArrays) -> dict[int, int]:
        """Return the numbers of interfaces, with those that packets need besides."""
        numbers = dict(self._interfaces)
        for link_type in np.unique(packets.link_type).tolist():
            numbers.setdefault(link_type, len(numbers))
        return numbers

    def _described(self, interfaces: Mapping[int, int]) -> bytes:
        """Return the descriptions of those interfaces that the file has none of yet."""
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
        places: NDArray[np.int64],
        options: Mapping[int, bytes],
        interfaces: Mapping[int, int],
    ) -> bytearray:
        """Return the blocks of packets; ``places`` are where they begin, and the end of all."""
        begins, lengths = places[:-1], np.diff(places)
        fields = np.empty(len(packets), _PACKET)
        time_ns = np.maximum(packets.time_ns, 0)
        fields["kind"], fields["length"] = _ENHANCED, lengths
        types, type_of = np.unique(packets.link_type, return_inverse=True)
        fields["interface"] = np.array([interfaces[each] for each in types.tolist()])[type_of]
        fields["time_high"], fields["time_low"] = time_ns >> 32, time_ns & 0xFFFFFFFF
        fields["captured"], fields["wire"] = packets.captured_bytes, packets.wire_bytes
        data = bytearray(int(places[-1]))
        view = memoryview(data)
        overlapping(view, f"V{_PACKET.itemsize}")[begins] = fields.view(f"V{_PACKET.itemsize}")
        overlapping(view, "<u4")[places[1:] - 4] = lengths
        # Packet by packet: copies of more than some bytes are faster so than by index.
        sources = zip(packets.offset.tolist(), packets.captured_bytes.tolist(), strict=True)
        targets = (begins + _PACKET.itemsize).tolist()
        for target, (source, size) in zip(targets, sources, strict=True):
            view[target : target + size] = packets.buffer[source : source + size]
        for row, option in options.items():
            end = int(places[row + 1]) - 4
            view[end - len(option) : end] = option
        return data


def _places(packets: PacketArrays, options: Mapping[int, bytes]) -> NDArray[np.int64]:
    """Return where the block of each packet begins, and at last where the last one ends."""
    lengths = (packets.captured_bytes + 3 & ~3) + _PACKET_FRAME_BYTES
    for row, option in options.items():
        lengths[row] += len(option)
    return np.concatenate(([0], np.cumsum(lengths)))


def _comment_options(texts: Sequence[str]) -> bytes:
    options = [_option(_COMMENT, text.encode("utf-8", "backslashreplace")) for text in texts]
    return b"".join(options) + _end()


def _option(code: int, value: bytes) -> bytes:
    value = value[:_MOST_OPTION_BYTES]
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _end() -> bytes:
    return struct.pack("<HH", _END, 0)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


_SECTION_BLOCK: Final = _block(
    _SECTION,
    struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _LENGTH_NOT_GIVEN)
    + _option(_USER_APPLICATION, _APPLICATION)
    + _end(),
)


def _check_own(path: Path) -> bool:
    """Return whether there is a file, which then this program wrote and writes no longer.

    Raises OSError for any other.
    """
    try:
        # Not through a link, and without waiting for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileExistsError(errno.EEXIST, "it is a link") from None
        raise
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not _is_own(file):
            raise FileExistsError(errno.EEXIST, "it is there, and not written by kanalyze")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileExistsError(errno.EEXIST, "another run writes to it") from None
        except OSError:
            pass  # not every file system has locks
    return True


def _is_own(file: FileIO) -> bool:
    """Return whether a file is empty, or begins as those of this program do."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return False
    begin = file.read(len(_APPLICATION) + 64)
    is_section = begin[:4] == struct.pack("<I", _SECTION)
    return not begin or (is_section and b"kanalyze" in begin)
