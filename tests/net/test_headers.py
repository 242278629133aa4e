from __future__ import annotations

import random
import socket
import struct
from dataclasses import replace
from ipaddress import ip_network

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.header_kinds import FAMILY, IP_VERSION, IPV4, IPV6, LLC_FRAME, PPP_PROTOCOL, PPPOE
from kanalyze.net.headers import EndpointFilter, read_headers, read_link
from kanalyze.net.layer_stats import LayerStats
from tests.support.cases import examples, for_each
from tests.support.disorder import TRANSFORMATIONS, Stage, packets_of
from tests.support.packets import (
    ACK,
    PSH,
    START_NS,
    Packet,
    ethernet,
    ipv4,
    ipv6,
    make_batch,
    segment,
    tcp,
)
from tests.support.read_segments import ReadSegment, accounted, read
from tests.support.wrapped import INNER, INNER_V6, PAYLOAD, wrapped

STEADY = settings(deadline=None)
V4 = ipv4(tcp(1234, 9092, 0xFFFFFFF0, 0x80000001, ACK | PSH, b"hello", b"\x01" * 12))
V6 = ipv6(tcp(1234, 9092, 7, 9, ACK, b"hello, six"))


def payloads(segments: list[ReadSegment]) -> list[bytes]:
    return [segment.data for segment in segments]


def test_every_field_of_a_segment_is_read():
    segments, stats = read(Packet(ethernet(V4), START_NS + 5), first_number=11)
    ends = ("10.0.0.1", 1234), ("10.0.0.2", 9092)
    numbers = 0xFFFFFFF0, 0x80000001, ACK | PSH, 65000, 0, 1
    assert segments == [ReadSegment(11, START_NS + 5, *ends, *numbers, 5, b"hello")]
    assert stats.counters.tcp_segments == 1
    assert stats.counters.anomalies == {}


SLL = struct.pack(">HHH8s", 0, 1, 6, b"\x02\0\0\0\0\x01\0\0")
SLL2 = struct.pack(">HIHBB8s", 0, 3, 1, 0, 6, b"\x02\0\0\0\0\x01\0\0")
TAG = struct.pack(">HH", 5, 0x0800)
LINKS = {
    "ethernet": (1, ethernet(V4)),
    "one tag": (1, ethernet(V4, tags=[0x8100])),
    "two tags": (1, ethernet(V4, tags=[0x88A8, 0x8100])),
    "older two tags": (1, ethernet(V4, tags=[0x9100, 0x8100])),
    "eight tags": (1, ethernet(V4, tags=[0x8100] * 8)),
    "cooked": (113, SLL + b"\x08\x00" + V4),
    "cooked with a tag": (113, SLL + b"\x81\x00" + TAG + V4),
    "cooked v2": (276, b"\x08\x00" + SLL2 + V4),
    "cooked v2 with a tag": (276, b"\x81\x00" + SLL2 + TAG + V4),
    "loopback, little endian": (0, b"\x02\0\0\0" + V4),
    "loopback, big endian": (0, b"\0\0\0\x02" + V4),
    "loopback of OpenBSD": (108, b"\0\0\0\x02" + V4),
    "raw": (101, V4),
    "raw, as BSD numbers it": (12, V4),
    "raw, as OpenBSD numbers it": (14, V4),
    "raw IPv4": (228, V4),
}
LINKS_V6 = {
    "ethernet": (1, ethernet(V6, 0x86DD)),
    "two tags": (1, ethernet(V6, 0x86DD, tags=[0x88A8, 0x8100])),
    "cooked": (113, SLL + b"\x86\xdd" + V6),
    "cooked v2": (276, b"\x86\xdd" + SLL2 + V6),
    "loopback of macOS": (0, b"\x1e\0\0\0" + V6),
    "loopback of FreeBSD": (0, b"\x1c\0\0\0" + V6),
    "loopback of NetBSD": (0, b"\0\0\0\x18" + V6),
    "loopback of Linux": (0, b"\x0a\0\0\0" + V6),
    "loopback of Windows": (0, b"\x17\0\0\0" + V6),
    "raw": (101, V6),
    "raw IPv6": (229, V6),
}


