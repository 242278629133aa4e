"""Reads records out of the bytes of a records field.

In: the bytes. Out: :class:`RecordSet`, which gives batches, which give records. This module must
not know which message the bytes stand in; what is known of a records field without reading its
records is in :mod:`kanalyze.protocol.records`.

Nothing raises, whatever the bytes: what is wrong is noted (:class:`RecordProblem`) and what can be
read is read. Nothing is allocated by a number that the bytes tell: records come one by one.

Layouts: KIP-98 and KIP-82 (magic 2), KIP-534 (delete horizon), Kafka's documentation, "Record
Batch"; messages (magic 0 and 1) are in :mod:`kanalyze.protocol.message_sets`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.protocol.checksums import crc32c
from kanalyze.protocol.compression import CODEC_NAMES, decompress
from kanalyze.protocol.message_sets import MESSAGE_HEAD_BYTES, least_message_size, read_message
from kanalyze.protocol.record_types import (
    DecompressionLimits,
    Header,
    Record,
    RecordBatch,
    RecordProblem,
    as_int64,
    note,
)
from kanalyze.protocol.wire import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _Unpack: TypeAlias = Callable[[bytes, int], tuple[int, ...]]

__all__ = ["RecordSet"]


class _TooManyHeaders(Exception):
    """A record has more headers than are read."""


BATCH_HEADER_BYTES = 61
_ENTRY_HEAD_BYTES = 12
"""Of a batch as of a message: offset, and the length of what follows."""
_MAGIC_AT = 16
_CRC_FROM = 21
"""The checksum counts all from the attributes on."""

_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
"""Bits of a batch's attributes."""
_MOST_HEADERS = 1 << 16
"""Of one record. Each is an object, of many times the two bytes that it may have on the wire."""

_entry_head: _Unpack = Struct(">qi").unpack_from
# offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp, maximum
# timestamp, producer id, producer epoch, base sequence, number of records
_batch_header: _Unpack = Struct(">qiibIhiqqqhii").unpack_from


class RecordSet:
    """The batches in the bytes of a records field.

    Iterate it, as often as need be; then ``problems`` says what was wrong outside of whole batches
    (each batch has ``problems`` of its own).
    """

    def __init__(self, data: bytes, limits: DecompressionLimits | None = None) -> None:
        """Keep what is to be read; None for ``limits`` takes the defaults."""
        self._data = data
        self._limits = DecompressionLimits() if limits is None else limits
        self.problems: list[RecordProblem] = []

    def __iter__(self) -> Iterator[RecordBatch]:
        """Give the whole batches, in order. Raises nothing; each step goes on by 26 bytes or more.

        What comes after a batch that is cut, or whose length cannot be, is not looked at.
        """
        self.problems.clear()
        data, at = self._data, 0
        while at < len(data):
            end = self._end(at)
            if end is None:
                return
            if data[at + _MAGIC_AT] == 2:
                yield _batch(data, at, end, self._limits)
            else:
                yield read_message(data, at, end, self._limits)
            at = end

    def _end(self, at: int) -> int | None:
        """Return where the batch at ``at`` ends; None, and a problem, where that cannot be told."""
        data = self._data
        left = len(data) - at
        if left < MESSAGE_HEAD_BYTES:
            self.problems.append(RecordProblem.CUT_BATCH)
            return None
        magic = data[at + _MAGIC_AT]
        if magic > 2:
            self.problems.append(RecordProblem.UNKNOWN_MAGIC)
            return None
        length = _entry_head(data, at)[1]
        least = BATCH_HEADER_BYTES - _ENTRY_HEAD_BYTES if magic == 2 else least_message_size(magic)
        if length < least:
            self.problems.append(RecordProblem.MALFORMED_BATCH)
            return None
        if length + _ENTRY_HEAD_BYTES > left:
            self.problems.append(RecordProblem.CUT_BATCH)
            return None
        return at + _ENTRY_HEAD_BYTES + length


