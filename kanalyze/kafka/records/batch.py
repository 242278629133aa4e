"""A batch of records, or a message of a message set, with a cursor over its records.

In: the bytes of a batch of magic 2, or the header fields of a message. Out: :class:`RecordBatch`.

Layouts: KIP-98 and KIP-82 (magic 2), KIP-534 (delete horizon), Kafka's documentation, "Record
Batch".
"""

from __future__ import annotations

from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from kanalyze.kafka.records.checksums import crc32c
from kanalyze.kafka.records.compression import CODEC_NAMES, decompress
from kanalyze.kafka.records.cursor import RecordCursor
from kanalyze.kafka.records.types import RecordProblem, note

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    BATCH_HEADER_BYTES = 61
    ENTRY_HEAD_BYTES = 12  # of a batch as of a message: offset, and the length of what follows
    CRC_FROM = 21  # the checksum covers all bytes from the attributes on
    CODEC, APPEND_TIME, TRANSACTIONAL = 0x07, 0x08, 0x10
    CONTROL, DELETE_HORIZON = 0x20, 0x40  # bits of a batch's attributes
    SEQUENCE_BITS = 0x7FFFFFFF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from kanalyze.kafka.records.types import DecompressionLimits, Record

    class ReadRecords(Protocol):
        """Reads the records of one batch; appends what goes wrong to its argument."""

        def __call__(self, problems: list[RecordProblem], /) -> Iterator[Record]: ...


__all__ = ["RecordBatch", "batch_of"]

# offset, length, leader epoch, magic, CRC, attributes, last offset delta, base timestamp, maximum
# timestamp, producer id, producer epoch, base sequence, number of records
_header: Callable[[bytes, int], tuple[int, ...]] = Struct(">qiibIhiqqqhii").unpack_from


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

    def __init__(
        self,
        read: ReadRecords | None,
        *,
        base_offset: int,
        batch_bytes: int,
        magic: int,
        codec: str,
        crc_ok: bool,
        timestamp_type: str | None,
        limits: DecompressionLimits,
    ) -> None:
        self._read: ReadRecords | None = read
        self._set(base_offset, batch_bytes, magic, codec, crc_ok, timestamp_type, limits)

    def _set(
        self,
        base_offset: int,
        batch_bytes: int,
        magic: int,
        codec: str,
        crc_ok: bool,
        timestamp_type: str | None,
        limits: DecompressionLimits,
    ) -> None:
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
    batch._read = None
    batch._set(
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