@for_each("link", [*((V4, link) for link in LINKS), *((V6, link) for link in LINKS_V6)])
def test_ip_is_found_behind_each_link_layer(link):
    inner, name = link
    link_type, data = (LINKS if inner is V4 else LINKS_V6)[name]
    segments, stats = read(data, link_type=link_type)
    assert segments == read(inner, link_type=101)[0]
    assert stats.counters.anomalies == {}


DPKT_LINKS = {
    1: dpkt.ethernet.Ethernet,
    113: dpkt.sll.SLL,
    276: dpkt.sll2.SLL2,
    0: dpkt.loopback.Loopback,
    101: dpkt.ip.IP,
}


@pytest.mark.parametrize(
    ("link_type", "data"),
    [
        (link, data)
        for name, (link, data) in LINKS.items()
        if link in DPKT_LINKS and "big" not in name and "cooked with" not in name
        if "v2 with" not in name and "eight" not in name
    ],
)
def test_segments_are_those_that_dpkt_reads(link_type, data):
    inner = DPKT_LINKS[link_type](data)
    while not isinstance(inner, dpkt.tcp.TCP):
        addresses = (getattr(inner, "src", b""), getattr(inner, "dst", b""))
        inner = inner.data
    ((segment,), _) = read(data, link_type=link_type)
    assert (segment.sequence, segment.acknowledgment) == (inner.seq, inner.ack)
    assert (segment.flags, segment.data) == (inner.flags, inner.data)
    source, destination = (socket.inet_ntop(socket.AF_INET, address) for address in addresses)
    assert segment.source == (source, inner.sport)
    assert segment.destination == (destination, inner.dport)


def test_padding_of_the_link_layer_and_options_are_no_payload():
    for inner in (ipv4(tcp(payload=b"ab")), ipv4(tcp())):
        padded = ethernet(inner).ljust(60, b"\xff") + b"FCS!"
        ((segment,), _) = read(padded)
        assert (segment.data, segment.length) == (inner[40:], len(inner[40:]))
    inner = tcp(payload=b"data", options=b"\x01" * 40)
    assert payloads(read(ethernet(ipv4(inner, options=b"\x01" * 40)))[0]) == [b"data"]
    # "Don't fragment" is no fragment.
    assert payloads(read(ethernet(ipv4(inner, fragment=0x4000)))[0]) == [b"data"]


def test_a_length_of_0_means_the_length_on_the_wire():
    inner = tcp(payload=b"x" * 100)
    for data in (
        ethernet(ipv4(inner, total_bytes=0)),
        ethernet(ipv6(inner, payload_bytes=0), 0x86DD),
    ):
        segments, _ = read(Packet(data[:-40], wire_bytes=len(data)), ethernet(V4))
        assert (segments[0].length, segments[0].data) == (100, b"x" * 60)


def test_a_snap_length_shortens_the_data_and_not_the_length():
    data = ethernet(ipv4(tcp(payload=b"0123456789", options=b"\x01" * 12)))
    for cut in range(11):
        segments, stats = read(Packet(data[: len(data) - cut], wire_bytes=len(data)))
        assert (segments[0].length, segments[0].data) == (10, b"0123456789"[: 10 - cut])
        assert stats.counters.anomalies == {}
    # Cut within the options of TCP.
    segments, _ = read(Packet(data[: 14 + 20 + 20], wire_bytes=len(data)))
    assert (segments[0].length, segments[0].data) == (10, b"")


@pytest.mark.parametrize(
    "data",
    [ethernet(V4, tags=[0x8100]), ethernet(V6, 0x86DD)],
    ids=["tagged IPv4 with TCP options", "IPv6"],
)
def test_packets_cut_within_any_header_are_counted_and_harm_no_other(data):
    header_bytes = data.index(b"hello") - (12 if b"\x01" * 12 in data else 0)
    for size in range(header_bytes):
        segments, stats = read(ethernet(V4), Packet(data[:size], wire_bytes=len(data)))
        assert [segment.packet for segment in segments] == [1]
        assert stats.counters.cut_headers == 1
        assert [anomaly.packet for anomaly in stats.drain_anomalies()] == [2]


