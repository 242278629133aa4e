from __future__ import annotations

import struct

import pytest

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.packets import Packet, ipv4, make_batch, tcp

IP = ipv4(tcp(payload=b"logged"))


def value(kind: int, data: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def read(*packets: bytes):
    stats = LayerStats()
    batch = make_batch([Packet(data, link_type=239) for data in packets])
    return read_headers(batch, stats), stats


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("before", [0, 1, 2, 20])
def test_the_packet_is_found_behind_other_values(before, order):
    values = b"".join(value(10 + i, b"x" * i, order) for i in range(before))
    columns, stats = read(b"\x02\0\0\0" + values + value(9, IP, order))
    assert columns.captured_bytes.tolist() == [6]
    assert stats.counters.anomalies == {}


def test_a_record_without_an_ip_packet_is_counted():
    nothing = b"\x02\0\0\0" + value(10, b"no packet")
    bridge = b"\x07\0\0\0" + value(9, IP)
    columns, stats = read(nothing, bridge, b"\x02\0\0\0" + value(9, IP))
    assert columns.number.tolist() == [3]
    assert stats.counters.cut_headers == 1
    assert stats.counters.other_packets == {"address family 7": 1}


@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_value_shorter_than_its_own_header_ends_the_search(length):
    columns, stats = read(b"\x02\0\0\0" + struct.pack("<HH", length, 10) + value(9, IP))
    assert len(columns) == 0
    assert stats.counters.other_packets == {"address family 2": 1}


def test_values_without_end_are_read_to_a_bound():
    columns, stats = read(b"\x02\0\0\0" + value(10, b"") * 1000 + value(9, IP))
    assert len(columns) == 0
    assert stats.counters.not_ip == 1
