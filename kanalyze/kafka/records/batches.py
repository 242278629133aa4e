"""Reads records out of the bytes of a records field.

In: the bytes. Out: :class:`RecordSet`, which gives batches; :class:`RecordBatch`, which gives
records; :class:`RecordCursor`, which goes over those of a batch of magic 2.

Nothing raises, whatever the bytes: what is wrong is noted (:class:`RecordProblem`) and what can be
read is read. No number in the bytes decides an allocation: records come one by one, and every
length is compared with the bytes that the record, or the batch, has left.

A message of magic 0 and 1 is a batch too: of one record, or of the message set that is compressed
inside of it. Layouts: KIP-98 and KIP-82 (magic 2), KIP-534 (delete horizon), Kafka's documentation,
"Record Batch"; the message format of Kafka 0.8 (magic 0), KIP-31 (relative offsets) and KIP-32
(timestamps; magic 1).
"""

from __future__ import annotations

from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.kafka.records.budget import DecompressionBudget
from kanalyze.kafka.records.compression import CODEC_NAMES, crc32, crc32c, decompress
from kanalyze.kafka.records.types import (
    BATCH_HEADER_BYTES,
    ENTRY_HEAD_BYTES,
    MAGIC_AT,
    MAX_DEPTH,
    MESSAGE_HEAD_BYTES,
    MIN_MESSAGE_SIZES,
    DecompressionLimits,
    Header,
    Record,
    RecordProblem,
    as_int64,
    note,
)
from kanalyze.kafka.wire import Malformed

VALID, MALFORMED, TOO_MANY_HEADERS = range(3)
MAX_HEADERS = 1 << 16
MAX_SHIFT = 63
SCHEMA_HEAD_BYTES = 5
CRC_FROM = 21  # the checksum covers all bytes from the attributes on
CODEC, APPEND_TIME, TRANSACTIONAL = 0x07, 0x08, 0x10
CONTROL, DELETE_HORIZON = 0x20, 0x40  # bits of a batch's attributes
SEQUENCE_BITS = 0x7FFFFFFF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    class ReadRecords(Protocol):
        """Reads the records of one batch; appends what goes wrong to its argument."""

        def __call__(self, problems: list[RecordProblem], /) -> Iterator[Record]:
            """Yield the records."""

    _Unpack: TypeAlias = Callable[[bytes | memoryview, int], tuple[int, ...]]

# MAX_HEADERS limits the headers of one record: each becomes an object, many times as large as the
# two bytes that a header may have on the wire.

LARGEST_INT64 = (1 << 63) - 1
MIN_INT64 = -LARGEST_INT64 - 1
NO_TIMESTAMP = -1
_new = tuple.__new__
"""Makes a Record without the cost of its own constructor."""


