"""The machine's summary of a records field alone, without a message around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.codec import opcodes as op
from kanalyze.kafka.codec.machine import Programs
from kanalyze.kafka.codec.values import BodyDecoder, Program, Shape
from tests.support.sources import frame_in_pieces

if TYPE_CHECKING:
    from kanalyze.kafka.records.types import RecordsSummary

_PREFIX_BYTES = 4
_PROGRAM = Program((op.RECORDS, op.WANTED | op.WIDE, op.END), (), 0, Shape("records"))
_DECODE = BodyDecoder(_PROGRAM, Programs())


def peek_records(view: bytes, pos: int, length: int) -> RecordsSummary:
    """Summarise the ``length`` bytes of records at ``view[pos]``."""
    found: RecordsSummary = _DECODE(_with_length(view[pos : pos + length], length), 0)[0]
    return found


def peek_pieces(records: bytes, length: int, *held: tuple[int, int]) -> RecordsSummary:
    """Summarise records of which some ranges are there, and which should have ``length`` bytes."""
    ranges = [(start + _PREFIX_BYTES, end + _PREFIX_BYTES) for start, end in held]
    data = _with_length(records, length)
    found: RecordsSummary = _DECODE.of_frame(frame_in_pieces(data, (0, 4), *ranges), 0)
    return found


def _with_length(records: bytes, length: int) -> bytes:
    return length.to_bytes(_PREFIX_BYTES, "big") + records
