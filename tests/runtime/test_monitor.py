"""The open connections and the requests in flight of a run, while it is running."""

from __future__ import annotations

import pytest

from kanalyze.kafka.schema.catalog import Catalog
from kanalyze.runtime.monitor import in_flight
from kanalyze.runtime.pipeline import Analysis
from tests.support import kafka as k
from tests.support.captures import path
from tests.support.streams import TIME_NS
from tests.support.talk import BROKER, Talk

LATE = 1 << 62
CATALOG = Catalog()


@pytest.mark.parametrize("name", ["next-groups", "transactions", "old-2-8-2"])
def test_open_connections_have_the_same_rows_as_at_the_end_of_the_capture(name):
    analysis = Analysis([str(path(name))])
    before, after = [], []
    for rows in analysis.table_rows():
        before = analysis.open_connections(1000) or before
        after += [row for row in rows.connections if row.end == "open"]
    assert before != []
    assert sorted(before, key=repr) == sorted(after, key=repr)
    assert analysis.open_connections(1000) == []


def name_of(api_key: int) -> str | None:
    api = CATALOG.api(api_key)
    return None if api is None else api.name


def requests_in_flight(
    talk: Talk, before_ns: int = LATE, held_back: frozenset[str] = frozenset(), most: int = 5
):
    waiting = talk.tracker.in_flight(before_ns)
    return in_flight(waiting, name_of, lambda request: name_of(request.api_key) in held_back, most)


def test_a_request_is_in_flight_until_its_response_comes() -> None:
    talk = Talk().client(k.heartbeat(1))
    assert requests_in_flight(talk).requests == 1
    talk.broker(k.heartbeat_answer(1))
    assert requests_in_flight(talk) == (0, (), ())


def test_a_request_in_flight_has_its_connection_and_start() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).client(k.heartbeat(2))
    (request,) = requests_in_flight(talk).oldest
    assert (request.start_ns, request.api_name) == (TIME_NS + 3, "Heartbeat")
    assert (str(request.client), str(request.broker)) == ("10.0.0.1:50000", "10.0.0.2:9092")


def test_the_oldest_come_first_and_their_number_is_limited() -> None:
    talk = Talk().client(*(k.heartbeat(number) for number in range(1, 10)))
    waiting = requests_in_flight(talk, most=3)
    assert waiting.requests == 9
    assert [request.start_ns - TIME_NS for request in waiting.oldest] == [1, 2, 3]


def test_the_age_is_that_of_the_oldest_request() -> None:
    talk = Talk().client(k.heartbeat(1), k.heartbeat(2))
    assert requests_in_flight(talk).age_ns(TIME_NS + 1 + 500) == 500
    assert requests_in_flight(talk).age_ns(TIME_NS - 5) == 0  # a clock that was set back
    assert requests_in_flight(Talk()).age_ns(TIME_NS) == 0


def test_requests_that_brokers_may_hold_back_count_but_are_not_the_oldest() -> None:
    talk = Talk().client(k.heartbeat(1), k.produce(2, 1))
    waiting = requests_in_flight(talk, held_back=frozenset({"Heartbeat"}))
    assert waiting.requests == 2
    assert [request.api_name for request in waiting.oldest] == ["Produce"]


def test_a_one_way_request_is_not_in_flight() -> None:
    assert requests_in_flight(Talk().client(k.produce(1, 0))).requests == 0


def test_a_request_whose_response_may_be_lost_is_not_in_flight() -> None:
    talk = Talk().client(k.heartbeat(1)).loses(BROKER, len(k.heartbeat_answer(1)))
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2))
    assert requests_in_flight(talk).requests == 0


def test_a_closed_connection_has_no_requests_in_flight() -> None:
    assert requests_in_flight(Talk().client(k.heartbeat(1)).close()).requests == 0


def test_a_long_client_id_is_shortened() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client(k.heartbeat(2, client_id="x" * 5000))
    (request,) = requests_in_flight(talk).oldest
    assert request.client_id == "x" * 256 + "... (5000 characters)"


def test_requests_are_counted_by_broker_without_those_that_began_later() -> None:
    talk = Talk().client(*(k.heartbeat(number) for number in range(1, 5)))
    waiting = in_flight(
        talk.tracker.in_flight(LATE), name_of, lambda request: False, before_ns=TIME_NS + 3
    )
    assert waiting.requests == 4
    assert [(str(each.broker), *each[1:]) for each in waiting.by_broker] == [
        ("10.0.0.2:9092", 2, 1)
    ]
