"""Blocks of pcapng files, as bytes.

In: packets as columns, comments, interfaces. Out: bytes.

The format is that of the Internet-Draft draft-ietf-opsawg-pcapng. Files are little-endian, times in
nanoseconds.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.int_columns import copy_ranges
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.errors import CaptureError
from kanalyze.model.packet_arrays import PacketArrays, overlapping
from kanalyze.model.packets import NO_TIME
from kanalyze.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from kanalyze.model.packets import PacketBatch

_SECTION: Final = 0x0A0D0D0A
_BYTE_ORDER: Final = 0x1A2B3C4D
_UNKNOWN_LENGTH: Final = -1
_INTERFACE: Final = 1
_ENHANCED: Final = 6
_SIMPLE: Final = 3
_SECRETS: Final = 10
_APPLICATION: Final = f"kanalyze {__version__}".encode()
LONGEST_OWN_BEGIN: Final = len(_APPLICATION) + 64
"""Bytes of a file's beginning that :func:`is_written_by_kanalyze` needs."""

_END: Final = 0
_END_BYTES: Final = 4
_COMMENT: Final = 1
_USER_APPLICATION: Final = 4
_INTERFACE_NAME: Final = 2
_INTERFACE_FILTER: Final = 11
_FILTER_AS_TEXT: Final = b"\0"
_RESOLUTION: Final = 9
_NANOSECONDS: Final = b"\x09"
_MAX_OPTION_BYTES: Final = 0xFFFF
_OPTION_HEAD_BYTES: Final = 4

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
"""Size of the fields before a packet, and of the block length after it."""
_SIMPLE_FIELDS: Final = struct.Struct("<III")
_SIMPLE_FRAME_BYTES: Final = _SIMPLE_FIELDS.size + 4
"""The same of a Simple Packet Block, which packets without a time have."""


def section_header() -> bytes:
    """Return the block that a file begins with; it names kanalyze as the program."""
    fields = struct.pack("<IHHq", _BYTE_ORDER, 1, 0, _UNKNOWN_LENGTH)
    return _block(_SECTION, fields + _option(_USER_APPLICATION, _APPLICATION) + _end())


def is_written_by_kanalyze(begin: bytes) -> bool:
    """Return true if a file with this beginning was written by kanalyze."""
    return begin[:4] == struct.pack("<I", _SECTION) and b"kanalyze" in begin


def interface_description(link_type: int, *, name: str = "", packet_filter: str = "") -> bytes:
    """Return the block of an interface; empty texts are left out."""
    options = b""
    if name:
        options += _option(_INTERFACE_NAME, _text(name))
    options += _option(_RESOLUTION, _NANOSECONDS)
    if packet_filter:
        options += _option(_INTERFACE_FILTER, _FILTER_AS_TEXT + _text(packet_filter))
    return _block(_INTERFACE, struct.pack("<HHI", link_type, 0, 0) + options + _end())


def decryption_secrets(kind: int, data: bytes) -> bytes:
    """Return a block of secrets; ``kind`` as in :class:`~.file_metadata.DecryptionSecrets`."""
    padded = data + bytes(-len(data) % 4)
    return _block(_SECRETS, struct.pack("<II", kind, len(data)) + padded)


class PacketComments(NamedTuple):
    """Comments on packets, encoded."""

    rows: NDArray[np.int64]
    """The index of the packet of each comment, ascending."""
    begins: NDArray[np.int64]
    """Where each comment's option begins in ``options``."""
    sizes: NDArray[np.int64]
    """Sizes of the options in bytes."""
    options: bytes

    @classmethod
    def of(cls, comments: Mapping[int, Sequence[str]]) -> PacketComments:
        """Encode comments, which are texts by index of the packet.

        Characters that UTF-8 does not have are escaped, and each text is cut at 65,535 bytes.
        """
        rows = [row for row in sorted(comments) for _ in comments[row]]
        encoded = EncodedComments([text for row in sorted(comments) for text in comments[row]])
        return encoded.on(np.array(rows, np.int64), np.arange(len(rows)))

    def followed_by(self, other: PacketComments) -> PacketComments:
        """Return these comments, and on each packet after them the ``other`` ones."""
        rows = np.concatenate((self.rows, other.rows))
        begins = np.concatenate((self.begins, other.begins + len(self.options)))
        sizes = np.concatenate((self.sizes, other.sizes))
        options = self.options + other.options if self.options else other.options
        order = np.argsort(rows, kind="stable")
        return PacketComments(rows[order], begins[order], sizes[order], options)

    def only(self, chosen: NDArray[np.bool_]) -> PacketComments:
        """Return the comments that are chosen."""
        rows, begins, sizes, options = self
        return PacketComments(rows[chosen], begins[chosen], sizes[chosen], options)


class EncodedComments:
    """Texts as options of packets, each of which may be on many packets."""

    def __init__(self, texts: Sequence[str]) -> None:
        # There may be one for each request of a capture: they are laid out together.
        values = [_text(text)[:_MAX_OPTION_BYTES] for text in texts]
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        self._sizes = _OPTION_HEAD_BYTES + (lengths + 3 & ~3)
        self._begins = np.cumsum(self._sizes) - self._sizes
        options = bytearray(int(self._sizes.sum()))
        overlapping(memoryview(options), "<u4")[self._begins] = lengths << 16 | _COMMENT
        places = self._begins + _OPTION_HEAD_BYTES
        copy_ranges(options, places, b"".join(values), np.cumsum(lengths) - lengths, lengths)
        self._options = bytes(options)

    def on(self, rows: NDArray[np.int64], texts: NDArray[np.int64]) -> PacketComments:
        """Return comments: the index of the packet of each, ascending, and that of its text."""
        return PacketComments(rows, self._begins[texts], self._sizes[texts], self._options)


