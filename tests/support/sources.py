"""Frames that lie in pieces, some of them missing."""

from __future__ import annotations

from kanalyze.kafka.framing.frame import Frame


def frame_in_pieces(data: bytes, *held: tuple[int, int]) -> Frame:
    """Make a frame of which the capture has some ranges, each in a buffer of its own.

    ``held`` are these ranges, ends not included, in order.
    """
    frame = Frame(len(data) - 4, 0, 0, 1)
    for start, end in held:
        if start < end:
            frame.add(start, memoryview(data[start:end]))
    frame.missing_bytes = len(data) - frame.buffered_bytes
    return frame
