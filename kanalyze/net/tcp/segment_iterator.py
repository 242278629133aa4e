"""The segments of a batch, connection by connection, in the order of their arrival.

In: segment columns, batch after batch. Out: :class:`SegmentIterator`, with the payloads as columns
that chunks point into, and which segments are copies.

A hash table finds the connection of each segment in one look-up (:class:`SegmentGroups`). Its seed
differs in each process, so a sender of forged addresses cannot produce collisions.

A packet is captured twice if it passes two interfaces of an ``any`` capture, or two mirrored ports
(:class:`DuplicateDetector`). Its copy has the same addresses, sequence and acknowledgment numbers,
flags, window, length, TCP checksum and IPv4 identification. A retransmission has another
identification, because hosts count it up for each packet (RFC 6864 requires that only of packets
that may be fragmented; stacks do it for all). So with an identification, a copy is recognized at
any distance that two capture points may have. IPv6 has no identification, and some hosts leave it
0: then only the checksum, which covers TCP timestamps if it was filled in, and the time are left.
Senders wait for a round trip before they send again, or 200 ms if nothing tells them of the loss,
so a segment that comes sooner is a copy. Where round trips are very short, a retransmission may be
taken for a copy.
"""

from __future__ import annotations

import functools
from array import array
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kanalyze.common.saved import Saved
from kanalyze.model.streams import Segments
from kanalyze.model.tcp import Endpoint, ip_text, ipv4_text

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME
    from kanalyze.net.segment_columns import ACK, FIN, RST, SYN

    CONTROL = FIN | SYN | RST

    # Marks of packets: the capture holds it a second time; it announces a window of 0.
    IS_COPY, IS_ZERO_WINDOW = 1, 2
    # Largest time between copies with an IPv4 identification: capture queues, and the clocks of two
    # capture points, seldom differ by more.
    IDENTIFIED_NS = 20_000_000
    # Largest time between copies without one: one tick of Linux's TCP timestamps.
    UNIDENTIFIED_NS = 1_000_000
    # Largest distance between copies in packets of the capture, and so how many are remembered. On
    # interfaces of one host, copies are some tens of packets apart at most.
    WITHIN_PACKETS = 2048

MIN_TABLE = 16
MAX_CHECKED = 1024  # segments of a batch; to check more, one pass over all is faster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.net.segment_columns import SegmentColumns

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

_new = tuple.__new__
_IPV6_KEY: Final = 1 << 144
_U64: Final = (1 << 64) - 1
Pair: TypeAlias = tuple[int, int]
"""The lower and the higher end of a connection, as ``address << 16 | port``, with bit 144 set for
IPv6."""


def ipv6_key(high: int, low: int, port: int) -> int:
    """Turn an end with an IPv6 address into one half of a pair."""
    return _IPV6_KEY | high << 80 | low << 16 | port


@functools.lru_cache(maxsize=4096)
@functools.lru_cache(maxsize=4096)
def key_endpoint(key: int) -> Endpoint:
    """Turn one half of a pair into text and number."""
    address = key >> 16
    if key >> 144:
        text = ip_text(address >> 64 & _U64, address & _U64, is_ipv6=True)
    else:
        text = ipv4_text(address)
    return _new(Endpoint, (text, key & 0xFFFF))  # its class takes three times as long


def check_pair(pair: Pair) -> None:
    """Raise ValueError for numbers that are no pair."""
    for key in pair:
        bits = key.bit_length()
        if bits > 48 and bits != _IPV6_KEY.bit_length():
            raise ValueError("no end of a connection")


class Segment:
    """A TCP segment on the slow path of reassembly.

    Attributes:
        start: index of the payload in the batch's buffer.
        length: payload bytes on the wire.
        captured: payload bytes in the buffer.
        rank: index in the batch's shared :class:`Segments`; without a meaning if it has no payload.
        from_higher: 1 if the higher end of the pair sent it (see
            :class:`SegmentGroups`), else 0.
        marks: :data:`IS_COPY` (only found if payload may repeat, or when measuring) and
            :data:`IS_ZERO_WINDOW`.
    """

    __slots__ = (
        *("sequence", "acknowledgment", "flags", "start", "length", "captured", "time_ns"),
        *("packet", "rank", "from_higher", "marks"),
    )

    sequence: int
    acknowledgment: int
    flags: int
    start: int
    length: int
    captured: int
    time_ns: int
    packet: int
    rank: int
    from_higher: int
    marks: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segment):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


