"""Blanks the keys, values and headers of records; everything else stays.

In: the bytes of a records field. Out: bytes of the same length, and the ranges of the records in
it.

Offsets, times, sizes, sequence numbers and the types of control records stay. A checksum that was
right is right again, and one that was wrong is wrong again. A compressed batch is decompressed,
blanked, and compressed to the size that it had (:func:`compressed_to`). If that is impossible, or
if its records cannot be read, they are blanked as a whole, and the batch is counted.

Blanked data compresses better than the original, so the result is padded. The format allows the
padding, so every decoder reads it:

- gzip: empty stored blocks of 5 bytes before the data; for the remaining one to four bytes, an
  empty comment or an extra field in the header (RFC 1952, RFC 1951).
- zstd: a skippable frame after the data; for less than its 8 bytes, empty raw blocks of 3 bytes,
  and a dictionary id of 0 (no dictionary) in one or two bytes (RFC 8878).
- lz4: the first part of the data is stored uncompressed, in blocks of its own.
- snappy: the first part of the data is a literal, whose length may be written in one to five bytes.

This cannot reach some sizes that are a few bytes above what the codec needs: the result is None.
"""

from __future__ import annotations

import struct
import sys
import zlib
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.anonymization.rewriting import BatchBlanker
from kanalyze.common.caches import remember
from kanalyze.kafka.records.batches import message_end
from kanalyze.kafka.records.compression import crc32, decompress, lz4_header_checksum
from kanalyze.kafka.records.types import (
    MAGIC_AT,
    MAX_DEPTH,
    MESSAGE_HEAD_BYTES,
    DecompressionLimits,
)
from kanalyze.kafka.wire import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.anonymization.stand_ins import StandIns

Ranges: TypeAlias = "Sequence[tuple[int, int]]"
"""Begin and end of each range; the end is not included."""

_OLD_CRC_AT, _OLD_CRC_FROM = 12, 16
_CODEC: Final = 0x07
_LIMITS: Final = DecompressionLimits()

_FILL: Final = b"x" * (1 << 20)
_MAX_KNOWN: Final = 1 << 16
_LONGEST_REMEMBERED: Final = 512
"""Of the names of headers whose stand-ins are cached: how many, and the bytes of one."""
_KNOWN_HEADERS: Final = frozenset(
    (b"traceparent", b"tracestate", b"baggage", b"b3", b"uber-trace-id", b"content-type")
)
"""Names of headers that standards define; they stay."""

_length: Callable[[bytes | bytearray, int], tuple[int]] = struct.Struct(">i").unpack_from
_crc = struct.Struct(">I")


class _UnreadableRecords(Exception):
    """Records do not follow the format."""


