from __future__ import annotations

import struct

import pytest

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp

IP = ipv4(tcp(payload=b"dialled"))
IP6 = ipv6(tcp(payload=b"dialled"))


def read(data: bytes, link_type: int = 1):
    stats = LayerStats()
    columns = read_headers(make_batch([Packet(data, link_type=link_type)]), stats)
    return columns.payload_bytes.tolist(), stats


@pytest.mark.parametrize("framing", [b"", b"\xff\x03"])
@pytest.mark.parametrize(
    ("protocol", "inner"), [(b"\x00\x21", IP), (b"\x21", IP), (b"\x00\x57", IP6), (b"\x57", IP6)]
)
@pytest.mark.parametrize("link_type", [9, 50])
def test_address_and_protocol_may_be_left_out_or_shortened(framing, protocol, inner, link_type):
    assert read(framing + protocol + inner, link_type)[0] == [7]


def session(payload: bytes, *, code: int = 0, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return struct.pack(">BBHH", 0x11, code, 7, size) + payload


@pytest.mark.parametrize("protocol", [b"\x00\x21", b"\x21"])
def test_a_session_over_ethernet_holds_packets(protocol):
    sizes, stats = read(ethernet(session(protocol + IP), 0x8864))
    assert sizes == [7]
    assert stats.counters.tunnels == {"PPPoE": 1}
    assert read(session(protocol + IP), 51)[0] == [7]


def test_discovery_and_protocols_other_than_ip_are_counted_by_name():
    _, stats = read(ethernet(session(b"\x00\x21" + IP, code=9), 0x8864))
    assert stats.counters.other_packets == {"PPPoE discovery": 1}
    _, stats = read(ethernet(session(b"\xc0\x21" + bytes(8)), 0x8864))
    assert stats.counters.other_packets == {"PPP LCP": 1}
    assert stats.counters.tunnels == {}
    _, stats = read(b"\x0f\x00\x20\x00" + bytes(20), 104)
    assert stats.counters.other_packets == {"ethertype 0x2000": 1}


def test_nothing_is_read_past_the_length_of_a_session():
    assert read(ethernet(session(b"\x00\x21" + IP, length=30), 0x8864))[0] == []
    padded = ethernet(session(b"\x00\x21" + IP[:-7]) + b"padding", 0x8864)
    assert read(padded)[0] == [7]
    columns = read_headers(make_batch([Packet(padded)]), LayerStats())
    assert columns.captured_bytes.tolist() == [0]
