from __future__ import annotations

import ipaddress
import socket
import struct

import dpkt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import MAX_ANOMALIES_PER_KIND, LayerStats
from tests.support.packets import (
    ACK,
    PSH,
    START_NS,
    Packet,
    ethernet,
    ipv4,
    ipv6,
    make_batch,
    tcp,
)

STEADY = settings(deadline=None)
V4 = ipv4(tcp(1234, 9092, 0xFFFFFFF0, 0x80000001, ACK | PSH, b"hello", b"\x01" * 12))
V6 = ipv6(tcp(1234, 9092, 7, 9, ACK, b"hello, six"))


def read(*packets: Packet | bytes):
    """Segments as dictionaries, and the stats."""
    stats = LayerStats()
    batch = make_batch([p if isinstance(p, Packet) else Packet(p) for p in packets], 11)
    columns = read_headers(batch, stats)
    segments = []
    for i in range(len(columns)):
        start, captured = int(columns.payload_start[i]), int(columns.captured_bytes[i])
        kind = ipaddress.IPv6Address if columns.is_ipv6[i] else ipaddress.IPv4Address
        segments.append(
            {
                "packet": int(columns.number[i]),
                "time_ns": int(columns.time_ns[i]),
                "source": str(kind(int(columns.source_high[i]) << 64 | int(columns.source_low[i]))),
                "destination": str(
                    kind(int(columns.destination_high[i]) << 64 | int(columns.destination_low[i]))
                ),
                "ports": (int(columns.source_port[i]), int(columns.destination_port[i])),
                "seq": int(columns.sequence[i]),
                "ack": int(columns.acknowledgment[i]),
                "flags": int(columns.flags[i]),
                "length": int(columns.payload_bytes[i]),
                "data": bytes(columns.buffer[start : start + captured]),
            }
        )
    return segments, stats


def payloads(*packets: Packet | bytes) -> list[bytes]:
    return [segment["data"] for segment in read(*packets)[0]]


def test_every_field_of_a_segment_is_read():
    segments, stats = read(Packet(ethernet(V4), START_NS + 5))
    assert segments == [
        {
            "packet": 11,
            "time_ns": START_NS + 5,
            "source": "10.0.0.1",
            "destination": "10.0.0.2",
            "ports": (1234, 9092),
            "seq": 0xFFFFFFF0,
            "ack": 0x80000001,
            "flags": ACK | PSH,
            "length": 5,
            "data": b"hello",
        }
    ]
    assert (stats.counters.packets, stats.counters.tcp_segments) == (1, 1)
    assert stats.counters.anomalies == {}


def test_ipv6_addresses_are_read_whole():
    segments, _ = read(ethernet(V6, 0x86DD))
    assert segments[0]["source"] == "2001:db8::1"
    assert segments[0]["destination"] == "2001:db8::2"
    assert segments[0]["data"] == b"hello, six"


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


@pytest.mark.parametrize("name", LINKS)
def test_ipv4_is_found_behind_each_link_layer(name):
    link_type, data = LINKS[name]
    segments, stats = read(Packet(data, link_type=link_type))
    assert segments == read(ethernet(V4))[0]
    assert stats.counters.anomalies == {}


@pytest.mark.parametrize("name", LINKS_V6)
def test_ipv6_is_found_behind_each_link_layer(name):
    link_type, data = LINKS_V6[name]
    segments, _ = read(Packet(data, link_type=link_type))
    assert segments == read(ethernet(V6, 0x86DD))[0]


def test_link_types_mixed_in_one_batch_keep_the_order_of_the_packets():
    mixed = [*LINKS.values(), *LINKS_V6.values()]
    mixed = mixed[::2] + mixed[1::2]
    segments, _ = read(*(Packet(data, link_type=link) for link, data in mixed))
    assert [segment["packet"] for segment in segments] == list(range(11, 11 + len(mixed)))


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
    segment = read(Packet(data, link_type=link_type))[0][0]
    assert (segment["seq"], segment["ack"], segment["flags"]) == (
        inner.seq,
        inner.ack,
        inner.flags,
    )
    assert segment["ports"] == (inner.sport, inner.dport)
    assert segment["data"] == inner.data
    assert (segment["source"], segment["destination"]) == tuple(
        socket.inet_ntop(socket.AF_INET, address) for address in addresses
    )


def test_padding_of_the_link_layer_is_no_payload():
    for inner in (ipv4(tcp(payload=b"ab")), ipv4(tcp())):
        padded = ethernet(inner).ljust(60, b"\xff") + b"FCS!"
        expected = inner[40:]
        assert payloads(padded) == [expected]
        assert read(padded)[0][0]["length"] == len(expected)


def test_options_of_ip_and_tcp_are_no_payload():
    inner = tcp(payload=b"data", options=b"\x01" * 40)
    assert payloads(ethernet(ipv4(inner, options=b"\x01" * 40))) == [b"data"]


