"""Other link layers around the same IP packets.

In: packets on Ethernet or in Linux cooked mode, version 2. Out: packets on another link layer.

Layouts: https://www.tcpdump.org/linktypes.html; IEEE 802.1Q; RFC 3032 (MPLS), 2516 (PPPoE),
1661 and 1662 (PPP).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support.disorder.packet import ETHERNET, IPV4, IPV6, Packet, network

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

_MAC = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02"
_PPP_PROTOCOL = {IPV4: 0x0021, IPV6: 0x0057}
_FAMILY = {IPV4: 2, IPV6: 30}
_SMALLEST_FRAME_BYTES = 60
"""The smallest Ethernet frame, without its checksum."""


def with_header(packet: Packet, header: bytes, link_type: int) -> Packet:
    """Put other bytes in the place of the link-layer header."""
    at = network(packet).at
    wire = packet.wire_bytes - at + len(header)
    return Packet(packet.time_ns, header + packet.data[at:], wire, link_type)


def ethernet(packet: Packet) -> Packet:
    """The packet on Ethernet; unchanged if it is there already."""
    if packet.link_type == ETHERNET:
        return packet
    kind = network(packet).ethertype
    return with_header(packet, _MAC + struct.pack(">H", kind), ETHERNET)


def _between(*shims: tuple[int, bytes]) -> Callable[[Packet, Random], Packet]:
    """Put shims between Ethernet and IP: the ethertype of each, and its bytes.

    The bytes of a tag end before the ethertype of the next header, which is added.
    """

    def alter(packet: Packet, _: Random) -> Packet:
        header = packet.data[:12] if packet.link_type == ETHERNET else _MAC
        for kind, body in shims:
            header += struct.pack(">H", kind) + body
        return with_header(packet, header + struct.pack(">H", network(packet).ethertype), ETHERNET)

    return alter


vlan = _between((0x8100, struct.pack(">H", 0x2FFE)))
vlan_in_vlan = _between((0x88A8, struct.pack(">H", 100)), (0x8100, struct.pack(">H", 200)))
three_old_tags = _between(*[(0x9100, struct.pack(">H", tag)) for tag in (1, 2, 3)])


def mpls(packet: Packet, noise: Random) -> Packet:
    """One to three MPLS labels; the last is marked as such."""
    count = noise.randrange(1, 4)
    labels = [
        (noise.randrange(16, 1 << 20) << 12) | (index == count - 1) << 8 | 64
        for index in range(count)
    ]
    header = ethernet(packet).data[:12] + struct.pack(f">H{count}I", 0x8847, *labels)
    return with_header(packet, header, ETHERNET)


def pppoe(packet: Packet, _: Random) -> Packet:
    """A PPPoE session; its length is that of the protocol number and the packet."""
    kind, at = network(packet)
    size = packet.wire_bytes - at + 2
    head = struct.pack(">HBBHHH", 0x8864, 0x11, 0, 7, size & 0xFFFF, _PPP_PROTOCOL[kind])
    return with_header(packet, ethernet(packet).data[:12] + head, ETHERNET)


def cooked_1(packet: Packet, noise: Random) -> Packet:
    """Linux cooked mode, version 1 (LINKTYPE_LINUX_SLL)."""
    head = struct.pack(">HHH8sH", noise.randrange(5), 1, 6, _MAC[:8], network(packet).ethertype)
    return with_header(packet, head, 113)


def cooked_2(packet: Packet, noise: Random) -> Packet:
    """Linux cooked mode, version 2 (LINKTYPE_LINUX_SLL2)."""
    kind = network(packet).ethertype
    head = struct.pack(">HHIHBB8s", kind, 0, 3, 1, noise.randrange(5), 6, _MAC[:8])
    return with_header(packet, head, 276)


def null_little(packet: Packet, _: Random) -> Packet:
    """BSD loopback, of a little-endian machine."""
    return with_header(packet, struct.pack("<I", _FAMILY[network(packet).ethertype]), 0)


def null_big(packet: Packet, _: Random) -> Packet:
    """BSD loopback, of a big-endian machine."""
    return with_header(packet, struct.pack(">I", _FAMILY[network(packet).ethertype]), 0)


def loop(packet: Packet, _: Random) -> Packet:
    """OpenBSD loopback: the family in network byte order; that of IPv6 there is 24."""
    family = 2 if network(packet).ethertype == IPV4 else 24
    return with_header(packet, struct.pack(">I", family), 108)


def raw(packet: Packet, _: Random) -> Packet:
    """IP with nothing before it."""
    return with_header(packet, b"", 101)


def raw_by_version(packet: Packet, _: Random) -> Packet:
    """IP with nothing before it, its version in the link type."""
    return with_header(packet, b"", 228 if network(packet).ethertype == IPV4 else 229)


def ppp(packet: Packet, _: Random) -> Packet:
    """PPP (LINKTYPE_PPP): the protocol number alone."""
    return with_header(packet, struct.pack(">H", _PPP_PROTOCOL[network(packet).ethertype]), 9)


def ppp_framed(packet: Packet, _: Random) -> Packet:
    """PPP in HDLC-like framing (LINKTYPE_PPP_HDLC): address and control before the protocol."""
    kind = _PPP_PROTOCOL[network(packet).ethertype]
    return with_header(packet, struct.pack(">HH", 0xFF03, kind), 50)


def padded(packet: Packet, noise: Random) -> Packet:
    """Short frames padded, and bytes after all of them: a checksum, a switch's trailer."""
    missing = packet.wire_bytes - len(packet.data)
    more = max(_SMALLEST_FRAME_BYTES - packet.wire_bytes, 0) + noise.choice((4, 4, 8, 24))
    trailer = b"" if missing else noise.randbytes(more)
    return packet._replace(data=packet.data + trailer, wire_bytes=packet.wire_bytes + more)