BAD_IP, BAD_TCP = "bad_ip_headers", "bad_tcp_headers"


@for_each(
    "case",
    [
        (ethernet(V6), BAD_IP, AnomalyKind.BAD_IP_HEADER),
        (ethernet(V4, 0x86DD), BAD_IP, AnomalyKind.BAD_IP_HEADER),
        (ethernet(b"\x44" + V4[1:]), BAD_IP, AnomalyKind.BAD_IP_HEADER),
        (ethernet(ipv4(tcp(), total_bytes=19)), BAD_IP, AnomalyKind.BAD_IP_HEADER),
        (ethernet(ipv4(tcp(), total_bytes=39)), BAD_TCP, AnomalyKind.BAD_TCP_HEADER),
        *(
            (
                ethernet(ipv4(tcp()[:12] + offset + tcp()[13:])),
                BAD_TCP,
                AnomalyKind.BAD_TCP_HEADER,
            )
            for offset in (b"\x4f", b"\x60")
        ),
        *(
            (ethernet(ipv4(tcp(), fragment=place)), "ip_fragments", AnomalyKind.IP_FRAGMENT)
            for place in (0x2000, 1, 0x2001)
        ),
        *(
            (
                ethernet(
                    ipv6(struct.pack(">BBHI", 6, 0, place, 7) + tcp(), next_header=44), 0x86DD
                ),
                "ip_fragments",
                AnomalyKind.IP_FRAGMENT,
            )
            for place in (1, 8, 0xFFF8)
        ),
    ],
)
def test_packets_without_a_segment_are_counted_by_reason(case):
    data, counter, kind = case
    segments, stats = read(data, ethernet(V4))
    assert [segment.packet for segment in segments] == [2]
    assert getattr(stats.counters, counter) == 1
    assert stats.counters.anomalies == {kind: 1}


def test_an_unknown_link_type_is_counted_by_number():
    _, stats = read(*[Packet(b"?", link_type=147)] * 3, Packet(b"?", link_type=195))
    assert stats.counters.unknown_link_type == {147: 3, 195: 1}
    assert stats.counters.anomalies == {AnomalyKind.UNKNOWN_LINK_TYPE: 4}
    assert {anomaly.detail for anomaly in stats.drain_anomalies()} == {
        "link type 147",
        "802.15.4 (link type 195)",
    }
    assert stats.counters.other_packets == {"link type 147": 3, "802.15.4 (link type 195)": 1}


