"""The order in which exchanges ended, objects and columns together."""

from __future__ import annotations

import numpy as np

from kanalyze.connection.exchange import Exchange, Message, Peers
from kanalyze.connection.order import Ended
from kanalyze.model import Endpoint, TcpConnection
from tests.support.columnar import ColumnTalk, by_columns_at_once
from tests.support.streams import TIME_NS
from tests.support.talk import BROKER, CLIENT
from tests.support.traffic import produce, produce_answer

TCP = TcpConnection(1, (Endpoint("a", 1), Endpoint("b", 2)), 1, CLIENT, TIME_NS, TIME_NS)


def exchange(number: int, *, request_packet: int, response_packet: int | None) -> Exchange:
    peers = Peers(TCP, *TCP.endpoints)
    request = Message.read(0, request_packet, 0, request_packet, 8, (), 0)
    response = None
    if response_packet is not None:
        response = Message.read(0, response_packet, 0, response_packet, 8, (), 0)
    return Exchange(peers, request, response, 0, 0, number, None)


def test_nothing_that_ended_is_in_order() -> None:
    found = Ended().sort()
    assert (found.exchanges, found.turns.tolist(), found.columns) == ([], [], [])


def test_exchanges_come_in_the_order_of_the_packets_they_ended_with() -> None:
    ended = Ended()
    assert ended.add([exchange(1, request_packet=1, response_packet=9)]) == 9
    assert ended.add([exchange(2, request_packet=2, response_packet=4)]) == 4
    assert ended.add([exchange(3, request_packet=5, response_packet=None)]) == 5
    found = ended.sort()
    assert [each.correlation_id for each in found.exchanges] == [2, 3, 1]
    assert found.turns.tolist() == [0, 1, 2]


def test_of_one_connection_none_comes_before_the_one_before_it() -> None:
    ended = Ended()
    late = exchange(1, request_packet=1, response_packet=9)
    early = exchange(2, request_packet=2, response_packet=4)
    assert ended.add([late, early]) == 9
    assert ended.add([exchange(3, request_packet=5, response_packet=6)], 8) == 8
    ended.add([exchange(4, request_packet=7, response_packet=7)])
    found = ended.sort()
    assert [each.correlation_id for each in found.exchanges] == [4, 3, 1, 2]


def test_nothing_added_leaves_the_latest_as_it_was() -> None:
    assert Ended().add([], 7) == 7


def test_places_that_were_made_are_filled_by_objects_and_columns() -> None:
    turns: list[tuple[int, bytes]] = []
    with by_columns_at_once():
        talk = ColumnTalk()
        for number in (1, 2):
            turns += [(CLIENT, produce(number, 9)), (BROKER, produce_answer(number, 9))]
        (columns,) = talk.at_once(*turns).steps[0].columns
    ended = Ended()
    ended.add([exchange(7, request_packet=1, response_packet=12)])
    place = ended.add_run(np.array([10, 11, 14]))
    assert place == 1
    ended.fill(place + 1, exchange(8, request_packet=2, response_packet=11))
    ended.fill_columns(np.array([place, place + 2]), columns)
    found = ended.sort()
    assert [each.correlation_id for each in found.exchanges] == [8, 7]
    assert found.turns.tolist() == [1, 2]
    assert columns.turn.tolist() == [0, 3]
    assert found.latest.tolist() == [10, 11, 12, 14]


def test_what_ended_because_nothing_came_ended_when_that_was_known() -> None:
    ended = Ended()
    silent = exchange(1, request_packet=1, response_packet=None)
    silent.settled_packet = 7
    ended.add([silent, exchange(2, request_packet=2, response_packet=7)])
    ended.add([exchange(3, request_packet=3, response_packet=6)])
    assert [each.correlation_id for each in ended.sort().exchanges] == [3, 1, 2]
