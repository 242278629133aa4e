"""Packets that a capture holds more than once, told from those that were sent again.

In: segment columns, batch after batch. Out: which segments are copies. Must not know:
connections.

A packet is captured twice where it passes two interfaces of an ``any`` capture, or two mirrored
ports. Its copy has the same addresses, sequence and acknowledgment numbers, flags, window, length,
TCP checksum and IPv4 identification. What a sender sends again has another identification: hosts
count it up for each packet (RFC 6864 asks that it differs from any in flight unless the packet
may not be fragmented; stacks count all the same), so a copy may come as late as capture points are
apart. IPv6 has no identification, and some hosts leave it 0: then the checksum, which covers TCP
timestamps where it was filled in, and the time must do. Senders wait for a round trip before they
repeat, 200 ms where nothing tells them of the loss, so what comes within less is a copy, but for
very short round trips, where a repetition may be taken for a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kanalyze.net.headers import SegmentColumns

__all__ = ["Duplicates"]

IDENTIFIED_NS: Final = 20_000_000
"""How far apart copies with an IPv4 identification may be: capture queues, and the clocks of
two capture points, are seldom further apart."""
UNIDENTIFIED_NS: Final = 1_000_000
"""How far apart copies without one may be: one tick of Linux's TCP timestamps."""
WITHIN_PACKETS: Final = 2048
"""How many packets of the capture apart: what is remembered. Interfaces of one host are some tens
of packets apart at most."""
_MIX: Final = tuple(
    np.uint64(odd)
    for odd in (
        0x9E3779B97F4A7C15,
        0xC2B2AE3D27D4EB4F,
        0xD6E8FEB86659FD93,
        0xA0761D6478BD642F,
        0xE7037ED1A0B428DB,
    )
)
"""Odd multipliers with irregular bits; which ones does not matter, equality is checked."""
_SHIFT: Final = np.uint64(32)
_COPIED_HASH: Final = np.uint64(29)


class _Identity(NamedTuple):
    """What two copies have in common, in a few numbers a segment; and when they came."""

    number: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    sequence: NDArray[np.int64]
    acknowledgment: NDArray[np.int64]
    flags: NDArray[np.int64]
    payload_bytes: NDArray[np.int64]
    window: NDArray[np.uint16]
    checksum: NDArray[np.uint16]
    identification: NDArray[np.int32]
    source_high: NDArray[np.uint64]
    source_low: NDArray[np.uint64]
    destination_high: NDArray[np.uint64]
    destination_low: NDArray[np.uint64]
    source_port: NDArray[np.int64]
    destination_port: NDArray[np.int64]


_COLUMNS: Final = _Identity._fields
_COMPARED: Final = tuple(name for name in _COLUMNS if name not in ("number", "time_ns"))


class Duplicates:
    """Finds copies among the segments of a batch and the last ones before.

    Whoever feeds batches calls :meth:`remember` after each; :meth:`find` costs only those who
    call it.
    """

    def __init__(self) -> None:
        self._before: _Identity | None = None
        """The last segments, at most :data:`WITHIN_PACKETS`."""

    def find(self, segments: SegmentColumns) -> NDArray[np.bool_]:
        """Tell of each segment (at least one) of the present batch whether it is a copy.

        A copy equals an earlier segment, no more than :data:`WITHIN_PACKETS` packets and
        :data:`IDENTIFIED_NS` or :data:`UNIDENTIFIED_NS` before; the first is none.
        """
        seen = _identity(segments)
        before = 0
        if self._before is not None:
            near = self._before.number > int(segments.number[0]) - WITHIN_PACKETS - 1
            before = int(near.sum())
            seen = _joined(self._before, seen, len(self._before.number) - before)
        later, earlier = _neighbours(_hashed(seen))
        same = np.ones(len(later), np.bool_)
        for name in _COMPARED:
            column = getattr(seen, name)
            same &= column[later] == column[earlier]
        later, earlier = later[same], earlier[same]
        allowed_ns = np.where(seen.identification[later] > 0, IDENTIFIED_NS, UNIDENTIFIED_NS)
        near_in_time = np.abs(seen.time_ns[later] - seen.time_ns[earlier]) <= allowed_ns
        near = seen.number[later] - seen.number[earlier] <= WITHIN_PACKETS
        copies = np.zeros(len(seen.number), np.bool_)
        copies[later[near & near_in_time]] = True
        return copies[before:]

    def remember(self, segments: SegmentColumns) -> None:
        """Keep the last segments of a batch, to find their copies in the next one.

        They are copied: columns kept from one batch to the next would be out of the cache when
        the next one's are made.
        """
        count = len(segments)
        if count >= WITHIN_PACKETS or self._before is None:
            first = max(count - WITHIN_PACKETS, 0)
            self._before = _Identity(*[getattr(segments, name)[first:].copy() for name in _COLUMNS])
            return
        kept = min(len(self._before.number), WITHIN_PACKETS - count)
        self._before = _joined(self._before, _identity(segments), len(self._before.number) - kept)


def _identity(segments: SegmentColumns) -> _Identity:
    return _Identity(*[getattr(segments, name) for name in _COLUMNS])


def _joined(before: _Identity, after: _Identity, skip: int) -> _Identity:
    return _Identity(
        *[np.concatenate([getattr(before, name)[skip:], getattr(after, name)]) for name in _COLUMNS]
    )


def _hashed(seen: _Identity) -> NDArray[np.uint64]:
    """Mix what copies have in common into one number."""
    numbers = seen.sequence.astype(np.uint64) << _SHIFT | seen.acknowledgment.astype(np.uint64)
    hashed = numbers * _MIX[0]
    hashed ^= hashed >> _COPIED_HASH
    ports = seen.source_port << 16 | seen.destination_port
    sizes = seen.payload_bytes << 40 | seen.flags << 32
    sizes |= seen.checksum.astype(np.int64) << 16 | seen.window
    hashed += sizes.astype(np.uint64) * _MIX[1]
    hashed ^= hashed >> _SHIFT
    hashed += (ports << 32 | seen.identification).astype(np.uint64) * _MIX[2]
    hashed ^= hashed >> _COPIED_HASH
    hashed += (seen.source_low + seen.source_high) * _MIX[3]
    hashed += (seen.destination_low + seen.destination_high) * _MIX[4]
    hashed ^= hashed >> _SHIFT
    hashed *= _MIX[0]
    return hashed


def _neighbours(hashed: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of those whose hash came before, and of the last one with it."""
    index_bits = np.uint64(max((len(hashed) - 1).bit_length(), 1))
    keys = hashed >> index_bits << index_bits
    keys |= np.arange(len(hashed), dtype=np.uint64)
    keys.sort()
    order = (keys & np.uint64((1 << int(index_bits)) - 1)).astype(np.int64)
    keys >>= index_bits
    again = np.flatnonzero(keys[1:] == keys[:-1])
    return order[again + 1], order[again]