def extension(kind_after: int, size: int = 8) -> bytes:
    return bytes([kind_after, size // 8 - 1]).ljust(size, b"\x01")


EXTENSIONS = {
    "hop by hop": (extension(6), 0),
    "routing": (extension(6, 24), 43),
    "two": (extension(60) + extension(6, 16), 0),
    "three": (extension(43) + extension(60, 32) + extension(6), 0),
    "authentication": (bytes([6, 4]).ljust(24, b"\x01"), 51),
    "atomic fragment": (bytes([6, 0, 0, 0]) + b"\0\0\0\x07", 44),
    "HIP and shim6": (extension(140, 40) + extension(6), 139),
    "jumbo option": (b"\x06\x00\xc2\x04" + struct.pack(">I", 70_000), 0),
    "sixteen": (b"".join([extension(60)] * 15) + extension(6), 60),
}


@for_each("name", EXTENSIONS)
def test_extension_headers_of_ipv6_are_stepped_over(name):
    chain, first = EXTENSIONS[name]
    data = ethernet(ipv6(chain + tcp(payload=b"deep"), next_header=first), 0x86DD)
    segments, stats = read(ethernet(V6, 0x86DD), data, ethernet(V4))
    assert payloads(segments) == [b"hello, six", b"deep", b"hello"]
    assert stats.counters.anomalies == {}


def test_a_jumbogram_is_as_long_as_it_was_on_the_wire():
    """RFC 2675: the length of the header is 0, an option has it in 32 bits."""
    jumbo = b"\x06\x00\xc2\x04" + struct.pack(">I", 8 + 20 + 70_000)
    data = ethernet(ipv6(jumbo + tcp(payload=b"x" * 200), payload_bytes=0, next_header=0), 0x86DD)
    segments, stats = read(Packet(data, wire_bytes=len(data) - 200 + 70_000))
    assert (segments[0].length, segments[0].data) == (70_000, b"x" * 200)
    assert stats.counters.anomalies == {}


def test_too_many_or_cut_extension_headers_are_no_segment():
    for kind in (0, 60):
        _, stats = read(ethernet(ipv6(extension(kind) * 40 + tcp(), next_header=kind), 0x86DD))
        assert stats.counters.other_packets == {"IPv6 extension headers": 1}
    cut = ethernet(ipv6(extension(6, 800) + tcp(), next_header=0), 0x86DD)
    for size in (200, 60):
        assert read(cut[:size])[1].counters.cut_headers == 1


def test_an_empty_batch_has_no_segments():
    segments, stats = read()
    assert (segments, accounted(stats)) == ([], 0)


WRAPPED = wrapped()


def packet(name: str) -> Packet:
    return Packet(WRAPPED[name].data, link_type=WRAPPED[name].link_type)


@for_each("name", WRAPPED)
def test_the_segment_inside_is_read(name):
    one = WRAPPED[name]
    ((segment,), stats) = read(packet(name))
    assert segment.data == PAYLOAD
    source, destination = INNER_V6 if one.is_ipv6 else INNER
    assert (segment.source, segment.destination) == ((source, 40000), (destination, 9092))
    assert (segment.sequence, segment.acknowledgment, segment.window) == (1000, 2000, 513)
    assert segment.identification == (-1 if one.is_ipv6 else 777)
    assert stats.counters.tunnels == dict.fromkeys(one.tunnels, 1)
    assert stats.counters.anomalies == stats.counters.other_packets == {}


def test_segments_of_one_batch_stay_in_the_order_of_the_packets():
    segments, stats = read(*map(packet, WRAPPED))
    assert [segment.packet for segment in segments] == list(range(1, len(WRAPPED) + 1))
    assert payloads(segments) == [PAYLOAD] * len(WRAPPED)
    for name, count in stats.counters.tunnels.items():
        assert count == sum(name in one.tunnels for one in WRAPPED.values())


@pytest.mark.few(1)
@for_each("name", WRAPPED)
def test_a_packet_cut_anywhere_is_a_segment_cut_short_or_counted(name):
    one = WRAPPED[name]
    cuts = [
        Packet(one.data[:size], wire_bytes=len(one.data), link_type=one.link_type)
        for size in range(len(one.data))
    ]
    segments, stats = read(*cuts)
    assert accounted(stats) == len(cuts)
    # A segment with a whole TCP header is read, whatever is missing after it.
    first = one.data.index(PAYLOAD)
    expected = [
        (first + size + 1, len(PAYLOAD), PAYLOAD[:size]) for size in range(len(cuts) - first)
    ]
    assert [(found.packet, found.length, found.data) for found in segments] == expected
    # The same where packets have been that short, as far as they say.
    assert accounted(read(*(replace(cut, wire_bytes=None) for cut in cuts))[1]) == len(cuts)


@pytest.mark.few(1)
@for_each("name", WRAPPED)
def test_any_byte_may_be_wrong(name, core):
    one = WRAPPED[name]
    changed = []
    for at in range(len(one.data) - len(PAYLOAD)):
        values = (0x00, 0xFF, one.data[at] ^ 1)
        # All values take long: by default, and always uncompiled, one of them in turn.
        for value in values[at % 3 :][:1] if core != "compiled" or examples(3) == 1 else values:
            data = bytearray(one.data)
            data[at] = value
            changed.append(Packet(bytes(data), link_type=one.link_type))
    segments, stats = read(*changed)
    assert accounted(stats) == len(changed)
    for found in segments:
        assert len(found.data) <= found.length
        assert found.data in changed[found.packet - 1].data


@STEADY
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(WRAPPED)), st.integers(0, 120), st.binary(max_size=60)),
        min_size=1,
        max_size=12,
    )
)
def test_any_bytes_may_follow_any_header(parts):
    packets = [
        Packet(WRAPPED[name].data[:size] + data, link_type=WRAPPED[name].link_type)
        for name, size, data in parts
    ]
    _, stats = read(*packets)
    assert accounted(stats) == len(packets)


