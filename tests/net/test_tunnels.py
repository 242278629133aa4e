from __future__ import annotations

import random
import struct

import pytest

from tests.support import read_segments
from tests.support.cases import for_each
from tests.support.packets import Packet, ethernet, ipv4, ipv6, tcp

IP = ipv4(tcp(payload=b"tunnelled"))
IP6 = ipv6(tcp(payload=b"tunnelled"))
FRAME = ethernet(IP)


def read(*packets: bytes | Packet, link_type: int = 1):
    """The payload bytes of each segment, and the stats."""
    segments, stats = read_segments.read(*packets, link_type=link_type)
    return [segment.length for segment in segments], stats


def read_in_ip(payload: bytes, protocol: int = 47):
    return read(ethernet(ipv4(payload, protocol=protocol)))


def gre(flags: int, protocol: int, inner: bytes) -> bytes:
    fields = 4 * (flags & 0xB000).bit_count()
    return struct.pack(">HH", flags, protocol) + b"\xab" * fields + inner


@pytest.mark.parametrize("flags", [0, 0x8000, 0x2000, 0x1000, 0xA000, 0x9000, 0x3000, 0xB000])
@pytest.mark.parametrize(
    ("protocol", "inner"),
    [(0x0800, IP), (0x86DD, IP6), (0x6558, FRAME)],
)
def test_every_optional_field_of_gre_is_stepped_over(flags, protocol, inner):
    sizes, stats = read_in_ip(gre(flags, protocol, inner))
    assert sizes == [9]
    assert stats.counters.tunnels == {"GRE": 1}


@pytest.mark.parametrize("flags", [0x4000, 0x0001, 0x0007])
def test_gre_of_another_version_or_with_routing_is_not_read(flags):
    sizes, stats = read_in_ip(gre(flags, 0x0800, IP))
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
    sizes, stats = read_in_ip(data)
    assert sizes == [9] * segments
    assert stats.counters.tunnels == ({"ERSPAN": 1} if segments else {})
    assert sum(stats.counters.other_packets.values()) == 1 - segments
    assert stats.counters.anomalies == {}


@pytest.mark.parametrize(
    ("protocol", "inner", "tunnel"),
    [
        (4, IP, "IP in IP"),
        (41, IP6, "IP in IP"),
        (137, b"\0\x01\x01\x40" + IP, "MPLS"),
    ],
)
def test_protocols_of_ip_that_are_tunnels_are_read(protocol, inner, tunnel):
    sizes, stats = read_in_ip(inner, protocol)
    assert sizes == [9]
    assert stats.counters.tunnels == {tunnel: 1}


def pptp(flags: int, payload_bytes: int, inner: bytes = b"\0\x21" + IP) -> bytes:
    fields = 4 * (flags & 0x1080).bit_count()
    return struct.pack(">HHHH", flags, 0x880B, payload_bytes, 7) + b"\xab" * fields + inner


@pytest.mark.parametrize("flags", [0x2001, 0x3001, 0x2081, 0x3081])
def test_every_optional_field_of_pptp_is_stepped_over(flags):
    sizes, stats = read_in_ip(pptp(flags, 2 + len(IP)))
    assert sizes == [9]
    assert stats.counters.tunnels == {"GRE": 1}


def test_an_acknowledgment_of_pptp_carries_nothing():
    sizes, stats = read_in_ip(pptp(0x2081, 0))
    assert sizes == []
    assert stats.counters.other_packets == {"GRE 0x880b": 1}
    assert stats.counters.tunnels == {}


@pytest.mark.parametrize(("head", "segments"), [(b"\x30\0", 1), (b"\x03\0", 0), (b"\x40\0", 0)])
def test_etherip_of_its_version_is_read(head, segments):
    sizes, stats = read_in_ip(head + FRAME, 97)
    assert sizes == [9] * segments
    assert stats.counters.other_packets == ({} if segments else {"EtherIP": 1})


def test_a_tunnel_with_the_wrong_ip_version_inside_is_a_bad_header():
    sizes, stats = read_in_ip(ipv6(tcp()), 4)
    assert sizes == []
    assert stats.counters.bad_ip_headers == 1


