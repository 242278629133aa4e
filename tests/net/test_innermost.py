from __future__ import annotations

from kanalyze.net.header_kinds import IPV4, IPV6
from kanalyze.net.innermost import Innermost
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp

ARP = 0x0806
UDP = b"\x14\xe9\0\x35\0\x08\0\0"


def found(*data: bytes) -> Innermost:
    return Innermost(make_batch(list(map(Packet, data))))


def test_the_innermost_header_of_each_packet_is_told():
    headers = found(
        ethernet(ipv4(tcp())),
        ethernet(ipv4(ipv6(tcp()), protocol=41)),
        ethernet(ipv4(UDP, protocol=17)),
        ethernet(ipv4(bytes(8), protocol=1)),
        ethernet(bytes(28), ARP),
        ethernet(b"\x55" + ipv4(tcp())[1:]),
    )
    assert headers.kind.tolist() == [IPV4, IPV6, IPV4, IPV4, ARP, -1]
    assert headers.protocol.tolist() == [6, 6, 17, 1, -1, -1]
    assert headers.is_known.tolist() == [1, 1, 1, 1, 1, 0]
    assert [at >= 0 for at in headers.transport_at] == [True, True, True, False, False, False]
    assert [headers.transport_at[row] - headers.at[row] for row in range(3)] == [20, 40, 20]
    assert headers.fragments == []


def test_fragments_of_tcp_are_told_apart_from_those_that_may_hold_a_tunnel():
    headers = found(
        ethernet(ipv4(tcp(), fragment=0x2003)),
        ethernet(ipv4(tcp(), fragment=0x2000)),
        ethernet(ipv4(bytes(16), protocol=47, fragment=0x2000)),
    )
    assert [(row, is_first) for row, _, is_first in headers.fragments] == [(0, False), (1, True)]
    assert headers.is_known.tolist() == [1, 1, 0]
    assert [at >= 0 for at in headers.transport_at] == [False, True, False]