def nested(depth: int) -> bytes:
    inner = ipv4(tcp(payload=b"deep"))
    for _ in range(depth):
        inner = ipv4(inner, protocol=4)
    return ethernet(inner)


def test_nested_tunnels_are_read_to_a_bound():
    segments, stats = read(nested(8), nested(100))
    assert [segment.packet for segment in segments] == [1]
    assert stats.counters.tunnels == {"IP in IP": 1}
    assert stats.counters.other_packets == {"nested too deeply": 1}
    assert stats.counters.not_tcp == 1


def test_bytes_cut_off_in_a_tunnel_are_missing_from_the_segment_alone():
    """A mirror may forward only the first bytes of each packet: the outer lengths are right."""
    for inner, data in (
        (ipv4(tcp(payload=b"0123456789"))[:-4], b"012345"),
        # A length of 0 inside means the length of the outer packet.
        (ipv4(tcp(payload=b"0123456789"), total_bytes=0), b"0123456789"),
    ):
        packet = ethernet(ipv4(inner, protocol=4)) + b"trailer of Ethernet"
        ((segment,), stats) = read(packet)
        assert (segment.data, segment.length) == (data, 10)
        assert stats.counters.anomalies == {}


OTHERS = {
    "ARP": ethernet(b"\0" * 28, 0x0806),
    "LLDP": ethernet(b"\0" * 28, 0x88CC),
    "STP": ethernet(b"\x42\x42\x03" + b"\0" * 40, 0x26),
    "LLC 0x10": ethernet(b"\x10\x42\x03" + b"\0" * 40, 0x26),
    "ethertype 0x88b5": ethernet(b"\0" * 28, 0x88B5),
    "PPPoE discovery": ethernet(b"\x11\x09" + b"\0" * 28, 0x8863),
    "UDP": ethernet(ipv4(b"\0" * 8, protocol=17)),
    "ICMP": ethernet(ipv4(b"\0" * 8, protocol=1)),
    "ESP": ethernet(ipv4(b"\0" * 8, protocol=50)),
    "IP protocol 99": ethernet(ipv4(b"\0" * 8, protocol=99)),
    "GRE 0x6007": ethernet(ipv4(b"\0\0\x60\x07" + b"\0" * 8, protocol=47)),
    "GRE 0x880b": ethernet(ipv4(b"\x30\x01\x88\x0b" + b"\0" * 8, protocol=47)),
}


@for_each("name", OTHERS)
def test_packets_of_other_protocols_are_counted_by_name(name):
    segments, stats = read(OTHERS[name], ethernet(ipv4(tcp())))
    assert [segment.packet for segment in segments] == [2]
    assert stats.counters.other_packets == {name: 1}
    assert stats.counters.not_ip + stats.counters.not_tcp == 1
    assert stats.counters.tunnels == stats.counters.anomalies == {}


def find(*packets):
    """Row, offset in the packet and kind of each header; each IP version is a kind."""
    batch = make_batch(packets)
    cursor = HeaderCursor(batch, LayerStats())
    found = []
    for row in range(len(packets)):
        kind = read_link(cursor, cursor.begin(row))
        found.append((row, cursor.at - int(batch.offset[row]), kind))
    return found


def test_an_impossible_pktap_header_is_counted_and_affects_no_other_packet():
    def pktap(size: int, follows: int, link: int) -> Packet:
        head = b"".join(number.to_bytes(4, "little") for number in (size, follows, link))
        return Packet(head.ljust(108, b"\0") + ethernet(ipv4(tcp())), link_type=258)

    bad = [pktap(4, 1, 1), pktap(108, 0, 1), pktap(108, 1, 258), pktap(108, 1, 105_000)]
    stats = LayerStats()
    batch = make_batch([*bad, pktap(1 << 31, 1, 1), pktap(108, 1, 192), pktap(108, 1, 1)])
    assert read_headers(batch, stats).number.tolist() == [7]
    name = "PKTAP (link type 258)"
    assert stats.counters.other_packets == {name: 4, "link type 105000": 1}
    assert stats.counters.cut_headers == 1