class _HeaderNames:
    """Stand-ins for the names of headers of records, of which there are few."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        self._known: dict[bytes, bytes] = {}

    def stand_in(self, name: bytes) -> bytes:
        """Return the stand-in of a name."""
        known = self._known.get(name)
        if known is None:
            known = self._stand_ins.name_but(name, _KNOWN_HEADERS)
            if len(name) <= _LONGEST_REMEMBERED:
                remember(self._known, name, known, _MAX_KNOWN)
        return known


class RecordBlanker(BatchBlanker):
    """Blanks records fields, one after the other."""

    def __init__(self, stand_ins: StandIns) -> None:
        super().__init__(_HeaderNames(stand_ins).stand_in)

    def repacked(self, codec: int, packed: bytes, count: int, is_control: bool) -> bytes | None:
        """Return the compressed records of a batch, blanked; None if that is impossible."""
        data, problem = decompress(codec, packed, _LIMITS.allowed(len(packed)))
        if problem is not None:
            return None
        blanked = bytearray(data)
        if not self.blank_records(data, 0, len(data), count, is_control, blanked):
            return None
        return compressed_to(codec, bytes(blanked), packed)

    def message(self, message: bytes) -> bytes:
        """Return a whole message of magic 0 or 1 without its contents."""
        return self._message(message, 1)

    # -- messages of magic 0 and 1 ----------------------------------------------------------------

    def _message(self, message: bytes, depth: int) -> bytes:
        """Return a whole message of a message set without its contents."""
        magic, attributes = message[MAGIC_AT], message[MAGIC_AT + 1]
        head = MESSAGE_HEAD_BYTES + (8 if magic else 0)
        out = bytearray(len(message))
        out[:head] = message[:head]
        try:
            self._contents(message, head, out, attributes & _CODEC, depth)
        except (_UnreadableRecords, Malformed, struct.error):
            out[head:] = bytes(len(out) - head)
            self.blanked_batches += 1
        old_crc = _crc.unpack_from(message, _OLD_CRC_AT)[0]
        is_right = crc32(message, _OLD_CRC_FROM, len(message)) == old_crc
        _put_sum(out, _OLD_CRC_AT, crc32(out, _OLD_CRC_FROM, len(out)), is_right=is_right)
        return bytes(out)

    def _contents(self, message: bytes, at: int, out: bytearray, codec: int, depth: int) -> None:
        for is_value in (False, True):
            size = _length(message, at)[0]
            out[at : at + 4] = message[at : at + 4]
            at += 4
            if size < 0:
                continue
            if at + size > len(message):
                raise _UnreadableRecords
            content = message[at : at + size]
            if is_value and codec:
                out[at : at + size] = self._message_set(content, codec, message[MAGIC_AT], depth)
            else:
                out[at : at + size] = _filled(size)
            at += size
        if at != len(message):
            raise _UnreadableRecords

    def _message_set(self, packed: bytes, codec: int, magic: int, depth: int) -> bytes:
        """Return a compressed message set with its messages blanked."""
        wrong = magic == 0
        allowed = _LIMITS.allowed(len(packed))
        data, problem = decompress(codec, packed, allowed, wrong_lz4_checksum=wrong)
        if problem is not None or depth > MAX_DEPTH:
            raise _UnreadableRecords
        messages = []
        at = 0
        while at < len(data):
            end = message_end(data, at)
            messages.append(self._message(data[at:end], depth + 1))
            at = end
        compressed = compressed_to(codec, b"".join(messages), packed, wrong_lz4_checksum=wrong)
        if compressed is None:
            raise _UnreadableRecords
        return compressed


def _filled(size: int) -> bytes:
    return _FILL[:size] if size <= len(_FILL) else b"x" * size


def _put_sum(out: bytearray, at: int, value: int, *, is_right: bool) -> None:
    """Write a checksum; to make it wrong, every bit is inverted."""
    _crc.pack_into(out, at, value if is_right else value ^ 0xFFFFFFFF)


_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4


def compressed_to(
    codec: int, data: bytes, original: bytes, *, wrong_lz4_checksum: bool = False
) -> bytes | None:
    """Compress data to the size of ``original``; return None if that is impossible.

    ``original`` is compressed with the same codec; its header selects the framing.
    ``wrong_lz4_checksum`` is as in :func:`kanalyze.kafka.records.compression.decompress`.
    """
    size = len(original)
    if codec == _GZIP:
        return _gzip(data, size)
    if codec == _ZSTD:
        return _zstd(data, size)
    if codec == _SNAPPY:
        return _snappy(data, original)
    if codec == _LZ4:
        return _lz4(data, size, wrong_checksum=wrong_lz4_checksum)
    return None


# -- gzip -----------------------------------------------------------------------------------------

_EMPTY_STORED: Final = b"\0\0\0\xff\xff"
_LEVELS: Final = (6, 9)
_GZIP_OPTIONS: Final = (
    (0x00, b""),
    (0x10, b"\0"),  # an empty comment
    (0x04, b"\0\0"),  # an extra field of 0, 1, 2 bytes
    (0x04, b"\1\0\0"),
    (0x04, b"\2\0\0\0"),
)
"""Flags, and the fields that they add to the header; the index is the size of these fields."""


def _gzip(data: bytes, size: int) -> bytes | None:
    trailer = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    for level in _LEVELS:
        packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        body = packer.compress(data) + packer.flush()
        empty, option_bytes = divmod(size - len(body) - len(trailer) - 10, len(_EMPTY_STORED))
        if empty >= 0:
            flags, options = _GZIP_OPTIONS[option_bytes]
            header = b"\x1f\x8b\x08" + bytes((flags,)) + b"\0\0\0\0\0\xff" + options
            return header + _EMPTY_STORED * empty + body + trailer
    return None


# -- zstd -----------------------------------------------------------------------------------------

_SKIPPABLE: Final = 0x184D2A50
_SKIPPABLE_BYTES: Final = 8
_EMPTY_RAW: Final = b"\0\0\0"
_HAS_CHECKSUM: Final = 0x04


def _zstd(data: bytes, size: int) -> bytes | None:
    if sys.version_info >= (3, 14):
        from compression.zstd import CompressionParameter, ZstdCompressor
    else:
        from backports.zstd import CompressionParameter, ZstdCompressor

    for level in (3, 9):
        packer = ZstdCompressor(
            options={
                CompressionParameter.compression_level: level,
                CompressionParameter.content_size_flag: 0,
                CompressionParameter.checksum_flag: 0,
            }
        )
        frame = packer.compress(data, ZstdCompressor.CONTINUE) + packer.flush()
        room = size - len(frame)
        if room < 0:
            continue
        if room >= _SKIPPABLE_BYTES:
            padding = room - _SKIPPABLE_BYTES
            return frame + struct.pack("<II", _SKIPPABLE, padding) + bytes(padding)
        return _widened(frame, room)
    return None


def _widened(frame: bytes, room: int) -> bytes | None:
    """Return a zstd frame with ``room`` bytes more; None if its header has optional fields."""
    descriptor = frame[4]
    if descriptor & ~_HAS_CHECKSUM:  # a size of the content, or a dictionary
        return None
    empty, id_bytes = divmod(room, len(_EMPTY_RAW))
    head = frame[:4] + bytes((descriptor | id_bytes,)) + frame[5:6]
    return head + bytes(id_bytes) + _EMPTY_RAW * empty + frame[6:]


# -- lz4 and snappy: the first part uncompressed, the rest compressed -----------------------------

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT: Final = 0x60
_LZ4_CHECKSUM: Final = 0x04
_LZ4_LARGEST: Final = 0x70
_LZ4_FRAME_BYTES: Final = 11
"""Magic, descriptor, its checksum, end mark."""
_PIECE: Final = 1 << 16
_LZ4_STORED: Final = 1 << 31
_MAX_STEPS: Final = 256
_JITTER, _JITTER_SHIFT = 64, 6
"""Where a result differs by more than these bytes, it is not looked further: it only grows there.
Sizes that cannot be reached took two thirds of the time of small batches."""


def _split_at(least: int, most: int, size: int, size_of: Callable[[int], int]) -> int | None:
    """Return how many bytes to leave uncompressed so that the result has ``size`` bytes.

    ``size_of`` returns the size of the result for a number of uncompressed bytes; each one adds
    about 1. None if no number from ``least`` to ``most`` was found.
    """
    low, high = least, most
    while low < high:
        middle = low + high >> 1
        if size_of(middle) < size:
            low = middle + 1
        else:
            high = middle
    lowest, highest = max(least, low - _MAX_STEPS), min(most, low + _MAX_STEPS)
    jitter = _JITTER + (size >> _JITTER_SHIFT)
    for step in range(_MAX_STEPS):
        below, above = low - step, low + step
        if below < lowest and above > highest:
            break
        if lowest <= below <= most:
            found = size_of(below)
            if found == size:
                return below
            if found < size - jitter:
                lowest = low
        if least <= above <= highest:
            found = size_of(above)
            if found == size:
                return above
            if found > size + jitter:
                highest = low
    return None


class _Lz4Blocks:
    """Data as LZ4 blocks: the first part is stored uncompressed, the rest is compressed."""

    def __init__(self, data: bytes) -> None:
        self._pieces = [data[at : at + _PIECE] for at in range(0, len(data), _PIECE)]
        self._packed = [_lz4_block(piece) for piece in self._pieces]
        total = 0
        self._sizes_of_last = [0]
        """Total bytes of the last 0, 1, ... n compressed pieces."""
        for packed in reversed(self._packed):
            total += len(packed)
            self._sizes_of_last.append(total)
        self._sizes: dict[int, int] = {}

    def size(self, stored_bytes: int) -> int:
        """Return the size of all blocks when the first ``stored_bytes`` bytes are stored."""
        size = self._sizes.get(stored_bytes)
        if size is None:
            full_pieces, inside = divmod(stored_bytes, _PIECE)
            size = full_pieces * (_PIECE + 4)
            if inside:
                tail = self._pieces[full_pieces][inside:]
                packed_bytes = 4 + min(len(_lz4_packed(tail)), len(tail)) if tail else 0
                size += 4 + inside + packed_bytes
                full_pieces += 1
            compressed_pieces = max(len(self._pieces) - full_pieces, 0)
            size += self._sizes_of_last[compressed_pieces]
            self._sizes[stored_bytes] = size
        return size

    def blocks(self, stored_bytes: int) -> list[bytes]:
        """Return all blocks, with the first ``stored_bytes`` bytes stored."""
        full_pieces, inside = divmod(stored_bytes, _PIECE)
        blocks = [_lz4_stored(piece) for piece in self._pieces[:full_pieces]]
        if inside:
            blocks += self._divided(full_pieces, inside)
            full_pieces += 1
        return blocks + self._packed[full_pieces:]

    def _divided(self, index: int, inside: int) -> list[bytes]:
        piece = self._pieces[index]
        tail = piece[inside:]
        return [_lz4_stored(piece[:inside]), _lz4_block(tail) if tail else b""]


def _lz4_packed(block: bytes) -> bytes:
    import lz4.block

    packed: bytes = lz4.block.compress(block, store_size=False)
    return packed


def _lz4_block(block: bytes) -> bytes:
    packed = _lz4_packed(block)
    if len(packed) >= len(block):
        return _lz4_stored(block)
    return struct.pack("<I", len(packed)) + packed


def _lz4_stored(block: bytes) -> bytes:
    return struct.pack("<I", len(block) | _LZ4_STORED) + block


def _lz4(data: bytes, size: int, *, wrong_checksum: bool) -> bytes | None:
    blocks = _Lz4Blocks(data)
    for flags in (0, _LZ4_CHECKSUM):
        check = _xxhash32(data) if flags else b""
        stored_bytes = _split_at(0, len(data), size - _LZ4_FRAME_BYTES - len(check), blocks.size)
        if stored_bytes is not None:
            descriptor = bytes((_LZ4_INDEPENDENT | flags, _LZ4_LARGEST))
            summed = _LZ4_MAGIC + descriptor if wrong_checksum else descriptor
            head = _LZ4_MAGIC + descriptor + bytes((lz4_header_checksum(summed),))
            return head + b"".join(blocks.blocks(stored_bytes)) + bytes(4) + check
    return None


def _xxhash32(data: bytes) -> bytes:
    """Return the xxHash-32 of data; the lz4 library calculates it for the end of a frame."""
    import lz4.frame

    frame: bytes = lz4.frame.compress(data, content_checksum=True)
    return frame[-4:]


_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_WIDEST: Final = 4
"""Most bytes that the length of a literal takes, besides the tag byte."""


def _snappy(data: bytes, original: bytes) -> bytes | None:
    size = len(original)
    if not original.startswith(_XERIAL_MAGIC):
        return _raw_snappy(data, size)
    if size < _XERIAL_HEADER_BYTES + 4:
        return original if size == _XERIAL_HEADER_BYTES and not data else None
    header = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
    inside = _raw_snappy(data, size - _XERIAL_HEADER_BYTES - 4)
    return None if inside is None else header + struct.pack(">i", len(inside)) + inside


def _raw_snappy(data: bytes, size: int) -> bytes | None:
    from cramjam import snappy

    length = _encoded_varint(len(data))
    compress = snappy.compress_raw

    def packed(stored_bytes: int) -> bytes:
        part = data[stored_bytes:]
        return bytes(compress(part))[_varint_bytes(len(part)) :] if part else b""

    sizes: dict[int, int] = {}

    def size_of(stored_bytes: int) -> int:
        size = sizes.get(stored_bytes)
        if size is None:
            part_bytes = len(data) - stored_bytes
            size = len(length) + _literal_bytes(stored_bytes)
            if part_bytes:
                size += len(compress(data[stored_bytes:])) - _varint_bytes(part_bytes)
            sizes[stored_bytes] = size
        return size

    # The length of a literal may be written in up to four bytes more than it needs.
    for spare in range(5):
        stored_bytes = _split_at(1 if spare else 0, len(data), size - spare, size_of)
        if stored_bytes is not None:
            literal = _literal(data[:stored_bytes], spare) if stored_bytes else b""
            if literal is not None:
                return length + literal + packed(stored_bytes)
    return None


def _literal_bytes(size: int) -> int:
    """Return the size of a literal of ``size`` bytes that has no spare bytes; 0 without any."""
    if not size:
        return 0
    least = 0 if size <= 60 else (size - 1).bit_length() + 7 >> 3
    return 0 if 0 < least < _WIDEST - size else 1 + least + size


def _literal(block: bytes, spare: int) -> bytes | None:
    """Return a literal with ``spare`` bytes more in its header than needed; None if impossible."""
    number = len(block) - 1
    least = 0 if number < 60 else number.bit_length() + 7 >> 3
    width = least + spare
    if width > _WIDEST or 0 < width < _WIDEST - len(block):
        return None  # some decoders read four bytes of length at once
    if not width:
        return bytes((number << 2,)) + block
    return bytes((59 + width << 2,)) + number.to_bytes(width, "little") + block


def _varint_bytes(number: int) -> int:
    return max(number.bit_length() + 6, 7) // 7


def _encoded_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
