from __future__ import annotations

import pytest

from kanalyze.errors import UsageError
from kanalyze.live.feed import ExpressionFilter
from tests.support import libpcap
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, segment, tcp


def selected(text: str, *packets: Packet) -> list[int]:
    return ExpressionFilter(text).selected(make_batch(list(packets))).tolist()


def test_packets_are_parsed_by_their_link_type():
    ip_packet = ipv4(tcp(50000, 9092))
    packets = [
        Packet(segment()),
        Packet(ip_packet, link_type=101),
        Packet(ip_packet, link_type=228),
        Packet(bytes([2, 0, 0, 0]) + ip_packet, link_type=0),
        Packet(b"\x08\0" + bytes(18) + ip_packet, link_type=276),
        Packet(bytes(14) + b"\x08\0" + ip_packet, link_type=113),
        Packet(ipv4(tcp(1, 2)), link_type=101),
        Packet(segment(client=("fd00::1", 50000), broker=("fd00::2", 9092))),
    ]
    assert selected("tcp port 9092", *packets) == [0, 1, 2, 3, 4, 5, 7]
    assert selected("ip6", *packets) == [7]


def test_lengths_are_those_on_the_wire():
    cut = Packet(segment(payload=bytes(900))[:60], wire_bytes=954)
    assert selected("greater 900", cut, Packet(segment())) == [0]
    # The filter cannot read bytes that were cut off.
    assert selected("tcp[50] = 0 or ether[100] = 0", cut) == []


def test_every_packet_of_a_batch_is_tested():
    ports = (22, 9092, 443, 9092)
    packets = [Packet(segment(broker=("10.0.0.2", port))) for port in ports]
    assert selected("port 9092", *packets) == [1, 3]
    assert selected("port 1", *packets) == []
    assert selected("tcp", *packets) == [0, 1, 2, 3]
    assert selected("tcp") == []


def test_expressions_may_use_vlans_tunnels_and_flags():
    tagged = Packet(ethernet(ipv4(tcp(50000, 9092)), tags=[0x8100]))
    tunnel = Packet(ethernet(ipv4(ipv4(tcp(50000, 9092)), protocol=4)))
    packets = [Packet(segment(flags=0x02)), tagged, tunnel]
    assert selected("port 9092", *packets) == [0]
    assert selected("vlan and port 9092", *packets) == [1]
    assert selected("ip proto 4", *packets) == [2]
    assert selected("tcp[tcpflags] & tcp-syn != 0", *packets) == [0]


@pytest.mark.parametrize("text", ["porte 22", "tcp) or (udp", "host no.such.host.invalid"])
def test_an_invalid_expression_is_refused_before_any_packet(text):
    with pytest.raises(UsageError, match=r"^filter '.*': \S"):
        ExpressionFilter(text)


def test_an_expression_is_refused_at_a_link_type_that_it_does_not_fit():
    expression = ExpressionFilter("ether host 02:00:00:00:00:01")
    expression.selected(make_batch([Packet(segment())]))
    with pytest.raises(UsageError, match=r"^filter 'ether host 02:00:00:00:00:01': "):
        expression.selected(make_batch([Packet(ipv6(tcp(), "fd00::1", "fd00::2"), link_type=101)]))
    # Cooked packets have a direction; Ethernet packets have none.
    assert selected("inbound", Packet(bytes(14) + b"\x08\0" + ipv4(tcp()), link_type=113)) == [0]


def test_the_filter_selects_the_same_packets_as_libpcap():
    batch = make_batch([Packet(segment(payload=bytes(size))) for size in range(0, 1400, 97)])
    for text in ("less 500", "tcp[13] & 8 != 0", "not greater 500 and ip[2:2] & 1 = 0"):
        rows = ExpressionFilter(text).selected(batch).tolist()
        assert rows == [
            row for row, is_selected in enumerate(libpcap.taken(text, batch)) if is_selected
        ]