def test_an_unknown_version_is_named():
    raw = Packet(b"\x50" + ipv4(tcp())[1:], link_type=101)
    assert find(raw) == [(0, 0, IP_VERSION | 5)]


def test_nine_tags_are_too_many():
    assert find(Packet(ethernet(ipv4(tcp()), tags=[0x8100] * 9))) == [(0, 46, 0x8100)]


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        (b"\0\0\0\x63", FAMILY | 0x63),
        (b"\x63\0\0\0", FAMILY | 0x63),
        (b"\0\0\x02\0", FAMILY | 0x200),
        (b"\x02\0\x01\0", FAMILY | 2),
        (b"\x01\x02\x03\x04", FAMILY | 0x201),
    ],
)
def test_an_unknown_address_family_is_named(family, kind):
    assert find(Packet(family + ipv4(tcp()), link_type=108)) == [(0, 4, kind)]


def test_a_length_in_place_of_the_ethertype_is_an_802_3_frame():
    assert find(Packet(ethernet(b"\x42\x42\x03" + b"\0" * 43, 0x0026))) == [(0, 14, LLC_FRAME)]
    assert find(Packet(b"\0" * 14 + b"\0\x04", link_type=113)) == [(0, 16, LLC_FRAME)]


@pytest.mark.parametrize(
    ("link_type", "head", "kind"),
    [
        (9, b"\x00\x21", IPV4),
        (9, b"\x21", IPV4),
        (9, b"\xff\x03\x00\x57", IPV6),
        (9, b"\xff\x03\x57", IPV6),
        (9, b"\xc0\x21", PPP_PROTOCOL | 0xC021),
        (50, b"\xff\x03\x00\x21", IPV4),
        (50, b"\x0f\x00\x08\x00", IPV4),
        (50, b"\x8f\x00\x86\xdd", IPV6),
        (104, b"\x0f\x00\x08\x00", IPV4),
        (51, b"", PPPOE),
    ],
)
def test_the_protocol_after_each_serial_header_is_recognized(link_type, head, kind):
    assert find(Packet(head + bytes(40), link_type=link_type)) == [(0, len(head), kind)]


def selected(
    packets: list[bytes] | list[Packet], ports: tuple[int, ...] = (), hosts: tuple[str, ...] = ()
) -> list[int]:
    made = [one if isinstance(one, Packet) else Packet(one) for one in packets]
    endpoints = EndpointFilter(ports, [ip_network(host) for host in hosts])
    return endpoints.selected(make_batch(made)).tolist()


@for_each("name", WRAPPED)
def test_the_innermost_header_counts(name):
    one = WRAPPED[name]
    packets = [Packet(one.data, link_type=one.link_type)]
    inner = INNER_V6 if one.is_ipv6 else INNER
    assert selected(packets, (9092,), (inner[0],)) == [0]
    assert selected(packets, (40000,), (inner[1],)) == [0]
    assert selected(packets, (22,)) == []
    assert selected(packets, (9092,), ("192.0.2.1", "2001:db8:f::1")) == []


SEGMENTS = [
    segment(client=(client, 50000 + number), broker=(broker, port), to_broker=bool(number % 2))
    for number, (client, broker, port) in enumerate(
        (client, broker, port)
        for hosts in (("10.0.0.1", "10.1.2.3", "192.168.0.1"), ("fd00::1", "fd00:0:0:1::1", "::1"))
        for client in hosts
        for broker in hosts
        for port in (9092, 9093)
    )
]