VXLAN = b"\x08\0\0\0\0\0\x2a\0"
GENEVE = b"\0\0\x65\x58\0\0\x2a\0"


def udp(payload: bytes, port: int) -> bytes:
    return ethernet(
        ipv4(struct.pack(">HHHH", 50001, port, 8 + len(payload), 0) + payload, protocol=17)
    )


@pytest.mark.parametrize("port", [4789, 8472])
def test_vxlan_is_known_by_its_ports(port):
    sizes, stats = read(udp(VXLAN + FRAME, port), udp(VXLAN + FRAME, 4788))
    assert sizes == [9]
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
    for critical in (b"\0", b"\x40"):
        header = bytes([options]) + critical + GENEVE[2:]
        assert read(udp(header + b"\xab" * 4 * options + FRAME, 6081))[0] == [9]


@pytest.mark.parametrize(
    ("header", "inner"),
    [
        (b"\x0c\0\0\x01", IP),
        (b"\x0c\0\0\x02", IP6),
        (b"\x0c\0\0\x03", FRAME),
        (b"\x08\0\0\x00", FRAME),
        (b"\x0e\0\0\x03", FRAME),
    ],
)
def test_the_payload_of_vxlan_gpe_is_read_by_its_protocol(header, inner):
    assert read(udp(header + b"\0\0\x2a\0" + inner, 4790))[0] == [9]


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
    assert sizes == [9] * (extensions <= 8)
    assert stats.counters.tunnels == ({"GTP-U": 1} if extensions <= 8 else {})


@pytest.mark.parametrize("flags", [0x31, 0x32, 0x33])
def test_the_optional_fields_of_gtp_are_there_all_or_none(flags):
    # Without the flag for extensions, the type of the next one says nothing.
    assert read(udp(gtp(IP, flags=flags, more=b"\0\1\0\x85"), 2152))[0] == [9]


def test_a_tunnel_that_was_cut_too_early_to_be_recognized_is_counted_as_cut():
    whole = udp(VXLAN + FRAME, 4789)
    for size in range(14 + 20 + 8, len(whole) - 28):
        _, stats = read(Packet(whole[:size], wire_bytes=len(whole)))
        assert stats.counters.cut_headers == 1, size
    # Other ports belong to no tunnel.
    _, stats = read(Packet(udp(FRAME, 53)[:42], wire_bytes=200))
    assert stats.counters.other_packets == {"UDP": 1}


def labels(count: int) -> bytes:
    return b"".join(struct.pack(">I", 99 << 12 | (i == count - 1) << 8) for i in range(count))


@pytest.mark.parametrize("inner", [IP, IP6])
@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("ethertype", [0x8847, 0x8848])
def test_ip_after_the_last_label_is_recognized_by_its_version(inner, count, ethertype):
    sizes, stats = read(ethernet(labels(count) + inner, ethertype))
    assert sizes == [9]
    assert stats.counters.tunnels == {"MPLS": 1}


def frame(first: int, inner: bytes = IP, ethertype: int = 0x0800) -> bytes:
    data = ethernet(inner, ethertype)
    return bytes([first]) + data[1:]


@for_each("first", [0x00, 0x02, 0x12, 0x45, 0x60, 0xFE])
@for_each("inner", [(IP, 0x0800), (IP6, 0x86DD)])
@for_each("word", [b"", b"\0\0\0\0", b"\0\0\x12\x34"])
def test_ethernet_is_recognized_by_what_it_carries_with_a_control_word_or_without(
    first, inner, word
):
    sizes, stats = read(ethernet(labels(1) + word + frame(first, *inner), 0x8847))
    assert sizes == [9]
    assert stats.counters.anomalies == {}


@pytest.mark.parametrize("data", [b"\0" * 40, b"\x10\0\0\x21" + b"\0" * 40, b"\xab" * 60])
def test_an_unknown_payload_is_only_counted(data):
    sizes, stats = read(ethernet(labels(1) + data, 0x8847))
    assert sizes == []
    assert stats.counters.other_packets == {"MPLS": 1}
    assert stats.counters.anomalies == {}


