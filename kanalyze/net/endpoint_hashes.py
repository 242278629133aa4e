"""Hashes of the two ends of a connection, to find its packets among many.

In: segments as columns, or two endpoints. Out: numbers of 64 bits.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kanalyze.model.tcp import Endpoint
    from kanalyze.net.segment_columns import SegmentColumns

_MIX: Final = tuple(np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F))
"""Odd multipliers with irregular bits; which ones does not matter."""
_SHIFT: Final = np.uint64(29)
_U64: Final = (1 << 64) - 1


class EndpointHashes(NamedTuple):
    """Hashes of the addresses and ports of a connection.

    A search cannot tell two connections with the same hashes apart, which is unlikely.
    """

    first: np.uint64
    second: np.uint64
    both: np.uint64
    """The hash of the connection, the same in both directions."""

    @classmethod
    def of(cls, first: Endpoint, second: Endpoint) -> EndpointHashes:
        """Hash two endpoints; raises ValueError for an invalid address."""
        one, other = (hashes_of((end,)) for end in (first, second))
        return cls(one[0], other[0], (one + other)[0])


def hashes_of(ends: Sequence[Endpoint]) -> NDArray[np.uint64]:
    """Return the hash of each of some endpoints; raises ValueError for an invalid address."""
    numbers = {ip: int(ipaddress.ip_address(ip)) for ip in {end.ip for end in ends}}
    high = np.array([numbers[end.ip] >> 64 for end in ends], np.uint64)
    low = np.array([numbers[end.ip] & _U64 for end in ends], np.uint64)
    return _mixed(high, low, np.array([end.port for end in ends], np.uint64))


def hashes_of_ends(segments: SegmentColumns) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the hashes of the sender and of the receiver of each segment.

    Their sum is :attr:`EndpointHashes.both`.
    """
    senders = _mixed(
        np.asarray(segments.source_high),
        np.asarray(segments.source_low),
        np.asarray(segments.source_port),
    )
    receivers = _mixed(
        np.asarray(segments.destination_high),
        np.asarray(segments.destination_low),
        np.asarray(segments.destination_port),
    )
    return senders, receivers


def _mixed(
    high: NDArray[np.uint64], low: NDArray[np.uint64], port: NDArray[np.integer]
) -> NDArray[np.uint64]:
    mixed = (high * _MIX[0] ^ low) * _MIX[1] ^ port.astype(np.uint64)
    mixed *= _MIX[0]
    mixed ^= mixed >> _SHIFT
    return mixed
