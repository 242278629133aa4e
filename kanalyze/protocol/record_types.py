"""What reading records gives: records, batches, problems, and the limits it keeps to.

In: nothing. Out: value types. This module must not know how any of them is read.
"""

from __future__ import annotations

import enum
from itertools import islice
from typing import TYPE_CHECKING

from kanalyze.named import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class ReadRecords(Protocol):
        """Reads the records of one batch; appends what goes wrong to its second argument."""

        def __call__(self, problems: list[RecordProblem], /) -> Iterator[Record]: ...


__all__ = [
    "DecompressionLimits",
    "Header",
    "Record",
    "RecordBatch",
    "RecordProblem",
    "as_int64",
    "note",
]


class RecordProblem(enum.StrEnum):
    """Why records could not be read, or not all of them; once released a value doesn't change."""

    CUT_BATCH = "cut_batch"
    """The bytes end within a batch. Legal at the end of a Fetch response."""
    MALFORMED_BATCH = "malformed_batch"
    """A header contradicts the format; where the next batch begins is not known."""
    UNKNOWN_MAGIC = "unknown_magic"
    """A format later than magic 2."""
    UNKNOWN_CODEC = "unknown_codec"
    BAD_COMPRESSION = "bad_compression"
    """The bytes are not what their codec writes, or end too early."""
    DECOMPRESSED_TOO_LARGE = "decompressed_too_large"
    """More came out of the codec than may: see :class:`DecompressionLimits`."""
    MALFORMED_RECORD = "malformed_record"
    """A record contradicts the format; those after it were not read."""
    WRONG_RECORD_COUNT = "wrong_record_count"
    """The batch holds fewer records, or more bytes, than its header says."""
    TOO_MANY_RECORDS = "too_many_records"
    """More came out of the codec than may; what is beyond was not read: see
    :class:`DecompressionLimits`."""
    TOO_MANY_HEADERS = "too_many_headers"
    """A record has more headers than are read; neither it nor those after it were."""
    NESTED_TOO_DEEP = "nested_too_deep"
    """Compressed message sets within compressed message sets, more of them than anybody writes."""


class DecompressionLimits(NamedTuple):
    """How much may come out of one compressed batch, all that is nested in it included.

    At most ``most_bytes``; and, beyond ``free_bytes``, at most ``most_ratio`` times the bytes that
    went in. Records: ``most_records``, where that is set; otherwise, beyond ``free_records``, at
    most ``records_per_byte`` for each byte of the batch on the wire. A sound batch does not reach
    it: each record has an offset of its own, which no codec packs into less than half a byte.
    """

    most_bytes: int = 64 << 20
    most_ratio: int = 1024
    """gzip and lz4 cannot do more than 1032 and 255; zstd can, with bytes that are all the same."""
    free_bytes: int = 1 << 20
    most_records: int | None = None
    records_per_byte: int = 4
    free_records: int = 1000

    def allowed(self, compressed_bytes: int) -> int:
        """Return how many bytes may come out of so many."""
        return min(self.most_bytes, max(self.free_bytes, self.most_ratio * compressed_bytes))

    def allowed_records(self, batch_bytes: int) -> int:
        """Return how many records may come out of a batch of so many bytes on the wire."""
        if self.most_records is not None:
            return self.most_records
        return max(self.free_records, self.records_per_byte * batch_bytes)


class Header(NamedTuple):
    """A header of a record (KIP-82)."""

    key: bytes
    """UTF-8 by the protocol; bytes as they are here."""
    value: bytes | None


class Record(NamedTuple):
    """One record, as it stands in its batch."""

    offset: int
    """As the batch says: in what a producer sends, counted from 0 by most."""
    timestamp_ms: int | None
    """Unix time in ms; None in magic 0 and where it is -1."""
    key: bytes | None
    value: bytes | None
    """None is a tombstone."""
    headers: tuple[Header, ...] = ()
    crc_ok: bool = True
    """Of a message inside a compressed one (magic 0 and 1), its own checksum; otherwise True: the
    checksum of the batch covers it."""


class RecordBatch:
    """A batch (magic 2), or a message of a message set (magic 0 and 1) with what is inside it.

    Fields are None where the format has none, and where -1 stands for none. :meth:`records` reads
    the records; it may be called again.
    """

    __slots__ = (
        "_most_records",
        "_read",
        "base_offset",
        "base_sequence",
        "batch_bytes",
        "codec",
        "crc_ok",
        "delete_horizon_ms",
        "is_control",
        "is_transactional",
        "magic",
        "partition_leader_epoch",
        "problems",
        "producer_epoch",
        "producer_id",
        "record_count",
        "timestamp_type",
    )

    def __init__(
        self,
        read: ReadRecords,
        *,
        base_offset: int,
        batch_bytes: int,
        magic: int,
        codec: str,
        crc_ok: bool,
        timestamp_type: str | None,
        limits: DecompressionLimits,
    ) -> None:
        self._read = read
        self._most_records = limits.allowed_records(batch_bytes)
        self.base_offset = base_offset
        """In a message, its own offset: of the last message inside, when it is compressed."""
        self.batch_bytes = batch_bytes
        """With the 12 bytes of offset and length."""
        self.magic = magic
        self.codec = codec
        """``none``, ``gzip``, ``snappy``, ``lz4``, ``zstd`` or ``unknown``."""
        self.crc_ok = crc_ok
        self.timestamp_type = timestamp_type
        """``create`` or ``append``; None in magic 0."""
        self.record_count: int | None = None
        """As the header says, which may be a lie; None in messages."""
        self.partition_leader_epoch: int | None = None
        self.producer_id: int | None = None
        self.producer_epoch: int | None = None
        self.base_sequence: int | None = None
        self.delete_horizon_ms: int | None = None
        """When tombstones and transaction markers of the batch may go (KIP-534)."""
        self.is_transactional = False
        self.is_control = False
        self.problems: list[RecordProblem] = []
        """What was wrong; complete once :meth:`records` has come to its end."""

    def records(self) -> Iterator[Record]:
        """Read the records one by one; raises nothing, and notes what is wrong in ``problems``.

        Memory: what the codec gives, within the limits, while the iterator lives.
        """
        self.problems.clear()
        records = self._read(self.problems)
        yield from islice(records, self._most_records)
        if next(records, None) is not None:
            note(self.problems, RecordProblem.TOO_MANY_RECORDS)

    def sequence(self, offset: int) -> int | None:
        """Return the producer's sequence number of the record with that offset; None without one.

        After 2^31 - 1 comes 0 (KIP-98).
        """
        if self.base_sequence is None:
            return None
        return (self.base_sequence + offset - self.base_offset) & 0x7FFFFFFF


def note(problems: list[RecordProblem], problem: RecordProblem) -> None:
    """Add a problem, once: there may be a million records with the same."""
    if problem not in problems:
        problems.append(problem)


def as_int64(number: int) -> int:
    """Return a sum as 64 bits hold it, in two's complement, as it comes out in Java."""
    return (number + 0x8000000000000000 & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000
