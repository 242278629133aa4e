from __future__ import annotations

import random
import struct

import pytest

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.cases import for_each
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp

IP = ipv4(tcp(payload=b"overlaid"))
FRAME = ethernet(IP)
VXLAN = b"\x08\0\0\0\0\0\x2a\0"
GENEVE = b"\0\0\x65\x58\0\0\x2a\0"


def udp(payload: bytes, port: int) -> bytes:
    return ethernet(
        ipv4(struct.pack(">HHHH", 50001, port, 8 + len(payload), 0) + payload, protocol=17)
    )


def read(*packets: bytes | Packet):
    stats = LayerStats()
    batch = make_batch([p if isinstance(p, Packet) else Packet(p) for p in packets])
    return read_headers(batch, stats).payload_bytes.tolist(), stats


@pytest.mark.parametrize("port", [4789, 8472])
def test_vxlan_is_known_by_its_ports(port):
    sizes, stats = read(udp(VXLAN + FRAME, port), udp(VXLAN + FRAME, 4788))
    assert sizes == [8]
    assert stats.counters.tunnels == {"VXLAN": 1}
    assert stats.counters.other_packets == {"UDP": 1}


NO_TUNNEL = {
    "no network given": (4789, b"\0" * 8 + FRAME),
    "a reserved flag": (4789, b"\x09" + VXLAN[1:] + FRAME),
    "a reserved byte": (4789, b"\x08\x01" + VXLAN[2:] + FRAME),
    "the last reserved byte": (4789, VXLAN[:7] + b"\x01" + FRAME),
    "no frame inside": (4789, VXLAN + b"\xab" * 60),
    "another version of IP inside": (4789, VXLAN + FRAME[:14] + b"\x60" + FRAME[15:]),
    "a wrong header length inside": (4789, VXLAN + FRAME[:14] + b"\x44" + FRAME[15:]),
    "a wrong length inside": (4789, VXLAN + FRAME[:16] + b"\0\x13" + FRAME[18:]),
    "too short": (4789, VXLAN),
    "empty": (4789, b""),
    "maintenance": (4790, b"\x0d\0\0\x03\0\0\x2a\0" + FRAME),
    "another version": (4790, b"\x1c\0\0\x03\0\0\x2a\0" + FRAME),
    "an unknown protocol": (4790, b"\x0c\0\0\x04\0\0\x2a\0" + FRAME),
    "another version of Geneve": (6081, b"\x40" + GENEVE[1:] + FRAME),
    "a control packet": (6081, b"\0\x80" + GENEVE[2:] + FRAME),
    "another protocol": (6081, b"\0\0\x88\x47" + GENEVE[4:] + FRAME),
    "options past the end": (6081, b"\x3f" + GENEVE[1:] + FRAME),
    "no IP": (6081, b"\0\0\x08\0" + GENEVE[4:] + FRAME),
}


@for_each("name", NO_TUNNEL)
def test_other_payload_on_the_port_of_a_tunnel_stays_udp(name):
    port, payload = NO_TUNNEL[name]
    sizes, stats = read(udp(payload, port))
    assert sizes == []
    assert stats.counters.other_packets == {"UDP": 1}
    assert stats.counters.not_tcp == 1
    assert stats.counters.anomalies == {}


def test_random_bytes_to_these_ports_are_never_segments():
    order = random.Random(1)
    packets = []
    for port in (4789, 4790, 6081, 8472):
        packets += [udp(order.randbytes(order.randrange(200)), port) for _ in range(500)]
    sizes, stats = read(*packets)
    assert sizes == []
    assert stats.counters.not_tcp == 2000
    assert stats.counters.anomalies == {}


@pytest.mark.parametrize("options", [0, 1, 5, 63])
def test_options_of_geneve_are_stepped_over(options):
    header = bytes([options]) + GENEVE[1:]
    sizes, _ = read(udp(header + b"\xab" * 4 * options + FRAME, 6081))
    assert sizes == [8]


def test_critical_options_of_geneve_are_stepped_over_too():
    assert read(udp(b"\x01\x40" + GENEVE[2:] + b"1234" + FRAME, 6081))[0] == [8]


