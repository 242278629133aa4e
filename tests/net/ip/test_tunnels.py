from __future__ import annotations

import struct

import pytest

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp

IP = ipv4(tcp(payload=b"tunnelled"))
FRAME = ethernet(IP)


def read(payload: bytes, protocol: int = 47):
    stats = LayerStats()
    data = ethernet(ipv4(payload, protocol=protocol))
    return read_headers(make_batch([Packet(data)]), stats).payload_bytes.tolist(), stats


def gre(flags: int, protocol: int, inner: bytes) -> bytes:
    fields = 4 * (flags & 0xB000).bit_count()
    return struct.pack(">HH", flags, protocol) + b"\xab" * fields + inner


@pytest.mark.parametrize("flags", [0, 0x8000, 0x2000, 0x1000, 0xA000, 0x9000, 0x3000, 0xB000])
@pytest.mark.parametrize(
    ("protocol", "inner"),
    [(0x0800, IP), (0x86DD, ipv6(tcp(payload=b"tunnelled"))), (0x6558, FRAME)],
)
def test_every_optional_field_of_gre_is_stepped_over(flags, protocol, inner):
    sizes, stats = read(gre(flags, protocol, inner))
    assert sizes == [9]
    assert stats.counters.tunnels == {"GRE": 1}


@pytest.mark.parametrize("flags", [0x4000, 0x0001, 0x0007])
def test_gre_of_another_version_or_with_routing_is_not_read(flags):
    sizes, stats = read(gre(flags, 0x0800, IP))
    assert sizes == []
    assert stats.counters.other_packets == {"GRE 0x0800": 1}
    assert stats.counters.tunnels == {}


MIRRORS = {
    "I": (gre(0, 0x88BE, FRAME), 1),
    "II": (gre(0x1000, 0x88BE, b"\x10\x01" + bytes(6) + FRAME), 1),
    "III": (gre(0x1000, 0x22EB, b"\x20\x01" + bytes(10) + FRAME), 1),
    "III with more": (gre(0x1000, 0x22EB, b"\x20\x01" + bytes(9) + b"\x01" + bytes(8) + FRAME), 1),
    "III of IP": (gre(0x1000, 0x22EB, b"\x20\x01" + bytes(8) + b"\x08\x00" + IP), 1),
    "III of something else": (gre(0x1000, 0x22EB, b"\x20\x01" + bytes(8) + b"\x04\x00" + IP), 0),
    "II of another version": (gre(0x1000, 0x88BE, b"\x30\x01" + bytes(6) + FRAME), 0),
    "III of another version": (gre(0x1000, 0x22EB, b"\x10\x01" + bytes(10) + FRAME), 0),
}


@pytest.mark.parametrize("name", MIRRORS)
def test_mirrored_frames_are_read_where_the_header_is_known(name):
    data, segments = MIRRORS[name]
    sizes, stats = read(data)
    assert sizes == [9] * segments
    assert stats.counters.tunnels == ({"ERSPAN": 1} if segments else {})
    assert sum(stats.counters.other_packets.values()) == 1 - segments
    assert stats.counters.anomalies == {}


@pytest.mark.parametrize(
    ("protocol", "inner", "tunnel"),
    [
        (4, IP, "IP in IP"),
        (41, ipv6(tcp(payload=b"tunnelled")), "IP in IP"),
        (137, b"\0\x01\x01\x40" + IP, "MPLS"),
    ],
)
def test_protocols_of_ip_that_are_tunnels_are_read(protocol, inner, tunnel):
    sizes, stats = read(inner, protocol)
    assert sizes == [9]
    assert stats.counters.tunnels == {tunnel: 1}


def pptp(flags: int, payload_bytes: int, inner: bytes = b"\0\x21" + IP) -> bytes:
    fields = 4 * (flags & 0x1080).bit_count()
    return struct.pack(">HHHH", flags, 0x880B, payload_bytes, 7) + b"\xab" * fields + inner


@pytest.mark.parametrize("flags", [0x2001, 0x3001, 0x2081, 0x3081])
def test_every_optional_field_of_pptp_is_stepped_over(flags):
    sizes, stats = read(pptp(flags, 2 + len(IP)))
    assert sizes == [9]
    assert stats.counters.tunnels == {"GRE": 1}


def test_an_acknowledgment_of_pptp_carries_nothing():
    sizes, stats = read(pptp(0x2081, 0))
    assert sizes == []
    assert stats.counters.other_packets == {"GRE 0x880b": 1}
    assert stats.counters.tunnels == {}


@pytest.mark.parametrize(("head", "segments"), [(b"\x30\0", 1), (b"\x03\0", 0), (b"\x40\0", 0)])
def test_etherip_of_its_version_is_read(head, segments):
    sizes, stats = read(head + FRAME, 97)
    assert sizes == [9] * segments
    assert stats.counters.other_packets == ({} if segments else {"EtherIP": 1})


def test_a_tunnel_with_the_wrong_ip_version_inside_is_a_bad_header():
    sizes, stats = read(ipv6(tcp()), 4)
    assert sizes == []
    assert stats.counters.bad_ip_headers == 1
