"""Checksums and decompression of records, bounded.

In: bytes, and a limit on the output. Out: numbers of 32 bits; :class:`Decompressed`, whatever the
bytes are.

The checksum of messages (magic 0 and 1) is CRC-32, that of batches (magic 2) CRC-32C, from the
crc32c package, which uses the processor's instruction where there is one and takes a view without
copying it. Only commands that read or check records load this module.

Memory is bounded by the limit, plus the codec's own window (at most 128 MiB of address space, for
zstd), whatever a bomb would expand to: output is produced piece by piece, and codecs without
streaming have to give their output's size first.

For gzip, lz4 and zstd see :mod:`kanalyze.common.decompressors`. Snappy is read by cramjam (MIT),
which python-snappy wraps; it decompresses into a buffer that we allocate, so it cannot exceed the
limit. It has wheels for every Python here, and takes 1 ms to load, when a batch first needs it.
"""

from __future__ import annotations

import zlib
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from crc32c import crc32c as crc32c_of_view

from kanalyze.common import decompressors
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.records.types import RecordProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kanalyze.common.decompressors import Codec, Decompressor


def crc32(data: bytes | bytearray | memoryview, start: int, end: int) -> int:
    """Return the CRC-32 (IEEE 802.3, as in gzip) of ``data[start:end]``."""
    return zlib.crc32(memoryview(data)[start:end])


def crc32c(data: bytes | bytearray | memoryview, start: int, end: int) -> int:
    """Return the CRC-32C (Castagnoli, RFC 3720) of ``data[start:end]``."""
    return int(crc32c_of_view(memoryview(data)[start:end]))


def checksum_of(magic: int) -> Callable[[memoryview, int], int]:
    """Return the checksum of batches of a magic: of bytes, and of what was summed up before."""
    return crc32c_of_view if magic == 2 else zlib.crc32


def running_checksum(magic: int, views: Iterable[memoryview], value: int) -> int:
    """Continue the checksum of a batch or message of a magic with more of its bytes.

    They are not joined, which takes longer than the checksum of all but very short pieces.
    """
    checksum = checksum_of(magic)
    for view in views:
        value = checksum(view, value)
    return value


CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd", "unknown", "unknown", "unknown")
"""By the low three bits of a batch's attributes."""
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

_PIECE_BYTES = 1 << 16
"""Size of the pieces of input and output."""
_MAX_MEMBERS = 1000
"""How many members of a gzip file, or frames of zstd, are read: empty ones take time without
output."""


class Decompressed(NamedTuple):
    """Decompressed bytes, and a problem if there was one."""

    data: bytes
    """Never longer than the limit; with a problem, the output before it."""
    problem: RecordProblem | None
    """``UNKNOWN_CODEC``, ``BAD_COMPRESSION`` or ``DECOMPRESSED_TOO_LARGE``."""


def decompress(
    codec: int, data: bytes, limit: int, *, wrong_lz4_checksum: bool = False
) -> Decompressed:
    """Decompress ``data``; at most ``limit`` bytes come out.

    ``codec`` is the number in a batch's attributes, 0 to 7. ``wrong_lz4_checksum`` is for magic 0:
    its LZ4 frames have a header checksum that wrongly covers the magic bytes too (KAFKA-3160), so
    the checksum is not checked. Raises nothing.
    """
    if codec == 0:
        if len(data) > limit:
            return Decompressed(data[:limit], RecordProblem.DECOMPRESSED_TOO_LARGE)
        return Decompressed(data, None)
    if codec == LZ4 and wrong_lz4_checksum:
        data = _with_right_checksum(data)
    read = _READERS.get(codec)
    if read is None:
        return Decompressed(b"", RecordProblem.UNKNOWN_CODEC)
    output = _Output(limit)
    try:
        problem = read(data, output)
    except _TooLarge:
        problem = RecordProblem.DECOMPRESSED_TOO_LARGE
    return Decompressed(output.joined(), problem)


_Result: TypeAlias = "RecordProblem | None"


class _TooLarge(Exception):
    """The output exceeds the limit."""


