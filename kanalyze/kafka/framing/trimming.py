"""Drops buffered bytes of a frame that are not needed, or for which there is no memory.

In: a :class:`~kanalyze.kafka.framing.frame.Frame`, and what to keep. Out: the same frame with fewer
bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.kafka.framing.frame import SKIMMED_BYTES

if TYPE_CHECKING:
    from kanalyze.kafka.framing.frame import Frame

__all__ = ["drop_after", "is_worth_skimming", "keep_only"]


def is_worth_skimming(frame: Frame) -> bool:
    """Return true if so many bytes are buffered that it pays to drop those that are not needed."""
    return frame.buffered_bytes > frame.skim_above


def keep_only(frame: Frame, ranges: list[tuple[int, int]], until: int) -> None:
    """Drop all bytes before frame position ``until`` that are in none of ``ranges``.

    ``ranges`` rise and do not overlap.
    """
    kept_ranges = [(begin, min(end, until)) for begin, end in ranges if begin < until]
    kept_ranges.append((until, frame.length))
    pieces = frame.in_pieces()
    pieces.keep_only(kept_ranges)
    frame.buffered_bytes = pieces.buffered_bytes()
    # The frame is not skimmed again until it has twice as many bytes.
    frame.skim_above = max(SKIMMED_BYTES, 2 * frame.buffered_bytes)


def drop_after(frame: Frame, at: int) -> int:
    """Drop all bytes from frame position ``at`` on; return how many. They count as lost."""
    before = frame.buffered_bytes
    keep_only(frame, [(0, at)], frame.received)
    dropped = before - frame.buffered_bytes
    frame.missing_bytes += dropped
    frame.lost_bytes += dropped
    return dropped
