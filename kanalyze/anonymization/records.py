"""Blanks the keys, values and headers of records; everything else stays.

In: the bytes of a records field. Out: bytes of the same length, and the ranges of the records in
it.

Offsets, times, sizes, sequence numbers and the types of control records stay. A checksum that was
right is right again, and one that was wrong is wrong again. A compressed batch is decompressed,
blanked, and compressed to the size that it had (:mod:`.recompression`). If that is impossible, or
if its records cannot be read, they are blanked as a whole, and the batch is counted.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeAlias

from kanalyze.anonymization.recompression import compressed_to
from kanalyze.kafka.records.batches import message_end
from kanalyze.kafka.records.compression import crc32, crc32c, decompress
from kanalyze.kafka.records.types import (
    ENTRY_HEAD_BYTES,
    MAGIC_AT,
    MAX_DEPTH,
    MESSAGE_HEAD_BYTES,
    MIN_MESSAGE_SIZES,
    DecompressionLimits,
)
from kanalyze.kafka.wire import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.anonymization.stand_ins import StandIns

__all__ = ["Ranges", "RecordBlanker", "overlaps"]

Ranges: TypeAlias = "Sequence[tuple[int, int]]"
"""Begin and end of each range; the end is not included."""

_HEADER_BYTES: Final = 61
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_OLD_CRC_AT, _OLD_CRC_FROM = 12, 16
_CODEC, _CONTROL = 0x07, 0x20
_LIMITS: Final = DecompressionLimits()

_FILL: Final = b"x" * (1 << 20)
_KEPT_CONTROL_BYTES: Final = (4, 6)
"""Sizes of the key and the value of a control record that only have its type (KIP-98)."""
_KNOWN_HEADERS: Final = frozenset(
    (b"traceparent", b"tracestate", b"baggage", b"b3", b"uber-trace-id", b"content-type")
)
"""Names of headers that standards define; they stay."""

_length: Callable[[bytes | bytearray, int], tuple[int]] = struct.Struct(">i").unpack_from
_crc = struct.Struct(">I")


class _UnreadableRecords(Exception):
    """Records do not follow the format."""


class RecordBlanker:
    """Blanks records fields, one after the other."""

    def __init__(self, stand_ins: StandIns) -> None:
        self._stand_ins = stand_ins
        self.blanked_batches = 0
        """Number of batches whose records were blanked as a whole."""

    def blank(self, field: bytes, holes: Ranges = ()) -> tuple[bytearray, list[tuple[int, int]]]:
        """Return a records field without contents, and the ranges of its records.

        ``holes`` are the ranges of missing bytes. A batch with a hole keeps only its header.
        """
        out = bytearray(len(field))
        records: list[tuple[int, int]] = []
        at = 0
        while at < len(field):
            if overlaps(holes, at, min(at + _HEADER_BYTES, len(field))):
                break  # without this header, it is unknown where the next batch begins
            at = self._entry(field, at, out, records, holes)
            if not at:
                break
        return out, records

    def _entry(
        self,
        field: bytes,
        at: int,
        out: bytearray,
        records: list[tuple[int, int]],
        holes: Ranges,
    ) -> int:
        """Blank the batch or message at ``at``; return its end, or 0 if no other can follow it."""
        remaining_bytes = len(field) - at
        if remaining_bytes < MESSAGE_HEAD_BYTES:
            return 0
        length, magic = _length(field, at + 8)[0], field[at + MAGIC_AT]
        if magic > 2:
            return 0  # not a batch
        least = _HEADER_BYTES - ENTRY_HEAD_BYTES if magic == 2 else MIN_MESSAGE_SIZES[magic]
        if length < least:
            return 0
        head = _HEADER_BYTES if magic == 2 else MESSAGE_HEAD_BYTES + 8 * magic
        if remaining_bytes < head:
            out[at : at + ENTRY_HEAD_BYTES] = field[at : at + ENTRY_HEAD_BYTES]
            out[at + MAGIC_AT] = magic
            return 0
        out[at : at + head] = field[at : at + head]
        end = at + ENTRY_HEAD_BYTES + length
        # Readers look at this many bytes of every entry, even if some of them are records.
        records.append((min(at + _HEADER_BYTES, end), min(end, len(field))))
        is_complete = end <= len(field) and not overlaps(holes, at, end)
        crc_at = _CRC_AT if magic == 2 else _OLD_CRC_AT
        if not is_complete:
            # The batch is cut off or has a hole: its checksum cannot be calculated.
            out[at + crc_at : at + crc_at + 4] = bytes(4)
            return end if end <= len(field) else 0
        if magic == 2:
            self._batch(field, at, end, out)
        else:
            out[at:end] = self._message(field[at:end], 1)
        return end

    # -- batches ----------------------------------------------------------------------------------

    def _batch(self, field: bytes, at: int, end: int, out: bytearray) -> None:
        attributes = field[at + _CRC_FROM + 1]
        count = _length(field, at + _HEADER_BYTES - 4)[0]
        begin = at + _HEADER_BYTES
        packed = field[begin:end]
        blanked = self._records(packed, attributes, count)
        if blanked is None:
            self.blanked_batches += 1
        else:
            out[begin:end] = blanked
        old_crc = _crc.unpack_from(field, at + _CRC_AT)[0]
        is_right = crc32c(field, at + _CRC_FROM, end) == old_crc
        _put_sum(out, at + _CRC_AT, crc32c(out, at + _CRC_FROM, end), is_right=is_right)  # type: ignore[arg-type]

    def _records(self, packed: bytes, attributes: int, count: int) -> bytes | None:
        """Return the records of a batch, blanked; None if that is impossible."""
        codec = attributes & _CODEC
        data = packed
        if codec:
            data, problem = decompress(codec, packed, _LIMITS.allowed(len(packed)))
            if problem is not None:
                return None
        try:
            blanked = self._each_record(data, count, is_control=bool(attributes & _CONTROL))
        except (_UnreadableRecords, IndexError):
            return None
        return compressed_to(codec, bytes(blanked), packed) if codec else bytes(blanked)

    def _each_record(self, data: bytes, count: int, *, is_control: bool) -> bytearray:
        """Return records with blanked keys, values and headers."""
        out = bytearray(data)
        at, last = 0, len(data)
        for _ in range(count):
            length, at = _varint(data, at)
            end = at + length
            if length < 0 or end > last:
                raise _UnreadableRecords
            _, at = _varint(data, at + 1)
            _, at = _varint(data, at)
            for control_bytes in _KEPT_CONTROL_BYTES:
                size, at = _varint(data, at)
                if size > 0:
                    if at + size > end:
                        raise _UnreadableRecords
                    if not (is_control and size == control_bytes):
                        out[at : at + size] = _filled(size)
                    at += size
            headers, at = _varint(data, at)
            for _ in range(headers):
                at = self._header(data, at, end, out)
            if at != end:
                raise _UnreadableRecords
        if at != last:
            raise _UnreadableRecords
        return out

    def _header(self, data: bytes, at: int, end: int, out: bytearray) -> int:
        size, at = _varint(data, at)
        if size < 0 or at + size > end:
            raise _UnreadableRecords
        out[at : at + size] = self._stand_ins.name_but(data[at : at + size], _KNOWN_HEADERS)
        size, at = _varint(data, at + size)
        if size <= 0:
            return at
        if at + size > end:
            raise _UnreadableRecords
        out[at : at + size] = _filled(size)
        return at + size

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
        _put_sum(out, _OLD_CRC_AT, crc32(out, _OLD_CRC_FROM, len(out)), is_right=is_right)  # type: ignore[arg-type]
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


def overlaps(ranges: Ranges, begin: int, end: int) -> bool:
    """Return true if one of the ranges has bytes between ``begin`` and ``end``."""
    return any(first < end and last > begin for first, last in ranges)


def _filled(size: int) -> bytes:
    return _FILL[:size] if size <= len(_FILL) else b"x" * size


def _put_sum(out: bytearray, at: int, value: int, *, is_right: bool) -> None:
    """Write a checksum; to make it wrong, every bit is inverted."""
    _crc.pack_into(out, at, value if is_right else value ^ 0xFFFFFFFF)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint; raises IndexError if the bytes end before it does."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise _UnreadableRecords
    return (value >> 1) ^ -(value & 1), at + 1
