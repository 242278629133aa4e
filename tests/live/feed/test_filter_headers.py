from __future__ import annotations

import ipaddress
import struct

import pytest

from kanalyze.live.feed.filter_headers import PacketHeaders
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, segment, tcp
from tests.support.wrapped import INNER, INNER_V6, wrapped

WRAPPED = wrapped()


def headers_of(*packets: bytes | Packet) -> PacketHeaders:
    made = [one if isinstance(one, Packet) else Packet(one) for one in packets]
    return PacketHeaders(make_batch(made))


def addresses(headers: PacketHeaders, row: int) -> tuple[str, str]:
    kind = ipaddress.IPv6Address if headers.is_ipv6[row] else ipaddress.IPv4Address
    return tuple(
        str(kind(int(column.high[row]) << 64 | int(column.low[row])))
        for column in (headers.source, headers.destination)
    )


def ports(headers: PacketHeaders, row: int) -> tuple[int, int]:
    return int(headers.source_port[row]), int(headers.destination_port[row])


@pytest.mark.parametrize("name", WRAPPED)
def test_the_innermost_header_counts(name):
    one = WRAPPED[name]
    headers = headers_of(Packet(one.data, link_type=one.link_type))
    assert headers.is_known.tolist() == headers.has_ports.tolist() == [True]
    assert headers.is_ipv6.tolist() == [one.is_ipv6]
    assert headers.is_ipv4.tolist() == [not one.is_ipv6]
    assert headers.protocol.tolist() == [6]
    assert addresses(headers, 0) == (INNER_V6 if one.is_ipv6 else INNER)
    assert ports(headers, 0) == (40000, 9092)


def test_all_kinds_in_one_batch():
    datagram = struct.pack(">HHHH", 5353, 53, 8, 0)
    headers = headers_of(
        segment(),
        segment(client=("fd00::1", 50000), broker=("fd00::2", 9092), to_broker=False),
        ethernet(ipv4(datagram, "10.9.9.1", "10.9.9.2", protocol=17)),
        ethernet(ipv6(datagram, "fd00::3", "fd00::4", next_header=17), 0x86DD),
        ethernet(ipv4(bytes(8), protocol=1)),
        ethernet(bytes(28), 0x0806),
    )
    assert headers.is_known.all()
    assert headers.is_ipv4.tolist() == [True, False, True, False, True, False]
    assert headers.is_ipv6.tolist() == [False, True, False, True, False, False]
    assert headers.protocol.tolist() == [6, 6, 17, 17, 1, -1]
    assert headers.has_ports.tolist() == [True, True, True, True, False, False]
    assert [ports(headers, row) for row in range(6)] == [
        (50000, 9092),
        (9092, 50000),
        *[(5353, 53)] * 2,
        *[(-1, -1)] * 2,
    ]
    assert addresses(headers, 1) == ("fd00::2", "fd00::1")
    assert addresses(headers, 2) == ("10.9.9.1", "10.9.9.2")
    assert addresses(headers, 3) == ("fd00::3", "fd00::4")
    assert addresses(headers, 4) == ("10.0.0.1", "10.0.0.2")
    assert not headers.source.low[5]


def test_what_is_cut_is_known_as_far_as_it_goes():
    whole = segment()
    for kept, is_known, has_ports in (
        (13, False, False),  # within Ethernet
        (33, False, False),  # within IP
        (34, True, False),
        (37, True, False),
        (38, True, True),
    ):
        headers = headers_of(Packet(whole[:kept], wire_bytes=len(whole)))
        assert headers.is_known.tolist() == [is_known], kept
        assert headers.has_ports.tolist() == [has_ports], kept
        assert headers.protocol.tolist() == [6 if is_known else -1], kept
        assert headers.wire_bytes.tolist() == [len(whole)]


def test_what_is_wrong_or_of_an_unknown_link_is_not_known():
    wrong = ethernet(b"\x55" + ipv4(tcp())[1:])
    headers = headers_of(wrong, Packet(segment(), link_type=105), segment())
    assert headers.is_known.tolist() == [False, False, True]
    assert headers.is_ipv4.tolist() == [False, False, True]


def test_fragments_of_tcp_are_told_by_their_datagram():
    first = ethernet(ipv4(tcp(), fragment=0x2000))
    later = ethernet(ipv4(tcp(), fragment=0x2003))
    headers = headers_of(later, first)
    found = list(headers.fragments)
    assert [(one.row, one.is_first) for one in found] == [(0, False), (1, True)]
    assert found[0].key == found[1].key
    assert headers.is_known.tolist() == [True, True]
    assert headers.has_ports.tolist() == [False, True]
    assert ports(headers, 0) == (-1, -1)
    assert addresses(headers, 0) == addresses(headers, 1) == ("10.0.0.1", "10.0.0.2")


def test_fragments_of_ipv6():
    def fragment(offset: int, *, is_last: bool) -> bytes:
        place = offset | (not is_last)
        extension = struct.pack(">BBHI", 6, 0, place, 77)
        return ethernet(ipv6(extension + tcp(), next_header=44), 0x86DD)

    headers = headers_of(fragment(0, is_last=False), fragment(24, is_last=True))
    assert [(one.row, one.is_first) for one in headers.fragments] == [(0, True), (1, False)]
    assert headers.protocol.tolist() == [6, 6]
    assert headers.has_ports.tolist() == [True, False]
    # One that is a whole datagram is no fragment.
    headers = headers_of(fragment(0, is_last=True))
    assert list(headers.fragments) == []
    assert ports(headers, 0) == (50000, 9092)


def test_fragments_that_may_be_of_a_tunnel_are_not_known():
    for protocol in (4, 17, 41, 47):
        parts = [ethernet(ipv4(bytes(64), protocol=protocol, fragment=at)) for at in (0x2000, 8)]
        headers = headers_of(*parts)
        assert headers.is_known.tolist() == [False, False]
        assert list(headers.fragments) == []
    # Those of others cannot be.
    assert headers_of(ethernet(ipv4(bytes(64), protocol=1, fragment=8))).is_known.all()


def test_a_batch_may_be_empty():
    headers = headers_of()
    assert len(headers.protocol) == len(headers.source.low) == len(headers.source_port) == 0
    assert list(headers.fragments) == []
