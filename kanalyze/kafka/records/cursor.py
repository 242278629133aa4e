"""Reads the records of a batch of magic 2, one after the other.

In: the decompressed bytes of the records, and the fields of the batch header. Out: numbers of the
current record, or a :class:`~kanalyze.kafka.records.types.Record` on request.

Every length is compared with the bytes that the record, or the batch, has left.
Layouts: KIP-98 and KIP-82.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.records.types import Header, Record, RecordProblem, as_int64

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    VALID, MALFORMED, TOO_MANY_HEADERS = range(3)
    MAX_HEADERS = 1 << 16
    MAX_SHIFT = 63
    SCHEMA_HEAD_BYTES = 5

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RecordCursor", "schema_id"]

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
        self._record_end = self._key_at = self._value_at = self._headers_at = 0
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
        key = self._part(self._key_at, self.key_bytes)
        value = self._part(self._value_at, self.value_bytes)
        return _new(Record, (self.offset, time_ms, key, value, headers, True))

    def key(self) -> bytes | None:
        """Return the key of the current record; None for null."""
        return self._part(self._key_at, self.key_bytes)

    def headers(self) -> tuple[Header, ...]:
        """Return the headers of the current record."""
        return self._headers() if self.header_count > 0 else ()

    def key_schema_id(self) -> int:
        """Return the schema id that the key begins with, as :func:`schema_id`."""
        return _schema_id_at(self._data, self._key_at, self.key_bytes)

    def value_schema_id(self) -> int:
        """Return the schema id that the value begins with, as :func:`schema_id`."""
        return _schema_id_at(self._data, self._value_at, self.value_bytes)

    def _part(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else self._bytes[at : at + size]

    def _headers(self) -> tuple[Header, ...]:
        """Return the headers, which :meth:`_pass_headers` has checked."""
        at, self._at = self._at, self._headers_at
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
        self._key_at = self._at
        if self.key_bytes > 0:
            self._at += self.key_bytes
        self.value_bytes = self._size()
        self._value_at = self._at
        if self.value_bytes > 0:
            self._at += self.value_bytes
        self._pass_headers()
        if self._status != VALID:
            return
        if self._at != self._record_end:
            self._status = MALFORMED
            return
        self.offset = _sum(self._base_offset, offset)
        if self._is_append_time:
            self.timestamp_ms = self._append_time
        else:
            self.timestamp_ms = _sum(self._base_timestamp, timestamp)

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
        self._headers_at = self._at
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


def _sum(a: int, b: int) -> int:
    """Return ``a + b``, wrapped around at 64 bits."""
    if b >= 0:
        if a <= LARGEST_INT64 - b:
            return a + b
    elif a >= MIN_INT64 - b:
        return a + b
    return _wrapped(a, b)


def _wrapped(a: int, b: int) -> int:
    return as_int64(a + b)
