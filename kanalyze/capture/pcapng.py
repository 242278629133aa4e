"""The pcapng file format: sections of blocks, packets among them.

In: bytes, in any portions. Out: packets as columns. Must not know: where the bytes come from.

The format is that of the Internet-Draft draft-ietf-opsawg-pcapng. Blocks are found by their
lengths alone and judged for all of a portion at once; only the blocks that are no packets (a
handful in a file) are looked at one by one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kanalyze.capture.description import Description
from kanalyze.capture.pcapng_notes import DESCRIPTIVE_BLOCKS, INTERFACE, SectionNotes
from kanalyze.capture.pcapng_options import LEAST_OPTION_BYTES, PacketOptions
from kanalyze.capture.records import MAX_RECORD_BYTES, Columns, Parsed, corrupt
from kanalyze.errors import CaptureError
from kanalyze.gathers import each_value, gather, overlapping

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PCAPNG_MAGIC", "PcapngParser"]

PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
"""Type of a section header block, the same in both byte orders: a file begins with it."""

_SECTION: Final = 0x0A0D0D0A
_OBSOLETE_PACKET: Final = 2
_SIMPLE_PACKET: Final = 3
_ENHANCED_PACKET: Final = 6

_MIN_BLOCK_BYTES: Final = 12
_MIN_SECTION_BYTES: Final = 28
_PACKET_OVERHEAD_BYTES: Final = 32
"""Of an enhanced or obsolete packet block: 28 before the packet, the length again after it."""
_SIMPLE_OVERHEAD_BYTES: Final = 16
_BYTE_ORDERS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}

_COMMENT: Final = 1
_EPB_DROPCOUNT: Final = 4
_MAX_PACKET_OPTIONS: Final = 64
"""Options looked at of one packet."""
_UNKNOWN_DROPS: Final = 0xFFFF
"""In an obsolete packet block."""
_MAX_DROPS: Final = 1 << 32
"""A packet that says that more were dropped before it says nothing to be believed."""


class _Packets(NamedTuple):
    """Fields of packet blocks, an entry each."""

    ticks: NDArray[np.uint64]
    """The timestamp, in units of the interface."""
    interface: NDArray[np.int64]
    offset: NDArray[np.int64]
    captured: NDArray[np.int64]
    wire: NDArray[np.int64]
    simple: NDArray[np.bool_]
    """A simple packet block, which has no timestamp: it gets that of the packet before."""
    dropped: NDArray[np.int64] | None
    """Packets dropped before this one, as an obsolete packet block says; -1 where none does, None
    where there is no such block."""
    end: NDArray[np.int64]
    """Where the block's body ends, after the options."""

    def cut(self, count: int) -> _Packets:
        """Keep the first ``count``."""
        return _Packets(
            self.ticks[:count],
            self.interface[:count],
            self.offset[:count],
            self.captured[:count],
            self.wire[:count],
            self.simple[:count],
            None if self.dropped is None else self.dropped[:count],
            self.end[:count],
        )


