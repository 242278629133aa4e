"""Packets keep ports, lengths and flags; addresses are stand-ins, everything else is blank."""

from __future__ import annotations

import ipaddress
import struct
from array import array
from typing import Any

import pytest

from kanalyze.anonymization.packets import PacketAnonymizer
from kanalyze.anonymization.rewriting import StreamPayloads
from kanalyze.model.packets import PacketBatch
from tests.support.anonymous import STAND_INS
from tests.support.cases import for_each
from tests.support.packets import ethernet, ipv4, ipv6, tcp

SECRET = b"secret contents!"


class Fixed(StreamPayloads):
    """Finds the same payload for all packets."""

    def __init__(self, payload: bytes | None) -> None:
        super().__init__({}, [])
        self.calls: list[Any] = []
        self._payload = payload

    def find(
        self, ends: bytes, sequence: int, length: int, _packet: int, to: Any, at: int, room: int
    ) -> bool:
        self.calls.append((ends, sequence, length))
        if self._payload is not None:
            content = self._payload[: min(length, room)]
            to[at : at + len(content)] = memoryview(content)
        return self._payload is not None


def batch_of(data: bytes, link: int = 1, wire: int = 0) -> PacketBatch:
    columns = [array("q", [each]) for each in (1, 0, 0, len(data), wire or len(data))]
    return PacketBatch(memoryview(data), *columns, array("i", [link]))


def anonymous(data: bytes, payload: bytes | None = None, link: int = 1, wire: int = 0) -> bytes:
    packets = PacketAnonymizer(STAND_INS, Fixed(payload))
    made = bytes(packets.batch(batch_of(data, link, wire)).buffer)
    assert len(made) == len(data)
    assert SECRET not in made
    return made


def words(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data[: len(data) & ~1]))
    total += data[-1] << 8 if len(data) & 1 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def pseudo(packet: bytes) -> bytes:
    """The pseudo-header of an Ethernet packet of IPv4 or IPv6."""
    if packet[12:14] == b"\x08\0":
        size = struct.unpack_from(">H", packet, 16)[0] - 20
        return packet[26:34] + struct.pack(">HH", packet[23], size)
    return packet[22:54] + struct.pack(">HH", packet[20], struct.unpack_from(">H", packet, 18)[0])


def with_right_checksums(packet: bytes, transport: int, place: int) -> bytes:
    """Return an Ethernet packet with the right checksums."""
    made = bytearray(packet)
    if packet[12:14] == b"\x08\0":
        made[24:26] = bytes(2)
        made[24:26] = (0xFFFF - words(bytes(made[14:34]))).to_bytes(2)
    at = transport + place
    made[at : at + 2] = bytes(2)
    made[at : at + 2] = (0xFFFF - words(pseudo(bytes(made)) + bytes(made[transport:]))).to_bytes(2)
    return bytes(made)


def is_right(packet: bytes, transport: int) -> bool:
    ip = packet[12:14] != b"\x08\0" or words(packet[14:34]) == 0xFFFF
    return ip and words(pseudo(packet) + packet[transport:]) == 0xFFFF


V4 = ethernet(ipv4(tcp(seq=7, payload=SECRET), "203.0.113.5", "198.51.100.9"))
V6 = ethernet(ipv6(tcp(seq=7, payload=SECRET + b"odd")), 0x86DD)


@for_each("case", [(V4, 34), (V6, 54)])
def test_right_checksums_are_right_again(case: tuple[bytes, int]) -> None:
    packet, transport = case
    whole = with_right_checksums(packet, transport, 16)
    assert is_right(whole, transport)
    made = anonymous(whole, b"x" * 40)
    assert is_right(made, transport)
    assert made.endswith(b"x" * len(SECRET))


@for_each("case", [(V4, 34), (V6, 54)])
def test_wrong_and_partial_checksums_stay_wrong_and_partial(case: tuple[bytes, int]) -> None:
    packet, transport = case
    whole = bytearray(with_right_checksums(packet, transport, 16))
    whole[transport + 16] ^= 0x10
    assert not is_right(anonymous(bytes(whole), b"x" * 40), transport)
    at = transport + 16
    whole[at : at + 2] = words(pseudo(bytes(whole))).to_bytes(2)
    made = anonymous(bytes(whole), b"x" * 40)
    assert struct.unpack_from(">H", made, at)[0] == words(pseudo(made))
    whole[at : at + 2] = bytes(2)
    assert anonymous(bytes(whole))[at : at + 2] == bytes(2)


def test_ports_sequence_and_flags_stay_and_addresses_are_stand_ins() -> None:
    packet = with_right_checksums(V4, 34, 16)
    made = anonymous(packet)
    assert made[34:50] == packet[34:50]
    for at, text in ((26, "203.0.113.5"), (30, "198.51.100.9")):
        address = ipaddress.ip_address(text).packed
        assert made[at : at + 4] == STAND_INS.address(address) != address
    assert made[:6] == STAND_INS.mac(packet[:6])
    assert made[54:] == bytes(len(SECRET))


