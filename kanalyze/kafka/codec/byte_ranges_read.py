"""Which bytes of a frame a decoder reads, so that the others need not be kept.

In: a frame, and a decoder. Out: the ranges that it reads. Most bytes of a large frame are record
data, and rows need only the batch headers.

The decoder runs over the bytes received so far. It will read the same ranges again, so the bytes
between these may be dropped. Everything from the first missing byte on is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kanalyze.kafka.codec.machine import Status
from kanalyze.kafka.wire import MissingBytes

if TYPE_CHECKING:
    from kanalyze.kafka.codec.values import BodyDecoder
    from kanalyze.kafka.framing.frame import Frame

_HEAD_BYTES = 2048
"""Always kept: the frame's header, and the fields before its body's first array."""
_NARROW_BYTES = 192
"""Mostly enough for the first fields of a partition and the header of its batch (61 bytes)."""


Ranges: TypeAlias = list[tuple[int, int]]
"""Begin and end of each range in the frame; in order, without overlaps."""


def byte_ranges_read_so_far(frame: Frame, at: int, decode: BodyDecoder) -> tuple[Ranges, int]:
    """Return which bytes of an incomplete frame ``decode`` reads, and up to where it read.

    The body begins at ``at``. What comes after the second value is in no range, and is needed.
    """
    return _run(frame, at, decode, (0, min(_HEAD_BYTES, frame.length)))


def byte_ranges_read(frame: Frame, at: int, decode: BodyDecoder) -> Ranges | None:
    """Return which bytes of a complete frame ``decode`` reads, from ``at`` on.

    All bytes before ``at`` are included. None if the frame cannot be read. Windows are small,
    because all bytes of a window count as read.
    """
    frame.window_bytes = _NARROW_BYTES
    ranges, _ = _run(frame, at, decode, (0, at))
    return ranges if decode.machine.status == Status.DONE else None


def _run(frame: Frame, at: int, decode: BodyDecoder, first: tuple[int, int]) -> tuple[Ranges, int]:
    """Run over what there is of a body; return the ranges read, and the first byte not there."""
    machine, ranges, stuck_at = decode.machine, [first], frame.received
    machine.begin(decode.address, decode.stack_cells, max(0, frame.length - at))
    while machine.status == Status.RUNNING:
        at = machine.next_at(frame.length)
        try:
            window = frame.window(at)[: frame.window_bytes]
        except MissingBytes:
            stuck_at = min(stuck_at, at)
            if not machine.skip_missing_records():
                break
            continue
        ranges.append((at, at + len(window)))
        machine.feed(window, 0, len(window))
    return _merged(ranges), stuck_at


def _merged(ranges: Ranges) -> Ranges:
    """Return ranges in order, merged where they touch or overlap."""
    merged: Ranges = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
