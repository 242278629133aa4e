"""The events of a batch, in the order of completion."""

from __future__ import annotations

from operator import attrgetter

from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.kafka.session.events import ConnectionEvents, SessionEvents
from kanalyze.kafka.session.exchange import Exchange, Message, Peers
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from tests.support.cases import examples
from tests.support.session import TCP


def exchange(number: int, *, request_packet: int, response_packet: int | None) -> Exchange:
    peers = Peers(TCP, *TCP.endpoints)
    request = Message.read(0, request_packet, 0, request_packet, 8, (), 0)
    response = None
    if response_packet is not None:
        response = Message.read(0, response_packet, 0, response_packet, 8, (), 0)
    return Exchange(peers, request, response, 0, 0, number, None)


def sorted_events(*connections: list[Exchange]) -> SessionEvents:
    found = SessionEvents()
    for exchanges in connections:
        connection_events = ConnectionEvents()
        connection_events.exchanges += exchanges
        found.add(connection_events)
    found.sort()
    return found


def ids_of(events: SessionEvents) -> list[int | None]:
    return [each.correlation_id for each in events.exchanges]


def test_exchanges_come_in_the_order_of_the_packets_that_completed_them() -> None:
    found = sorted_events(
        [exchange(1, request_packet=1, response_packet=9)],
        [exchange(2, request_packet=2, response_packet=4)],
        [exchange(3, request_packet=5, response_packet=None)],
    )
    assert ids_of(found) == [2, 3, 1]
    assert found.completion_packets == [4, 5, 9]


NEAR_AND_FAR = st.integers(0, 20) | st.integers(0, 2**62)


@settings(max_examples=examples(100))
@given(st.lists(st.lists(NEAR_AND_FAR, max_size=5), max_size=6))
def test_any_exchanges_are_in_the_order_of_a_stable_sort(parts) -> None:
    made = [
        [
            exchange(100 * number + at, request_packet=0, response_packet=packet)
            for at, packet in enumerate(packets)
        ]
        for number, packets in enumerate(parts)
    ]
    found = sorted_events(*made)
    expected = sorted((each for part in made for each in part), key=attrgetter("completed"))
    assert ids_of(found) == [each.correlation_id for each in expected]
    assert found.completion_packets == sorted(found.completion_packets)


def test_exchanges_of_one_connection_keep_their_order() -> None:
    late = exchange(1, request_packet=1, response_packet=9)
    early = exchange(2, request_packet=2, response_packet=4)
    found = sorted_events([late, early], [exchange(4, request_packet=7, response_packet=7)])
    assert ids_of(found) == [4, 1, 2]
    assert found.completion_packets == [7, 9, 9]


def test_a_request_without_a_response_is_complete_at_its_settled_packet() -> None:
    silent = exchange(1, request_packet=1, response_packet=None)
    silent.settled_packet = 7
    connection = [silent, exchange(2, request_packet=2, response_packet=7)]
    other = exchange(3, request_packet=3, response_packet=6)
    assert ids_of(sorted_events(connection, [other])) == [3, 1, 2]


def test_events_of_later_steps_follow_those_of_earlier_ones() -> None:
    first, second = ConnectionEvents(), ConnectionEvents()
    first.exchanges.append(exchange(1, request_packet=1, response_packet=2))
    second.exchanges.append(exchange(2, request_packet=3, response_packet=4))
    second.anomalies.append(Anomaly(AnomalyKind.LOST_BYTES))
    first.extend(second)
    assert [each.correlation_id for each in first.exchanges] == [1, 2]
    assert (len(first.anomalies), first.token_bytes) == (1, [])