def test_a_length_of_0_means_the_length_on_the_wire():
    inner = tcp(payload=b"x" * 100)
    v4 = ethernet(ipv4(inner, total_bytes=0))
    v6 = ethernet(ipv6(inner, payload_bytes=0), 0x86DD)
    for data in (v4, v6):
        segments, _ = read(Packet(data[:-40], wire_bytes=len(data)), Packet(ethernet(V4)))
        assert segments[0]["length"] == 100
        assert segments[0]["data"] == b"x" * 60


def test_a_snap_length_shortens_the_data_and_not_the_length():
    data = ethernet(ipv4(tcp(payload=b"0123456789")))
    for cut in range(11):
        segments, stats = read(Packet(data[: len(data) - cut], wire_bytes=len(data)))
        assert segments[0]["length"] == 10
        assert segments[0]["data"] == b"0123456789"[: 10 - cut]
        assert stats.counters.anomalies == {}


def test_a_cut_within_the_options_of_tcp_leaves_the_length_known():
    data = ethernet(ipv4(tcp(payload=b"0123456789", options=b"\x01" * 12)))
    segments, _ = read(Packet(data[: 14 + 20 + 20], wire_bytes=len(data)))
    assert (segments[0]["length"], segments[0]["data"]) == (10, b"")


@pytest.mark.parametrize(
    "data",
    [ethernet(V4, tags=[0x8100]), ethernet(V6, 0x86DD)],
    ids=["tagged IPv4 with TCP options", "IPv6"],
)
def test_packets_cut_within_any_header_are_counted_and_harm_no_other(data):
    header_bytes = data.index(b"hello") - (12 if b"\x01" * 12 in data else 0)
    for size in range(header_bytes):
        segments, stats = read(ethernet(V4), Packet(data[:size], wire_bytes=len(data)))
        assert [segment["packet"] for segment in segments] == [11]
        assert stats.counters.cut_headers == 1
        assert sum(stats.counters.anomalies.values()) == 1
        assert stats.drain_anomalies()[0].packet == 12


@pytest.mark.parametrize(
    ("data", "counter", "kind"),
    [
        (ethernet(b"\0" * 28, 0x0806), "not_ip", None),
        (ethernet(b"\0" * 40, 0x0026), "not_ip", None),
        (ethernet(ipv4(b"\0" * 8, protocol=17)), "not_tcp", None),
        (ethernet(ipv6(b"\0" * 8, next_header=58), 0x86DD), "not_tcp", None),
        (ethernet(ipv6(b"", next_header=59), 0x86DD), "not_tcp", None),
        (ethernet(V6), "bad_ip_headers", AnomalyKind.BAD_IP_HEADER),
        (ethernet(V4, 0x86DD), "bad_ip_headers", AnomalyKind.BAD_IP_HEADER),
        (ethernet(b"\x44" + V4[1:]), "bad_ip_headers", AnomalyKind.BAD_IP_HEADER),
        (ethernet(ipv4(tcp(), total_bytes=19)), "bad_ip_headers", AnomalyKind.BAD_IP_HEADER),
        (ethernet(ipv4(tcp(), total_bytes=39)), "bad_tcp_headers", AnomalyKind.BAD_TCP_HEADER),
        (
            ethernet(ipv4(tcp()[:12] + b"\x4f" + tcp()[13:])),
            "bad_tcp_headers",
            AnomalyKind.BAD_TCP_HEADER,
        ),
        (
            ethernet(ipv4(tcp()[:12] + b"\x60" + tcp()[13:])),
            "bad_tcp_headers",
            AnomalyKind.BAD_TCP_HEADER,
        ),
        (ethernet(ipv4(tcp(), fragment=0x2000)), "ip_fragments", AnomalyKind.IP_FRAGMENT),
        (ethernet(ipv4(tcp(), fragment=1)), "ip_fragments", AnomalyKind.IP_FRAGMENT),
        (ethernet(ipv4(tcp(), fragment=0x2001)), "ip_fragments", AnomalyKind.IP_FRAGMENT),
    ],
)
def test_packets_without_a_segment_are_counted_by_reason(data, counter, kind):
    segments, stats = read(data, ethernet(V4))
    assert [segment["packet"] for segment in segments] == [12]
    assert getattr(stats.counters, counter) == 1
    assert stats.counters.anomalies == ({} if kind is None else {kind: 1})


def test_dont_fragment_is_no_fragment():
    assert payloads(ethernet(ipv4(tcp(payload=b"x"), fragment=0x4000))) == [b"x"]


def test_an_unknown_link_type_is_counted_by_number():
    _, stats = read(*[Packet(b"?", link_type=147)] * 3, Packet(b"?", link_type=195))
    assert stats.counters.unknown_link_type == {147: 3, 195: 1}
    assert stats.counters.anomalies == {AnomalyKind.UNKNOWN_LINK_TYPE: 4}
    assert {anomaly.detail for anomaly in stats.drain_anomalies()} == {
        "link type 147",
        "802.15.4 (link type 195)",
    }
    assert stats.counters.other_packets == {"link type 147": 3, "802.15.4 (link type 195)": 1}


def test_few_anomalies_of_a_kind_are_kept_and_all_are_counted():
    fragments = [ethernet(ipv4(tcp(), f"10.0.1.{i}", fragment=1)) for i in range(100)]
    _, stats = read(*fragments)
    assert stats.counters.anomalies == {AnomalyKind.IP_FRAGMENT: 100}
    assert len(stats.drain_anomalies()) == MAX_ANOMALIES_PER_KIND