def new_segment(
    sequence: int,
    acknowledgment: int,
    flags: int,
    start: int,
    length: int,
    captured: int,
    time_ns: int,
    packet: int,
    rank: int,
    from_higher: int,
    marks: int = 0,
) -> Segment:
    """Make a segment; compiled, it takes a tenth of the time of a class with an ``__init__``."""
    segment = Segment.__new__(Segment)
    segment.sequence = sequence
    segment.acknowledgment = acknowledgment
    segment.flags = flags
    segment.start = start
    segment.length = length
    segment.captured = captured
    segment.time_ns = time_ns
    segment.packet = packet
    segment.rank = rank
    segment.from_higher = from_higher
    segment.marks = marks
    return segment


class SegmentGroups:
    """The segments of a batch, sorted by pair of endpoints, then sender, then arrival.

    Groups come in the order of their first segments. Of the two ends of a pair, the *lower* is the
    one with the smaller address and port.

    Attributes:
        count: number of groups.
        order: indices of segments. Group ``g`` is ``order[start[g]:start[g + 1]]``: what the lower
            end sent, and from ``middle[g]`` on what the higher end sent.
    """

    def __init__(self, segments: SegmentColumns) -> None:
        rows = len(segments)
        self.ipv6s = memoryview(segments.is_ipv6)
        self.source_highs = memoryview(segments.source_high)
        self.source_lows = memoryview(segments.source_low)
        self.source_ports = memoryview(segments.source_port)
        self.destination_highs = memoryview(segments.destination_high)
        self.destination_lows = memoryview(segments.destination_low)
        self.destination_ports = memoryview(segments.destination_port)
        size = MIN_TABLE
        while size < 2 * rows:
            size *= 2
        self.table = memoryview(array("i", [0]) * size)
        self.table_mask = size - 1
        # Twice the number of its group, and 1 where the higher end sent it.
        self.lanes = memoryview(array("i", [0]) * rows)
        self.firsts = memoryview(array("i", [0]) * rows)
        self.count = 0
        self._find_groups(rows)
        self.order = array("q", [0]) * rows
        self.start = array("q", [0]) * (self.count + 1)
        self.middle = array("q", [0]) * self.count
        self.orders = memoryview(self.order)
        self.starts = memoryview(self.start)
        self.middles = memoryview(self.middle)
        self._sort(rows)

    def pair(self, group: int) -> Pair:
        """Return the pair of endpoints of a group, which is its key in every batch."""
        row = self.firsts[group]
        if self.ipv6s[row]:
            source = ipv6_key(self.source_highs[row], self.source_lows[row], self.source_ports[row])
            destination = ipv6_key(
                self.destination_highs[row], self.destination_lows[row], self.destination_ports[row]
            )
        else:
            source = self.source_lows[row] << 16 | self.source_ports[row]
            destination = self.destination_lows[row] << 16 | self.destination_ports[row]
        return (destination, source) if self.lanes[row] & 1 else (source, destination)

    def _find_groups(self, rows: int) -> None:
        """Find the group of each segment, and which end sent it."""
        for row in range(rows):
            from_higher = self._is_from_higher(row)
            slot = self._hash(row, from_higher) & self.table_mask
            group = self.table[slot] - 1
            while group >= 0 and not self._is_of(row, from_higher, group):
                slot = (slot + 1) & self.table_mask
                group = self.table[slot] - 1
            if group < 0:
                group = self.count
                self.count += 1
                self.table[slot] = group + 1
                self.firsts[group] = row
            self.lanes[row] = 2 * group + from_higher

    def _is_from_higher(self, row: int) -> bool:
        """Return true if the source of a segment is above its destination."""
        if self.source_highs[row] != self.destination_highs[row]:
            return self.source_highs[row] > self.destination_highs[row]
        if self.source_lows[row] != self.destination_lows[row]:
            return self.source_lows[row] > self.destination_lows[row]
        return self.source_ports[row] > self.destination_ports[row]

    def _hash(self, row: int, from_higher: bool) -> int:
        source = end_hash(self.source_highs[row], self.source_lows[row], self.source_ports[row])
        destination = end_hash(
            self.destination_highs[row], self.destination_lows[row], self.destination_ports[row]
        )
        both = destination * MIX_OTHER ^ source if from_higher else source * MIX_OTHER ^ destination
        both = (both & LOW_64_BITS) * MIX_ONE & LOW_64_BITS
        return both >> 32

    def _is_of(self, row: int, from_higher: bool, group: int) -> bool:
        """Return true if a segment has the two ends of a group."""
        first = self.firsts[group]
        if self.ipv6s[row] != self.ipv6s[first]:
            return False
        if from_higher == self.lanes[first] & 1:
            return (
                self.source_ports[row] == self.source_ports[first]
                and self.source_lows[row] == self.source_lows[first]
                and self.destination_ports[row] == self.destination_ports[first]
                and self.destination_lows[row] == self.destination_lows[first]
                and self.source_highs[row] == self.source_highs[first]
                and self.destination_highs[row] == self.destination_highs[first]
            )
        return (
            self.source_ports[row] == self.destination_ports[first]
            and self.source_lows[row] == self.destination_lows[first]
            and self.destination_ports[row] == self.source_ports[first]
            and self.destination_lows[row] == self.source_lows[first]
            and self.source_highs[row] == self.destination_highs[first]
            and self.destination_highs[row] == self.source_highs[first]
        )

    def _sort(self, rows: int) -> None:
        """Sort the segments by group and sender, stably (a counting sort)."""
        ends = memoryview(array("q", [0]) * (2 * self.count))
        for row in range(rows):
            ends[self.lanes[row]] += 1
        total = 0
        for group in range(self.count):
            self.starts[group] = total
            sent = ends[2 * group]
            ends[2 * group] = total
            total += sent
            self.middles[group] = total
            sent = ends[2 * group + 1]
            ends[2 * group + 1] = total
            total += sent
        self.starts[self.count] = total
        for row in range(rows):
            lane = self.lanes[row]
            self.orders[ends[lane]] = row
            ends[lane] += 1


