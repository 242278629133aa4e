"""An independent reader of captures, which the product's reader is compared with.

In: bytes of a pcap or pcapng file, whole and valid. Out: packets.

Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. It reads the pcapng that dumpcap writes:
one section, Enhanced Packet Blocks, decimal resolutions.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support.disorder.packet import Packet

if TYPE_CHECKING:
    from collections.abc import Iterator

PCAP_NS, PCAP_US = 0xA1B23C4D, 0xA1B2C3D4
_SECTION, _INTERFACE, _ENHANCED = 0x0A0D0D0A, 1, 6


def read_packets(data: bytes) -> list[Packet]:
    """Every packet of a capture, with times in nanoseconds."""
    if data[:4] == _SECTION.to_bytes(4, "big"):
        return list(_pcapng(data))
    return list(_pcap(data))


def _pcap(data: bytes) -> Iterator[Packet]:
    order = next(o for o in "<>" if _u32(data, 0, o) in (PCAP_NS, PCAP_US))
    unit_ns = 1 if _u32(data, 0, order) == PCAP_NS else 1000
    link_type = _u32(data, 20, order) & 0xFFFF
    at = 24
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack_from(f"{order}IIII", data, at)
        at += 16
        time_ns = seconds * 1_000_000_000 + fraction * unit_ns
        yield Packet(time_ns, data[at : at + captured], wire, link_type)
        at += captured


def _pcapng(data: bytes) -> Iterator[Packet]:
    order = "<" if _u32(data, 8, "<") == 0x1A2B3C4D else ">"
    interfaces: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if kind == _INTERFACE:
            link_type = struct.unpack_from(f"{order}H", data, at + 8)[0]
            interfaces.append((link_type, _tick_ns(data[at + 16 : at + size - 4], order)))
        elif kind == _ENHANCED:
            number, high, low, captured, wire = struct.unpack_from(f"{order}IIIII", data, at + 8)
            link_type, tick_ns = interfaces[number]
            body = data[at + 28 : at + 28 + captured]
            yield Packet(((high << 32) + low) * tick_ns, body, wire, link_type)
        at += size


def _tick_ns(options: bytes, order: str) -> int:
    """The length of a tick of an interface, by its option if_tsresol (code 9)."""
    at = 0
    while at < len(options):
        code, size = struct.unpack_from(f"{order}HH", options, at)
        if code == 9:
            return int(10 ** (9 - options[at + 4]))
        at += 4 + size + -size % 4
    return 1000


def _u32(data: bytes, at: int, order: str) -> int:
    return int(struct.unpack_from(f"{order}I", data, at)[0])
