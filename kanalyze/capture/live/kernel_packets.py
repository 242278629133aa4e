"""Restores packets of the kernel as they were on the wire: the code that runs once per packet.

In: packets and their metadata from the kernel, in writable memory. Out: packets for a
:class:`~kanalyze.capture.formats.packet_scan.ColumnMaker`.

The kernel removes the VLAN tag from a packet and passes it separately; here it is put back. A
cooked packet comes without a link-layer header; here it gets one of LINKTYPE_LINUX_SLL2
(https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html). Both are written into the free bytes
before the packet, so that no packet is copied.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.capture.formats.packet_scan import u16, u32

    NS_PER_S = 1_000_000_000
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

    from kanalyze.capture.formats.packet_scan import ColumnMaker

__all__ = ["KernelScan"]


class KernelScan:
    """Reads packets of one link type, each up to a snap length."""

    __slots__ = ("_is_big_endian", "_link_type", "_snap_bytes")

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
