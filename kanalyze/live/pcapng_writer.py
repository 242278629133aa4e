"""Packets to pcapng files, with comments, in files of bounded size.

In: packets. Out: a file that Wireshark reads, complete up to the last packet whenever it is looked
at; older ones beside it. This module must not know why packets are kept.

The format is that of the Internet-Draft draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from kanalyze.errors import KanalyzeError, UsageError
from kanalyze.gathers import overlapping
from kanalyze.live.numbered_files import numbered_files, remove_oldest
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from io import FileIO
    from types import TracebackType

    from numpy.typing import NDArray

    from kanalyze.model import PacketBatch

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
    ``NAME-000001.pcapng``, the next one ``NAME-000002.pcapng``. All methods raise OSError where
    the system does.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        interface: str = "",
        most_bytes: int = 256 << 20,
        most_files: int = 8,
    ) -> None:
        """Begin; a file of that name that an earlier run wrote is kept like one that is full.

        Args:
            path: of the file.
            interface: what to say that packets were captured on; nothing if empty.
            most_bytes: of one file; a single write that is larger makes a larger file.
            most_files: with the one that is written; when there are more, the oldest go.

        Raises:
            UsageError: a limit is below 1.
            KanalyzeError: the file cannot be written, or there is one that is not ours.
        """
        if min(most_bytes, most_files) < 1:
            raise UsageError("files of packets need limits of at least 1")
        self._path = Path(path)
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
        """Numbers in the file of those described, by link type; with packets there is one."""
        self._size = 0
        try:
            if self._path.exists():
                _check_own(self._path)
                self._put_aside()
            self._file: FileIO = self._begun()
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
        options = {row: _comment_options(texts) for row, texts in (comments or {}).items()}
        places = _places(packets, options)
        if self._interfaces and self._size + places[-1] > self._most_bytes:
            self.roll()
        self._put(self._described(packets))
        self._put(self._encoded(packets, places, options))
        self.packets += len(packets)

    def roll(self) -> None:
        """Put the file aside, if there are packets in it, and begin another one."""
        if not self._interfaces:
            return
        self._file.close()
        self._put_aside()
        self._file = self._begun()

    def close(self) -> None:
        """Finish the file. Does nothing the second time."""
        self._file.close()

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
        self._interfaces.clear()
        self._size = 0
        self._file = self._path.open("wb", buffering=0)
        fields = struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _LENGTH_NOT_GIVEN)
        self._put(_block(_SECTION, fields + _option(_USER_APPLICATION, _APPLICATION) + _end()))
        return self._file

    def _put(self, data: bytes | bytearray) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            # A block that ends in its middle would be the end for whoever reads.
            with suppress(OSError):
                self._file.seek(self._size)
                self._file.truncate()
            raise
        self._size += len(data)

    def _put_aside(self) -> None:
        """Rename the file to the next number, and remove what is too many."""
        folder = self._path.parent
        files = numbered_files(folder, self._rolled)
        number = files[-1][0] + 1 if files else 1
        self._path.rename(folder / f"{self._path.stem}-{number:06}{self._path.suffix}")
        remove_oldest(folder, self._rolled, self._most_files - 1)

    def _described(self, packets: PacketBatch) -> bytes:
        """Return the descriptions of interfaces that packets need and that are not there yet."""
        blocks = []
        for link_type in np.unique(packets.link_type).tolist():
            if link_type not in self._interfaces:
                self._interfaces[link_type] = len(self._interfaces)
                fields = struct.pack("<HHI", link_type, 0, 0)
                name = self._interface.encode("utf-8", "backslashreplace")
                named = _option(_INTERFACE_NAME, name) if name else b""
                options = named + _option(_RESOLUTION, _NANOSECONDS) + _end()
                blocks.append(_block(_INTERFACE, fields + options))
        return b"".join(blocks)

    def _encoded(
        self, packets: PacketBatch, places: NDArray[np.int64], options: Mapping[int, bytes]
    ) -> bytearray:
        """Return the blocks of packets; ``places`` are where they begin, and the end of all."""
        begins, lengths = places[:-1], np.diff(places)
        fields = np.empty(len(packets), _PACKET)
        time_ns = np.maximum(packets.time_ns, 0)
        fields["kind"], fields["length"] = _ENHANCED, lengths
        types, type_of = np.unique(packets.link_type, return_inverse=True)
        fields["interface"] = np.array([self._interfaces[each] for each in types.tolist()])[type_of]
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


def _places(packets: PacketBatch, options: Mapping[int, bytes]) -> NDArray[np.int64]:
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


def _check_own(path: Path) -> None:
    """Raise KanalyzeError for a file that this program did not write."""
    with path.open("rb") as file:
        begin = file.read(len(_APPLICATION) + 64)
    is_section = begin[:4] == struct.pack("<I", _SECTION)
    if begin and not (is_section and b"kanalyze" in begin):
        raise KanalyzeError(f"cannot write to {path}: it is there, and not written by kanalyze")
