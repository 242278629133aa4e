"""Takes a pcap apart and puts it together otherwise: the same streams, other packets."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random

_ETHERNET_BYTES = 14


class Packet(NamedTuple):
    """A packet of a little-endian pcap: seconds, fraction, bytes."""

    seconds: int
    fraction: int
    data: bytes

    @property
    def tcp_at(self) -> int:
        return _ETHERNET_BYTES + (self.data[_ETHERNET_BYTES] & 15) * 4

    @property
    def payload_at(self) -> int:
        return self.tcp_at + (self.data[self.tcp_at + 12] >> 4) * 4

    @property
    def end(self) -> int:
        """Where the IP packet ends; what comes after it is padding."""
        return _ETHERNET_BYTES + int.from_bytes(self.data[16:18], "big")

    @property
    def payload(self) -> bytes:
        return self.data[self.payload_at : self.end]


def read_pcap(data: bytes) -> tuple[bytes, list[Packet]]:
    """The file header and the packets."""
    packets, at = [], 24
    while at < len(data):
        seconds, fraction, captured, _ = struct.unpack_from("<IIII", data, at)
        packets.append(Packet(seconds, fraction, data[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return data[:24], packets


def pcap_of(header: bytes, packets: list[Packet]) -> bytes:
    parts = [header]
    for packet in packets:
        size = len(packet.data)
        parts.append(struct.pack("<IIII", packet.seconds, packet.fraction, size, size))
        parts.append(packet.data)
    return b"".join(parts)


def duplicated(packets: list[Packet], _: Random) -> list[Packet]:
    """Every packet twice, as a capture on all interfaces may have it."""
    return [packet for packet in packets for _ in range(2)]


def swapped(packets: list[Packet], noise: Random) -> list[Packet]:
    """One packet with payload in ten comes after the next one of its own direction.

    The times stay where they are: it is the order that is wrong, not the clock.
    """
    found = list(packets)
    index = 0
    while index + 1 < len(found):
        first, second = found[index], found[index + 1]
        both = first.payload and second.payload
        if both and first.data[26:38] == second.data[26:38] and noise.random() < 0.3:
            found[index] = first._replace(data=second.data)
            found[index + 1] = second._replace(data=first.data)
            index += 1
        index += 1
    return found


def resegmented(packets: list[Packet], noise: Random) -> list[Packet]:
    """Every payload in up to four segments, all at the time of the one they were."""
    found = []
    for packet in packets:
        payload = packet.payload
        if len(payload) < 2:
            found.append(packet)
            continue
        cuts = sorted({0, *(noise.randrange(len(payload)) for _ in range(3))})
        for begin, end in zip(cuts, [*cuts[1:], len(payload)], strict=True):
            found.append(packet._replace(data=_part(packet, begin, end)))
    return found


def _part(packet: Packet, begin: int, end: int) -> bytes:
    head = bytearray(packet.data[: packet.payload_at])
    sequence = struct.unpack_from(">I", head, packet.tcp_at + 4)[0]
    struct.pack_into(">I", head, packet.tcp_at + 4, (sequence + begin) & 0xFFFFFFFF)
    length = packet.payload_at - _ETHERNET_BYTES + end - begin
    struct.pack_into(">H", head, 16, length)
    if end < len(packet.payload):
        head[packet.tcp_at + 13] &= ~0x01  # FIN belongs to the last part
    return bytes(head) + packet.payload[begin:end]
