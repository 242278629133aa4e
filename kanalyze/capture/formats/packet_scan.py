"""Finds packets in the bytes of captures, and of the kernel: the code that runs once per packet.

In: bytes of a pcap or pcapng file, and the values of its headers; or packets and their metadata
from the kernel, in writable memory. Out: columns, and the position where reading stopped.

Every length in a file is checked against the bytes that are there.

The kernel removes the VLAN tag from a packet and passes it separately; here it is put back. A
cooked packet comes without a link-layer header; here it gets one of LINKTYPE_LINUX_SLL2
(https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html). Both are written into the free bytes
before the packet, so that no packet is copied.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

from kanalyze.capture.formats.parser import (
    BEGIN_BYTES,
    MAX_RECORD_BYTES,
    STANDARD_SNAP_BYTES,
    begins_capture,
)
from kanalyze.common.int_columns import rising
from kanalyze.model.packets import PacketBatch

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.model.packets import NO_TIME

FIRST_ROOM = 256
NS_PER_S = 1_000_000_000
LATE_S = 0xA1B20000
LIKELY_BEFORE_S, LIKELY_AFTER_S = 86_400, 366 * 86_400
INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, NAMES, STATISTICS, ENHANCED_PACKET = range(1, 7)
SECRETS = 10
SECTION = 0x0A0D0D0A
MIN_BLOCK_BYTES = 12
PACKET_OVERHEAD_BYTES, SIMPLE_OVERHEAD_BYTES = 32, 16
PACKET_AT, SIMPLE_PACKET_AT = 28, 12
MIN_OPTION_BYTES = 8
MAX_OPTIONS = 64
COMMENT, DROP_COUNT = 1, 4
UNKNOWN_DROPS = 0xFFFF
MAX_HIGH_TICKS = 0x3FFFFFFF
NS_PER_US = 1000
ETHERNET, COOKED = 1, 276
TAG_BYTES, TAG_AT = 4, 12
COOKED_BYTES = 20
VLAN_PROTOCOL = 0x8100
TAG_IS_VALID, PROTOCOL_IS_VALID = 0x10, 0x40
BLOCK_PACKETS_AT, BLOCK_FIRST_AT = 12, 16
PACKET_HEADER_BYTES = 48
BPF_HEADER_BYTES = 18
BPF_ALIGNMENT = 4

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.capture.file_metadata import Clock, SectionMetadata


class Stop:
    """Why :meth:`PcapngBlocks.scan` stopped: the values of :attr:`PcapngBlocks.stop`."""

    END = 0
    """Too few bytes are left to tell whether a block begins."""
    FULL = 1
    """As many packets as requested were found."""
    SECTION = 2
    """A section header, which may be in another byte order."""
    BLOCK = 3
    """A complete block that is no packet; see ``kind`` and ``size``."""
    SHORT = 4
    """A block whose ``size`` is too small, or larger than the bytes that are left."""
    WRONG = 5
    """A block that contradicts itself."""


END, FULL, AT_SECTION = Stop.END, Stop.FULL, Stop.SECTION
AT_BLOCK, SHORT, WRONG = Stop.BLOCK, Stop.SHORT, Stop.WRONG


class ColumnMaker:
    """Collects packets one by one as columns.

    Attributes:
        count: number of packets since the last :meth:`take`.
    """

    def __init__(self) -> None:
        self.count = self._room = 0
        self._time_ns, self._offset, self._captured, self._wire = (array("q") for _ in range(4))
        self._link_type = array("i")
        self._make_room(FIRST_ROOM)

    def add(self, time_ns: int, offset: int, captured: int, wire: int, link_type: int) -> int:
        """Take a packet. A ``wire`` below ``captured`` is invalid, and raised to it."""
        at = self.count
        if at == self._room:
            self._make_room(at)
        self._times[at] = time_ns
        self._offsets[at] = offset
        self._captureds[at] = captured
        self._wires[at] = max(captured, wire)
        self._link_types[at] = link_type
        self.count = at + 1
        return 0

    def take(self, buffer: memoryview) -> PacketBatch | None:
        """Return the packets since the last call, whose bytes are in ``buffer``; None for none."""
        if not self.count:
            return None
        count, self.count = self.count, 0
        return PacketBatch(
            buffer,
            number=rising(1, count),
            time_ns=self._time_ns[:count],
            offset=self._offset[:count],
            captured_bytes=self._captured[:count],
            wire_bytes=self._wire[:count],
            link_type=self._link_type[:count],
        )

    def _make_room(self, more: int) -> None:
        # New arrays: nobody else has a view of them.
        self._time_ns = self._times = self._time_ns + array("q", [0]) * more
        self._offset = self._offsets = self._offset + array("q", [0]) * more
        self._captured = self._captureds = self._captured + array("q", [0]) * more
        self._wire = self._wires = self._wire + array("q", [0]) * more
        self._link_type = self._link_types = self._link_type + array("i", [0]) * more
        self._room += more


def u32(data: memoryview, at: int, is_big_endian: bool) -> int:
    """Read a 32-bit number in the file's byte order."""
    a, b, c, d = data[at], data[at + 1], data[at + 2], data[at + 3]
    if is_big_endian:
        return a << 24 | b << 16 | c << 8 | d
    return d << 24 | c << 16 | b << 8 | a