class RecordCursor:
    """A position among the records: before the first one, until :meth:`advance` is called.

    Attributes:
        offset, timestamp_ms: of the record; the time is -1 if it has none.
        key_bytes, value_bytes: sizes; -1 for null.
        key_at, value_at, headers_at: where they begin; of the headers, the first length.
        header_count: how many headers it has.
        problem: why no more records can be read; None if all is right.
    """

    def __init__(
        self,
        data: bytes,
        at: int,
        end: int,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        """Move before the first of ``count`` records in ``data[at:end]``.

        Args:
            data: the bytes.
            at: where the first record begins.
            end: where the last one has to end; within ``data``.
            count: number of records in the batch header.
            base_offset: the offset that records' offsets are relative to.
            base_timestamp: the timestamp that records' timestamps are relative to.
            append_time: the timestamp of all records, if it is the broker's.
        """
        self._bytes = data
        self._data = memoryview(data)
        self._at = at
        self._end = min(end, len(data))
        self._remaining_records = count
        self._base_offset = base_offset
        self._base_timestamp = base_timestamp
        self._is_append_time = append_time is not None
        self._append_time = 0 if append_time is None else append_time
        self._status = VALID
        self._record_end = self.key_at = self.value_at = self.headers_at = 0
        self.offset = 0
        self.timestamp_ms = NO_TIMESTAMP
        self.key_bytes = self.value_bytes = -1
        self.header_count = 0
        self.problem: RecordProblem | None = None

    def advance(self) -> bool:
        """Move to the next record; return false if there is none."""
        if self._remaining_records > 0 and self._at < self._end:
            self._read()
            if self._status == VALID:
                self._remaining_records -= 1
                return True
            self._remaining_records = 0
            self._at = self._end
            is_malformed = self._status == MALFORMED
            self.problem = (
                RecordProblem.MALFORMED_RECORD if is_malformed else RecordProblem.TOO_MANY_HEADERS
            )
        elif self._status == VALID and (self._remaining_records != 0 or self._at != self._end):
            self.problem = RecordProblem.WRONG_RECORD_COUNT
        return False

    def records(self) -> Iterator[Record]:
        """Yield the remaining records."""
        while self.advance():
            yield self.record()

    def record(self) -> Record:
        """Return the current record."""
        time_ms = None if self.timestamp_ms == NO_TIMESTAMP else self.timestamp_ms
        headers = self.headers()
        key = self._part(self.key_at, self.key_bytes)
        value = self._part(self.value_at, self.value_bytes)
        return _new(Record, (self.offset, time_ms, key, value, headers, True))

    def key(self) -> bytes | None:
        """Return the key of the current record; None for null."""
        return self._part(self.key_at, self.key_bytes)

    def value(self) -> bytes | None:
        """Return the value of the current record; None for null."""
        return self._part(self.value_at, self.value_bytes)

    def headers(self) -> tuple[Header, ...]:
        """Return the headers of the current record."""
        return self._headers() if self.header_count > 0 else ()

    def key_schema_id(self) -> int:
        """Return the schema id that the key begins with, as :func:`schema_id`."""
        return _schema_id_at(self._data, self.key_at, self.key_bytes)

    def value_schema_id(self) -> int:
        """Return the schema id that the value begins with, as :func:`schema_id`."""
        return _schema_id_at(self._data, self.value_at, self.value_bytes)

    def _part(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else self._bytes[at : at + size]

    def _headers(self) -> tuple[Header, ...]:
        """Return the headers, which :meth:`_pass_headers` has checked."""
        at, self._at = self._at, self.headers_at
        headers = []
        for _ in range(self.header_count):
            size = self._size()
            key = self._part(self._at, size)
            self._at += size
            size = self._size()
            value = self._part(self._at, size)
            self._at += max(size, 0)
            headers.append(_new(Header, (key, value)))
        self._at = at
        return tuple(headers)

    # -- one record -------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read a record, or note what is wrong with it."""
        self._record_end = self._end
        length = self._varint()
        if self._status != VALID or length < 0 or length > self._end - self._at:
            self._status = MALFORMED
            return
        self._record_end = self._at + length
        self._at += 1  # attributes, of which none is defined
        timestamp = self._varint()
        offset = self._varint()
        self.key_bytes = self._size()
        self.key_at = self._at
        if self.key_bytes > 0:
            self._at += self.key_bytes
        self.value_bytes = self._size()
        self.value_at = self._at
        if self.value_bytes > 0:
            self._at += self.value_bytes
        self._pass_headers()
        if self._status != VALID:
            return
        if self._at != self._record_end:
            self._status = MALFORMED
            return
        self.offset = wrapped_sum(self._base_offset, offset)
        if self._is_append_time:
            self.timestamp_ms = self._append_time
        else:
            self.timestamp_ms = wrapped_sum(self._base_timestamp, timestamp)

    def _pass_headers(self) -> None:
        """Check the headers of the record, and move past them."""
        count = self._varint()
        if count == 0 or self._status != VALID:
            self.header_count = 0
            return
        # A header has two lengths, of a byte or more each.
        if count < 0 or count > (self._record_end - self._at) // 2:
            self._status = MALFORMED
            return
        if count > MAX_HEADERS:
            self._status = TOO_MANY_HEADERS
            return
        self.header_count = count
        self.headers_at = self._at
        for _i in range(count):
            size = self._size()
            if size < 0:
                self._status = MALFORMED
            if self._status != VALID:
                return
            self._at += size
            size = self._size()
            if self._status != VALID:
                return
            if size > 0:
                self._at += size

    def _size(self) -> int:
        """Read a length, and check that as many bytes are there; return -1 for null.

        Any negative length is null, as for Kafka itself.
        """
        size = self._varint()
        if self._status != VALID or size < 0:
            return -1
        if size > self._record_end - self._at:
            self._status = MALFORMED
            return -1
        return size

    def _varint(self) -> int:
        """Read a zigzag varint of at most 10 bytes, -2^63 to 2^63 - 1.

        Numbers that have 32 bits in Kafka are read like this too: those that don't fit are lengths
        or counts, and exceed any batch.
        """
        at = self._at
        if at >= self._record_end:
            self._status = MALFORMED
            return 0
        byte = self._data[at]
        at += 1
        value = byte & 0x7F
        shift = 7
        while byte >= 0x80:
            if at >= self._record_end or shift > MAX_SHIFT:
                self._status = MALFORMED
                return 0
            byte = self._data[at]
            at += 1
            if shift == MAX_SHIFT and byte > 1:
                self._status = MALFORMED
                return 0
            value |= (byte & 0x7F) << shift
            shift += 7
        self._at = at
        return (value >> 1) ^ -(value & 1)


def schema_id(data: bytes | None) -> int:
    """Return the schema id that a key or value begins with; -1 if there is none.

    In Confluent's wire format, it is the byte 0 and a positive number of 4 bytes.
    """
    return -1 if data is None else _schema_id_at(memoryview(data), 0, len(data))


def _schema_id_at(data: memoryview, at: int, size: int) -> int:
    if size < SCHEMA_HEAD_BYTES or data[at] != 0 or data[at + 1] > 0x7F:
        return -1
    number = data[at + 1] << 24 | data[at + 2] << 16 | data[at + 3] << 8 | data[at + 4]
    return -1 if number == 0 else number


def wrapped_sum(a: int, b: int) -> int:
    """Return ``a + b``, wrapped around at 64 bits."""
    if b >= 0:
        if a <= LARGEST_INT64 - b:
            return a + b
    elif a >= MIN_INT64 - b:
        return a + b
    return _wrapped(a, b)


def _wrapped(a: int, b: int) -> int:
    return as_int64(a + b)


# offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp, maximum
# timestamp, producer id, producer epoch, base sequence, number of records
_header: _Unpack = Struct(">qiibIhiqqqhii").unpack_from


class RecordBatch:
    """A batch (magic 2), or a message of a message set (magic 0 and 1) with what is inside it.

    Fields are None if the format lacks them, and if they are -1. :meth:`records` reads
    the records; it may be called again.

    Attributes:
        base_offset: in a message, its own offset; in a compressed one, that is the offset of the
            last message inside.
        batch_bytes: size on the wire, with the 12 bytes of offset and length.
        codec: ``none``, ``gzip``, ``snappy``, ``lz4``, ``zstd`` or ``unknown``.
        timestamp_type: ``create`` or ``append``; None in magic 0.
        record_count: by the header, which may be wrong; None in messages.
        delete_horizon_ms: when tombstones and transaction markers of the batch may be deleted, in
            Unix time (KIP-534).
        most_records: how many records are read at most.
        problems: what was wrong; complete once :meth:`records` has come to its end, or
            :meth:`end` was called.
    """

    def begin(
        self,
        read: ReadRecords | None,
        base_offset: int,
        batch_bytes: int,
        magic: int,
        codec: str,
        crc_ok: bool,
        timestamp_type: str | None,
        limits: DecompressionLimits,
    ) -> None:
        """Set what all batches have; ``read`` reads the records of one of magic 0 or 1."""
        self._read: ReadRecords | None = read
        self._limits = limits
        self.most_records = limits.allowed_records(batch_bytes)
        self.base_offset = base_offset
        self.batch_bytes = batch_bytes
        self.magic = magic
        self.codec = codec
        self.crc_ok = crc_ok
        self.timestamp_type = timestamp_type
        self.record_count: int | None = None
        self.partition_leader_epoch: int | None = None
        self.producer_id: int | None = None
        self.producer_epoch: int | None = None
        self.base_sequence: int | None = None
        self.delete_horizon_ms: int | None = None
        self.is_transactional = False
        self.is_control = False
        self.problems: list[RecordProblem] = []
        self._data: bytes | None = None
        self._start = self._end = self._attributes = self._base_timestamp = 0
        self._append_time: int | None = None

    def records(self) -> Iterator[Record]:
        """Read the records one by one; raises nothing, and notes what is wrong in ``problems``.

        The decompressed bytes, within the limits, live as long as the iterator.
        """
        cursor = self.cursor()
        if cursor is not None:
            yield from islice(cursor.records(), self.most_records)
            self.end(cursor)
        elif self._read is not None:
            records = self._read(self.problems)
            yield from islice(records, self.most_records)
            if next(records, None) is not None:
                note(self.problems, RecordProblem.TOO_MANY_RECORDS)

    def cursor(self) -> RecordCursor | None:
        """Return a cursor over the records, faster than :meth:`records`; None in magic 0 and 1.

        The caller reads up to ``most_records``, and passes the cursor to :meth:`end`.
        """
        self.problems.clear()
        data = self._data
        if data is None:
            return None
        at, end = self._start + BATCH_HEADER_BYTES, self._end
        codec = self._attributes & CODEC
        if codec:
            packed_bytes = end - at
            data, problem = decompress(codec, data[at:end], self._limits.allowed(packed_bytes))
            at, end = 0, len(data)
            if problem is not None:
                note(self.problems, problem)
        count = 0 if self.record_count is None else self.record_count
        return RecordCursor(
            data, at, end, count, self.base_offset, self._base_timestamp, self._append_time
        )

    def end(self, cursor: RecordCursor) -> None:
        """Note what is wrong after the records that were read: a broken record, or too many."""
        if cursor.advance():
            note(self.problems, RecordProblem.TOO_MANY_RECORDS)
        elif cursor.problem is not None and not self.problems:
            # A codec that failed has already noted why records are missing.
            note(self.problems, cursor.problem)

    def sequence(self, offset: int) -> int:
        """Return the producer's sequence number of the record with that offset; -1 without one.

        After 2^31 - 1 comes 0 (KIP-98).
        """
        if self.base_sequence is None:
            return -1
        first = self.base_sequence
        passed = (offset & SEQUENCE_BITS) - (self.base_offset & SEQUENCE_BITS)
        return (first + passed) & SEQUENCE_BITS


def batch_of(data: bytes, start: int, end: int, limits: DecompressionLimits) -> RecordBatch:
    """Read the header of the whole batch ``data[start:end]``, of magic 2."""
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
    ) = _header(data, start)
    is_append_time = attributes & APPEND_TIME != 0
    batch = RecordBatch.__new__(RecordBatch)
    batch.begin(
        None,
        base_offset,
        ENTRY_HEAD_BYTES + length,
        2,
        CODEC_NAMES[attributes & CODEC],
        crc32c(data, start + CRC_FROM, end) == crc,
        "append" if is_append_time else "create",
        limits,
    )
    batch._data, batch._start, batch._end = data, start, end
    batch._attributes, batch._base_timestamp = attributes, base_timestamp
    batch._append_time = max_timestamp if is_append_time else None
    batch.record_count = count
    batch.partition_leader_epoch = _known(leader_epoch)
    batch.producer_id = _known(producer_id)
    batch.producer_epoch = _known(producer_epoch)
    batch.base_sequence = _known(base_sequence)
    batch.is_transactional = attributes & TRANSACTIONAL != 0
    batch.is_control = attributes & CONTROL != 0
    if attributes & DELETE_HORIZON:
        # The horizon takes the place of the base timestamp, and timestamps count from it.
        batch.delete_horizon_ms = base_timestamp
    return batch


def _known(number: int) -> int | None:
    return None if number < 0 else number


_entry_head: _Unpack = Struct(">qi").unpack_from


class RecordSet:
    """The batches in the bytes of a records field.

    It may be iterated several times. Afterwards ``problems`` says what was wrong outside of whole
    batches (each batch has ``problems`` of its own).
    """

    def __init__(self, data: bytes, limits: DecompressionLimits | None = None) -> None:
        """Keep the bytes; if ``limits`` is None, the default limits apply."""
        self._data = data
        self._limits = DecompressionLimits() if limits is None else limits
        self.problems: list[RecordProblem] = []

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield the whole batches, in order. Raises nothing; each step advances 26 bytes or more.

        What comes after a batch that is cut, or whose length is impossible, is not read.
        """
        self.problems.clear()
        at = 0
        while (end := self._end(at)) > 0:
            yield self._batch(at, end)
            at = end

    def _batch(self, at: int, end: int) -> RecordBatch:
        if self._data[at + MAGIC_AT] == 2:
            return batch_of(self._data, at, end, self._limits)
        return read_message(self._data, at, end, self._limits)

    def _end(self, at: int) -> int:
        """Return where the batch at ``at`` ends; 0 if no whole batch begins there.

        Notes a problem if there are bytes that are no whole batch.
        """
        data = self._data
        remaining_bytes = len(data) - at
        if remaining_bytes <= 0:
            return 0
        if remaining_bytes < MESSAGE_HEAD_BYTES:
            self.problems.append(RecordProblem.CUT_BATCH)
            return 0
        magic = data[at + MAGIC_AT]
        if magic > 2:
            self.problems.append(RecordProblem.UNKNOWN_MAGIC)
            return 0
        length = _entry_head(data, at)[1]
        least = BATCH_HEADER_BYTES - ENTRY_HEAD_BYTES if magic == 2 else MIN_MESSAGE_SIZES[magic]
        if length < least:
            self.problems.append(RecordProblem.MALFORMED_BATCH)
            return 0
        if length + ENTRY_HEAD_BYTES > remaining_bytes:
            self.problems.append(RecordProblem.CUT_BATCH)
            return 0
        return at + ENTRY_HEAD_BYTES + length


_MESSAGE_CRC_FROM = 16
"""The checksum covers all bytes from the magic byte on."""

# offset, size, CRC, magic, attributes
_head: _Unpack = Struct(">qiIbB").unpack_from
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
        budget = DecompressionBudget(limits, len(message.value or b""), end - start)
        yield from _inner_records(message, budget, 1, problems)

    is_append_time = magic == 1 and bool(attributes & APPEND_TIME)
    batch = RecordBatch()
    batch.begin(
        read,
        offset,
        end - start,
        magic,
        CODEC_NAMES[attributes & CODEC],
        crc32(data, start + _MESSAGE_CRC_FROM, end) == crc,
        ("append" if is_append_time else "create") if magic else None,
        limits,
    )
    return batch


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
        attributes & CODEC,
        None if timestamp == -1 else timestamp,
        magic == 1 and bool(attributes & APPEND_TIME),
        key,
        value,
        crc32(data, start + _MESSAGE_CRC_FROM, end) == crc,
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
    wrapper: _LegacyMessage, budget: DecompressionBudget, depth: int, problems: list[RecordProblem]
) -> Iterator[Record]:
    """Read the records of the message set that is compressed in a message's value."""
    if wrapper.value is None:
        note(problems, RecordProblem.MALFORMED_RECORD)
        return
    if depth > MAX_DEPTH:
        note(problems, RecordProblem.NESTED_TOO_DEEP)
        return
    is_wrong = wrapper.magic == 0
    data, problem = budget.decompress(wrapper.codec, wrapper.value, wrong_lz4_checksum=is_wrong)
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
        at += ENTRY_HEAD_BYTES + size
        if size < MIN_MESSAGE_SIZES[0] or at > len(data):
            break
        last = offset
    return wrapper.offset - last


def _messages(data: bytes, problems: list[RecordProblem]) -> Iterator[_LegacyMessage]:
    """Read the messages of a decompressed set; in one, a message that is cut off is an error."""
    at = 0
    while at < len(data):
        try:
            end = message_end(data, at)
            message = _message(data, at, end)
        except Malformed:
            note(problems, RecordProblem.MALFORMED_RECORD)
            return
        yield message
        at = end


def message_end(data: bytes, at: int) -> int:
    """Return the end of the message at ``at``; raises Malformed if there is no whole message."""
    if at + MESSAGE_HEAD_BYTES > len(data):
        raise Malformed("the set ends within a message")
    size = _entry_head(data, at)[1]
    magic = data[at + MAGIC_AT]
    end = at + ENTRY_HEAD_BYTES + size
    if magic > 1 or size < MIN_MESSAGE_SIZES[magic] or end > len(data):
        raise Malformed("no message of magic 0 or 1")
    return end
