"""The machine's summary of a records field alone, without a message around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec import opcodes as op
from kanalyze.kafka.codec.compiler import Program
from kanalyze.kafka.codec.machine import Programs
from kanalyze.kafka.codec.values import KINDS, BodyDecoder, Shape

if TYPE_CHECKING:
    from kanalyze.kafka.records.types import RecordsSummary
    from kanalyze.kafka.wire import Source

_PREFIX_BYTES = 4
_PROGRAM = Program((op.RECORDS, op.WANTED | op.WIDE, op.END), (), 0, Shape(KINDS["records"]))
_DECODE = BodyDecoder(_PROGRAM, Programs())


class _Prefixed:
    """The bytes of a source from a position on, after the length of a records field."""

    def __init__(self, source: Source, begin: int, length: int) -> None:
        self._source = source
        self._begin = begin
        self._prefix = length.to_bytes(_PREFIX_BYTES, "big")

    @property
    def length(self) -> int:
        return _PREFIX_BYTES + self._source.length - self._begin

    def window(self, at: int) -> memoryview:
        if at < _PREFIX_BYTES:
            return memoryview(self._prefix)[at:]
        return self._source.window(self._begin + at - _PREFIX_BYTES)

    def read(self, at: int, length: int) -> memoryview:
        return self._source.read(self._begin + at - _PREFIX_BYTES, length)


def peek_records(
    view: bytes, pos: int, length: int, base: int, source: Source | None
) -> RecordsSummary:
    """Summarise the ``length`` bytes of records at ``view[pos]``.

    ``base`` is where the view begins in the source; with a source, only the source is read.
    """
    if source is None:
        data = length.to_bytes(_PREFIX_BYTES, "big") + view[pos : pos + length]
        found: RecordsSummary = _DECODE(data, 0, 0, None)[0]
    else:
        prefixed = _Prefixed(source, base + pos, length)
        found = _DECODE(prefixed.window(0), 0, 0, prefixed)[0]
    return found