def extension(kind_after: int, size: int = 8) -> bytes:
    return bytes([kind_after, size // 8 - 1]).ljust(size, b"\x01")


@pytest.mark.parametrize(
    ("chain", "first"),
    [
        (extension(6), 0),
        (extension(6, 24), 43),
        (extension(60) + extension(6, 16), 0),
        (extension(43) + extension(60, 32) + extension(6), 0),
        (bytes([6, 4]).ljust(24, b"\x01"), 51),
        (bytes([6, 0, 0, 0]) + b"\0\0\0\x07", 44),
        (extension(140, 40) + extension(6), 139),
        (b"\x06\x00\xc2\x04" + struct.pack(">I", 70_000), 0),
        (b"".join([extension(60)] * 15) + extension(6), 60),
    ],
    ids=[
        "hop by hop",
        "routing",
        "two",
        "three",
        "authentication",
        "atomic fragment",
        "HIP and shim6",
        "jumbo option",
        "sixteen",
    ],
)
def test_extension_headers_of_ipv6_are_stepped_over(chain, first):
    data = ethernet(ipv6(chain + tcp(payload=b"deep"), next_header=first), 0x86DD)
    segments, stats = read(ethernet(V6, 0x86DD), data, ethernet(V4))
    assert [segment["data"] for segment in segments] == [b"hello, six", b"deep", b"hello"]
    assert stats.counters.anomalies == {}


@pytest.mark.parametrize("place", [1, 8, 0xFFF8])
def test_fragments_of_ipv6_are_counted(place):
    chain = bytes([6, 0]) + struct.pack(">HI", place, 7)
    _, stats = read(ethernet(ipv6(chain + tcp(), next_header=44), 0x86DD))
    assert stats.counters.ip_fragments == 1
    assert stats.counters.anomalies == {AnomalyKind.IP_FRAGMENT: 1}


def test_a_jumbogram_is_as_long_as_it_was_on_the_wire():
    """RFC 2675: the length of the header is 0, an option has it in 32 bits."""
    jumbo = b"\x06\x00\xc2\x04" + struct.pack(">I", 8 + 20 + 70_000)
    data = ethernet(ipv6(jumbo + tcp(payload=b"x" * 200), payload_bytes=0, next_header=0), 0x86DD)
    segments, stats = read(Packet(data, wire_bytes=len(data) - 200 + 70_000))
    assert (segments[0]["length"], segments[0]["data"]) == (70_000, b"x" * 200)
    assert stats.counters.anomalies == {}


@pytest.mark.parametrize("kind", [0, 60])
def test_extension_headers_without_end_are_counted(kind):
    many = extension(kind) * 40 + tcp()
    segments, stats = read(ethernet(ipv6(many, next_header=kind), 0x86DD))
    assert segments == []
    assert stats.counters.other_packets == {"IPv6 extension headers": 1}


def test_encrypted_packets_are_counted_as_such():
    four = ethernet(ipv4(b"\0" * 40, protocol=50))
    six = ethernet(ipv6(extension(50) + b"\0" * 40, next_header=0), 0x86DD)
    _, stats = read(four, six)
    assert stats.counters.other_packets == {"ESP": 2}


def test_too_many_or_cut_extension_headers_are_no_segment():
    many = b"".join([extension(60)] * 40) + extension(6) + tcp()
    _, stats = read(ethernet(ipv6(many, next_header=60), 0x86DD))
    assert stats.counters.not_tcp == 1
    cut = ethernet(ipv6(extension(6, 800) + tcp(), next_header=0), 0x86DD)[:200]
    _, stats = read(cut)
    assert stats.counters.cut_headers == 1
    _, stats = read(cut[:60])
    assert stats.counters.cut_headers == 1


def test_an_empty_batch_has_no_segments():
    segments, stats = read()
    assert segments == []
    assert stats.counters.packets == 0


@STEADY
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 12, 101, 108, 113, 228, 229, 276, 999]),
            st.binary(max_size=90)
            | st.builds(
                lambda head, data, at: data[:at] + head + data[at + len(head) :],
                st.binary(min_size=1, max_size=3),
                st.sampled_from([ethernet(V4), ethernet(V6, 0x86DD), V4, V6]),
                st.integers(0, 60),
            ),
        ),
        max_size=8,
    )
)
def test_any_bytes_are_a_segment_within_the_packet_or_counted(packets):
    segments, stats = read(*(Packet(data, link_type=link) for link, data in packets))
    counters = stats.counters
    reasons = (
        counters.not_ip
        + counters.not_tcp
        + counters.cut_headers
        + counters.bad_ip_headers
        + counters.bad_tcp_headers
        + counters.ip_fragments
        - counters.reassembled_datagrams
        + sum(counters.unknown_link_type.values())
    )
    assert len(segments) + reasons == len(packets) == counters.packets
    for segment in segments:
        assert len(segment["data"]) <= segment["length"] <= 65_575
        assert segment["data"] in packets[segment["packet"] - 11][1]