def end_hash(high: int, low: int, port: int) -> int:
    """Return the 64-bit hash of one end."""
    both = (SEED ^ high) * MIX_ONE & LOW_64_BITS
    both = (both ^ both >> 29 ^ low) * MIX_OTHER & LOW_64_BITS
    both = (both ^ both >> 32 ^ port) * MIX_ONE & LOW_64_BITS
    return both ^ both >> 29


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
        SegmentIdentities(columns).mark(marks)
        return marks[before_count:]

    def lookback(self, segments: SegmentColumns) -> DuplicateLookup:
        """Return a look-up for single segments of the current batch, if few may be copies."""
        before = None if self._before is None else SegmentIdentities(self._before)
        return DuplicateLookup(
            SegmentIdentities([getattr(segments, name) for name in _COLUMNS]), before
        )

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

    def __init__(self, columns: Sequence[Any]) -> None:
        """Take columns of 64-bit numbers, ordered as :data:`_COLUMNS`."""
        views: list[memoryview] = [
            memoryview(column).cast("B").cast("Q" if name.endswith(("_high", "_low")) else "q")
            for column, name in zip(columns, _COLUMNS, strict=True)
        ]
        self.numbers, self.times, self.sequences, self.acknowledgments, self.flags = views[:5]
        self.lengths, self.windows, self.checksums, self.identifications = views[5:9]
        self.source_highs, self.source_lows, self.destination_highs = views[9:12]
        self.destination_lows, self.source_ports, self.destination_ports = views[12:]

    def mark(self, marks: bytearray) -> None:
        """Write 1 for each segment that is a copy of the last one with the same identity."""
        copies = memoryview(marks)
        rows = len(copies)
        size = MIN_TABLE
        while size < 2 * rows:
            size *= 2
        # By hash of an identity: one more than the index of its last segment; 0 is a free slot.
        table = memoryview(array("i", [0]) * size)
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
            if number - self.numbers[earlier] > WITHIN_PACKETS:
                return -1
            if self.sequences[earlier] == sequence and self.is_same(newer, row, earlier):
                return earlier
        return -1

    def last_in_lane(self, row: int, orders: memoryview, begin: int, at: int) -> int:
        """As :meth:`last_same`, among the rows ``orders[begin:at]``: those of the same sender.

        Only they can have the same identity, and they are few among all.
        """
        sequence, number = self.sequences[row], self.numbers[row]
        for index in range(at - 1, begin - 1, -1):
            earlier = orders[index]
            if number - self.numbers[earlier] > WITHIN_PACKETS:
                return -1
            if self.sequences[earlier] == sequence and self.is_same(self, row, earlier):
                return earlier
        return -1

    def is_near(self, newer: SegmentIdentities, row: int, earlier: int) -> bool:
        """Return true if ``newer[row]`` is near enough to the segment ``earlier`` to be a copy."""
        allowed_ns = IDENTIFIED_NS if newer.identifications[row] > 0 else UNIDENTIFIED_NS
        if newer.times[row] == NO_TIME or self.times[earlier] == NO_TIME:
            # Only the number of the datagram tells a copy from what was sent again.
            is_near = newer.identifications[row] > 0
            return is_near and newer.numbers[row] - self.numbers[earlier] <= WITHIN_PACKETS
        apart_ns = newer.times[row] - self.times[earlier]
        if apart_ns > allowed_ns or -apart_ns > allowed_ns:
            return False
        return newer.numbers[row] - self.numbers[earlier] <= WITHIN_PACKETS

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

    def is_copy(self, row: int, orders: memoryview, begin: int, at: int) -> bool:
        """Return true if a segment of the batch, at ``orders[at]``, is a copy.

        From ``begin`` on, ``orders`` has the earlier rows of the same sender.
        """
        now, before = self._now, self._before
        earlier = now.last_in_lane(row, orders, begin, at)
        if earlier >= 0:
            return now.is_near(now, row, earlier)
        if before is None:
            return False
        earlier = before.last_same(now, row, len(before.numbers) - 1)
        return earlier >= 0 and before.is_near(now, row, earlier)


