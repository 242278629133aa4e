"""The order in which exchanges ended."""

from __future__ import annotations

from kanalyze.kafka.session.completion_order import Ended
from kanalyze.kafka.session.exchange import Exchange, Message, Peers
from kanalyze.model.tcp import Endpoint, TcpConnection
from tests.support.streams import TIME_NS
from tests.support.talk import CLIENT

TCP = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, CLIENT, TIME_NS, TIME_NS)


def exchange(number: int, *, request_packet: int, response_packet: int | None) -> Exchange:
    peers = Peers(TCP, *TCP.endpoints)
    request = Message.read(0, request_packet, 0, request_packet, 8, (), 0)
    response = None
    if response_packet is not None:
        response = Message.read(0, response_packet, 0, response_packet, 8, (), 0)
    return Exchange(peers, request, response, 0, 0, number, None)


def test_nothing_that_ended_is_in_order() -> None:
    assert Ended().sort() == ([], [])


def test_exchanges_come_in_the_order_of_the_packets_they_ended_with() -> None:
    ended = Ended()
    ended.add([exchange(1, request_packet=1, response_packet=9)])
    ended.add([exchange(2, request_packet=2, response_packet=4)])
    ended.add([exchange(3, request_packet=5, response_packet=None)])
    found, latest = ended.sort()
    assert [each.correlation_id for each in found] == [2, 3, 1]
    assert latest == [4, 5, 9]


def test_of_one_connection_none_comes_before_the_one_before_it() -> None:
    ended = Ended()
    late = exchange(1, request_packet=1, response_packet=9)
    early = exchange(2, request_packet=2, response_packet=4)
    ended.add([late, early])
    ended.add([exchange(4, request_packet=7, response_packet=7)])
    found, latest = ended.sort()
    assert [each.correlation_id for each in found] == [4, 1, 2]
    assert latest == [7, 9, 9]


def test_what_ended_because_nothing_came_ended_when_that_was_known() -> None:
    ended = Ended()
    silent = exchange(1, request_packet=1, response_packet=None)
    silent.settled_packet = 7
    ended.add([silent, exchange(2, request_packet=2, response_packet=7)])
    ended.add([exchange(3, request_packet=3, response_packet=6)])
    assert [each.correlation_id for each in ended.sort()[0]] == [3, 1, 2]
