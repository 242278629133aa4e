"""Reads messages of magic 0 and 1, and the message sets that are compressed inside of them.

In: bytes and where a whole message lies in them. Out: a
:class:`~kanalyze.kafka.records.types.RecordBatch`, of one record where the message isn't
compressed.

Layouts: the message format of Kafka 0.8 (magic 0), KIP-31 (relative offsets) and KIP-32
(timestamps; magic 1).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.records.batch import RecordBatch
from kanalyze.kafka.records.checksums import crc32
from kanalyze.kafka.records.compression import CODEC_NAMES, decompress
from kanalyze.kafka.records.types import MAX_DEPTH, Record, RecordProblem, as_int64, note
from kanalyze.kafka.wire import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.kafka.records.types import DecompressionLimits

    _Unpack: TypeAlias = Callable[[bytes, int], tuple[int, ...]]

__all__ = ["MESSAGE_HEAD_BYTES", "least_message_size", "message_end", "read_message"]

MESSAGE_HEAD_BYTES = 18
"""Offset, size, CRC, magic, attributes."""
_ENTRY_HEAD_BYTES = 12
"""Offset and size."""
_MAGIC_AT = 16
_CRC_FROM = 16
"""The checksum covers all bytes from the magic byte on."""
_MIN_SIZES = (14, 22)
_APPEND_TIME = 0x08
"""Bit of a message's attributes, in magic 1."""

# offset, size, CRC, magic, attributes
_head: _Unpack = Struct(">qiIbB").unpack_from
_entry_head: _Unpack = Struct(">qi").unpack_from
_int64: _Unpack = Struct(">q").unpack_from
_int32: _Unpack = Struct(">i").unpack_from


class _LegacyMessage(NamedTuple):
    offset: int
    magic: int
    codec: int
    timestamp_ms: int | None
    is_append_time: bool
    key: bytes | None
    value: bytes | None
    crc_ok: bool


class _DecompressionBudget:
    """How many bytes and messages may still be decompressed, over all depths of one message."""

    def __init__(self, limits: DecompressionLimits, packed_bytes: int, batch_bytes: int) -> None:
        self.remaining_bytes = limits.allowed(packed_bytes)
        self.remaining_messages = limits.allowed_records(batch_bytes)


def least_message_size(magic: int) -> int:
    """Return the smallest value that the size field of a message of magic 0 or 1 may have.

    It counts CRC, magic, attributes, the timestamp in magic 1, and two lengths.
    """
    return _MIN_SIZES[magic]


def read_message(data: bytes, start: int, end: int, limits: DecompressionLimits) -> RecordBatch:
    """Read the message ``data[start:end]``, whose size is right and whose magic is 0 or 1.

    Raises nothing: what is wrong is in the batch's ``problems`` once its records are read.
    """
    offset, _, crc, magic, attributes = _head(data, start)

    def read(problems: list[RecordProblem]) -> Iterator[Record]:
        try:
            message = _message(data, start, end)
        except Malformed:
            note(problems, RecordProblem.MALFORMED_RECORD)
            return
        if not message.codec:
            yield _record(message, crc_ok=True)
            return
        budget = _DecompressionBudget(limits, len(message.value or b""), end - start)
        yield from _inner_records(message, budget, 1, problems)

    is_append_time = magic == 1 and bool(attributes & _APPEND_TIME)
    return RecordBatch(
        read,
        base_offset=offset,
        batch_bytes=end - start,
        magic=magic,
        codec=CODEC_NAMES[attributes & 7],
        crc_ok=crc32(data, start + _CRC_FROM, end) == crc,
        timestamp_type=("append" if is_append_time else "create") if magic else None,
        limits=limits,
    )


