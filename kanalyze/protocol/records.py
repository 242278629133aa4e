"""What a records field holds, told from the heads of its batches alone.

In: where a records field lies in a frame. Out: a :class:`RecordsSummary`. The records themselves
are never read: most bytes on a Kafka wire are theirs, and often the capture doesn't hold them.
Must not know which message the field stands in.

Layouts: KIP-98 (magic 2), KIP-32 (magic 1), and the message format of Kafka 0.8 (magic 0).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kanalyze.protocol.wire import MissingBytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from kanalyze.protocol.wire import Source

__all__ = ["RecordsSummary", "peek_records"]


class RecordsSummary(NamedTuple):
    """A records field in numbers.

    Only whole batches count: consumers drop a batch that is cut off, and a broker may cut the
    last of a Fetch response anywhere. Control batches hold no user records: they count as
    batches, not in ``record_count``.
    """

    record_bytes: int
    """Bytes of the field: batch headers and a cut batch too, the length before it not."""
    record_count: int | None
    """User records, by the batch headers; None when a compressed message set (magic 0 or 1) hides
    the number or the capture misses a header."""
    base_offset: int | None
    """Offset of the first record, from the first whole batch's header; None without one, and where
    ``last_offset`` is all that the header tells. 0 in what producers send."""
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
    """A header contradicts the format; what came after it was not looked at, or, for a number of
    records that can't be, nothing was counted for the batch."""
    missing: bool
    """The capture doesn't hold a batch header; what came after it was not looked at."""
    last_offset: int | None = None
    """Offset of the last message inside the first whole batch, where that is a message of magic 0
    or 1 that is compressed: there the header tells no other."""


BATCH_HEADER_BYTES = 61
_ENTRY_HEAD_BYTES = 12
"""Of a batch as of a message: offset, and the length of what follows."""
_MIN_BATCH_LENGTH = BATCH_HEADER_BYTES - _ENTRY_HEAD_BYTES
_MIN_RECORD_BYTES = 7
"""Length, attributes, two deltas, two lengths and a number of headers, a byte each."""
_MAGIC_AT = 16
_MESSAGE_HEAD_BYTES = 18
"""Of a message: offset, size, CRC, magic, attributes."""
_MIN_MESSAGE_SIZES = (14, 22)
"""By magic: CRC, magic, attributes, the timestamp in magic 1, two lengths."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "unknown", "unknown", "unknown")
_NO_TIMESTAMP = -1
_CONTROL = 0x20
"""Bit of a batch's attributes."""

_Unpack: TypeAlias = "Callable[[bytes | memoryview, int], tuple[int, ...]]"

# base_offset, batch_length, magic, attributes, base_timestamp, max_timestamp, records_count
_batch_header: _Unpack = Struct(">qi4xb4xh4xqq14xi").unpack_from
# offset, size, magic, attributes
_message_head: _Unpack = Struct(">qi4xbB").unpack_from
_timestamp: _Unpack = Struct(">q").unpack_from
_new = tuple.__new__


def peek_records(
    view: bytes | memoryview, pos: int, length: int, base: int, source: Source | None
) -> RecordsSummary:
    """Summarise the ``length`` bytes of records at ``view[pos]``.

    ``base`` is the frame position of ``view[0]``. Headers that lie beyond ``view`` are read from
    ``source``; without one, the caller has made sure that the field is inside ``view``.

    Raises Truncated (from ``source``) when the field goes past the end of the frame. Time and
    memory: one step a batch of at least 26 bytes that the capture holds, and nothing kept.
    """
    if length >= BATCH_HEADER_BYTES and pos + BATCH_HEADER_BYTES <= len(view):
        offset, size, magic, attributes, first, last, count = _batch_header(view, pos)
        if (
            magic == 2
            and size == length - _ENTRY_HEAD_BYTES
            and count >= 0
            and (attributes & 7 or count * _MIN_RECORD_BYTES <= size - _MIN_BATCH_LENGTH)
            and not attributes & _CONTROL
            and first >= 0 <= last
        ):
            # By far the most common: one whole batch of user records. The values are those of the
            # walk below; made without the cost of the class's own constructor.
            codec = _CODECS[attributes & 7]
            return _new(
                RecordsSummary,
                (length, count, offset, codec, 1, first, last, False, False, False, False, None),
            )
    walk = _Walk(view, pos, length, base, source)
    walk.run()
    return walk.summary()


