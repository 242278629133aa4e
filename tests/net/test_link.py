from __future__ import annotations

import pytest

from kanalyze.net.link import find_ip_headers
from kanalyze.net.notes import Notes
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp


def find(*packets):
    batch = make_batch(packets)
    ipv4_at, ipv6_at = find_ip_headers(batch, Notes())
    return [
        [(int(row), int(at - batch.offset[row])) for row, at in zip(p.row, p.at, strict=True)]
        for p in (ipv4_at, ipv6_at)
    ]


def test_places_of_both_versions_are_told_apart():
    four, six = Packet(ethernet(ipv4(tcp()))), Packet(ethernet(ipv6(tcp()), 0x86DD))
    tagged = Packet(ethernet(ipv4(tcp()), tags=[0x88A8, 0x8100]))
    assert find(four, six, tagged, six) == [[(0, 14), (2, 22)], [(1, 14), (3, 14)]]


def test_nine_tags_are_too_many():
    assert find(Packet(ethernet(ipv4(tcp()), tags=[0x8100] * 9))) == [[], []]


@pytest.mark.parametrize("family", [b"\x02\0\0\0", b"\0\0\0\x02"])
def test_an_address_family_may_stand_in_either_byte_order(family):
    assert find(Packet(family + ipv4(tcp()), link_type=0)) == [[(0, 4)], []]


def test_an_unknown_address_family_or_version_is_no_ip():
    assert find(Packet(b"\0\0\0\x63" + ipv4(tcp()), link_type=108)) == [[], []]
    assert find(Packet(b"\x50" + ipv4(tcp())[1:], link_type=101)) == [[], []]
