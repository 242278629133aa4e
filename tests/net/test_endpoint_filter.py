from __future__ import annotations

import random
import struct
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.net.endpoint_filter import EndpointFilter
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.cases import for_each
from tests.support.disorder import TRANSFORMATIONS, Stage, packets_of
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, segment, tcp
from tests.support.wrapped import INNER, INNER_V6, wrapped

WRAPPED = wrapped()


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


def test_a_batch_may_be_empty():
    assert selected([], (9092,), ("10.0.0.1",)) == []


AROUND = [
    label
    for label, step in TRANSFORMATIONS.items()
    if step.stage in (Stage.LINKS, Stage.FRAGMENTS, Stage.PADDING)
]


def segments_of(packets: list[Packet]) -> set[tuple[int, ...]]:
    """The segments that the analysis reads from packets: fragments are reassembled."""
    columns = read_headers(make_batch(packets), LayerStats())
    names = ("source_port", "destination_port", "sequence", "flags", "payload_bytes")
    return set(zip(*(getattr(columns, name).tolist() for name in names), strict=True))


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
