"""What a records field holds, by the headers of its batches alone.

In: bytes that may begin a batch. Out: how many of them are a batch header. :class:`RecordsSummary`
is what decoders return for a records field. The records themselves are never read: most bytes on a
Kafka wire are theirs, and often the capture doesn't hold them.

Layouts: KIP-98 (magic 2), KIP-32 (magic 1), and the message format of Kafka 0.8 (magic 0).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, TypeAlias

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["BATCH_HEADER_BYTES", "RecordsSummary", "batch_head_bytes"]


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


BATCH_HEADER_BYTES = 61
_ENTRY_HEAD_BYTES = 12
"""Of a batch as of a message: offset, and the length of what follows."""
_MIN_BATCH_LENGTH = BATCH_HEADER_BYTES - _ENTRY_HEAD_BYTES
_MESSAGE_HEAD_BYTES = 18
"""Of a message: offset, size, CRC, magic, attributes."""
_MIN_MESSAGE_SIZES = (14, 22)
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
    if len(view) < _MESSAGE_HEAD_BYTES:
        return 0
    offset, size, magic, attributes = _message_head(view, 0)
    if not 0 <= offset <= _HIGHEST_OFFSET or size > most_bytes - _ENTRY_HEAD_BYTES:
        return 0
    if magic in (0, 1):
        fits = size >= _MIN_MESSAGE_SIZES[magic] and attributes <= _LAST_MESSAGE_ATTRIBUTES
        return _MESSAGE_HEAD_BYTES if fits else 0
    epoch = _leader_epoch(view, _ENTRY_HEAD_BYTES)[0]
    if magic != 2 or size < _MIN_BATCH_LENGTH or not -1 <= epoch <= _HIGHEST_EPOCH:
        return 0
    if len(view) < BATCH_HEADER_BYTES:
        return len(view)
    attributes, last_delta = _attributes_and_delta(view, _CRC_END)
    count = _count(view, BATCH_HEADER_BYTES - 4)[0]
    fits = attributes < _FIRST_FREE_ATTRIBUTE and count > 0 and last_delta == count - 1
    return BATCH_HEADER_BYTES if fits else 0
