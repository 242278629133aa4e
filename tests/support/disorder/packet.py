"""A captured packet, and the TCP segment in it: taken apart and built again.

In: bytes of a packet. Out: :class:`Packet`, :class:`Segment`.

Packets are built with right lengths of IP, and checksums of IP (RFC 791) and TCP (RFC 9293).
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
IPV4, IPV6 = 0x0800, 0x86DD
ETHERNET, COOKED_2 = 1, 276
TCP = 6
IPV6_HEADER_BYTES = 40
MAX_IP_BYTES = 65_535

Direction: TypeAlias = tuple[bytes, int, bytes, int]
"""Source address and port, destination address and port."""


class Packet(NamedTuple):
    """A packet as a capture holds it."""

    time_ns: int
    data: bytes
    wire_bytes: int
    """Length on the wire; with a snap length, more than that of ``data``."""
    link_type: int
    """LINKTYPE_ value."""


class Network(NamedTuple):
    """The offset and the protocol of the network layer of a packet."""

    ethertype: int
    at: int


def network(packet: Packet) -> Network:
    """Find the network header of a packet on Ethernet or in Linux cooked mode, version 2."""
    if packet.link_type == ETHERNET:
        return Network(int.from_bytes(packet.data[12:14], "big"), 14)
    if packet.link_type == COOKED_2:
        return Network(int.from_bytes(packet.data[:2], "big"), 20)
    raise ValueError(f"link type {packet.link_type}: only what the recorder writes is taken apart")


class Segment(NamedTuple):
    """A packet with a TCP segment, and the fields of its headers."""

    packet: Packet
    network_at: int
    tcp_at: int
    payload_at: int
    length: int
    """Payload bytes on the wire."""
    source: bytes
    destination: bytes
    source_port: int
    destination_port: int
    sequence: int
    acknowledgment: int
    flags: int

    @property
    def payload(self) -> bytes:
        """The payload that was captured."""
        return self.packet.data[self.payload_at : self.payload_at + self.length]

    @property
    def is_whole(self) -> bool:
        return self.payload_at + self.length <= len(self.packet.data)

    @property
    def direction(self) -> Direction:
        return self.source, self.source_port, self.destination, self.destination_port

    @property
    def connection(self) -> tuple[Direction, Direction]:
        """The same for both directions."""
        mine = self.direction
        other = (*mine[2:], *mine[:2])
        return (mine, other) if mine < other else (other, mine)

    @property
    def next_sequence(self) -> int:
        """The sequence number of the byte after the payload."""
        return (self.sequence + self.length) & 0xFFFFFFFF

    @property
    def is_ipv6(self) -> bool:
        return len(self.source) == 16


@functools.lru_cache(maxsize=8192)
def dissect(packet: Packet) -> Segment | None:
    """Take a packet apart; None unless it is TCP directly over IP without options or tunnels."""
    data = packet.data
    ethertype, at = network(packet)
    if ethertype == IPV4:
        tcp_at = at + (data[at] & 15) * 4
        protocol, fragment = data[at + 9], int.from_bytes(data[at + 6 : at + 8], "big") & 0x3FFF
        end = at + int.from_bytes(data[at + 2 : at + 4], "big")
        source, destination = data[at + 12 : at + 16], data[at + 16 : at + 20]
    elif ethertype == IPV6:
        tcp_at = at + IPV6_HEADER_BYTES
        protocol, fragment = data[at + 6], 0
        end = tcp_at + int.from_bytes(data[at + 4 : at + 6], "big")
        source, destination = data[at + 8 : at + 24], data[at + 24 : at + 40]
    else:
        return None
    if protocol != TCP or fragment or tcp_at + 20 > len(data):
        return None
    if end in (at, tcp_at):  # Length 0: a packet that the network card is to segment.
        end = packet.wire_bytes
    source_port, destination_port, sequence, acknowledgment = struct.unpack_from(
        ">HHII", data, tcp_at
    )
    payload_at = tcp_at + (data[tcp_at + 12] >> 4) * 4
    return Segment(
        packet,
        at,
        tcp_at,
        payload_at,
        end - payload_at,
        source,
        destination,
        source_port,
        destination_port,
        sequence,
        acknowledgment,
        data[tcp_at + 13],
    )


def dissect_all(packets: Sequence[Packet]) -> list[Segment | None]:
    return [dissect(packet) for packet in packets]


def checksum(data: bytes, start: int = 0) -> int:
    """The Internet checksum (RFC 1071): the sum of 16-bit words modulo 2^16 - 1."""
    if len(data) % 2:
        data += b"\0"
    total = int.from_bytes(data, "big") + start
    # 0xFFFF and 0 are both zero in this arithmetic; a sum that is not 0 gives 0xFFFF.
    return 0xFFFF ^ ((total - 1) % 0xFFFF + 1 if total else 0)


def rebuild(
    segment: Segment,
    *,
    payload: bytes | None = None,
    length: int | None = None,
    sequence: int | None = None,
    acknowledgment: int | None = None,
    flags: int | None = None,
    ports: tuple[int, int] | None = None,
    sent_again: int = 0,
) -> Packet:
    """Build a packet that differs from the segment's in the given fields.

    ``length`` is that of the payload on the wire, if ``payload`` has fewer bytes.
    ``sent_again`` is added to the IPv4 identification: a retransmission is another packet.
    """
    data = segment.packet.data
    if payload is None:
        payload = segment.payload
        length = segment.length if length is None else length
    if length is None:
        length = len(payload)
    head = bytearray(data[segment.network_at : segment.payload_at])
    tcp_at = segment.tcp_at - segment.network_at
    size = len(head) + length
    if segment.is_ipv6:
        struct.pack_into(">H", head, 4, _stated(size) and size - IPV6_HEADER_BYTES)
    else:
        identification = int.from_bytes(head[4:6], "big") + sent_again
        struct.pack_into(">HH", head, 2, _stated(size), identification & 0xFFFF)
        sum_ipv4(head, tcp_at)
    struct.pack_into(
        ">HHII",
        head,
        tcp_at,
        *(ports or (segment.source_port, segment.destination_port)),
        (segment.sequence if sequence is None else sequence) & 0xFFFFFFFF,
        (segment.acknowledgment if acknowledgment is None else acknowledgment) & 0xFFFFFFFF,
    )
    if flags is not None:
        head[tcp_at + 13] = flags
    if length == len(payload):
        addresses = segment.source + segment.destination
        struct.pack_into(">H", head, tcp_at + 16, 0)
        struct.pack_into(">H", head, tcp_at + 16, tcp_checksum(addresses, head[tcp_at:], payload))
    link = data[: segment.network_at]
    wire = len(link) + size
    return segment.packet._replace(data=link + bytes(head) + payload, wire_bytes=wire)


def _stated(size: int) -> int:
    """The length that an IP header states: 0 if it does not fit into 16 bits."""
    return 0 if size > MAX_IP_BYTES else size


def sum_ipv4(head: bytearray, size: int) -> None:
    """Write the checksum of an IPv4 header of ``size`` bytes."""
    struct.pack_into(">H", head, 10, 0)
    struct.pack_into(">H", head, 10, checksum(bytes(head[:size])))


def tcp_checksum(addresses: bytes, head: bytes | bytearray, payload: bytes) -> int:
    """The checksum of a segment; its header is of an even number of bytes."""
    start = checksum(payload) ^ 0xFFFF
    pseudo = addresses + struct.pack(">II", TCP, len(head) + len(payload))
    return checksum(pseudo + bytes(head), start)


def ipv4_header(
    source: bytes, destination: bytes, protocol: int, size: int, identification: int = 1
) -> bytes:
    """An IPv4 header without options before ``size`` bytes."""
    total = _stated(20 + size)
    head = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, total, identification, 0, 64, protocol, 0))
    head += source + destination
    sum_ipv4(head, 20)
    return bytes(head)


def ipv6_header(source: bytes, destination: bytes, next_header: int, size: int) -> bytes:
    """An IPv6 header (RFC 8200) before ``size`` bytes."""
    stated = size if size <= MAX_IP_BYTES else 0
    return struct.pack(">IHBB", 6 << 28, stated, next_header, 64) + source + destination
