"""IP packets inside of other packets; and headers between IP and TCP.

In: packets. Out: packets.

Layouts: RFC 2003 and 2473 (IP in IP), 2784 and 2890 (GRE), 7637 (NVGRE), 7348 (VXLAN), 8926
(Geneve), 791 (IPv4 options), 8200 (IPv6 extension headers).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support.disorder.links import ethernet
from tests.support.disorder.packet import (
    ETHERNET,
    IPV4,
    IPV6,
    Packet,
    checksum,
    ipv4_header,
    ipv6_header,
    network,
    sum_ipv4,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

_OUTER_MAC = b"\x02\0\0\0\0\x0a\x02\0\0\0\0\x0b"
_OUTER_4 = (bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
_OUTER_6 = (bytes([32, 1, 13, 184, *[0] * 11, 10]), bytes([32, 1, 13, 184, *[0] * 11, 11]))
_UDP, _GRE = 17, 47
_IP_PROTOCOL = {IPV4: 4, IPV6: 41}
_ETHERNET_BRIDGING = 0x6558
_HOP_BY_HOP, _ROUTING, _DESTINATION = 0, 43, 60


def _outer(packet: Packet, protocol: int, shim: bytes, at: int, *, version: int) -> Packet:
    """Put an Ethernet header, an IP header and a shim before offset ``at`` of a packet."""
    size = len(shim) + packet.wire_bytes - at
    if version == 4:
        kind, header = IPV4, ipv4_header(*_OUTER_4, protocol, size, packet.time_ns & 0xFFFF)
    else:
        kind, header = IPV6, ipv6_header(*_OUTER_6, protocol, size)
    head = _OUTER_MAC + struct.pack(">H", kind) + header + shim
    wire = len(head) + packet.wire_bytes - at
    return Packet(packet.time_ns, head + packet.data[at:], wire, ETHERNET)


def _in_ip(version: int) -> Callable[[Packet, Random], Packet]:
    def alter(packet: Packet, _: Random) -> Packet:
        kind, at = network(packet)
        return _outer(packet, _IP_PROTOCOL[kind], b"", at, version=version)

    return alter


in_ipv4 = _in_ip(4)
in_ipv6 = _in_ip(6)


def _in_gre(version: int) -> Callable[[Packet, Random], Packet]:
    def alter(packet: Packet, _: Random) -> Packet:
        kind, at = network(packet)
        return _outer(packet, _GRE, struct.pack(">HH", 0, kind), at, version=version)

    return alter


in_gre = _in_gre(4)
in_gre_over_ipv6 = _in_gre(6)


def in_gre_with_all_fields(packet: Packet, noise: Random) -> Packet:
    """GRE with checksum, key and sequence number."""
    kind, at = network(packet)
    key = noise.randrange(1 << 32)
    head = struct.pack(">HHHHII", 0xB000, kind, 0, 0, key, packet.time_ns & 0xFFFF)
    head = head[:4] + struct.pack(">H", checksum(head + packet.data[at:])) + head[6:]
    return _outer(packet, _GRE, head, at, version=4)


def in_nvgre(packet: Packet, _: Random) -> Packet:
    """Ethernet in GRE with a key."""
    head = struct.pack(">HHI", 0x2000, _ETHERNET_BRIDGING, 0x123456 << 8)
    return _outer(ethernet(packet), _GRE, head, 0, version=4)


def _udp(port: int, size: int, noise: Random) -> bytes:
    return struct.pack(">HHHH", noise.randrange(49_152, 65_536), port, (8 + size) & 0xFFFF, 0)


def _in_vxlan(version: int) -> Callable[[Packet, Random], Packet]:
    def alter(packet: Packet, noise: Random) -> Packet:
        inner = ethernet(packet)
        head = struct.pack(">II", 0x08000000, 0x123456 << 8)
        udp = _udp(4789, len(head) + inner.wire_bytes, noise)
        return _outer(inner, _UDP, udp + head, 0, version=version)

    return alter


in_vxlan = _in_vxlan(4)
in_vxlan_over_ipv6 = _in_vxlan(6)


def in_geneve(packet: Packet, noise: Random) -> Packet:
    """Ethernet in Geneve, with an option of up to 12 bytes."""
    inner = ethernet(packet)
    words = noise.randrange(4)
    option = struct.pack(">HBB", 0x0103, 1, words) + noise.randbytes(4 * words)
    head = struct.pack(">BBHI", 1 + words, 0, _ETHERNET_BRIDGING, 0x123456 << 8) + option
    udp = _udp(6081, len(head) + inner.wire_bytes, noise)
    return _outer(inner, _UDP, udp + head, 0, version=4)


def in_geneve_without_ethernet(packet: Packet, noise: Random) -> Packet:
    """IP in Geneve."""
    kind, at = network(packet)
    head = struct.pack(">BBHI", 0, 0, kind, 0x123456 << 8)
    udp = _udp(6081, len(head) + packet.wire_bytes - at, noise)
    return _outer(packet, _UDP, udp + head, at, version=4)


def with_ip_options(packet: Packet, noise: Random) -> Packet:
    """IPv4 with options of 4 to 40 bytes; IPv6 with one to three extension headers."""
    kind, at = network(packet)
    if kind == IPV4:
        return _with_ipv4_options(packet, at, noise)
    data = packet.data
    shims = b""
    following = data[at + 6]
    kinds = [_HOP_BY_HOP, _DESTINATION, _ROUTING][: noise.randrange(1, 4)]
    for header, after in zip(kinds, [*kinds[1:], following], strict=True):
        words = noise.randrange(3)
        rest = 4 + 8 * words
        # Destination and hop-by-hop: a PadN option. Routing: type 253, nothing left to visit.
        body = b"\xfd\0" if header == _ROUTING else struct.pack(">BB", 1, rest)
        shims += struct.pack(">BB", after, words) + body + bytes(rest)
    head = bytearray(data[at : at + 40])
    head[6] = kinds[0]
    size = int.from_bytes(head[4:6], "big")
    head[4:6] = (size + len(shims) if size else 0).to_bytes(2, "big")
    return packet._replace(
        data=data[:at] + bytes(head) + shims + data[at + 40 :],
        wire_bytes=packet.wire_bytes + len(shims),
    )


def _with_ipv4_options(packet: Packet, at: int, noise: Random) -> Packet:
    data = packet.data
    words = noise.randrange(1, 11)
    # Record route (RFC 791), as long as there is room, then no-operations.
    route = 3 + 4 * (words - 1)
    options = (struct.pack(">BBB", 7, route, 4) + bytes(route - 3)).ljust(4 * words, b"\x01")
    total = int.from_bytes(data[at + 2 : at + 4], "big")
    room = 65_535 - total
    if len(options) > room:
        return packet
    head = bytearray(data[at : at + 20] + options)
    head[0] = 0x40 | len(head) // 4
    head[2:4] = (total + len(options) if total else 0).to_bytes(2, "big")
    sum_ipv4(head, len(head))
    return packet._replace(
        data=data[:at] + bytes(head) + data[at + 20 :],
        wire_bytes=packet.wire_bytes + len(options),
    )
