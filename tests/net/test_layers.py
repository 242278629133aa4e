from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.header_kinds import IPV4
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.layers import find_tcp
from tests.support.cases import examples, for_each
from tests.support.packets import Packet, ethernet, ipv4, make_batch, tcp
from tests.support.wrapped import INNER, INNER_V6, PAYLOAD, wrapped

STEADY = settings(deadline=None, max_examples=60)
WRAPPED = wrapped()


def read(*packets: Packet):
    stats = LayerStats()
    return read_headers(make_batch(packets), stats), stats


def packet(name: str) -> Packet:
    return Packet(WRAPPED[name].data, link_type=WRAPPED[name].link_type)


def payloads(columns) -> list[bytes]:
    ends = zip(columns.payload_start.tolist(), columns.captured_bytes.tolist(), strict=True)
    return [bytes(columns.buffer[start : start + length]) for start, length in ends]


def accounted(stats: LayerStats) -> int:
    """Packets by outcome; every packet is in exactly one of these counters."""
    counters = stats.counters
    return (
        counters.tcp_segments
        + counters.not_ip
        + counters.not_tcp
        + counters.cut_headers
        + counters.bad_ip_headers
        + counters.bad_tcp_headers
        + counters.ip_fragments
        - counters.reassembled_datagrams
        + sum(counters.unknown_link_type.values())
    )


@for_each("name", WRAPPED)
def test_the_segment_inside_is_read(name):
    columns, stats = read(packet(name))
    one = WRAPPED[name]
    assert payloads(columns) == [PAYLOAD]
    kind = ipaddress.IPv6Address if one.is_ipv6 else ipaddress.IPv4Address
    addresses = [
        str(kind(int(high[0]) << 64 | int(low[0])))
        for high, low in (
            (columns.source_high, columns.source_low),
            (columns.destination_high, columns.destination_low),
        )
    ]
    assert tuple(addresses) == (INNER_V6 if one.is_ipv6 else INNER)
    assert columns.is_ipv6.tolist() == [one.is_ipv6]
    assert (columns.source_port.tolist(), columns.destination_port.tolist()) == ([40000], [9092])
    assert (columns.sequence.tolist(), columns.acknowledgment.tolist()) == ([1000], [2000])
    assert columns.window.tolist() == [513]
    assert columns.identification.tolist() == [-1 if one.is_ipv6 else 777]
    assert stats.counters.tunnels == dict.fromkeys(one.tunnels, 1)
    assert stats.counters.anomalies == {}
    assert stats.counters.other_packets == {}


def test_segments_of_one_batch_stay_in_the_order_of_the_packets():
    columns, stats = read(*map(packet, WRAPPED))
    assert columns.number.tolist() == list(range(1, len(WRAPPED) + 1))
    assert columns.is_ipv6.tolist() == [one.is_ipv6 for one in WRAPPED.values()]
    assert payloads(columns) == [PAYLOAD] * len(WRAPPED)
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
    columns, stats = read(*cuts)
    assert accounted(stats) == len(cuts)
    # A segment with a whole TCP header is read, whatever is missing after it.
    first = one.data.index(PAYLOAD)
    assert columns.number.tolist() == list(range(first + 1, len(cuts) + 1))
    assert columns.payload_bytes.tolist() == [len(PAYLOAD)] * (len(cuts) - first)
    assert payloads(columns) == [PAYLOAD[:size] for size in range(len(cuts) - first)]


@pytest.mark.few(1)
@for_each("name", WRAPPED)
def test_a_packet_that_is_too_short_is_no_error(name):
    one = WRAPPED[name]
    cuts = [Packet(one.data[:size], link_type=one.link_type) for size in range(len(one.data))]
    _, stats = read(*cuts)
    assert accounted(stats) == len(cuts)


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
    columns, stats = read(*changed)
    assert accounted(stats) == len(changed)
    for row in range(len(columns)):
        captured = columns.captured_bytes[row]
        assert 0 <= captured <= columns.payload_bytes[row]
        assert not captured or columns.payload_start[row] + captured <= len(columns.buffer)


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
    columns, stats = read(Packet(nested(8)), Packet(nested(100)))
    assert columns.number.tolist() == [1]
    assert stats.counters.tunnels == {"IP in IP": 1}
    assert stats.counters.other_packets == {"nested too deeply": 1}
    assert stats.counters.not_tcp == 1


def test_bytes_cut_off_in_a_tunnel_are_missing_from_the_segment_alone():
    """A mirror may forward only the first bytes of each packet: the outer lengths are right."""
    inner = ipv4(tcp(payload=b"0123456789"))[:-4]
    columns, stats = read(Packet(ethernet(ipv4(inner, protocol=4)) + b"trailer of Ethernet"))
    assert payloads(columns) == [b"012345"]
    assert columns.payload_bytes.tolist() == [10]
    assert stats.counters.anomalies == {}


def test_a_length_of_0_inside_of_a_tunnel_means_the_length_of_the_outer_packet():
    inner = ipv4(tcp(payload=b"0123456789"), total_bytes=0)
    columns, _ = read(Packet(ethernet(ipv4(inner, protocol=4)) + b"trailer of Ethernet"))
    assert payloads(columns) == [b"0123456789"]


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


@pytest.mark.parametrize("name", OTHERS)
def test_packets_of_other_protocols_are_counted_by_name(name):
    columns, stats = read(Packet(OTHERS[name]), Packet(ethernet(ipv4(tcp()))))
    assert columns.number.tolist() == [2]
    assert stats.counters.other_packets == {name: 1}
    assert stats.counters.not_ip + stats.counters.not_tcp == 1
    assert stats.counters.tunnels == {}
    assert stats.counters.anomalies == {}


def test_the_number_of_protocol_names_is_bounded():
    packets = [Packet(ethernet(b"", 0x9300 + i)) for i in range(1000)]
    _, stats = read(*packets)
    assert len(stats.counters.other_packets) == 257
    assert stats.counters.other_packets["other"] == 744
    assert sum(stats.counters.other_packets.values()) == stats.counters.not_ip == 1000


def test_the_cursor_ends_at_the_innermost_header():
    batch = make_batch(
        [packet("IPv4 in VXLAN"), Packet(ethernet(ipv4(tcp()))), Packet(OTHERS["ARP"])]
    )
    cursor = HeaderCursor(batch, LayerStats())
    found = []
    for row in range(3):
        link = cursor.begin(row)
        begin = cursor.at
        is_tcp = find_tcp(cursor, link, lambda cursor: pytest.fail("there are no fragments"))
        found.append((is_tcp, cursor.kind, cursor.kind_at - begin))
    assert found == [(True, IPV4, 14 + 20 + 8 + 8 + 14), (True, IPV4, 14), (False, 0x0806, 14)]
