from __future__ import annotations

import pytest

from kanalyze.net.header_cursor import HeaderCursor
from kanalyze.net.header_kinds import FAMILY, IP_VERSION, IPV4, IPV6, LLC_FRAME, PPP_PROTOCOL, PPPOE
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.link.linktypes import read_link, read_version
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp


def find(*packets):
    """Row, offset in the packet and kind of each header; each IP version is a kind."""
    batch = make_batch(packets)
    cursor = HeaderCursor(batch, LayerStats())
    found = []
    for row in range(len(packets)):
        kind = read_link(cursor, cursor.begin(row))
        found.append((row, cursor.at - int(batch.offset[row]), kind))
    return found


def test_headers_of_both_ip_versions_are_distinguished():
    four, six = Packet(ethernet(ipv4(tcp()))), Packet(ethernet(ipv6(tcp()), 0x86DD))
    tagged = Packet(ethernet(ipv4(tcp()), tags=[0x88A8, 0x8100]))
    assert find(four, six, tagged, six) == [
        (0, 14, IPV4),
        (1, 14, IPV6),
        (2, 22, IPV4),
        (3, 14, IPV6),
    ]


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


def test_nine_tags_are_too_many():
    assert find(Packet(ethernet(ipv4(tcp()), tags=[0x8100] * 9))) == [(0, 46, 0x8100)]


@pytest.mark.parametrize("family", [b"\x02\0\0\0", b"\0\0\0\x02"])
def test_an_address_family_may_stand_in_either_byte_order(family):
    assert find(Packet(family + ipv4(tcp()), link_type=0)) == [(0, 4, IPV4)]


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


def test_an_unknown_version_is_named():
    cursor = HeaderCursor(
        make_batch([Packet(b"\x50" + ipv4(tcp())[1:], link_type=101)]), LayerStats()
    )
    cursor.begin(0)
    assert read_version(cursor) == IP_VERSION | 5


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