class PacketBlocks:
    """The blocks of some packets, whose size is known before they are encoded."""

    def __init__(self, packets: PacketBatch, comments: PacketComments) -> None:
        """Lay them out. Packets without a time get Simple Packet Blocks, which have no comments.

        Raises :class:`CaptureError` for a packet that is cut and has no time: pcapng cannot say so.
        """
        self._packets = PacketArrays.of(packets)
        self._is_timed = self._packets.time_ns != NO_TIME
        self._has_untimed = not bool(self._is_timed.all())
        if self._has_untimed:
            cut = ~self._is_timed & (self._packets.captured_bytes < self._packets.wire_bytes)
            self._check(cut, "is cut")
            comments = comments.only(self._is_timed[comments.rows])
        self._comments = comments
        self._offsets = _offsets(self._packets, self._is_timed, comments)

    @property
    def total_bytes(self) -> int:
        """Size of all blocks."""
        return int(self._offsets[-1])

    def interfaces(
        self, known: Mapping[int, int], description: Callable[[int], bytes]
    ) -> tuple[bytes, dict[int, int]]:
        """Return the blocks of new interfaces, and the numbers of all, by link type.

        ``known`` are the numbers of the interfaces that the file has. ``description`` returns the
        block of a link type's interface.
        """
        new = [kind for kind in np.unique(self._packets.link_type).tolist() if kind not in known]
        numbers = {link_type: len(known) + place for place, link_type in enumerate(new)}
        return b"".join(map(description, new)), {**known, **numbers}

    def encoded(self, interfaces: Mapping[int, int]) -> bytearray:
        """Return the blocks, in the order of the packets.

        ``interfaces`` has the number of the interface of each link type.
        """
        packets, offsets = self._packets, self._offsets
        begins, lengths = offsets[:-1], np.diff(offsets)
        fields = np.empty(len(packets), _PACKET)
        timed = self._is_timed
        time_ns = np.maximum(packets.time_ns, 0)
        fields["kind"], fields["length"] = _ENHANCED, lengths
        types, type_of = np.unique(packets.link_type, return_inverse=True)
        fields["interface"] = np.array([interfaces[link] for link in types.tolist()])[type_of]
        fields["time_high"], fields["time_low"] = time_ns >> 32, time_ns & 0xFFFFFFFF
        fields["captured"], fields["wire"] = packets.captured_bytes, packets.wire_bytes
        data = bytearray(int(offsets[-1]))
        view = memoryview(data)
        headers = fields.view(f"V{_PACKET.itemsize}")
        if not self._has_untimed:
            overlapping(view, headers.dtype)[begins] = headers
        elif timed.any():
            overlapping(view, headers.dtype)[begins[timed]] = headers[timed]
        self._add_simple(view, fields)
        overlapping(view, "<u4")[offsets[1:] - 4] = lengths
        header_bytes = np.where(timed, _PACKET.itemsize, _SIMPLE_FIELDS.size)
        sizes = packets.captured_bytes
        copy_ranges(data, begins + header_bytes, packets.buffer, packets.offset, sizes)
        self._add_comments(data)
        return data

    def _add_comments(self, data: bytearray) -> None:
        """Write the comments at the end of their blocks; zeros after the last one end them."""
        rows, begins, sizes, options = self._comments
        ends = self._offsets[rows + 1] - _END_BYTES - 4
        copy_ranges(data, ends - _sums_to_end(rows, sizes), memoryview(options), begins, sizes)

    def _add_simple(self, view: memoryview, fields: NDArray[np.void]) -> None:
        """Write the fields of the packets without a time."""
        if not self._has_untimed:
            return
        self._check(~self._is_timed & (fields["interface"] != 0), "is of another link type")
        for row in np.flatnonzero(~self._is_timed).tolist():
            length, wire = int(fields["length"][row]), int(fields["wire"][row])
            _SIMPLE_FIELDS.pack_into(view, int(self._offsets[row]), _SIMPLE, length, wire)

    def _check(self, impossible: NDArray[np.bool_], why: str) -> None:
        """Raise CaptureError for the first packet that no block can hold."""
        if impossible.any():
            number = int(self._packets.number[np.flatnonzero(impossible)[0]])
            raise CaptureError(
                f"packet {number} has no time and {why}: a pcapng file cannot say both"
            )


def _offsets(
    packets: PacketArrays, is_timed: NDArray[np.bool_], comments: PacketComments
) -> NDArray[np.int64]:
    """Return the offset of the block of each packet, and the end of the last one."""
    frame_bytes = np.where(is_timed, _PACKET_FRAME_BYTES, _SIMPLE_FRAME_BYTES)
    lengths = (packets.captured_bytes + 3 & ~3) + frame_bytes
    np.add.at(lengths, comments.rows, comments.sizes)
    lengths[comments.rows] += _END_BYTES
    return np.concatenate(([0], np.cumsum(lengths)))


def _sums_to_end(rows: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of each size and those after it in the same row; rows are ascending."""
    sums = np.concatenate(([0], np.cumsum(sizes)))
    sums_to_end: NDArray[np.int64] = sums[rows.searchsorted(rows, "right")] - sums[:-1]
    return sums_to_end


def _text(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _option(code: int, value: bytes) -> bytes:
    value = value[:_MAX_OPTION_BYTES]
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _end() -> bytes:
    return struct.pack("<HH", _END, 0)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length