class _Output:
    """Collects pieces up to a limit."""

    def __init__(self, limit: int) -> None:
        self._pieces: list[bytes] = []
        self.remaining_bytes = limit

    @property
    def room(self) -> int:
        """The size of the next piece: up to one byte above the limit, to detect an excess."""
        return min(_PIECE_BYTES, self.remaining_bytes + 1)

    def add(self, piece: bytes) -> None:
        if len(piece) > self.remaining_bytes:
            self._pieces.append(piece[: self.remaining_bytes])
            self.remaining_bytes = 0
            raise _TooLarge
        if piece:
            self._pieces.append(piece)
            self.remaining_bytes -= len(piece)

    def joined(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


# -- gzip, lz4, zstd ------------------------------------------------------------------------------


def _lz4(data: bytes, output: _Output) -> _Result:
    stream, errors = decompressors.LZ4.open()
    try:
        # Kafka reads one frame and stops.
        _, problem = _one_member(stream, data, 0, output)
    except errors:
        return RecordProblem.BAD_COMPRESSION
    return problem


def _members(codec: Codec, data: bytes, output: _Output) -> _Result:
    """Read compressed members one after the other; other bytes after them are ignored.

    Java's readers do the same.
    """
    at = 0
    for number in range(_MAX_MEMBERS):
        if number and not data.startswith(codec.magic, at):
            return None
        stream, errors = codec.open()
        try:
            at, problem = _one_member(stream, data, at, output)
        except errors:
            return RecordProblem.BAD_COMPRESSION
        if problem is not None or at >= len(data):
            return problem
    return RecordProblem.BAD_COMPRESSION


def _one_member(stream: Decompressor, data: bytes, at: int, output: _Output) -> tuple[int, _Result]:
    """Read one member from ``data[at:]``; return where the next begins, and a problem."""
    while at < len(data):
        piece = data[at : at + _PIECE_BYTES]
        at += len(piece)
        more = stream.decompress(piece, output.room)
        output.add(more)
        while more and not (stream.eof or stream.needs_input):
            more = stream.decompress(b"", output.room)
            output.add(more)
        if stream.eof:
            return at - len(stream.unused_data or b""), None
    return at, RecordProblem.BAD_COMPRESSION


# -- lz4's header checksum ------------------------------------------------------------------------

_HAS_CONTENT_SIZE, _HAS_DICTIONARY = 0x08, 0x01
_MIN_LZ4_HEADER = 7
_MASK = 0xFFFFFFFF
_PRIME_1, _PRIME_2, _PRIME_3 = 2654435761, 2246822519, 3266489917
_PRIME_4, _PRIME_5 = 668265263, 374761393
_LANE_BYTES = 16


def lz4_header_checksum(descriptor: bytes) -> int:
    """Return the header checksum of a frame: the second byte of the descriptor's xxHash-32.

    ``descriptor`` is the bytes between the magic bytes and the checksum: 2 to 14 bytes. Source:
    LZ4 frame format 1.6, xxHash specification (inputs of less than 16 bytes). Raises ValueError for
    a longer one.
    """
    if len(descriptor) >= _LANE_BYTES:
        raise ValueError("an LZ4 frame descriptor has less than 16 bytes")
    value = (_PRIME_5 + len(descriptor)) & _MASK
    words = len(descriptor) // 4
    for index in range(words):
        word = int.from_bytes(descriptor[4 * index : 4 * index + 4], "little")
        value = _rotated((value + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in descriptor[4 * words :]:
        value = _rotated((value + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    value ^= value >> 16
    return value >> 8 & 0xFF


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _with_right_checksum(data: bytes) -> bytes:
    """Return an LZ4 frame with the right checksum of its descriptor."""
    if len(data) < _MIN_LZ4_HEADER or not data.startswith(decompressors.LZ4.magic):
        return data
    flags = data[4]
    at = 6 + (8 if flags & _HAS_CONTENT_SIZE else 0) + (4 if flags & _HAS_DICTIONARY else 0)
    if at >= len(data):
        return data
    return data[:at] + bytes((lz4_header_checksum(data[4:at]),)) + data[at + 1 :]


# -- snappy ---------------------------------------------------------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
"""Magic, version, oldest version that can read it. The latter two are ignored: there is one
version, and some clients swap the bytes."""
_MAX_SNAPPY_RATIO = 22
"""A copy of at most 64 bytes takes 3."""
_length: Callable[[bytes, int], tuple[int]] = Struct(">i").unpack_from


def _snappy(data: bytes, output: _Output) -> _Result:
    if not data.startswith(_XERIAL_MAGIC):
        return _raw_snappy(data, output)
    at = 0
    while at < len(data):
        if data.startswith(_XERIAL_MAGIC, at):  # streams one after the other
            at += _XERIAL_HEADER_BYTES
            continue
        if at + 4 > len(data):
            return RecordProblem.BAD_COMPRESSION
        size = _length(data, at)[0]
        at += 4
        if not 0 <= size <= len(data) - at:
            return RecordProblem.BAD_COMPRESSION
        problem = _raw_snappy(data[at : at + size], output)
        if problem is not None:
            return problem
        at += size
    return None if at == len(data) else RecordProblem.BAD_COMPRESSION


def _raw_snappy(data: bytes, output: _Output) -> _Result:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(data)
        if size > _MAX_SNAPPY_RATIO * len(data):
            return RecordProblem.BAD_COMPRESSION
        if size > output.remaining_bytes:
            return RecordProblem.DECOMPRESSED_TOO_LARGE
        buffer = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(data, buffer)
    except cramjam.DecompressionError:
        return RecordProblem.BAD_COMPRESSION
    if written != size:
        return RecordProblem.BAD_COMPRESSION
    output.add(bytes(buffer))
    return None


_READERS: dict[int, Callable[[bytes, _Output], _Result]] = {
    GZIP: partial(_members, decompressors.GZIP),
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: partial(_members, decompressors.ZSTD),
}