def test_labels_without_end_are_read_to_a_bound():
    sizes, stats = read(ethernet(struct.pack(">I", 99 << 12) * 300, 0x8847))
    assert sizes == []
    assert stats.counters.other_packets == {"nested too deeply": 1}


@pytest.mark.parametrize("source", ["8.0.69.1", "8.6.0.1", "129.0.0.1", "136.71.0.1"])
@pytest.mark.parametrize("behind", [b"", b"\xff" * 4])
def test_an_address_that_looks_like_an_ethertype_is_an_address(source, behind):
    inner = ipv4(tcp(payload=b"tunnelled"), source, "69.0.0.40")
    assert read(ethernet(labels(1) + inner + behind, 0x8847))[0] == [9]


def test_ip_that_is_longer_than_the_packet_is_still_taken_for_ip():
    """A mirror forwards only the first bytes."""
    sizes, _ = read(ethernet(labels(1) + ipv4(tcp(payload=b"tunnelled"), total_bytes=1500), 0x8847))
    assert sizes == [1460]


@pytest.mark.parametrize("framing", [b"", b"\xff\x03"])
@pytest.mark.parametrize(
    ("protocol", "inner"), [(b"\x00\x21", IP), (b"\x21", IP), (b"\x00\x57", IP6), (b"\x57", IP6)]
)
@pytest.mark.parametrize("link_type", [9, 50])
def test_address_and_protocol_may_be_left_out_or_shortened(framing, protocol, inner, link_type):
    assert read(framing + protocol + inner, link_type=link_type)[0] == [9]


def session(payload: bytes, *, code: int = 0, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack(">BBHH", 0x11, code, 7, size) + payload


@pytest.mark.parametrize("protocol", [b"\x00\x21", b"\x21"])
def test_a_session_over_ethernet_holds_packets(protocol):
    sizes, stats = read(ethernet(session(protocol + IP), 0x8864))
    assert sizes == [9]
    assert stats.counters.tunnels == {"PPPoE": 1}
    assert read(session(protocol + IP), link_type=51)[0] == [9]


def test_discovery_and_protocols_other_than_ip_are_counted_by_name():
    _, stats = read(ethernet(session(b"\x00\x21" + IP, code=9), 0x8864))
    assert stats.counters.other_packets == {"PPPoE discovery": 1}
    _, stats = read(ethernet(session(b"\xc0\x21" + bytes(8)), 0x8864))
    assert stats.counters.other_packets == {"PPP LCP": 1}
    assert stats.counters.tunnels == {}
    _, stats = read(b"\x0f\x00\x20\x00" + bytes(20), link_type=104)
    assert stats.counters.other_packets == {"ethertype 0x2000": 1}


def test_nothing_is_read_past_the_length_of_a_session():
    assert read(ethernet(session(b"\x00\x21" + IP, length=30), 0x8864))[0] == []
    padded = ethernet(session(b"\x00\x21" + IP[:-9]) + b"padding..", 0x8864)
    ((segment,), _) = read_segments.read(padded)
    assert (segment.length, segment.data) == (9, b"")


@pytest.mark.parametrize("times", [1, 2, 5])
def test_the_frame_behind_the_tag_is_read_also_within_another(times):
    data = FRAME
    for _ in range(times):
        data = ethernet(bytes(4) + data, 0x88E7)
    sizes, stats = read(Packet(data))
    assert sizes == [9]
    assert stats.counters.tunnels == {"802.1ah": 1}
    assert stats.counters.other_packets == {}


@pytest.mark.parametrize("size", range(14, 19))
def test_a_tag_that_is_cut_counts_as_cut(size):
    whole = ethernet(bytes(4) + FRAME, 0x88E7)
    sizes, stats = read(Packet(whole[:size], wire_bytes=len(whole)))
    assert (sizes, stats.counters.cut_headers, stats.counters.tunnels) == ([], 1, {})
