"""Segments by connection and direction, by sorting.

In: segment columns. Out: :class:`Groups`. Must not know: what a connection is beyond its pair of
endpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kanalyze.model import Endpoint
from kanalyze.net.addresses import ip_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.net.headers import SegmentColumns

__all__ = ["Groups", "Pair", "group_segments", "key_endpoint"]

_PORT_BITS: Final = np.uint64(16)
_IPV6_RANKS: Final = 1 << 32
"""Ranks of IPv6 addresses begin here, above the IPv4 addresses."""
_IPV6_KEY: Final = 1 << 144
_U64: Final = (1 << 64) - 1
_MIX: Final = tuple(
    np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93)
)
"""Odd multipliers with irregular bits; which ones does not matter, collisions are looked for."""
_MIX_SHIFT: Final = np.uint64(32)


Pair: TypeAlias = tuple[int, int]
"""The lower and the higher end of a connection, as ``address << 16 | port``, with bit 144 set for
IPv6."""


class Groups(NamedTuple):
    """The segments of a batch, sorted by pair of endpoints, then sender, then arrival.

    Of the two ends of a pair, the *lower* is the one with the smaller address and port. All
    columns but ``order`` have one entry a group.
    """

    pairs: list[Pair]
    order: NDArray[np.int64]
    """Indices of segments. Group ``g`` is ``order[start[g]:end[g]]``."""
    start: NDArray[np.int64]
    middle: NDArray[np.int64]
    """Segments of the lower end stand before, those of the higher end from here on."""
    end: NDArray[np.int64]
    first: NDArray[np.int64]
    """Index of the segment that arrived first."""
    last: NDArray[np.int64]
    """Index of the segment that arrived last."""


def group_segments(segments: SegmentColumns) -> Groups:
    """Group segments (at least one) by connection and direction."""
    source, destination = _endpoint_keys(segments)
    lower = np.minimum(source, destination)
    higher = np.maximum(source, destination)
    from_higher = source > destination
    order, changes = _sort(lower, higher, from_higher)
    start = np.concatenate([[0], changes])
    end = np.concatenate([changes, [len(order)]])
    count_higher = np.concatenate([[0], np.cumsum(from_higher[order])])
    return Groups(
        pairs=_pairs(segments, order[start], lower, higher),
        order=order,
        start=start,
        middle=end - (count_higher[end] - count_higher[start]),
        end=end,
        first=np.minimum.reduceat(order, start),
        last=np.maximum.reduceat(order, start),
    )


def key_endpoint(key: int) -> Endpoint:
    """Turn one half of a pair into text and number."""
    address, is_ipv6 = key >> 16, bool(key >> 144)
    text = ip_text(address >> 64 & _U64, address & _U64, is_ipv6=is_ipv6)
    return Endpoint(text, key & 0xFFFF)


def _sort(
    lower: NDArray[np.uint64], higher: NDArray[np.uint64], from_higher: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort segments; return their indices, and where in these each pair but the first begins.

    A sort of plain 64-bit numbers, half a hash of the pair and half the index, is several times
    as fast as a stable sort of indices. Hashes may collide, by chance or by intent: then the
    slower sort does it.
    """
    count = len(lower)
    index_bits = np.uint64(max((count - 1).bit_length(), 1))
    below_hash = index_bits + np.uint64(1)
    hashed = lower * _MIX[0] + higher * _MIX[1]
    hashed ^= hashed >> _MIX_SHIFT
    hashed *= _MIX[2]
    keys = hashed >> below_hash << below_hash
    keys |= from_higher.astype(np.uint64) << index_bits
    keys |= np.arange(count, dtype=np.uint64)
    keys.sort()
    order = (keys & np.uint64((1 << int(index_bits)) - 1)).astype(np.int64)
    differs = _differs(lower[order], higher[order])
    keys >>= below_hash
    if (differs & (keys[1:] == keys[:-1])).any():
        order = np.lexsort((from_higher, higher, lower))
        differs = _differs(lower[order], higher[order])
    return order, np.flatnonzero(differs) + 1


def _differs(lower: NDArray[np.uint64], higher: NDArray[np.uint64]) -> NDArray[np.bool_]:
    differs: NDArray[np.bool_] = (lower[1:] != lower[:-1]) | (higher[1:] != higher[:-1])
    return differs


def _endpoint_keys(
    segments: SegmentColumns,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Make one number of address and port, for sources and for destinations.

    IPv6 addresses are replaced by their rank among those of the batch, so that comparing two
    keys says the same in every batch.
    """
    source, destination = segments.source_low, segments.destination_low
    ipv6 = np.flatnonzero(segments.is_ipv6)
    if len(ipv6):
        high = np.concatenate([segments.source_high[ipv6], segments.destination_high[ipv6]])
        low = np.concatenate([source[ipv6], destination[ipv6]])
        order = np.lexsort((low, high))
        rank = np.empty(len(order), np.uint64)
        steps = np.concatenate([[False], _differs(low[order], high[order])])
        rank[order] = np.cumsum(steps).astype(np.uint64) + np.uint64(_IPV6_RANKS)
        source, destination = source.copy(), destination.copy()
        source[ipv6], destination[ipv6] = rank[: len(ipv6)], rank[len(ipv6) :]
    return (
        source << _PORT_BITS | segments.source_port.astype(np.uint64),
        destination << _PORT_BITS | segments.destination_port.astype(np.uint64),
    )


def _pairs(
    segments: SegmentColumns,
    examples: NDArray[np.int64],
    lower: NDArray[np.uint64],
    higher: NDArray[np.uint64],
) -> list[Pair]:
    """Name each group, by a segment of it: the same name in every batch."""
    pairs = list(zip(lower[examples].tolist(), higher[examples].tolist(), strict=True))
    for group in np.flatnonzero(segments.is_ipv6[examples]).tolist():
        row = int(examples[group])
        ends = (
            _ipv6_key(segments.source_high, segments.source_low, segments.source_port, row),
            _ipv6_key(
                segments.destination_high,
                segments.destination_low,
                segments.destination_port,
                row,
            ),
        )
        pairs[group] = (min(ends), max(ends))
    return pairs


def _ipv6_key(
    high: NDArray[np.uint64], low: NDArray[np.uint64], port: NDArray[np.int64], row: int
) -> int:
    return _IPV6_KEY | int(high[row]) << 80 | int(low[row]) << 16 | int(port[row])