class _Walk:
    """Goes from batch header to batch header."""

    __slots__ = (
        "_base",
        "_length",
        "_pos",
        "_source",
        "_view",
        "base_offset",
        "batch_count",
        "codecs",
        "first_timestamp",
        "has_control",
        "hidden_count",
        "last_offset",
        "malformed",
        "max_timestamp",
        "missing",
        "record_count",
        "truncated",
    )

    def __init__(
        self, view: bytes | memoryview, pos: int, length: int, base: int, source: Source | None
    ) -> None:
        self._view = view
        self._pos = pos
        self._length = length
        self._base = base
        self._source = source
        self.record_count = 0
        self.hidden_count = False
        self.base_offset: int | None = None
        self.last_offset: int | None = None
        self.codecs = 0
        self.batch_count = 0
        self.first_timestamp = _NO_TIMESTAMP
        self.max_timestamp = _NO_TIMESTAMP
        self.has_control = False
        self.truncated = False
        self.malformed = False
        self.missing = False

    def run(self) -> None:
        """Walk the field; each step goes on by at least 26 bytes, or ends the walk."""
        at = 0
        try:
            while at < self._length:
                at = self._plain_batches(at)
                if at < self._length:
                    at += self._step(at)
        except MissingBytes:
            self.missing = True

    def _plain_batches(self, at: int) -> int:
        """Walk whole batches of user records inside the view; return where the first other is.

        A short cut: :meth:`_step` would find the same. A field of a thousand batches is ordinary.
        """
        view, pos, length = self._view, self._pos, self._length
        last_start = min(length, len(view) - pos) - BATCH_HEADER_BYTES
        while at <= last_start:
            offset, size, magic, attributes, first, last, count = _batch_header(view, pos + at)
            end = at + size + _ENTRY_HEAD_BYTES
            if (
                magic != 2
                or end > length
                or attributes & _CONTROL
                or size < _MIN_BATCH_LENGTH
                or count < 0
                or (count * _MIN_RECORD_BYTES > size - _MIN_BATCH_LENGTH and not attributes & 7)
            ):
                break
            if self.batch_count == 0:
                self.base_offset = offset
                self.first_timestamp = first
            self.batch_count += 1
            self.record_count += count
            self.codecs |= 1 << (attributes & 7)
            if last > self.max_timestamp:
                self.max_timestamp = last
            at = end
        return at

    def summary(self) -> RecordsSummary:
        """Return the findings."""
        return RecordsSummary(
            record_bytes=self._length,
            record_count=None if self.hidden_count or self.missing else self.record_count,
            base_offset=self.base_offset,
            codec=self._codec(),
            batch_count=self.batch_count,
            first_timestamp_ms=_known_time(self.first_timestamp),
            max_timestamp_ms=_known_time(self.max_timestamp),
            has_control=self.has_control,
            truncated=self.truncated,
            malformed=self.malformed,
            missing=self.missing,
            last_offset=self.last_offset,
        )

    def _codec(self) -> str | None:
        """Name the codecs seen, a bit each in ``codecs``."""
        if self.codecs == 0:
            return None
        if self.codecs & (self.codecs - 1):
            return "mixed"
        return _CODECS[self.codecs.bit_length() - 1]

    def _step(self, at: int) -> int:
        """Look at the batch or message at ``at``; return how long it is."""
        left = self._length - at
        if left < _MESSAGE_HEAD_BYTES:
            self.truncated = True
            return left
        if left >= BATCH_HEADER_BYTES:
            view, pos = self._bytes(at, BATCH_HEADER_BYTES)
        else:
            view, pos = self._bytes(at, left)
        magic = view[pos + _MAGIC_AT]
        if magic == 2:
            return self._batch(view, pos, left)
        if magic < 2:
            return self._message(view, pos, left)
        self.malformed = True
        return left

    def _bytes(self, at: int, length: int) -> tuple[bytes | memoryview, int]:
        """Return a buffer and the index in it of ``length`` bytes of the field from ``at`` on."""
        pos = self._pos + at
        if pos + length <= len(self._view) or self._source is None:
            return self._view, pos
        return self._source.read(self._base + pos, length), 0

    def _batch(self, view: bytes | memoryview, pos: int, left: int) -> int:
        if left < BATCH_HEADER_BYTES:
            self.truncated = True
            return left
        offset, size, _, attributes, first, last, count = _batch_header(view, pos)
        if size < _MIN_BATCH_LENGTH:
            self.malformed = True
            return left
        if size + _ENTRY_HEAD_BYTES > left:
            self.truncated = True
            return left
        self._whole(offset, attributes & 7, first, last)
        if attributes & _CONTROL:
            self.has_control = True
        elif count < 0 or (
            attributes & 7 == 0 and count * _MIN_RECORD_BYTES > size - _MIN_BATCH_LENGTH
        ):
            # Looking on is safe: the chain of sizes is sound, only the number is not.
            self.malformed = True
            return size + _ENTRY_HEAD_BYTES
        else:
            self.record_count += count
        return size + _ENTRY_HEAD_BYTES

    def _message(self, view: bytes | memoryview, pos: int, left: int) -> int:
        offset, size, magic, attributes = _message_head(view, pos)
        if size < _MIN_MESSAGE_SIZES[magic]:
            self.malformed = True
            return left
        if size + _ENTRY_HEAD_BYTES > left:
            self.truncated = True
            return left
        time = _timestamp(view, pos + _MESSAGE_HEAD_BYTES)[0] if magic else _NO_TIMESTAMP
        is_first = self.batch_count == 0
        self._whole(offset, attributes & 7, time, time)
        if attributes & 7:
            self.hidden_count = True
            if is_first:
                self.base_offset, self.last_offset = None, offset
        else:
            self.record_count += 1
        return size + _ENTRY_HEAD_BYTES

    def _whole(self, offset: int, codec: int, first: int, last: int) -> None:
        """Note a batch that is all there."""
        if self.batch_count == 0:
            self.base_offset = offset
            self.first_timestamp = first
        self.batch_count += 1
        self.codecs |= 1 << codec
        self.max_timestamp = max(self.max_timestamp, last)


def _known_time(time_ms: int) -> int | None:
    return time_ms if time_ms >= 0 else None