def u16(data: memoryview, at: int, is_big_endian: bool) -> int:
    """Read a 16-bit number in the file's byte order."""
    a, b = data[at], data[at + 1]
    return a << 8 | b if is_big_endian else b << 8 | a


class PcapRecords:
    """Finds the records of a pcap file, in the layout that the file's header gives.

    Attributes:
        header_bytes: size of a record's header.
    """

    def __init__(
        self,
        is_big_endian: bool,
        header_bytes: int,
        captured_at: int,
        wire_at: int,
        ns_per_unit: int,
        link_type: int,
        most_captured: int,
    ) -> None:
        """Take the values of the file's header.

        Args:
            is_big_endian: byte order of the file.
            header_bytes: size of a record's header.
            captured_at: index of the captured length in a record's header.
            wire_at: index of the packet's length in a record's header.
            ns_per_unit: nanoseconds in a unit of the second time field.
            link_type: link type of all packets.
            most_captured: a record with more bytes is corrupt.
        """
        self.header_bytes = header_bytes
        self._is_big_endian = is_big_endian
        self._captured_at = captured_at
        self._wire_at = wire_at
        self._ns_per_unit = ns_per_unit
        self._link_type = link_type
        self._most_captured = most_captured

    def scan(self, buffer: memoryview, start: int, end: int, maker: ColumnMaker, most: int) -> int:
        """Add the records from ``start`` on to ``maker``, until it has ``most``.

        Returns the index where reading stopped: at an incomplete or too large record, at the header
        of another capture, or because ``maker`` has ``most``.
        """
        data = buffer
        is_big_endian, header_bytes = self._is_big_endian, self.header_bytes
        captured_at, wire_at = self._captured_at, self._wire_at
        at = start
        last = end - header_bytes
        while at <= last and maker.count < most:
            captured = u32(data, at + captured_at, is_big_endian)
            packet = at + header_bytes
            if captured > self._most_captured or captured > end - packet:
                break
            seconds = u32(data, at, is_big_endian)
            # As a record, the header of another capture has no bytes, or an odd time.
            is_odd = captured == 0 or seconds >= LATE_S or seconds == SECTION
            if is_odd and begins_capture(bytes(buffer[at : at + BEGIN_BYTES])):
                break
            time_ns = seconds * NS_PER_S + u32(data, at + 4, is_big_endian) * self._ns_per_unit
            wire = u32(data, at + wire_at, is_big_endian)
            maker.add(time_ns, packet, captured, wire, self._link_type)
            at = packet + captured
        return at

    def captured_bytes(self, buffer: memoryview, at: int) -> int:
        """Return the captured length in the header of the record at ``at``."""
        return u32(buffer, at + self._captured_at, self._is_big_endian)

    def time_ns(self, buffer: memoryview, at: int) -> int:
        """Return the Unix time in ns in the header of the record at ``at``."""
        fraction = u32(buffer, at + 4, self._is_big_endian)
        return u32(buffer, at, self._is_big_endian) * NS_PER_S + fraction * self._ns_per_unit

    def likely(
        self, buffer: memoryview, start: int, end: int, near_s: int
    ) -> tuple[array[int], array[int]]:
        """Return indices in ``buffer[start:end]`` where records may begin, and their ends.

        ``near_s`` is the Unix time in s of the file's first packet; -1 if it is not known.
        """
        data = buffer
        is_big_endian, header_bytes = self._is_big_endian, self.header_bytes
        captured_at, wire_at = self._captured_at, self._wire_at
        most_fraction = NS_PER_S // self._ns_per_unit
        begins, ends = array("q"), array("q")
        for at in range(start, end - header_bytes + 1):
            captured = u32(data, at + captured_at, is_big_endian)
            if captured < 1 or captured > STANDARD_SNAP_BYTES:
                continue
            wire = u32(data, at + wire_at, is_big_endian)
            if wire < captured or wire > MAX_RECORD_BYTES:
                continue
            if u32(data, at + 4, is_big_endian) >= most_fraction:
                continue
            if near_s >= 0:
                after_s = u32(data, at, is_big_endian) - near_s
                if after_s < -LIKELY_BEFORE_S or after_s > LIKELY_AFTER_S:
                    continue
            begins.append(at)
            ends.append(at + header_bytes + captured)
        return begins, ends