def mix(mixed: int, number: int) -> int:
    """Mix one more number into a hash."""
    mixed = (mixed ^ number & LOW_64_BITS) * MIX_ONE & LOW_64_BITS
    mixed = (mixed ^ mixed >> 29) * MIX_OTHER & LOW_64_BITS
    return mixed ^ mixed >> 32


class SegmentIterator:
    """Points to a segment of a group, and advances to the next one that arrived.

    Attributes:
        groups: the segments by connection.
        shared: payloads that are not empty, by connection, then sender, then arrival.
        at_end: true if the group has no more segments; then the next three have no meaning.
        row: index of the segment in the batch.
        from_higher: 1 if the higher end sent it, else 0.
        rank: index in ``shared``; without a meaning if the segment has no payload.
        last_time_ns: the latest time in the batch.
    """

    def __init__(self, columns: SegmentColumns, duplicates: DuplicateDetector) -> None:
        """``duplicates`` checks single segments, or all at once if many have to be checked."""
        self.columns = columns
        self.duplicates = duplicates
        self.groups = SegmentGroups(columns)
        self.sequences = memoryview(columns.sequence)
        self.acknowledgments = memoryview(columns.acknowledgment)
        self.flags = memoryview(columns.flags)
        self.starts = memoryview(columns.payload_start)
        self.lengths = memoryview(columns.payload_bytes)
        self.captured = memoryview(columns.captured_bytes)
        self.times = memoryview(columns.time_ns)
        self.numbers = memoryview(columns.number)
        self.windows = memoryview(columns.window)
        self.marks: bytearray | None = None
        self._lookback: DuplicateLookup | None = None
        self._checked = 0
        self._marked = -1
        # Number of payloads before each segment, in the order of the groups.
        self.ranks = memoryview(array("i", [0]) * (len(columns) + 1))
        self.shared = self._payloads()
        self.at_end = True

    def mark_duplicate(self) -> None:
        """Mark the current segment if it is a duplicate."""
        if self.marks is not None:
            return
        if self._checked == MAX_CHECKED:
            self.mark_all()
            return
        if self._lookback is None:
            self._lookback = self.duplicates.lookback(self.columns)
        self._checked += 1
        begin, at = self._lower_begin, self._lower
        if self.from_higher:
            begin, at = self._higher_begin, self._higher
        is_copy = self._lookback.is_copy(self.row, self.groups.orders, begin, at)
        self._marked = self.row if is_copy else -1

    def mark_all(self) -> None:
        """Mark all duplicates and zero windows of the batch."""
        self.marks = self.duplicates.find(self.columns)
        self._mark_zero_windows()

    def is_lone_syn(self, group: int) -> bool:
        """Return true if a group is a single SYN without payload."""
        if self.groups.starts[group + 1] - self.groups.starts[group] != 1:
            return False
        row = self.groups.firsts[group]
        return self.flags[row] & (SYN | FIN | RST | ACK) == SYN and not self.lengths[row]

    def begin(self, group: int) -> None:
        """Go to the first segment of a group."""
        groups = self.groups
        self._lower = self._lower_begin = groups.starts[group]
        self._lower_end = self._higher = self._higher_begin = groups.middles[group]
        self._higher_end = groups.starts[group + 1]
        self._lower_rank = self.ranks[self._lower]
        self._higher_rank = self.ranks[self._higher]
        self._select()

    def advance(self) -> None:
        """Go to the next segment of the group."""
        has_payload = self.lengths[self.row] > 0
        if self.from_higher:
            self._higher += 1
            self._higher_rank += has_payload
        else:
            self._lower += 1
            self._lower_rank += has_payload
        self._select()

    def segment(self) -> Segment:
        """Return the current segment."""
        row = self.row
        return new_segment(
            self.sequences[row],
            self.acknowledgments[row],
            self.flags[row],
            self.starts[row],
            self.lengths[row],
            self.captured[row],
            self.times[row],
            self.numbers[row],
            self.rank,
            self.from_higher,
            self._marks_of(row),
        )

    def _marks_of(self, row: int) -> int:
        if self.marks is not None:
            return self.marks[row]
        if row == self._marked:
            return IS_COPY
        is_data = not self.flags[row] & (SYN | FIN | RST)
        return IS_ZERO_WINDOW if is_data and not self.windows[row] else 0

    def _select(self) -> None:
        """Select the earlier one of the two ends' next segments."""
        orders = self.groups.orders
        has_lower = self._lower < self._lower_end
        has_higher = self._higher < self._higher_end
        self.at_end = not (has_lower or has_higher)
        if has_lower and (not has_higher or orders[self._lower] < orders[self._higher]):
            self.row = orders[self._lower]
            self.from_higher = 0
            self.rank = self._lower_rank
        elif has_higher:
            self.row = orders[self._higher]
            self.from_higher = 1
            self.rank = self._higher_rank

    def _mark_zero_windows(self) -> None:
        windows = self.windows
        marks = memoryview(self.marks or b"")
        for row in range(len(windows)):
            is_data = not self.flags[row] & (SYN | FIN | RST)
            if not windows[row] and is_data and not marks[row]:
                marks[row] = IS_ZERO_WINDOW

    def _payloads(self) -> Segments:
        """Sort the payloads by group, and count those before each segment."""
        orders = self.groups.orders
        rows = len(orders)
        self.last_time_ns = self.times[0]
        count = 0
        for index in range(rows):
            self.ranks[index] = count
            count += self.lengths[orders[index]] > 0
        self.ranks[rows] = count
        columns = [array("q", [0]) * count for _column in range(5)]
        start, length, captured, time_ns, number = (memoryview(column) for column in columns)
        count = 0
        for index in range(rows):
            row = orders[index]
            self.last_time_ns = max(self.last_time_ns, self.times[row])
            if self.lengths[row] > 0:
                start[count] = self.starts[row]
                length[count] = self.lengths[row]
                captured[count] = self.captured[row]
                time_ns[count] = self.times[row]
                number[count] = self.numbers[row]
                count += 1
        return Segments(self.columns.buffer, *columns)
