"""The values of reading records: records, problems, and limits.

In: nothing. Out: value types.
"""

from __future__ import annotations

import enum

from kanalyze.common.named_tuples import NamedTuple

__all__ = [
    "MAX_DEPTH",
    "DecompressionLimits",
    "Header",
    "Record",
    "RecordProblem",
    "as_int64",
    "note",
]


MAX_DEPTH = 3
"""How deep compressed sets of messages may nest. Producers write one level, and brokers accept no
more."""


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
    """More bytes came out of the codec than may: see :class:`DecompressionLimits`."""
    MALFORMED_RECORD = "malformed_record"
    """A record contradicts the format; those after it were not read."""
    WRONG_RECORD_COUNT = "wrong_record_count"
    """The batch holds fewer records, or more bytes, than its header says."""
    TOO_MANY_RECORDS = "too_many_records"
    """More records came out of the codec than may; those beyond the limit were not read: see
    :class:`DecompressionLimits`."""
    TOO_MANY_HEADERS = "too_many_headers"
    """A record has more headers than are read; neither it nor the records after it were read."""
    NESTED_TOO_DEEP = "nested_too_deep"
    """Compressed message sets within compressed message sets, deeper than any client writes."""


class DecompressionLimits(NamedTuple):
    """How much may come out of one compressed batch, including all that is nested in it.

    At most ``most_bytes``; and, beyond ``free_bytes``, at most ``most_ratio`` times the bytes that
    went in. Records: ``most_records``, if that is set; otherwise, beyond ``free_records``, at most
    ``records_per_byte`` for each byte of the batch on the wire. A sound batch does not reach that
    limit: each record has an offset of its own, which no codec packs into less than half a byte.
    """

    most_bytes: int = 64 << 20
    most_ratio: int = 1024
    """gzip and lz4 cannot do more than 1032 and 255; zstd can, with bytes that are all the same."""
    free_bytes: int = 1 << 20
    most_records: int | None = None
    records_per_byte: int = 4
    free_records: int = 1000

    def allowed(self, compressed_bytes: int) -> int:
        """Return how many bytes may come out of ``compressed_bytes``."""
        return min(self.most_bytes, max(self.free_bytes, self.most_ratio * compressed_bytes))

    def allowed_records(self, batch_bytes: int) -> int:
        """Return how many records may come out of a batch with ``batch_bytes`` on the wire."""
        if self.most_records is not None:
            return self.most_records
        return max(self.free_records, self.records_per_byte * batch_bytes)


class Header(NamedTuple):
    """A header of a record (KIP-82)."""

    key: bytes
    """UTF-8 by the protocol; bytes as they are here."""
    value: bytes | None


class Record(NamedTuple):
    """One record, as its batch has it."""

    offset: int
    """As the batch says; most producers count from 0 in each batch that they send."""
    timestamp_ms: int | None
    """Unix time in ms; None in magic 0 and where it is -1."""
    key: bytes | None
    value: bytes | None
    """None is a tombstone."""
    headers: tuple[Header, ...] = ()
    crc_ok: bool = True
    """Of a message inside a compressed one (magic 0 and 1), its own checksum; otherwise True: the
    checksum of the batch covers it."""


def note(problems: list[RecordProblem], problem: RecordProblem) -> None:
    """Add a problem, once: there may be a million records with the same."""
    if problem not in problems:
        problems.append(problem)


def as_int64(number: int) -> int:
    """Return a number wrapped around at 64 bits, in two's complement, as a sum in Java is."""
    return (number + 0x8000000000000000 & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000
