"""Readings of captures in any batches of packets; the reference is packet by packet.

In: captures. Out: their rows, and the quality of the capture.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from operator import add
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

import numpy as np

from kanalyze.capture.merge import MergedCaptures
from kanalyze.common.int_columns import shifted
from kanalyze.runtime import settings
from kanalyze.runtime.pipeline import Analysis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kanalyze.model.packets import PacketBatch
    from kanalyze.runtime.pipeline import CaptureInput
    from kanalyze.spec.rows.requests import Row
    from kanalyze.tables.columns.block import RowBlock
    from kanalyze.tables.quality import CaptureQuality


class Reading(NamedTuple):
    """The results of reading captures."""

    rows: list[Row]
    quality: CaptureQuality
    blocks: list[RowBlock]
    """The blocks in which the rows came."""


def reference(captures: Sequence[CaptureInput], **arguments: object) -> Reading:
    """Read captures in batches of one packet."""
    return read(captures, most_packets=lambda: 1, jobs=1, **arguments)


def read(
    captures: Sequence[CaptureInput],
    *,
    most_packets: Callable[[], int] | None = None,
    **arguments: object,
) -> Reading:
    """Read captures.

    Args:
        captures: as :class:`~kanalyze.runtime.pipeline.Analysis` takes them.
        most_packets: gives, for each batch, how many packets it may have; None leaves batches as
            they are.
        arguments: others of :class:`~kanalyze.runtime.pipeline.Analysis`.
    """
    run = Analysis(captures, **arguments)  # type: ignore[arg-type]
    if most_packets is None:
        blocks = list(run.batches())
    else:
        with batches_of(most_packets):
            blocks = list(run.batches())
    return Reading([row for block in blocks for row in block.rows()], run.quality, blocks)


@contextmanager
def batches_of(most_packets: Callable[[], int]) -> Iterator[None]:
    """Meanwhile, read all captures in batches of at most so many packets.

    Each batch has a buffer of its own, which is overwritten when the next one is requested, so that
    later uses of its bytes give wrong results.
    """

    class InPieces(MergedCaptures):
        def batches(self) -> Iterator[PacketBatch]:
            for batch in super().batches():
                yield from _pieces(batch, most_packets)

    with patch.object(settings, "MergedCaptures", InPieces):
        yield


def _pieces(batch: PacketBatch, most_packets: Callable[[], int]) -> Iterator[PacketBatch]:
    first = 0
    while first < len(batch):
        last = min(first + most_packets(), len(batch))
        piece = _of_its_own(batch.part(slice(first, last)))
        yield piece
        np.frombuffer(piece.buffer, np.uint8)[:] = 0xA5
        first = last


def _of_its_own(batch: PacketBatch) -> PacketBatch:
    begin = min(batch.offset)
    end = max(map(add, batch.offset, batch.captured_bytes))
    buffer = memoryview(bytearray(batch.buffer[begin:end]))
    made = copy(batch)
    made.buffer, made.offset = buffer, shifted(batch.offset, -begin)
    return made