class PcapngBlocks:
    """Finds the packets among the blocks of a pcapng file.

    Attributes:
        stop: why :meth:`scan` returned, one of :class:`Stop`.
        kind: type of the block there, if ``stop`` is ``Stop.BLOCK``.
        size: size in the header of the block there.
        packets: number of packets so far, in all sections.
    """

    def __init__(self, metadata: SectionMetadata) -> None:
        """``metadata`` collects the comments and drop counts of packets."""
        self.stop = END
        self.kind = self.size = self.packets = 0
        self._metadata = metadata
        self.begin_section(False, [])

    def begin_section(self, is_big_endian: bool, clocks: list[Clock]) -> None:
        """Begin a section, with its byte order and its interfaces.

        The caller appends to ``clocks``, and then calls :meth:`add_interfaces`.
        """
        self._is_big_endian = is_big_endian
        self._clocks = clocks
        self._interfaces = 0
        self._first_snap_bytes = 0
        self._factors, self._limits, self._offsets = array("q"), array("q"), array("q")
        self._link_types = array("i")

    def add_interfaces(self) -> None:
        """Take the interfaces that were appended to ``clocks``."""
        count = len(self._clocks)
        if count > len(self._factors):
            self._tabulate(2 * count)
        for index in range(self._interfaces, count):
            clock = self._clocks[index]
            self._factors[index], self._limits[index] = clock.factor, clock.limit
            self._offsets[index] = clock.offset_ns if clock.factor else 0
            self._link_types[index] = clock.link_type
        self._interfaces = count
        self._first_snap_bytes = self._clocks[0].snap_bytes if count else 0

    def _tabulate(self, room: int) -> None:
        """Make tables of interfaces with more room."""
        self._interfaces = 0
        self._factors, self._limits, self._offsets = (array("q", bytes(8 * room)) for _ in range(3))
        self._link_types = array("i", bytes(4 * room))

    def scan(self, buffer: memoryview, start: int, end: int, maker: ColumnMaker, most: int) -> int:
        """Add the packets in the blocks from ``start`` on to ``maker``, until it has ``most``.

        Returns the index of the block where reading stopped; :attr:`stop` is the reason.
        """
        data = buffer
        is_big_endian = self._is_big_endian
        at = start
        last = end - 8
        self.stop = END
        while at <= last:
            kind = u32(data, at, is_big_endian)
            size = self.size = u32(data, at + 4, is_big_endian)
            if kind == SECTION:
                self.stop = AT_SECTION
                return at
            if size < MIN_BLOCK_BYTES or size > end - at:
                self.stop = SHORT
                return at
            if u32(data, at + size - 4, is_big_endian) != size:
                self.stop = WRONG
                return at
            if kind in (ENHANCED_PACKET, OBSOLETE_PACKET, SIMPLE_PACKET):
                if maker.count >= most:
                    self.stop = FULL
                    return at
                if not self._packet(buffer, data, at, kind, size, maker):
                    self.stop = WRONG
                    return at
            elif kind in (INTERFACE, NAMES, STATISTICS, SECRETS):
                self.stop, self.kind = AT_BLOCK, kind
                return at
            at += size
        return at

    def _packet(
        self,
        buffer: memoryview,
        data: memoryview,
        at: int,
        kind: int,
        size: int,
        maker: ColumnMaker,
    ) -> bool:
        """Read the block of a packet; return false if it contradicts itself."""
        if kind == SIMPLE_PACKET:
            return self._simple(data, at, size, maker)
        is_big_endian = self._is_big_endian
        if size < PACKET_OVERHEAD_BYTES:
            return False
        captured = u32(data, at + 20, is_big_endian)
        option_bytes = size - PACKET_OVERHEAD_BYTES - captured
        dropped = -1
        if kind == OBSOLETE_PACKET:
            interface, dropped = u16(data, at + 8, is_big_endian), u16(data, at + 10, is_big_endian)
            if dropped == UNKNOWN_DROPS:
                dropped = -1
        else:
            interface = u32(data, at + 8, is_big_endian)
        if option_bytes < 0 or interface >= self._interfaces:
            return False
        high, low = u32(data, at + 12, is_big_endian), u32(data, at + 16, is_big_endian)
        time_ns = self._time_ns(interface, high, low)
        wire = u32(data, at + 24, is_big_endian)
        maker.add(time_ns, at + PACKET_AT, captured, wire, self._link_types[interface])
        self.packets += 1
        if option_bytes >= MIN_OPTION_BYTES or dropped >= 0:
            options_at = at + PACKET_AT + (captured + 3 & ~3)
            self._read_options(buffer, data, options_at, at + size - 4, interface, dropped)
        return True

    def _simple(self, data: memoryview, at: int, size: int, maker: ColumnMaker) -> bool:
        """Read a simple packet block; return false if it contradicts itself.

        It has neither interface nor time: it gets the first interface.
        """
        if size < SIMPLE_OVERHEAD_BYTES or not self._interfaces:
            return False
        wire = u32(data, at + 8, self._is_big_endian)
        captured = min(wire, size - SIMPLE_OVERHEAD_BYTES)
        if self._first_snap_bytes:
            captured = min(captured, self._first_snap_bytes)
        link_type = self._link_types[0]
        maker.add(NO_TIME, at + SIMPLE_PACKET_AT, captured, wire, link_type)
        self.packets += 1
        return True

    def _time_ns(self, interface: int, high: int, low: int) -> int:
        """Turn a timestamp into a Unix time in ns."""
        if high <= MAX_HIGH_TICKS:
            ticks = high << 32 | low
            # The limit is -1 if the clock has to compute the time.
            if ticks <= self._limits[interface]:
                time_ns = ticks * self._factors[interface] + self._offsets[interface]
                return max(0, time_ns)
        clock = self._clocks[interface]
        exact: int = clock.time_ns(high, low)
        return exact

    def _read_options(
        self,
        buffer: memoryview,
        data: memoryview,
        at: int,
        end: int,
        interface: int,
        dropped: int,
    ) -> None:
        """Read two kinds of a packet's options: the drops before it, and comments.

        Options end at the end mark, or at an option that is cut or has no value.
        """
        is_big_endian = self._is_big_endian
        for _ in range(MAX_OPTIONS):
            if at + MIN_OPTION_BYTES > end:
                break
            code, length = u16(data, at, is_big_endian), u16(data, at + 2, is_big_endian)
            at += 4
            if code == 0 or length > end - at:
                break
            if code == COMMENT:
                self._metadata.note_packet_comment(self.packets, buffer[at : at + length])
            elif code == DROP_COUNT and length == 8:
                high, low = u32(data, at, is_big_endian), u32(data, at + 4, is_big_endian)
                if not is_big_endian:
                    high, low = low, high
                # A larger number of drops is implausible.
                if high == 0:
                    dropped = low
                elif high == 1 and low == 0:
                    dropped = high << 32
            at += length + 3 & ~3
        if dropped >= 0:
            self._metadata.count_drops(interface, dropped)


