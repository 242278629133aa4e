"""The messages of Kafka 0.7, with those inside compressed ones.

In: the bytes of a messages field. Out: :class:`MessageSet07Records`, which gives batches and
records as :class:`~kanalyze.kafka.records.reader.RecordSet` does, and the number of messages in a
compressed payload.

A message: length int32, magic int8, for magic 1 attributes int8 (codec in bits 0 and 1), CRC-32 of
the payload int32, payload; the payload of a compressed message holds messages. Source: the wire
format pages of Kafka 0.7's documentation.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.records.types import (
    MAX_DEPTH,
    DecompressionLimits,
    Record,
    RecordProblem,
    as_int64,
    note,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.records.batch import RecordBatch

__all__ = ["CODEC_NAMES_07", "COUNTING_LIMITS", "InsideCounter", "MessageSet07Records"]

CODEC_NAMES_07 = ("none", "gzip", "snappy", "unknown")
"""By the low two bits of a message's attributes."""
COUNTING_LIMITS = DecompressionLimits(most_ratio=256, free_bytes=1 << 18)
"""Bounds when messages are only counted, which is done for the row of every exchange."""

_LENGTH_BYTES = 4
_MIN_HEAD_BYTES = 5
"""Magic and checksum; one more in magic 1."""
_UNKNOWN_CODEC = 3
_int32 = Struct(">i").unpack_from
_uint32 = Struct(">I").unpack_from


class _RawMessage07(NamedTuple):
    start: int
    payload: int
    end: int
    magic: int
    codec: int


def _messages(data: bytes, problems: list[RecordProblem]) -> Iterator[_RawMessage07]:
    """Yield the complete messages, in order; each has 9 bytes or more. Raises nothing."""
    at, size = 0, len(data)
    while at < size:
        if at + _LENGTH_BYTES >= size:
            note(problems, RecordProblem.CUT_BATCH)
            return
        length, magic = _int32(data, at)[0], data[at + _LENGTH_BYTES]
        if magic > 1:
            note(problems, RecordProblem.UNKNOWN_MAGIC)
            return
        if length < _MIN_HEAD_BYTES + magic:
            note(problems, RecordProblem.MALFORMED_BATCH)
            return
        end = at + _LENGTH_BYTES + length
        if end > size:
            note(problems, RecordProblem.CUT_BATCH)
            return
        codec = data[at + _LENGTH_BYTES + 1] & 3 if magic else 0
        yield _RawMessage07(at, at + _LENGTH_BYTES + _MIN_HEAD_BYTES + magic, end, magic, codec)
        at = end


def _is_checksum_right(data: bytes, message: _RawMessage07) -> bool:
    payload, end = message.payload, message.end
    return bool(zlib.crc32(memoryview(data)[payload:end]) == _uint32(data, payload - 4)[0])


class _Budget07:
    """How many more bytes and messages may be decompressed, over all depths."""

    def __init__(self, limits: DecompressionLimits, packed_bytes: int) -> None:
        self.remaining_bytes = limits.allowed(packed_bytes)
        self.remaining_messages = limits.allowed_records(packed_bytes)

    def decompressed(self, codec: int, payload: bytes) -> tuple[bytes, RecordProblem | None]:
        """Return a decompressed payload, and why it is incomplete."""
        if codec == _UNKNOWN_CODEC:
            return b"", RecordProblem.UNKNOWN_CODEC
        from kanalyze.kafka.records.compression import decompress  # loaded at every start otherwise

        plain, problem = decompress(codec, payload, self.remaining_bytes)
        self.remaining_bytes -= len(plain)
        return plain, problem


# -- counting -------------------------------------------------------------------------------------


