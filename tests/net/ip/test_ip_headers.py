from __future__ import annotations

from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.header_kinds import IP_PROTOCOL, TCP
from kanalyze.net.ip.ip_headers import TUNNEL_PROTOCOLS, read_ipv4, read_ipv6
from kanalyze.net.ip.tunnels import READERS
from kanalyze.net.layer_stats import LayerStats
from tests.support.packets import Packet, ipv4, ipv6, make_batch, tcp


def opened(data: bytes) -> HeaderCursor:
    cursor = HeaderCursor(make_batch([Packet(data)]), LayerStats())
    cursor.begin(0)
    return cursor


def test_tcp_begins_after_the_options_and_the_packet_ends_at_its_length():
    raw = ipv4(tcp(), options=b"\x01" * 8)
    cursor = opened(raw + b"padding")
    begin = cursor.at
    assert read_ipv4(cursor) == TCP
    assert cursor.at - begin == 28
    assert cursor.ip_end - begin == len(raw)
    assert (cursor.source_high, cursor.source_low) == (0, 0x0A000001)
    assert not cursor.is_ipv6


def test_addresses_of_ipv6_are_read_in_halves():
    cursor = opened(ipv6(tcp(), "1:2:3:4:5:6:7:8", "ffff::9"))
    assert read_ipv6(cursor) == TCP
    assert cursor.source_high == 0x0001_0002_0003_0004
    assert cursor.source_low == 0x0005_0006_0007_0008
    assert (cursor.destination_high, cursor.destination_low) == (0xFFFF << 48, 9)
    assert cursor.is_ipv6


def test_every_protocol_that_may_hold_tcp_has_a_reader():
    assert [IP_PROTOCOL | protocol for protocol in TUNNEL_PROTOCOLS] == list(READERS)
