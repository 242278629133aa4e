"""Packets that a capture has more than once, as opposed to retransmissions.

In: segment columns, batch after batch. Out: which segments are copies.

A packet is captured twice if it passes two interfaces of an ``any`` capture, or two mirrored ports.
Its copy has the same addresses, sequence and acknowledgment numbers, flags, window, length, TCP
checksum and IPv4 identification. A retransmission has another identification, because hosts count
it up for each packet (RFC 6864 requires that only of packets that may be fragmented; stacks do it
for all). So with an identification, a copy is recognized at any distance that two capture points
may have. IPv6 has no identification, and some hosts leave it 0: then only the checksum, which
covers TCP timestamps if it was filled in, and the time are left. Senders wait for a round trip
before they send again, or 200 ms if nothing tells them of the loss, so a segment that comes sooner
is a copy. Where round trips are very short, a retransmission may be taken for a copy.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from kanalyze.common.saved import Saved

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME

    IS_COPY = 1
    IDENTIFIED, UNIDENTIFIED = 20_000_000, 1_000_000
    WITHIN = 2048
    MIN_TABLE = 16

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.net.segment_columns import SegmentColumns

__all__ = ["DuplicateDetector", "DuplicateLookup"]

IDENTIFIED_NS: Final = 20_000_000
"""Largest time between copies with an IPv4 identification: capture queues, and the clocks of two
capture points, seldom differ by more."""
UNIDENTIFIED_NS: Final = 1_000_000
"""Largest time between copies without one: one tick of Linux's TCP timestamps."""
WITHIN_PACKETS: Final = 2048
"""Largest distance between copies in packets of the capture, and so how many are remembered. On
interfaces of one host, copies are some tens of packets apart at most."""
_COLUMNS: Final = (
    *("number", "time_ns", "sequence", "acknowledgment", "flags", "payload_bytes", "window"),
    *("checksum", "identification", "source_high", "source_low", "destination_high"),
    *("destination_low", "source_port", "destination_port"),
)
"""Number and time of a packet, and the columns that are equal in two copies."""

# Odd multipliers with irregular bits (which ones does not matter), and a seed that is secret to the
# process, so that a sender cannot produce collisions.
MIX_ONE, MIX_OTHER = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
LOW_64_BITS = 0xFFFF_FFFF_FFFF_FFFF
SEED = hash("another number that differs from process to process") & LOW_64_BITS


class DuplicateDetector:
    """Finds copies among the segments of a batch and the last segments before it.

    The caller calls :meth:`remember` after each batch.
    """

    _SAVED = Saved("_before:tuple[bytes]?", bare=True)

    def __init__(self) -> None:
        self._before: tuple[bytes, ...] | None = None
        """The columns of the last segments, as bytes; at most :data:`WITHIN_PACKETS` segments."""

    def _after_load(self) -> None:
        if self._before is None:
            return
        size = len(self._before[0]) if self._before else 1
        if len(self._before) != len(_COLUMNS) or any(len(each) != size for each in self._before):
            raise ValueError("columns that are not of one length")
        if size % 8 or size > 8 * WITHIN_PACKETS:
            raise ValueError("columns of no numbers, or too many")

    def find(self, segments: SegmentColumns) -> bytearray:
        """Return for each segment of the current batch 1 if it is a copy, else 0.

        A copy equals a segment that came at most :data:`WITHIN_PACKETS` packets and
        :data:`IDENTIFIED_NS` or :data:`UNIDENTIFIED_NS` before. The first one counts as original.
        """
        before = [b""] * len(_COLUMNS) if self._before is None else self._before
        columns = [
            b"".join((old, memoryview(getattr(segments, name))))
            for old, name in zip(before, _COLUMNS, strict=True)
        ]
        before_count = len(before[0]) // 8
        marks = bytearray(before_count + len(segments))
        _identities(columns).mark(marks)
        return marks[before_count:]

    def lookback(self, segments: SegmentColumns) -> DuplicateLookup:
        """Return a look-up for single segments of the current batch, if few may be copies."""
        before = None if self._before is None else _identities(self._before)
        return DuplicateLookup(_identities([getattr(segments, name) for name in _COLUMNS]), before)

    def remember(self, segments: SegmentColumns) -> None:
        """Keep the last segments of a batch, to find their copies in the next one.

        They are copied, so that the memory of the columns can be used again while it is in the
        processor's cache.
        """
        count = len(segments)
        first = max(count - WITHIN_PACKETS, 0)
        parts = [bytes(memoryview(getattr(segments, name))[first:]) for name in _COLUMNS]
        if count < WITHIN_PACKETS and self._before is not None:
            kept = 8 * (WITHIN_PACKETS - count)
            parts = [old[-kept:] + new for old, new in zip(self._before, parts, strict=True)]
        self._before = tuple(parts)