class InsideCounter:
    """Counts the messages inside the compressed ones of one field."""

    def __init__(self, limits: DecompressionLimits | None, field_bytes: int) -> None:
        """Make a counter for a field of ``field_bytes``; without limits it decompresses nothing."""
        self._budget = None if limits is None else _Budget07(limits, field_bytes)
        self.count: int | None = 0
        """Messages so far; None once a payload cannot be read to its end, or has too many."""

    def add(self, codec: int, payload: bytes | memoryview) -> None:
        """Count the messages in the payload of a compressed message. Raises nothing."""
        if self.count is None:
            return
        inside = None
        if self._budget is not None:
            inside = _count_inside(self._budget, codec, bytes(payload), 1)
        self.count = None if inside is None else self.count + inside


def _count_inside(budget: _Budget07, codec: int, payload: bytes, depth: int) -> int | None:
    plain, problem = budget.decompressed(codec, payload)
    if problem is not None:
        return None
    problems: list[RecordProblem] = []
    count = 0
    for message in _messages(plain, problems):
        if not budget.remaining_messages:
            return None
        budget.remaining_messages -= 1
        if not message.codec:
            count += 1
            continue
        inside = None
        if depth < MAX_DEPTH:
            inner = plain[message.payload : message.end]
            inside = _count_inside(budget, message.codec, inner, depth + 1)
        if inside is None:
            return None
        count += inside
    return None if problems else count


# -- reading --------------------------------------------------------------------------------------


class MessageSet07Records:
    """The messages in the bytes of a messages field.

    It may be iterated several times. Afterwards ``problems`` says what was wrong outside of
    complete messages (each message has ``problems`` of its own).
    """

    def __init__(
        self, data: bytes, first_offset: int = 0, limits: DecompressionLimits | None = None
    ) -> None:
        """Store the field; nothing is read yet.

        Args:
            data: the field.
            first_offset: position in the log, in bytes, of the field's first byte.
            limits: bounds of the decompressed size of one message; None for the defaults.
        """
        self._data = data
        self._first_offset = first_offset
        self._limits = DecompressionLimits() if limits is None else limits
        self.problems: list[RecordProblem] = []

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield each complete message as a batch, of one record if it is not compressed.

        An offset is the position in the log where a message begins. Messages inside a compressed
        one have the offset of that one, with which it is fetched. Raises nothing.
        """
        self.problems.clear()
        for message in _messages(self._data, self.problems):
            yield self._batch(message)

    def _batch(self, message: _RawMessage07) -> RecordBatch:
        data = self._data
        offset = as_int64(self._first_offset + message.start)

        def read(problems: list[RecordProblem]) -> Iterator[Record]:
            payload = data[message.payload : message.end]
            if not message.codec:
                yield Record(offset, None, None, payload)
                return
            budget = _Budget07(self._limits, len(payload))
            yield from _inside(budget, message.codec, payload, offset, problems)

        from kanalyze.kafka.records.batch import RecordBatch  # loaded at every start otherwise

        return RecordBatch(
            read,
            base_offset=offset,
            batch_bytes=message.end - message.start,
            magic=message.magic,
            codec=CODEC_NAMES_07[message.codec],
            crc_ok=_is_checksum_right(data, message),
            timestamp_type=None,
            limits=self._limits,
        )


def _inside(
    budget: _Budget07,
    codec: int,
    payload: bytes,
    offset: int,
    problems: list[RecordProblem],
    depth: int = 1,
) -> Iterator[Record]:
    """Read the messages in a compressed payload, and those nested in them."""
    if depth > MAX_DEPTH:
        note(problems, RecordProblem.NESTED_TOO_DEEP)
        return
    plain, problem = budget.decompressed(codec, payload)
    inner_problems: list[RecordProblem] = []
    for message in _messages(plain, inner_problems):
        if not budget.remaining_messages:
            note(problems, RecordProblem.TOO_MANY_RECORDS)
            return
        budget.remaining_messages -= 1
        inner = plain[message.payload : message.end]
        if message.codec:
            yield from _inside(budget, message.codec, inner, offset, problems, depth + 1)
        else:
            yield Record(offset, None, None, inner, (), _is_checksum_right(plain, message))
    if problem is not None:
        note(problems, problem)
    elif inner_problems:
        # A broker truncates a field at its size limit, but nobody truncates a payload.
        note(problems, RecordProblem.MALFORMED_RECORD)
