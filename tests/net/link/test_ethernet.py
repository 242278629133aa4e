from __future__ import annotations

import pytest

from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.header_kinds import DROPPED, IPV4, IPV6, LLC
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.link.ethernet import looks_like_ethernet, looks_like_ip, read_ethernet, read_llc
from tests.support.cases import for_each
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp


def opened(data: bytes) -> HeaderCursor:
    cursor = HeaderCursor(make_batch([Packet(data)]), LayerStats())
    cursor.begin(0)
    return cursor


@pytest.mark.parametrize(
    ("header", "kind", "size"),
    [
        (b"\xaa\xaa\x03\0\0\0\x08\0", IPV4, 8),
        (b"\xaa\xaa\x03\0\0\xf8\x86\xdd", IPV6, 8),
        (b"\xaa\xaa\x03\0\0\0\x81\0\0\x05\x08\0", IPV4, 12),
        (b"\x06\x06\x03", IPV4, 3),
        (b"\xaa\xaa\x03\0\0\x0c\x20\0", LLC | 0xAA, 0),
        (b"\xaa\xaa\x03\0\0", LLC | 0xAA, 0),
        (b"\x42\x42\x03", LLC | 0x42, 0),
    ],
)
def test_an_ethertype_in_snap_is_read_like_one_of_ethernet(header, kind, size):
    cursor = opened(header)
    begin = cursor.at
    assert read_llc(cursor) == kind
    assert cursor.at - begin == size


def test_a_frame_is_recognized_by_what_it_carries():
    four, six = ethernet(ipv4(tcp())), ethernet(ipv6(tcp()), 0x86DD)
    for good in (four, six, ethernet(b"", 0x8100), ethernet(b"", 0x0806)):
        assert looks_like_ethernet(opened(good), 0)
    for bad in (four[:13], four[:14], ethernet(ipv6(tcp())), ethernet(ipv4(tcp()), 0x86DD), b""):
        assert not looks_like_ethernet(opened(bad), 0)


def test_an_ip_header_is_recognized_by_its_lengths():
    assert looks_like_ip(opened(ipv4(tcp(), total_bytes=0)), 0, IPV4)
    assert looks_like_ip(opened(b"\x45"), 0, IPV4)
    assert not looks_like_ip(opened(ipv4(tcp(), total_bytes=19)), 0, IPV4)
    assert not looks_like_ip(opened(b"\x44" + bytes(40)), 0, IPV4)
    assert looks_like_ip(opened(b"..\x60"), 2, IPV6)
    assert not looks_like_ip(opened(b""), 0, IPV6)


@for_each("size", range(22))
def test_a_frame_cut_within_its_headers_is_counted(size):
    cursor = opened(ethernet(b"", tags=[0x8100, 0x8100])[:size])
    assert read_ethernet(cursor) == DROPPED
    assert cursor.stats.counters.cut_headers == 1
