"""Checks the CRCs of batches of records in messages.

In: frames, and the places of batches that a decoder noted in them. Out: how many batches there are,
how many were checked, and which are wrong.

A batch of magic 2 has a CRC-32C of its bytes from the attributes on, a message of magic 0 or 1 a
CRC-32 of those from the magic on. Nothing is decompressed. Record data is dropped while a large
frame is incomplete: before that, its checksum is computed as far as it goes. A batch with missing
bytes is not checked.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kanalyze.common.saved import Saved
from kanalyze.kafka.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.kafka.codec.machine import Machine
    from kanalyze.kafka.framing.frame import Frame

_INT64 = struct.Struct(">q").unpack_from
_UINT32 = struct.Struct(">I").unpack_from
_MAGIC_AT = 16
_CRC_AT, _FROM = 17, 21
_OLD_CRC_AT, _OLD_FROM = 12, 16


class BatchCounts:
    """Numbers of batches and messages of records; all are 0 where CRCs are not checked."""

    __slots__ = ("batches", "checked", "wrong")
    _SAVED = Saved("batches:count checked:count wrong:count", arguments=3)

    def __init__(self, batches: int = 0, checked: int = 0, wrong: int = 0) -> None:
        self.batches = batches
        self.checked = checked
        """Those whose CRC was compared: all of their bytes are in the capture."""
        self.wrong = wrong

    def add(self, other: BatchCounts) -> None:
        """Add other counts."""
        self.batches += other.batches
        self.checked += other.checked
        self.wrong += other.wrong


class BatchChecks(BatchCounts):
    """The checks of the batches of one message."""

    __slots__ = ("first_at", "first_offset")

    def __init__(self) -> None:
        super().__init__()
        self.first_at = self.first_offset = -1

    @property
    def detail(self) -> str:
        """What is wrong, in words."""
        more = f"; {self.wrong} of {self.batches} batches are wrong" if self.wrong > 1 else ""
        return f"byte {self.first_at}: the batch with the base offset {self.first_offset}{more}"


def checks_of(frame: Frame, machine: Machine) -> BatchChecks:
    """Check the batches of a complete frame that the machine has read to the end of its body."""
    checks = BatchChecks()
    checks.batches = machine.batches
    for at, end in _noted(frame, machine):
        try:
            head = frame.read(at, _FROM)
        except WireError:
            continue
        reached, crc = _continued(frame, head, at, end)
        if reached < end:
            continue
        checks.checked += 1
        is_old = head[_MAGIC_AT] < 2
        if _UINT32(head, _OLD_CRC_AT if is_old else _CRC_AT)[0] != crc:
            checks.wrong += 1
            if checks.wrong == 1:
                checks.first_at, checks.first_offset = at, _INT64(head)[0]
    return checks


def _covered_from(magic: int) -> int:
    """Return where the bytes that the checksum is of begin in a batch or message."""
    return _OLD_FROM if magic < 2 else _FROM


def sum_up(frame: Frame, machine: Machine) -> None:
    """Sum up the bytes of an incomplete frame, before those that no field needs are dropped."""
    sums = {} if frame.batch_sums is None else frame.batch_sums
    for at, end in _noted(frame, machine):
        if at in sums and sums[at][0] == end:
            continue
        try:
            head = frame.read(at, _FROM)
        except WireError:
            continue
        sums[at] = _continued(frame, head, at, end)
    frame.batch_sums = sums


def _noted(frame: Frame, machine: Machine) -> Iterator[tuple[int, int]]:
    """Yield where each noted batch begins and ends in a frame."""
    notes, length = machine.notes, frame.length
    for at in range(0, 2 * machine.noted, 2):
        begin = length - notes[at]
        yield begin, begin + notes[at + 1]


def _continued(frame: Frame, head: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return how far the checksum of a batch goes, and its value up to there."""
    # imported late: not always used
    from kanalyze.kafka.records.compression import running_checksum

    magic = head[_MAGIC_AT]
    reached, crc = (frame.batch_sums or {}).get(at, (at + _covered_from(magic), 0))
    views = frame.in_pieces().views(reached, end)
    return reached + sum(map(len, views)), running_checksum(magic, views, crc)
