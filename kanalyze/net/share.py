"""Which connections are whose, where several workers read the same packets.

In: segments. Out: those of one worker's connections. Must not know who the workers are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.net.headers import SegmentColumns

__all__ = ["EVERYTHING", "Share", "shares_of"]

_MIX = tuple(np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93))
"""Odd multipliers with irregular bits; which ones does not matter."""
_SHIFT = np.uint64(32)


class Share:
    """One of ``count`` parts of all TCP connections: each is in one of them, with both its ends."""

    __slots__ = ("count", "index")

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        """From 0."""
        self.count = count

    @property
    def is_first(self) -> bool:
        """Whether this is the one that counts what belongs to no connection."""
        return self.index == 0

    def rows(self, segments: SegmentColumns) -> NDArray[np.int64]:
        """Return the indices of the segments of this share's connections."""
        return np.flatnonzero(shares_of(segments, self.count) == self.index)


EVERYTHING = Share(0, 1)
"""All connections."""


def shares_of(segments: SegmentColumns, count: int) -> NDArray[np.int64]:
    """Return of each segment the index of the share, of ``count``, that its connection is in.

    It depends on nothing but the connection's two ends and ``count``, whoever asks.
    """
    ends = _mixed(segments.source_high, segments.source_low, segments.source_port)
    # A sum, so that both directions have the same.
    ends += _mixed(segments.destination_high, segments.destination_low, segments.destination_port)
    ends ^= ends >> _SHIFT
    ends *= _MIX[2]
    return ((ends >> _SHIFT) % np.uint64(count)).astype(np.int64)


def _mixed(
    high: NDArray[np.uint64], low: NDArray[np.uint64], port: NDArray[np.int64]
) -> NDArray[np.uint64]:
    mixed = (high * _MIX[0] ^ low) * _MIX[1] ^ port.astype(np.uint64)
    mixed *= _MIX[0]
    mixed ^= mixed >> _SHIFT
    return mixed
