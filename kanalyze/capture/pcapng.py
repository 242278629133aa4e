"""The pcapng file format: sections of blocks, packets among them.

In: bytes, in any portions. Out: packets as columns. Must not know: where the bytes come from.

The format is that of the Internet-Draft draft-ietf-opsawg-pcapng. Blocks are found by their
lengths alone and judged for all of a portion at once; only the blocks that are no packets (a
handful in a file) are looked at one by one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kanalyze.capture.records import MAX_RECORD_BYTES, Columns, Parsed, corrupt
from kanalyze.errors import CaptureError
from kanalyze.gathers import gather, overlapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["PCAPNG_MAGIC", "PcapngParser"]

PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
"""Type of a section header block, the same in both byte orders: a file begins with it."""

_SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_OBSOLETE_PACKET: Final = 2
_SIMPLE_PACKET: Final = 3
_STATISTICS: Final = 5
_ENHANCED_PACKET: Final = 6

_MIN_BLOCK_BYTES: Final = 12
_MIN_SECTION_BYTES: Final = 28
_PACKET_OVERHEAD_BYTES: Final = 32
"""Of an enhanced or obsolete packet block: 28 before the packet, the length again after it."""
_SIMPLE_OVERHEAD_BYTES: Final = 16
_MAX_INTERFACES: Final = 65_536
_BYTE_ORDERS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}

_OPTION_TSRESOL: Final = 9
_OPTION_TSOFFSET: Final = 14
_OPTION_IFDROP: Final = 5
_OPTION_OSDROP: Final = 7
_NS_PER_S: Final = 1_000_000_000
_INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class _Interface:
    link_type: int
    snap_bytes: int
    """0 for no limit."""
    resolution: int
    """``if_tsresol``: a negative power of 10, or with bit 7 set of 2, of a second."""
    offset_s: int
    """``if_tsoffset``: seconds to add."""

    def times(self, ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Turn timestamps into Unix times in ns, rounded down; out of range ones are clipped."""
        if self.resolution <= 9 and not self.offset_s:
            scale = 10 ** (9 - self.resolution)
            if not len(ticks) or int(ticks.max()) <= _INT64_MAX // scale:
                return ticks.astype(np.int64) * np.int64(scale)
        power = self.resolution & 0x7F
        per_s = 1 << power if self.resolution & 0x80 else 10**power
        shift = self.offset_s * _NS_PER_S
        exact = (tick * _NS_PER_S // per_s + shift for tick in ticks.tolist())
        return np.fromiter((min(max(t, 0), _INT64_MAX) for t in exact), np.int64, len(ticks))


@dataclass(frozen=True, slots=True)
class _Packets:
    """Fields of packet blocks, an entry each."""

    ticks: NDArray[np.uint64]
    """The timestamp, in units of the interface."""
    interface: NDArray[np.int64]
    offset: NDArray[np.int64]
    captured: NDArray[np.int64]
    wire: NDArray[np.int64]
    simple: NDArray[np.bool_]
    """A simple packet block, which has no timestamp: it gets that of the packet before."""

    def cut(self, count: int) -> _Packets:
        """Keep the first ``count``."""
        return _Packets(
            self.ticks[:count],
            self.interface[:count],
            self.offset[:count],
            self.captured[:count],
            self.wire[:count],
            self.simple[:count],
        )


class PcapngParser:
    """Reads a pcapng file. ``name`` is for messages alone."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._order = "<"
        self._interfaces: list[_Interface] = []
        self._section_drops: dict[int, int] = {}
        self._earlier_drops: int | None = None
        self._last_time_ns = 0

    @property
    def dropped_packets(self) -> int | None:
        """Packets dropped, summed over interfaces (their statistics count from the start)."""
        if self._earlier_drops is None and not self._section_drops:
            return None
        return (self._earlier_drops or 0) + sum(self._section_drops.values())

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

        Stops before the next section, which may have another byte order.
        """
        if end - start >= _MIN_SECTION_BYTES and bytes(buffer[start : start + 4]) == PCAPNG_MAGIC:
            return self._section(buffer, start, end)
        places, position, record_bytes = self._walk(buffer, start, end)
        starts = np.array(places, np.int64)
        kinds = overlapping(buffer, f"{self._order}u4")[starts].astype(np.int64)
        sections = kinds == _SECTION
        if sections.any():
            first = int(np.argmax(sections))
            starts, kinds = starts[:first], kinds[:first]
            position, record_bytes = places[first], _MIN_SECTION_BYTES
        stop = Parsed(None, position, record_bytes)
        if record_bytes and not _MIN_BLOCK_BYTES <= record_bytes <= MAX_RECORD_BYTES:
            stop = Parsed(None, position, 0, corrupt(f"a block of {record_bytes} bytes"))
        return self._blocks(buffer, starts, kinds, stop) if len(starts) else stop

    def _walk(self, buffer: memoryview, start: int, end: int) -> tuple[list[int], int, int]:
        """Find complete blocks: their starts, where they end, the size of the block there.

        Ends before a block that is too small to be one or not complete. A section header on the
        way may be in another byte order; what was found from there on is to be thrown away.
        """
        places: list[int] = []
        add = places.append
        item = overlapping(buffer, f"{self._order}u4").item
        at = start
        last = end - 8
        while at <= last:
            size = item(at + 4)
            if size < _MIN_BLOCK_BYTES or at + size > end:
                # A size of 0 must not look like "not known".
                return places, at, _MIN_SECTION_BYTES if item(at) == _SECTION else size or 1
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
        self._earlier_drops = self.dropped_packets
        self._section_drops = {}
        self._interfaces = []
        self._order = order
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
        good = _first(bad)
        known = len(self._interfaces) + np.cumsum(kinds == _INTERFACE)
        good = self._describe_all(buffer, starts[:good], sizes[:good], kinds[:good])
        picked = np.flatnonzero((is_full | is_simple)[:good])
        packets = self._packets(buffer, starts[picked], sizes[picked], kinds[picked])
        wrong = packets.interface >= known[picked]
        wrong |= packets.offset + packets.captured + 4 > starts[picked] + sizes[picked]
        right = _first(wrong)
        if right < len(picked):
            good = int(picked[right])
            packets = packets.cut(right)
        if good < len(starts):
            anomaly = corrupt("a block that contradicts itself")
            stop = Parsed(None, int(starts[good]), 0, anomaly)
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
        obsolete = kinds == _OBSOLETE_PACKET
        if obsolete.any():
            # Two 16-bit numbers, the interface and a count of drops, stand in its place.
            short = interface >> 16 if self._order == ">" else interface & 0xFFFF
            interface = np.where(obsolete, short, interface)
        packets = _Packets(
            ticks=(fields["high"].astype(np.uint64) << np.uint64(32))
            | fields["low"].astype(np.uint64),
            interface=interface,
            offset=starts + 28,
            captured=fields["captured"].astype(np.int64),
            wire=fields["wire"].astype(np.int64),
            simple=simple,
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
        snap_bytes = self._interfaces[0].snap_bytes if self._interfaces else 0
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
        for number in np.unique(packets.interface).tolist():
            interface = self._interfaces[number]
            mine = packets.interface == number
            time_ns[mine] = interface.times(packets.ticks[mine])
            link_type[mine] = interface.link_type
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
    ) -> int:
        """Note interfaces and their statistics; return the index of the first that is wrong."""
        for index in np.flatnonzero((kinds == _INTERFACE) | (kinds == _STATISTICS)).tolist():
            body = bytes(buffer[starts[index] + 8 : starts[index] + sizes[index] - 4])
            note = self._note_interface if kinds[index] == _INTERFACE else self._note_statistics
            if not note(body):
                return int(index)
        return len(starts)

    def _note_interface(self, body: bytes) -> bool:
        if len(body) < 8 or len(self._interfaces) >= _MAX_INTERFACES:
            return False
        link_type, _reserved, snap_bytes = struct.unpack_from(f"{self._order}HHI", body)
        resolution, offset_s = 6, 0
        for code, value in _options(body[8:], self._order):
            if code == _OPTION_TSRESOL and len(value) == 1:
                resolution = value[0]
            elif code == _OPTION_TSOFFSET and len(value) == 8:
                offset_s = struct.unpack(f"{self._order}q", value)[0]
        self._interfaces.append(_Interface(link_type, snap_bytes, resolution, offset_s))
        return True

    def _note_statistics(self, body: bytes) -> bool:
        if len(body) < 12:
            return False
        interface = struct.unpack_from(f"{self._order}I", body)[0]
        drops = [
            struct.unpack(f"{self._order}Q", value)[0]
            for code, value in _options(body[12:], self._order)
            if code in {_OPTION_IFDROP, _OPTION_OSDROP} and len(value) == 8
        ]
        # The counters run from the start of the capture: the last statement holds.
        if drops and interface < len(self._interfaces):
            self._section_drops[interface] = sum(drops)
        return True


def _first(flags: NDArray[np.bool_]) -> int:
    """Index of the first true flag; their number when none is."""
    return int(np.argmax(flags)) if flags.any() else len(flags)


def _options(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of each option, up to the end mark or one that is cut."""
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from(f"{order}HH", data, at)
        value = data[at + 4 : at + 4 + length]
        if code == 0 or len(value) < length:
            return
        yield code, value
        at += 4 + length + (-length % 4)
