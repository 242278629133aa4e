"""The values of reading records, and what the header of a batch says without them.

In: bytes that may begin a batch, or the key of a control record. Out: records, problems, limits,
and the summary of a records field that decoders return.

Most bytes on a Kafka wire are those of records, and often the capture doesn't hold them: a summary
needs only headers. Layouts: KIP-98 (magic 2), KIP-32 (magic 1), the message format of Kafka 0.8
(magic 0); types of control records: KIP-98, KIP-595.
"""

from __future__ import annotations

import enum
from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

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


_CONTROL_TYPES = (
    *("abort", "commit", "leader_change", "snapshot_header", "snapshot_footer"),
    *("kraft_version", "kraft_voters"),
)
_control_key = Struct(">hh").unpack_from


def control_type(key: bytes | None) -> str:
    """Return the type of a control record from its key: a version and a type."""
    if key is None or len(key) < 4:
        return "unknown"
    number = _control_key(key, 0)[1]
    return _CONTROL_TYPES[number] if 0 <= number < len(_CONTROL_TYPES) else "unknown"


class RecordsSummary(NamedTuple):
    """A records field in numbers.

    Only whole batches count: consumers drop a batch that is cut off, and a broker may cut the
    last of a Fetch response anywhere. Control batches hold no user records: they count as
    batches, not in ``record_count``.
    """

    record_bytes: int
    """Bytes of the field, with batch headers and a cut batch, without the length before it."""
    record_count: int | None
    """User records, by the batch headers; None when a compressed message set (magic 0 or 1) hides
    the number or the capture misses a header."""
    base_offset: int | None
    """Offset of the first record, from the first whole batch's header; None without a whole batch,
    and if the header has only ``last_offset``. 0 in what producers send."""
    codec: str | None
    """``none``, ``gzip``, ``snappy``, ``lz4``, ``zstd``, ``unknown``; ``mixed`` when whole batches
    differ; None without a whole batch."""
    batch_count: int
    """Whole batches (entries of a message set, in magic 0 and 1)."""
    first_timestamp_ms: int | None
    """Unix time in ms in the first whole batch's header (base timestamp); None when it has none."""
    max_timestamp_ms: int | None
    """Highest Unix time in ms in any whole batch's header; None when none has one."""
    has_control: bool
    """A whole batch is a control batch."""
    truncated: bool
    """The last batch is cut off."""
    malformed: bool
    """A header contradicts the format. What came after it was not read; but if only its number of
    records is impossible, just the records of that batch were not counted."""
    missing: bool
    """The capture doesn't hold a batch header; what came after it was not read."""
    last_offset: int | None = None
    """Offset of the last message inside the first whole batch, if that is a compressed message of
    magic 0 or 1: its header has no other offset. None otherwise."""
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    """Of the first whole batch's header: who wrote it, and the number of its first record for that
    producer and partition (KIP-98); None where it has -1, as without idempotence."""


BATCH_HEADER_BYTES = 61
ENTRY_HEAD_BYTES = 12
"""Of a batch as of a message: offset, and the length of what follows."""
_MIN_BATCH_LENGTH = BATCH_HEADER_BYTES - ENTRY_HEAD_BYTES
MESSAGE_HEAD_BYTES = 18
"""Of a message: offset, size, CRC, magic, attributes."""
MAGIC_AT = 16
"""Of a batch as of a message."""
MIN_MESSAGE_SIZES = (14, 22)
"""By magic: CRC, magic, attributes, the timestamp in magic 1, two lengths."""

_Unpack: TypeAlias = "Callable[[bytes | memoryview, int], tuple[int, ...]]"

# offset, size, magic, attributes
_message_head: _Unpack = Struct(">qi4xbB").unpack_from
_leader_epoch = _count = Struct(">i").unpack_from
_attributes_and_delta: _Unpack = Struct(">Hi").unpack_from
_CRC_END = 21
_FIRST_FREE_ATTRIBUTE = 0x80
"""Seven bits of a batch's attributes have a meaning."""
_LAST_MESSAGE_ATTRIBUTES = 0x0F
_HIGHEST_OFFSET = 1 << 48
_HIGHEST_EPOCH = 1 << 24
"""Real offsets and epochs stay below these; random bytes are mostly above."""


def batch_head_bytes(view: bytes | memoryview, most_bytes: int) -> int:
    """Return how many bytes at the begin of a view are the header of a batch, as producers send it.

    ``most_bytes`` is how long a batch may be there. Returns 0 if there is no header, or too little
    of it to see its format. A complete header of magic 2 has 61 bytes, and some 80 of its bits are
    fixed. A message's header, or an incomplete one, has 18 bytes or more, with 30 fixed bits.
    """
    if len(view) < MESSAGE_HEAD_BYTES:
        return 0
    offset, size, magic, attributes = _message_head(view, 0)
    if not 0 <= offset <= _HIGHEST_OFFSET or size > most_bytes - ENTRY_HEAD_BYTES:
        return 0
    if magic in (0, 1):
        fits = size >= MIN_MESSAGE_SIZES[magic] and attributes <= _LAST_MESSAGE_ATTRIBUTES
        return MESSAGE_HEAD_BYTES if fits else 0
    epoch = _leader_epoch(view, ENTRY_HEAD_BYTES)[0]
    if magic != 2 or size < _MIN_BATCH_LENGTH or not -1 <= epoch <= _HIGHEST_EPOCH:
        return 0
    if len(view) < BATCH_HEADER_BYTES:
        return len(view)
    attributes, last_delta = _attributes_and_delta(view, _CRC_END)
    count = _count(view, BATCH_HEADER_BYTES - 4)[0]
    fits = attributes < _FIRST_FREE_ATTRIBUTE and count > 0 and last_delta == count - 1
    return BATCH_HEADER_BYTES if fits else 0