class PcapngParser:
    """Reads a pcapng file. ``name`` is for messages and descriptions alone."""

    def __init__(self, name: str, description: Description | None = None) -> None:
        self._name = name
        self._order = "<"
        self._notes = SectionNotes(name, Description() if description is None else description)
        self._last_time_ns = 0
        self._packets_before = 0

    @property
    def dropped_packets(self) -> int | None:
        """Packets dropped, summed over interfaces (their statistics count from the start)."""
        return self._notes.dropped_packets

    def start(self, buffer: memoryview, end: int) -> Parsed | None:
        """Read the first section header: see :class:`kanalyze.capture.records.CaptureParser`."""
        if end < _MIN_SECTION_BYTES:
            return None
        parsed = self._section(buffer, 0, end)
        if parsed.anomaly is not None:
            raise CaptureError(f"{self._name}: {parsed.anomaly.detail}")
        return None if parsed.record_bytes else parsed

    def parse(self, buffer: memoryview, start: int, end: int) -> Parsed:
        """Read blocks: see :class:`kanalyze.capture.records.CaptureParser`.

        Sections that follow each other are read at once: a batch of its own for each would cost
        more than its packets.
        """
        parts: list[Columns] = []
        while True:
            parsed = self._parse_one(buffer, start, end)
            if parsed.columns is not None:
                parts.append(parsed.columns)
            if parsed.anomaly is not None or parsed.position == start or parsed.position == end:
                return parsed._replace(columns=Columns.joined(parts))
            start = parsed.position

    def _parse_one(self, buffer: memoryview, start: int, end: int) -> Parsed:
        """Read a section header, or blocks up to the next one."""
        if end - start >= _MIN_SECTION_BYTES and bytes(buffer[start : start + 4]) == PCAPNG_MAGIC:
            return self._section(buffer, start, end)
        places, position, record_bytes = self._walk(buffer, start, end)
        starts = np.array(places, np.int64)
        kinds = overlapping(buffer, f"{self._order}u4")[starts].astype(np.int64)
        stop = Parsed(None, position, record_bytes)
        if record_bytes and not _MIN_BLOCK_BYTES <= record_bytes <= MAX_RECORD_BYTES:
            stop = Parsed(None, position, 0, corrupt(f"a block of {record_bytes} bytes"))
        return self._blocks(buffer, starts, kinds, stop) if len(starts) else stop

    def _walk(self, buffer: memoryview, start: int, end: int) -> tuple[list[int], int, int]:
        """Find complete blocks: their starts, where they end, the size of the block there.

        Ends before a block that is too small to be one or not complete, and before a section
        header, which may be in another byte order.
        """
        places: list[int] = []
        add = places.append
        item = overlapping(buffer, f"{self._order}u4").item
        at = start
        last = end - 8
        while at <= last:
            if item(at) == _SECTION:
                return places, at, _MIN_SECTION_BYTES
            size = item(at + 4)
            if size < _MIN_BLOCK_BYTES or at + size > end:
                # A size of 0 must not look like "not known".
                return places, at, size or 1
            add(at)
            at += size
        return places, at, 0

    def _section(self, buffer: memoryview, start: int, end: int) -> Parsed:
        """Begin a section: its byte order is its own, its interfaces are still to come."""
        order = _BYTE_ORDERS.get(bytes(buffer[start + 8 : start + 12]))
        if order is None:
            return Parsed(None, start, 0, corrupt("a section with an unknown byte order"))
        size, _magic, major = struct.unpack_from(f"{order}IIH", buffer, start + 4)
        if not _MIN_SECTION_BYTES <= size <= MAX_RECORD_BYTES:
            return Parsed(None, start, 0, corrupt(f"a section header of {size} bytes"))
        if major != 1:
            return Parsed(None, start, 0, corrupt(f"pcapng version {major} is not known (1 is)"))
        if start + size > end:
            return Parsed(None, start, size)
        self._order = order
        self._notes.begin_section(order, buffer[start + 8 : start + size - 4])
        return Parsed(None, start + size)

    def _blocks(
        self,
        buffer: memoryview,
        starts: NDArray[np.int64],
        kinds: NDArray[np.int64],
        stop: Parsed,
    ) -> Parsed:
        """Read complete blocks of one section, up to the first that contradicts itself."""
        words = overlapping(buffer, f"{self._order}u4")
        sizes = words[starts + 4].astype(np.int64)
        is_simple = kinds == _SIMPLE_PACKET
        is_full = (kinds == _ENHANCED_PACKET) | (kinds == _OBSOLETE_PACKET)
        bad = words[starts + sizes - 4].astype(np.int64) != sizes
        bad |= is_full & (sizes < _PACKET_OVERHEAD_BYTES)
        bad |= is_simple & (sizes < _SIMPLE_OVERHEAD_BYTES)
        is_packet = is_full | is_simple
        good = _first(bad)
        known = len(self._notes.clocks) + np.cumsum(kinds == INTERFACE)
        others = np.flatnonzero(~is_packet[:good]).tolist()
        good = self._describe_all(buffer, starts[:good], sizes, kinds, others)
        picked = np.flatnonzero(is_packet[:good])
        packets = self._packets(buffer, starts[picked], sizes[picked], kinds[picked])
        wrong = packets.interface >= known[picked]
        rest = packets.end - packets.offset - packets.captured
        wrong |= rest < 0
        right = _first(wrong)
        if right < len(picked):
            good = int(picked[right])
            packets, rest = packets.cut(right), rest[:right]
        if good < len(starts):
            anomaly = corrupt("a block that contradicts itself")
            stop = Parsed(None, int(starts[good]), 0, anomaly)
        self._read_options(buffer, packets, rest)
        self._packets_before += len(packets.offset)
        return Parsed(self._columns(packets), stop.position, stop.record_bytes, stop.anomaly)

    def _packets(
        self,
        buffer: memoryview,
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        kinds: NDArray[np.int64],
    ) -> _Packets:
        """Read the fields of packet blocks; sizes are known to hold their fixed parts."""
        unit = f"{self._order}u4"
        names = ("kind", "size", "interface", "high", "low", "captured", "wire")
        header = np.dtype([(name, unit) for name in names])
        simple = kinds == _SIMPLE_PACKET
        fields = np.zeros(len(starts), header)
        fields[~simple] = gather(buffer, header, starts[~simple])
        interface = fields["interface"].astype(np.int64)
        dropped = None
        obsolete = kinds == _OBSOLETE_PACKET
        if obsolete.any():
            # Two 16-bit numbers, the interface and a count of drops, stand in its place.
            pair = interface[obsolete]
            first, second = pair >> 16, pair & 0xFFFF
            number, count = (first, second) if self._order == ">" else (second, first)
            interface[obsolete] = number
            dropped = np.full(len(starts), -1, np.int64)
            dropped[obsolete] = np.where(count == _UNKNOWN_DROPS, -1, count)
        packets = _Packets(
            ticks=(fields["high"].astype(np.uint64) << np.uint64(32))
            | fields["low"].astype(np.uint64),
            interface=interface,
            offset=starts + 28,
            captured=fields["captured"].astype(np.int64),
            wire=fields["wire"].astype(np.int64),
            simple=simple,
            dropped=dropped,
            end=starts + sizes - 4,
        )
        if simple.any():
            self._fill_simple(packets, overlapping(buffer, unit), starts[simple], sizes[simple])
        return packets

    def _fill_simple(
        self,
        packets: _Packets,
        words: NDArray[np.uint32],
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> None:
        """Fill in the simple packet blocks: of the first interface, and without a time."""
        wire = words[starts + 8].astype(np.int64)
        captured = np.minimum(wire, sizes - _SIMPLE_OVERHEAD_BYTES)
        clocks = self._notes.clocks
        snap_bytes = clocks[0].snap_bytes if clocks else 0
        if snap_bytes:
            captured = np.minimum(captured, snap_bytes)
        packets.wire[packets.simple] = wire
        packets.captured[packets.simple] = captured
        packets.offset[packets.simple] = starts + 12

    def _columns(self, packets: _Packets) -> Columns | None:
        count = len(packets.offset)
        if not count:
            return None
        time_ns = np.empty(count, np.int64)
        link_type = np.empty(count, np.int32)
        for number, mine in each_value(packets.interface):
            clock = self._notes.clocks[number]
            time_ns[mine] = clock.times(packets.ticks[mine])
            link_type[mine] = clock.link_type
        for index in np.flatnonzero(packets.simple).tolist():
            time_ns[index] = time_ns[index - 1] if index else self._last_time_ns
        self._last_time_ns = int(time_ns[-1])
        return Columns(
            time_ns=time_ns,
            offset=packets.offset,
            captured_bytes=packets.captured,
            wire_bytes=np.maximum(packets.wire, packets.captured),
            link_type=link_type,
        )

    def _describe_all(
        self,
        buffer: memoryview,
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        kinds: NDArray[np.int64],
        others: list[int],
    ) -> int:
        """Note the blocks that are no packets; return the index of the first that is wrong."""
        for index in others:
            if kinds[index] not in DESCRIPTIVE_BLOCKS:
                continue
            body = buffer[int(starts[index]) + 8 : int(starts[index] + sizes[index]) - 4]
            if not self._notes.note(int(kinds[index]), body):
                return index
        return len(starts)

    def _read_options(self, buffer: memoryview, packets: _Packets, rest: NDArray[np.int64]) -> None:
        """Take what is wanted from the options behind packets: drops and comments.

        ``rest`` is what each block has behind its packet: padding, then options.
        """
        dropped = packets.dropped
        may_have = rest >= LEAST_OPTION_BYTES
        if may_have.any():
            may_have &= ~packets.simple
            at = packets.offset + ((packets.captured + 3) & ~3)
            options = PacketOptions(buffer, self._order, at, packets.end)
            if dropped is None:
                dropped = np.full(len(at), -1, np.int64)
            for which, codes, values, lengths in options.rounds(
                np.flatnonzero(may_have), _MAX_PACKET_OPTIONS
            ):
                counts = (codes == _EPB_DROPCOUNT) & (lengths == 8)
                if counts.any():
                    stated = options.unsigned(values[counts])
                    believed = stated <= _MAX_DROPS
                    dropped[which[counts][believed]] = stated[believed].astype(np.int64)
                self._note_comments(buffer, which, values, lengths, codes == _COMMENT)
        if dropped is not None:
            told = dropped[dropped >= 0]
            for number, mine in each_value(packets.interface[dropped >= 0]):
                self._notes.count_drops(number, int(told[mine].sum()))

    def _note_comments(
        self,
        buffer: memoryview,
        which: NDArray[np.int64],
        values: NDArray[np.int64],
        lengths: NDArray[np.int64],
        is_comment: NDArray[np.bool_],
    ) -> None:
        """Note the comments to packets, as long as there is room."""
        places = np.flatnonzero(is_comment).tolist()
        for done, index in enumerate(places):
            if not self._notes.takes_comments:
                self._notes.leave_out(len(places) - done)
                return
            start = int(values[index])
            number = self._packets_before + int(which[index]) + 1
            self._notes.note_comment("packet", number, buffer[start : start + int(lengths[index])])


def _first(flags: NDArray[np.bool_]) -> int:
    """Index of the first true flag; their number when none is."""
    return int(np.argmax(flags)) if flags.any() else len(flags)