@pytest.mark.parametrize(
    ("hosts", "count"),
    [
        ((), 36),
        (("10.0.0.1",), 10),
        (("10.0.0.0/8",), 16),
        (("0.0.0.0/0",), 18),
        (("::/0",), 18),
        (("fd00::/64",), 10),
        (("fd00::/16",), 16),
        (("fd00::/16", "10.0.0.0/8"), 32),
        # ::1 has the bits of an IPv4 address, but is none.
        (("::1",), 10),
        (("0.0.0.1",), 0),
    ],
)
def test_packets_are_selected_by_network(hosts, count):
    assert len(selected(SEGMENTS, hosts=hosts)) == count
    assert len(selected(SEGMENTS, (9092,), hosts)) == count // 2
    assert selected(SEGMENTS, (1,), hosts) == []


def test_either_end_may_have_the_port_and_the_address():
    packets = [segment(to_broker=way) for way in (True, False)]
    assert selected(packets, (9092,)) == selected(packets, (50000,)) == [0, 1]
    assert selected(packets, (9092, 1), ("10.0.0.1",)) == [0, 1]
    assert selected(packets, (9092, 1), ("10.0.0.2",)) == [0, 1]


def test_packets_without_tcp_are_left_out():
    udp = struct.pack(">HHHH", 9092, 9092, 8, 0)
    packets = [
        ethernet(ipv4(udp, protocol=17)),
        ethernet(bytes(28), 0x0806),
        ethernet(ipv4(bytes(8), protocol=1)),
        ethernet(b"\x55" + ipv4(tcp())[1:]),
        segment(),
    ]
    assert selected(packets) == selected(packets, (9092,)) == [4]


def test_packets_without_ports_are_selected_where_they_may_have_had_them():
    whole = segment()
    cut = [Packet(whole[:kept], wire_bytes=len(whole)) for kept in (13, 33, 34, 37, 38)]
    # The last one has its ports.
    assert selected(cut, (22,)) == [2, 3]
    assert selected(cut, (9092,)) == [2, 3, 4]
    assert selected(cut, (9092,), ("10.9.9.9",)) == []
    extension = struct.pack(">BBHI", 6, 0, 24, 77)
    fragments = [
        ethernet(ipv4(tcp(), fragment=0x2000)),
        ethernet(ipv4(tcp(), fragment=0x2003)),
        ethernet(ipv6(extension + tcp(), next_header=44), 0x86DD),
        # A fragment of a tunnel, perhaps.
        ethernet(ipv4(bytes(64), protocol=47, fragment=8)),
    ]
    assert selected(fragments, (22,)) == [0, 1, 2, 3]


AROUND = [
    label
    for label, step in TRANSFORMATIONS.items()
    if step.stage in (Stage.LINKS, Stage.FRAGMENTS, Stage.PADDING)
]


def segments_of(packets: list[Packet]) -> set[tuple[int, ...]]:
    """The segments that the analysis reads from packets: fragments are reassembled."""
    return {
        (one.source[1], one.destination[1], one.sequence, one.flags, one.length)
        for one in read(*packets)[0]
    }


@pytest.mark.few(1)
@for_each("label", AROUND)
def test_segments_are_selected_inside_every_encapsulation(label):
    altered = TRANSFORMATIONS[label].alter(packets_of("cluster")[:400], random.Random(label))
    packets = [Packet(one.data, one.time_ns, one.wire_bytes, one.link_type) for one in altered]
    rows = selected(packets, (9103,))
    expected = {one for one in segments_of(packets) if 9103 in one[:2]}
    assert len(expected) > 20
    found = segments_of([packets[row] for row in rows])
    assert {one for one in found if 9103 in one[:2]} == expected
    if "fragments" not in label:
        assert found == expected


NOISE = st.builds(
    lambda head, tail, link_type: Packet(head + tail, link_type=link_type),
    st.sampled_from([b"", ethernet(b""), ethernet(ipv4(b"")), ethernet(ipv6(b"", next_header=44))]),
    st.binary(max_size=80),
    st.sampled_from([0, 1, 9, 101, 105, 113, 228, 229, 239, 276]),
)


@given(st.lists(NOISE, max_size=20))
def test_packets_selected_by_port_are_among_those_selected_without(packets):
    assert set(selected(packets, (9092,), ("10.0.0.0/8",))) <= set(selected(packets))