class SegmentIdentities:
    """The columns in which a segment and its copies are equal."""

    def __init__(
        self,
        numbers: memoryview,
        times: memoryview,
        sequences: memoryview,
        acknowledgments: memoryview,
        flags: memoryview,
        lengths: memoryview,
        windows: memoryview,
        checksums: memoryview,
        identifications: memoryview,
        source_highs: memoryview,
        source_lows: memoryview,
        destination_highs: memoryview,
        destination_lows: memoryview,
        source_ports: memoryview,
        destination_ports: memoryview,
    ) -> None:
        self.numbers = numbers
        self.times = times
        self.sequences = sequences
        self.acknowledgments = acknowledgments
        self.flags = flags
        self.lengths = lengths
        self.windows = windows
        self.checksums = checksums
        self.identifications = identifications
        self.source_highs = source_highs
        self.source_lows = source_lows
        self.destination_highs = destination_highs
        self.destination_lows = destination_lows
        self.source_ports = source_ports
        self.destination_ports = destination_ports

    def mark(self, marks: bytearray) -> None:
        """Write 1 for each segment that is a copy of the last one with the same identity."""
        copies = memoryview(marks)
        rows = len(copies)
        size = MIN_TABLE
        while size < 2 * rows:
            size *= 2
        # By hash of an identity: one more than the index of its last segment; 0 is a free slot.
        table = memoryview(array("i", bytes(4 * size)))
        for row in range(rows):
            slot = self._hash(row) & (size - 1)
            earlier = table[slot] - 1
            while earlier >= 0 and not self.is_same(self, row, earlier):
                slot = (slot + 1) & (size - 1)
                earlier = table[slot] - 1
            table[slot] = row + 1
            if earlier >= 0 and self.is_near(self, row, earlier):
                copies[row] = IS_COPY

    def last_same(self, newer: SegmentIdentities, row: int, first: int) -> int:
        """Return the last segment up to ``first`` with the identity of ``newer[row]``.

        -1 if there is none within :data:`WITHIN_PACKETS` packets.
        """
        sequence, number = newer.sequences[row], newer.numbers[row]
        for earlier in range(first, -1, -1):
            if number - self.numbers[earlier] > WITHIN:
                return -1
            if self.sequences[earlier] == sequence and self.is_same(newer, row, earlier):
                return earlier
        return -1

    def is_near(self, newer: SegmentIdentities, row: int, earlier: int) -> bool:
        """Return true if ``newer[row]`` is near enough to the segment ``earlier`` to be a copy."""
        allowed_ns = IDENTIFIED if newer.identifications[row] > 0 else UNIDENTIFIED
        if newer.times[row] == NO_TIME or self.times[earlier] == NO_TIME:
            # Only the number of the datagram tells a copy from what was sent again.
            is_near = newer.identifications[row] > 0
            return is_near and newer.numbers[row] - self.numbers[earlier] <= WITHIN
        apart_ns = newer.times[row] - self.times[earlier]
        if apart_ns > allowed_ns or -apart_ns > allowed_ns:
            return False
        return newer.numbers[row] - self.numbers[earlier] <= WITHIN

    def is_same(self, newer: SegmentIdentities, row: int, earlier: int) -> bool:
        """Return true if ``newer[row]`` and the segment ``earlier`` have the same identity."""
        return (
            newer.sequences[row] == self.sequences[earlier]
            and newer.acknowledgments[row] == self.acknowledgments[earlier]
            and newer.flags[row] == self.flags[earlier]
            and newer.lengths[row] == self.lengths[earlier]
            and newer.windows[row] == self.windows[earlier]
            and newer.checksums[row] == self.checksums[earlier]
            and newer.identifications[row] == self.identifications[earlier]
            and newer.source_ports[row] == self.source_ports[earlier]
            and newer.destination_ports[row] == self.destination_ports[earlier]
            and newer.source_lows[row] == self.source_lows[earlier]
            and newer.destination_lows[row] == self.destination_lows[earlier]
            and newer.source_highs[row] == self.source_highs[earlier]
            and newer.destination_highs[row] == self.destination_highs[earlier]
        )

    def _hash(self, row: int) -> int:
        sequence = self.sequences[row]
        checksum_and_id = self.checksums[row] << 16 | (self.identifications[row] & 0xFFFF)
        ports = self.source_ports[row] << 16 | self.destination_ports[row]
        mixed = mix(SEED, sequence << 32 | self.acknowledgments[row])
        mixed = mix(mixed, checksum_and_id << 32 | ports)
        mixed = mix(mixed, self.lengths[row] << 24 | self.windows[row] << 8 | self.flags[row])
        mixed = mix(mixed, self.source_lows[row])
        mixed = mix(mixed, self.destination_lows[row])
        if self.identifications[row] < 0:
            mixed = mix(mixed, self.source_highs[row])
            mixed = mix(mixed, self.destination_highs[row])
        return mixed >> 33


class DuplicateLookup:
    """Searches backward from a segment for the one that it is a copy of."""

    def __init__(self, now: SegmentIdentities, before: SegmentIdentities | None) -> None:
        """``now`` are the segments of a batch, ``before`` the last ones before it."""
        self._now = now
        self._before = before

    def is_copy(self, row: int) -> bool:
        """Return true if a segment of the batch is a copy."""
        now, before = self._now, self._before
        earlier = now.last_same(now, row, row - 1)
        if earlier >= 0:
            return now.is_near(now, row, earlier)
        if before is None:
            return False
        earlier = before.last_same(now, row, len(before.numbers) - 1)
        return earlier >= 0 and before.is_near(now, row, earlier)


def _identities(columns: Sequence[Any]) -> SegmentIdentities:
    """Return columns of 64-bit numbers, ordered as :data:`_COLUMNS`, as identities."""
    return SegmentIdentities(
        *[
            memoryview(column).cast("B").cast("Q" if name.endswith(("_high", "_low")) else "q")
            for column, name in zip(columns, _COLUMNS, strict=True)
        ]
    )


def mix(mixed: int, number: int) -> int:
    """Mix one more number into a hash."""
    mixed = (mixed ^ number & LOW_64_BITS) * MIX_ONE & LOW_64_BITS
    mixed = (mixed ^ mixed >> 29) * MIX_OTHER & LOW_64_BITS
    return mixed ^ mixed >> 32