class KernelScan:
    """Reads packets of one link type, each up to a snap length."""

    def __init__(self, link_type: int, snap_bytes: int) -> None:
        self._link_type = link_type
        self._snap_bytes = snap_bytes
        self._is_big_endian = sys.byteorder == "big"

    def blocks(self, buffer: memoryview, block_bytes: int, blocks: int, maker: ColumnMaker) -> None:
        """Add the packets of the first ``blocks`` TPACKET_V3 blocks in ``buffer`` to ``maker``."""
        data = buffer
        is_big_endian = self._is_big_endian
        for block in range(blocks):
            start = block * block_bytes
            at = start + u32(data, start + BLOCK_FIRST_AT, is_big_endian)
            for _ in range(u32(data, start + BLOCK_PACKETS_AT, is_big_endian)):
                # struct tpacket3_hdr; the packet's address follows it.
                seconds, nanoseconds = (
                    u32(data, at + 4, is_big_endian),
                    u32(data, at + 8, is_big_endian),
                )
                self._add(
                    data,
                    seconds * NS_PER_S + nanoseconds,
                    at + u16(data, at + 24, is_big_endian),
                    u32(data, at + 12, is_big_endian),
                    u32(data, at + 16, is_big_endian),
                    u32(data, at + 20, is_big_endian),
                    u32(data, at + 32, is_big_endian),
                    u16(data, at + 36, is_big_endian),
                    at + PACKET_HEADER_BYTES,
                    maker,
                )
                at += u32(data, at, is_big_endian)

    def scan_columns(
        self,
        buffer: memoryview,
        columns: Sequence[Sequence[int]],
        maker: ColumnMaker,
    ) -> None:
        """Add packets that the kernel described in another way, by columns.

        ``columns`` are arrays of 64-bit integers: time in ns, offset, bytes captured and on the
        wire, status, control and protocol of the tag, and the offset of the address.
        """
        data = buffer
        times, offsets, captureds, wires, statuses, controls, protocols, addresses = columns
        for row in range(len(times)):
            self._add(
                data,
                times[row],
                offsets[row],
                captureds[row],
                wires[row],
                statuses[row],
                controls[row],
                protocols[row],
                addresses[row],
                maker,
            )

    def bpf(self, buffer: memoryview, end: int, maker: ColumnMaker) -> None:
        """Add the packets of one read from the BPF device of macOS to ``maker``."""
        data = buffer
        is_big_endian = self._is_big_endian
        at = 0
        while at + BPF_HEADER_BYTES <= end:
            # struct bpf_hdr
            captured, header_bytes = (
                u32(data, at + 8, is_big_endian),
                u16(data, at + 16, is_big_endian),
            )
            time_ns = (
                u32(data, at, is_big_endian) * NS_PER_S
                + u32(data, at + 4, is_big_endian) * NS_PER_US
            )
            snapped = min(captured, self._snap_bytes)
            wire = u32(data, at + 12, is_big_endian)
            maker.add(time_ns, at + header_bytes, snapped, wire, self._link_type)
            used = header_bytes + captured
            at += used + (BPF_ALIGNMENT - used % BPF_ALIGNMENT) % BPF_ALIGNMENT
            if used == 0:
                break

    def _add(
        self,
        data: memoryview,
        time_ns: int,
        at: int,
        captured: int,
        wire: int,
        status: int,
        control: int,
        protocol: int,
        address: int,
        maker: ColumnMaker,
    ) -> int:
        """Restore a packet's link-layer header in the bytes before it, and add it to ``maker``."""
        added = 0
        if self._link_type == ETHERNET:
            # Kernels before 3.0 do not mark a tag as valid; a tag of zeros is not seen there.
            if captured >= TAG_AT and (status & TAG_IS_VALID or control):
                added = TAG_BYTES
                for position in range(at, at + TAG_AT):
                    data[position - TAG_BYTES] = data[position]
                tag = protocol if status & PROTOCOL_IS_VALID else VLAN_PROTOCOL
                position = at + TAG_AT - TAG_BYTES
                data[position], data[position + 1] = tag >> 8 & 0xFF, tag & 0xFF
                data[position + 2], data[position + 3] = control >> 8 & 0xFF, control & 0xFF
        elif self._link_type == COOKED:
            added = COOKED_BYTES
            self._put_cooked_header(data, at - COOKED_BYTES, address)
        captured += added
        kept = min(captured, self._snap_bytes)
        maker.add(time_ns, at - added, kept, wire + added, self._link_type)
        return 0

    def _put_cooked_header(self, data: memoryview, at: int, address: int) -> int:
        """Write the values of ``struct sockaddr_ll`` (packet(7)) as a header of SLL2."""
        # The protocol is in network byte order in both.
        data[at], data[at + 1] = data[address + 2], data[address + 3]
        data[at + 2] = data[at + 3] = 0
        for index in range(4):
            byte_index = index if self._is_big_endian else 3 - index
            data[at + 4 + index] = data[address + 4 + byte_index]
        for index in range(2):
            byte_index = index if self._is_big_endian else 1 - index
            data[at + 8 + index] = data[address + 8 + byte_index]
        for index in range(10):
            data[at + 10 + index] = data[address + 10 + index]
        return 0