def _batch(data: bytes, start: int, end: int, limits: DecompressionLimits) -> RecordBatch:
    """Read the header of the whole batch ``data[start:end]``."""
    (
        base_offset,
        length,
        leader_epoch,
        _,
        crc,
        attributes,
        _,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _batch_header(data, start)
    append_time = max_timestamp if attributes & _APPEND_TIME else None

    def read(problems: list[RecordProblem]) -> Iterator[Record]:
        at = start + BATCH_HEADER_BYTES
        codec = attributes & 7
        if codec == 0:
            return _records(data, (at, end), count, base, problems)
        found, problem = decompress(codec, data[at:end], limits.allowed(end - at))
        if problem is not None:
            note(problems, problem)
            # It has said why there is less than there should be.
            problems = []
        return _records(found, (0, len(found)), count, base, problems)

    base = (base_offset, base_timestamp, append_time)
    batch = RecordBatch(
        read,
        base_offset=base_offset,
        batch_bytes=_ENTRY_HEAD_BYTES + length,
        magic=2,
        codec=CODEC_NAMES[attributes & 7],
        crc_ok=crc32c(data, start + _CRC_FROM, end) == crc,
        timestamp_type="append" if attributes & _APPEND_TIME else "create",
        limits=limits,
    )
    batch.record_count = count
    batch.partition_leader_epoch = _known(leader_epoch)
    batch.producer_id = _known(producer_id)
    batch.producer_epoch = _known(producer_epoch)
    batch.base_sequence = _known(base_sequence)
    batch.is_transactional = bool(attributes & _TRANSACTIONAL)
    batch.is_control = bool(attributes & _CONTROL)
    if attributes & _DELETE_HORIZON:
        # The horizon stands where the base timestamp does, and timestamps count from it.
        batch.delete_horizon_ms = base_timestamp
    return batch


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _records(
    data: bytes,
    span: tuple[int, int],
    count: int,
    base: tuple[int, int, int | None],
    problems: list[RecordProblem],
) -> Iterator[Record]:
    """Read up to ``count`` records of magic 2 in ``data[span[0]:span[1]]``."""
    at, end = span
    left = count
    while left > 0 and at < end:
        try:
            record, at = _record(data, at, end, base)
        except (IndexError, Malformed):
            note(problems, RecordProblem.MALFORMED_RECORD)
            return
        except _TooManyHeaders:
            note(problems, RecordProblem.TOO_MANY_HEADERS)
            return
        yield record
        left -= 1
    if left or at != end:
        note(problems, RecordProblem.WRONG_RECORD_COUNT)


def _record(
    data: bytes, at: int, limit: int, base: tuple[int, int, int | None]
) -> tuple[Record, int]:
    """Read the record at ``data[at]``; return it and the index after it.

    Raises Malformed, _TooManyHeaders, or IndexError where ``data`` ends first.
    """
    length, at = _varint(data, at)
    end = at + length
    if length < 0 or end > limit:
        raise Malformed("a record longer than its batch")
    at += 1  # attributes, of which none is defined
    # Numbers that are mostly a byte are read in place: this is done for every record, and a call
    # costs as much as all else of a field.
    timestamp, at = _varint(data, at)
    byte = data[at]
    if byte < 0x80:
        offset = (byte >> 1) ^ -(byte & 1)
        at += 1
    else:
        offset, at = _varint(data, at)
    byte = data[at]
    if byte == 1:
        key: bytes | None = None
        at += 1
    elif byte < 0x80 and not byte & 1:
        at += 1
        key = data[at : at + (byte >> 1)]
        at += byte >> 1
    else:
        key, at = _bytes(data, at, end)
    value, at = _bytes(data, at, end)
    # Nearly always a single zero byte.
    headers: tuple[Header, ...] = ()
    if data[at]:
        headers, at = _headers(data, at, end)
    else:
        at += 1
    if at != end:
        raise Malformed("a record whose parts are not as long as the whole")
    base_offset, base_timestamp, append_time = base
    offset += base_offset
    timestamp = base_timestamp + timestamp if append_time is None else append_time
    if not (_LEAST <= offset <= _MOST and _LEAST <= timestamp <= _MOST):
        offset, timestamp = as_int64(offset), as_int64(timestamp)
    cells = (offset, None if timestamp == -1 else timestamp, key, value, headers, True)
    return _new(Record, cells), end


def _headers(data: bytes, at: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, at = _varint(data, at)
    if not 0 <= count <= (end - at) // 2:  # two lengths at least
        raise Malformed("more headers than there are bytes")
    if count > _MOST_HEADERS:
        raise _TooManyHeaders
    headers = []
    for _ in range(count):
        key, at = _bytes(data, at, end)
        if key is None:
            raise Malformed("a header without a key")
        value, at = _bytes(data, at, end)
        headers.append(Header(key, value))
    return tuple(headers), at


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Read a length and so many bytes; any negative length is null, as for Kafka itself."""
    length, at = _varint(data, at)
    if length < 0:
        return None, at
    after = at + length
    if after > end:
        raise Malformed("a field longer than its record")
    return data[at:after], after


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_new = tuple.__new__
"""Makes a Record without the cost of its own constructor."""
_SHIFTS = range(7, 64, 7)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 10 bytes, -2^63 to 2^63 - 1; return the index after it too.

    Numbers that Kafka has as 32 bits are read so as well: those that don't fit are lengths or
    counts, and longer than any batch.
    """
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value = byte & 0x7F
    for shift in _SHIFTS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), at
    raise Malformed("a varint of more than 64 bits")