def _message(data: bytes, start: int, end: int) -> _LegacyMessage:
    """Read the message ``data[start:end]``; raises Malformed."""
    offset, _, crc, magic, attributes = _head(data, start)
    at = start + MESSAGE_HEAD_BYTES
    timestamp = -1
    if magic:
        timestamp = _int64(data, at)[0]
        at += 8
    key, at = _bytes(data, at, end)
    value, at = _bytes(data, at, end)
    if at != end:
        raise Malformed("a message whose parts are not as long as the whole")
    return _LegacyMessage(
        offset,
        magic,
        attributes & 7,
        None if timestamp == -1 else timestamp,
        magic == 1 and bool(attributes & _APPEND_TIME),
        key,
        value,
        crc32(data, start + _CRC_FROM, end) == crc,
    )


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Read a length and its bytes; any negative length is null, as for Kafka itself."""
    if at + 4 > end:
        raise Malformed("the message ends within a length")
    length = _int32(data, at)[0]
    at += 4
    if length < 0:
        return None, at
    if at + length > end:
        raise Malformed("a field longer than its message")
    return data[at : at + length], at + length


def _record(message: _LegacyMessage, *, crc_ok: bool) -> Record:
    return Record(message.offset, message.timestamp_ms, message.key, message.value, (), crc_ok)


def _inner_records(
    wrapper: _LegacyMessage, budget: _DecompressionBudget, depth: int, problems: list[RecordProblem]
) -> Iterator[Record]:
    """Read the records of the message set that is compressed in a message's value."""
    if wrapper.value is None:
        note(problems, RecordProblem.MALFORMED_RECORD)
        return
    if depth > MAX_DEPTH:
        note(problems, RecordProblem.NESTED_TOO_DEEP)
        return
    data, problem = decompress(
        wrapper.codec, wrapper.value, budget.remaining_bytes, wrong_lz4_checksum=wrapper.magic == 0
    )
    budget.remaining_bytes -= len(data)
    if problem is not None:
        note(problems, problem)
    first = _first_offset(wrapper, data)
    # A codec that failed has already noted why messages are missing.
    for inner in _messages(data, problems if problem is None else []):
        if not budget.remaining_messages:
            note(problems, RecordProblem.TOO_MANY_RECORDS)
            return
        budget.remaining_messages -= 1
        message = inner
        if wrapper.magic == 1:
            message = inner._replace(offset=as_int64(first + inner.offset))
            if wrapper.is_append_time:
                message = message._replace(timestamp_ms=wrapper.timestamp_ms, is_append_time=True)
        if message.codec:
            yield from _inner_records(message, budget, depth + 1, problems)
        else:
            yield _record(message, crc_ok=message.crc_ok)


def _first_offset(wrapper: _LegacyMessage, data: bytes) -> int:
    """Return the offset that the relative offsets in a wrapper of magic 1 count from.

    The wrapper has the absolute offset of the last message inside. Some producers write 0 there,
    and number the messages inside from 0.
    """
    if wrapper.magic == 0 or wrapper.offset == 0:
        return 0
    last = 0
    at = 0
    while at + MESSAGE_HEAD_BYTES <= len(data):
        offset, size = _entry_head(data, at)
        at += _ENTRY_HEAD_BYTES + size
        if size < _MIN_SIZES[0] or at > len(data):
            break
        last = offset
    return wrapper.offset - last


def _messages(data: bytes, problems: list[RecordProblem]) -> Iterator[_LegacyMessage]:
    """Read the messages of a decompressed set; in one, a message that is cut off is an error."""
    at = 0
    while at < len(data):
        try:
            message, at = _next_message(data, at)
        except Malformed:
            note(problems, RecordProblem.MALFORMED_RECORD)
            return
        yield message


def _next_message(data: bytes, at: int) -> tuple[_LegacyMessage, int]:
    """Read the message at ``at``; return it and the index after it. Raises Malformed."""
    end = message_end(data, at)
    return _message(data, at, end), end


def message_end(data: bytes, at: int) -> int:
    """Return the end of the message at ``at``; raises Malformed if there is no whole message."""
    if at + MESSAGE_HEAD_BYTES > len(data):
        raise Malformed("the set ends within a message")
    size = _entry_head(data, at)[1]
    magic = data[at + _MAGIC_AT]
    end = at + _ENTRY_HEAD_BYTES + size
    if magic > 1 or size < _MIN_SIZES[magic] or end > len(data):
        raise Malformed("no message of magic 0 or 1")
    return end
