"""Reads records out of the bytes of a records field.

In: the bytes. Out: :class:`RecordSet`, which gives batches, which give records.

Nothing raises, whatever the bytes: what is wrong is noted (:class:`RecordProblem`) and what can be
read is read. No number in the bytes decides an allocation: records come one by one.

Batches (magic 2) are in :mod:`kanalyze.kafka.records.batch`, messages (magic 0 and 1) in
:mod:`kanalyze.kafka.records.message_sets`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kanalyze.kafka.records.batch import batch_of
from kanalyze.kafka.records.message_sets import MESSAGE_HEAD_BYTES, least_message_size, read_message
from kanalyze.kafka.records.types import DecompressionLimits, RecordProblem

try:
    import cython
except ModuleNotFoundError:  # uncompiled, this stand-in is enough
    from kanalyze.common.compiled import cython

if not cython.compiled:
    BATCH_HEADER_BYTES = 61
    ENTRY_HEAD_BYTES = 12
    MAGIC_AT = 16

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kanalyze.kafka.records.batch import RecordBatch

__all__ = ["RecordSet"]


_entry_head: Callable[[bytes, int], tuple[int, ...]] = Struct(">qi").unpack_from


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
        least = BATCH_HEADER_BYTES - ENTRY_HEAD_BYTES if magic == 2 else least_message_size(magic)
        if length < least:
            self.problems.append(RecordProblem.MALFORMED_BATCH)
            return 0
        if length + ENTRY_HEAD_BYTES > remaining_bytes:
            self.problems.append(RecordProblem.CUT_BATCH)
            return 0
        return at + ENTRY_HEAD_BYTES + length
