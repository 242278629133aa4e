from __future__ import annotations

import struct

import pytest

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.cases import for_each
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp

IP = ipv4(tcp(payload=b"switched"))
IP6 = ipv6(tcp(payload=b"switched"))


def labels(count: int) -> bytes:
    return b"".join(struct.pack(">I", 99 << 12 | (i == count - 1) << 8) for i in range(count))


def read(data: bytes, ethertype: int = 0x8847):
    stats = LayerStats()
    columns = read_headers(make_batch([Packet(ethernet(data, ethertype))]), stats)
    return columns.payload_bytes.tolist(), stats


@pytest.mark.parametrize("inner", [IP, IP6])
@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("ethertype", [0x8847, 0x8848])
def test_ip_after_the_last_label_is_recognized_by_its_version(inner, count, ethertype):
    sizes, stats = read(labels(count) + inner, ethertype)
    assert sizes == [8]
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
    sizes, stats = read(labels(1) + word + frame(first, *inner))
    assert sizes == [8]
    assert stats.counters.anomalies == {}


@pytest.mark.parametrize("data", [b"\0" * 40, b"\x10\0\0\x21" + b"\0" * 40, b"\xab" * 60])
def test_an_unknown_payload_is_only_counted(data):
    sizes, stats = read(labels(1) + data)
    assert sizes == []
    assert stats.counters.other_packets == {"MPLS": 1}
    assert stats.counters.anomalies == {}


def test_labels_without_end_are_read_to_a_bound():
    sizes, stats = read(struct.pack(">I", 99 << 12) * 300)
    assert sizes == []
    assert stats.counters.other_packets == {"nested too deeply": 1}


@pytest.mark.parametrize("source", ["8.0.69.1", "8.6.0.1", "129.0.0.1", "136.71.0.1"])
@pytest.mark.parametrize("behind", [b"", b"\xff" * 4])
def test_an_address_that_looks_like_an_ethertype_is_an_address(source, behind):
    inner = ipv4(tcp(payload=b"switched"), source, "69.0.0.40")
    assert read(labels(1) + inner + behind)[0] == [8]


def test_ip_that_is_longer_than_the_packet_is_still_taken_for_ip():
    """A mirror forwards only the first bytes."""
    sizes, _ = read(labels(1) + ipv4(tcp(payload=b"switched"), total_bytes=1500))
    assert sizes == [1460]