@pytest.mark.parametrize(
    ("header", "inner"),
    [
        (b"\x0c\0\0\x01", IP),
        (b"\x0c\0\0\x02", ipv6(tcp(payload=b"overlaid"))),
        (b"\x0c\0\0\x03", FRAME),
        (b"\x08\0\0\x00", FRAME),
        (b"\x0e\0\0\x03", FRAME),
    ],
)
def test_the_payload_of_vxlan_gpe_is_read_by_its_protocol(header, inner):
    assert read(udp(header + b"\0\0\x2a\0" + inner, 4790))[0] == [8]


def gtp(inner: bytes, flags: int = 0x30, kind: int = 255, more: bytes = b"") -> bytes:
    return bytes([flags, kind]) + (len(more) + len(inner)).to_bytes(2) + bytes(4) + more + inner


@pytest.mark.parametrize(
    "data",
    [
        gtp(IP, kind=1),
        gtp(IP, flags=0x10),
        gtp(IP, flags=0x50),
        gtp(b"\x05" * 40),
        gtp(IP, flags=0x34, more=b"\0\0\0\x85" + b"\0\0\0\0"),  # an extension of length 0
        gtp(IP, flags=0x34, more=b"\0\0\0\x85" + b"\xff\0\0\0"),  # past the end
        gtp(IP, flags=0x34, more=b"\0\0\0\x85" + b"\1\0\0\x85" * 40),  # without an end
    ],
)
def test_other_payload_on_the_port_of_gtp_stays_udp(data):
    sizes, stats = read(udp(data, 2152))
    assert sizes == []
    assert stats.counters.other_packets == {"UDP": 1}


@pytest.mark.parametrize("extensions", range(10))
def test_extensions_of_gtp_are_stepped_over_up_to_a_bound(extensions):
    ends = [b"\x85"] * (extensions - 1) + [b"\0"] * (extensions > 0)
    more = b"\0\0\0" + (b"\x85" if extensions else b"\0")
    # Known and unknown ones, of one unit of four bytes and of two.
    for number, end in enumerate(ends):
        size = 1 + number % 2
        more += bytes([size]) + bytes(4 * size - 2) + end
    sizes, stats = read(udp(gtp(IP, flags=0x34, more=more), 2152))
    assert sizes == [8] * (extensions <= 8)
    assert stats.counters.tunnels == ({"GTP-U": 1} if extensions <= 8 else {})


@pytest.mark.parametrize("flags", [0x31, 0x32, 0x33])
def test_the_optional_fields_of_gtp_are_there_all_or_none(flags):
    # Without the flag for extensions, the type of the next one says nothing.
    assert read(udp(gtp(IP, flags=flags, more=b"\0\1\0\x85"), 2152))[0] == [8]


def test_nested_gtp_is_read_to_a_bound():
    inner = udp(gtp(IP), 2152)
    for _ in range(30):
        inner = udp(gtp(inner[14:]), 2152)
    sizes, stats = read(inner)
    assert sizes == []
    assert stats.counters.other_packets == {"nested too deeply": 1}


def test_vlan_tags_inside_are_stepped_over():
    assert read(udp(VXLAN + ethernet(IP, tags=[0x88A8, 0x8100]), 4789))[0] == [8]


def test_other_frames_inside_are_counted_by_name():
    _, stats = read(udp(VXLAN + ethernet(bytes(28), 0x0806), 4789))
    assert stats.counters.other_packets == {"ARP": 1}


def test_a_tunnel_that_was_cut_too_early_to_be_recognized_is_counted_as_cut():
    whole = udp(VXLAN + FRAME, 4789)
    for size in range(14 + 20 + 8, len(whole) - 28):
        _, stats = read(Packet(whole[:size], wire_bytes=len(whole)))
        assert stats.counters.cut_headers == 1, size
    # Other ports belong to no tunnel.
    _, stats = read(Packet(udp(FRAME, 53)[:42], wire_bytes=200))
    assert stats.counters.other_packets == {"UDP": 1}


def test_a_hundred_nested_tunnels_are_counted_and_no_error():
    inner = FRAME
    for _ in range(100):
        inner = udp(VXLAN + inner, 4789)
    _, stats = read(inner)
    assert stats.counters.other_packets == {"nested too deeply": 1}
    inner = FRAME
    for _ in range(8):
        inner = udp(VXLAN + inner, 4789)
    assert read(inner)[0] == [8]