def test_the_payload_is_requested_by_addresses_and_sequence_number() -> None:
    fixed = Fixed(b"y" * 99)
    packets = PacketAnonymizer(STAND_INS, fixed)
    made = bytes(packets.batch(batch_of(V4)).buffer)
    source = ipaddress.ip_address("203.0.113.5").packed
    ports = struct.pack(">HH", 50000, 9092)
    ends, *others = fixed.calls[0]
    assert ends.startswith(source)
    assert ends.endswith(ports)
    assert len(ends) == 4 + 4 + len(ports)
    assert others == [7, len(SECRET)]
    assert bytes(made).endswith(b"y" * len(SECRET))
    packets.batch(batch_of(ethernet(ipv4(tcp(seq=7, flags=2, payload=b"fast")))))
    assert fixed.calls[1][1] == 8


def test_a_snapped_packet_stays_snapped() -> None:
    packet = with_right_checksums(V4, 34, 16)
    cut = packet[:60]
    made = anonymous(cut, b"x" * 40, wire=len(packet))
    assert made[54:] == b"xxxxxx"
    assert made[50:52] != cut[50:52]


def test_harmless_tcp_options_stay() -> None:
    known = b"\x02\x04\x05\xb4" + b"\x01\x03\x03\x07" + b"\x04\x02" + b"\x08\x0a" + b"12345678"
    strange = b"\xfe\x06abcd" + b"\x1e\x04ab" + b"\0\0"
    for options, expected in ((known, known), (strange, b"\1" * 10 + b"\0\0")):
        packet = ethernet(ipv4(tcp(options=options)))
        made = anonymous(packet)
        size = len(options)
        assert made[54 : 54 + size] == expected
    of_ip = ethernet(ipv4(tcp(), options=b"\x07\x07\x04abcd\0"))
    assert anonymous(of_ip)[34:42] == bytes(8)


@pytest.mark.parametrize(
    ("packet", "kept"),
    [
        (ethernet(ipv4(SECRET, protocol=6, fragment=0x2000)), 34),
        (ethernet(ipv4(SECRET * 3, protocol=6, fragment=4)), 34),
        (ethernet(ipv4(SECRET, protocol=132)), 34),
        (ethernet(SECRET, 0x0806), 14),
        (ethernet(ipv6(b"\6\0\0\1\0\0\0\1" + SECRET, next_header=44), 0x86DD), 62),
        (ethernet(ipv4(tcp()[:12] + b"\xf0" + SECRET)), 34 + 20),
    ],
    ids=["first fragment", "fragment", "SCTP", "ARP", "IPv6 fragment", "impossible TCP header"],
)
def test_bytes_that_no_parser_reads_are_blank(packet: bytes, kept: int) -> None:
    made = anonymous(packet)
    assert made[kept:] == bytes(len(packet) - kept)
    assert made[12:14] == packet[12:14]


def test_udp_and_icmp_keep_only_their_headers() -> None:
    datagram = struct.pack(">HHHH", 5353, 9092, 8 + len(SECRET), 0) + SECRET
    whole = with_right_checksums(ethernet(ipv4(datagram, protocol=17)), 34, 6)
    made = anonymous(whole)
    assert made[34:40] == whole[34:40]
    assert made[42:] == bytes(len(SECRET))
    assert is_right(made, 34)
    echo = b"\x08\0" + bytes(2) + SECRET
    echo = echo[:2] + (0xFFFF - words(echo)).to_bytes(2) + echo[4:]
    made = anonymous(ethernet(ipv4(echo, protocol=1)))
    assert made[34:36] == b"\x08\0"
    assert words(made[34:]) == 0xFFFF


@for_each("link", [0, 12, 101, 108, 113, 228, 276])
def test_other_link_layers_are_read(link: int) -> None:
    inner = ipv4(tcp(payload=SECRET), "203.0.113.5", "198.51.100.9")
    heads = {
        0: b"\2\0\0\0",
        108: b"\0\0\0\2",
        113: b"\0\0\0\1\0\6\x02\0\0\0\0\1\0\0\x08\0",
        276: b"\x08\0\0\0\0\0\0\3\0\1\0\6\x02\0\0\0\0\1\0\0",
    }
    head = heads.get(link, b"")
    made = anonymous(head + inner, b"x" * 40, link)
    assert made.endswith(b"x" * len(SECRET))
    assert made[len(head) + 12 : len(head) + 16] == STAND_INS.address(b"\xcb\0\x71\5")
    assert b"\x02\0\0\0\0\1" not in made


def test_vlan_tags_stay_and_unknown_link_layers_are_blank() -> None:
    packet = ethernet(ipv4(tcp(payload=SECRET)), 0x0800, tags=[0x8100, 0x88A8])
    made = anonymous(packet, b"x" * 40)
    assert made[12:22] == packet[12:22]
    assert made.endswith(b"x" * len(SECRET))
    assert anonymous(SECRET * 4, link=147) == bytes(64)
