"""Which messages of a connection are read by columns.

That what is read is the same is in ``tests/test_columnar.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.connection.exchange import Peers
from kanalyze.connection.kafka import PATIENCE_BYTES, KafkaConnection
from kanalyze.connection.locate import RequestLocator
from kanalyze.connection.pairing import _UsedIds
from kanalyze.connection.reader import MessageReader
from kanalyze.model import Endpoint, TcpConnection
from kanalyze.protocol.catalog import Catalog
from kanalyze.protocol.compiler import Decoders
from kanalyze.protocol.projection import Projection
from tests.support import kafka as k
from tests.support.columnar import ColumnTalk, by_columns_at_once
from tests.support.streams import TIME_NS, chunk
from tests.support.talk import BROKER, CLIENT
from tests.support.traffic import Part, fetch, fetch_answer, produce, produce_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.talk import Talk

VERSION = 9


@pytest.fixture
def at_once() -> Iterator[None]:
    with by_columns_at_once():
        yield


def asked(*numbers: int) -> list[tuple[int, bytes]]:
    return [(CLIENT, produce(number, VERSION)) for number in numbers]


def answered(*numbers: int) -> list[tuple[int, bytes]]:
    return [(BROKER, produce_answer(number, VERSION)) for number in numbers]


def pairs(*numbers: int) -> list[tuple[int, bytes]]:
    return [turn for number in numbers for turn in (*asked(number), *answered(number))]


def ids(talk: Talk) -> list[int | None]:
    return [exchange.correlation_id for exchange in talk.exchanges]


# -- what comes as columns ------------------------------------------------------------------------


def test_requests_and_their_answers_come_as_columns() -> None:
    talk = ColumnTalk().at_once(*pairs(*range(20)))
    assert talk.by_column == list(range(20))
    assert talk.pairs() == [(number, 2 * number + 1, 2 * number + 2) for number in range(20)]
    assert talk.anomalies == []


def test_few_pairs_are_not_worth_it() -> None:
    talk = ColumnTalk().at_once(*pairs(*range(7)))
    assert talk.by_column == []
    assert ids(talk) == list(range(7))


def test_of_few_of_a_version_none_is_worth_it() -> None:
    turns = pairs(*range(20))
    turns += [(CLIENT, fetch(20, 11)), (BROKER, fetch_answer(20, 11))]
    talk = ColumnTalk().at_once(*turns, *pairs(*range(21, 30)))
    assert talk.by_column == [*range(20), *range(21, 30)]
    assert ids(talk) == list(range(30))


@pytest.mark.usefixtures("at_once")
def test_only_the_apis_that_are_asked_for() -> None:
    talk = ColumnTalk(frozenset({k.FETCH})).at_once(*pairs(1, 2))
    talk.at_once((CLIENT, fetch(3, 11)), (BROKER, fetch_answer(3, 11)))
    assert talk.by_column == [3]
    assert ids(talk) == [1, 2, 3]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("more", [{"keep": bool}, {"collect_ended": True}], ids=str)
def test_none_where_more_is_wanted_than_columns_hold(more: dict[str, object]) -> None:
    talk = ColumnTalk(**more).at_once(*pairs(1, 2, 3))
    assert talk.by_column == []
    assert ids(talk) == [1, 2, 3]


@pytest.mark.usefixtures("at_once")
def test_what_is_not_sound_comes_between_as_an_object() -> None:
    odd = (BROKER, k.response(2, b"\7", tags=b"\0"))
    talk = ColumnTalk().at_once(*pairs(1), *asked(2), odd, *pairs(3))
    assert talk.by_column == [1, 3]
    assert ids(talk) == [1, 2, 3]
    assert [exchange.malformed for exchange in talk.exchanges] == [False, True, False]


@pytest.mark.usefixtures("at_once")
def test_what_tells_of_the_connection_is_read_before_the_columns() -> None:
    versions = ((CLIENT, k.api_versions(2)), (BROKER, k.api_versions_answer_v0(2, 35)))
    talk = ColumnTalk().at_once(*pairs(1), *versions, *pairs(3, 4))
    assert talk.by_column == [3, 4]
    names = [exchange.peers.software_name for exchange in talk.exchanges]
    assert names == [None, "lib", "lib", "lib"]


@pytest.mark.usefixtures("at_once")
def test_an_id_that_does_not_follow_ends_the_columns() -> None:
    talk = ColumnTalk().at_once(*pairs(1, 2, 7, 8))
    assert talk.by_column == [1, 2]
    assert ids(talk) == [1, 2, 7, 8]


@pytest.mark.usefixtures("at_once")
def test_a_connection_that_uses_ids_again_is_read_message_by_message() -> None:
    talk = ColumnTalk().at_once(*pairs(1, 2)).at_once(*pairs(1, 2)).at_once(*pairs(3, 4))
    assert talk.by_column == [1, 2]
    assert ids(talk) == [1, 2, 1, 2, 3, 4]


def test_a_large_message_among_small_ones_is_read_by_itself() -> None:
    large = [Part(records=k.record_batch(9, 40_000))]
    turns = [(CLIENT, produce(1, VERSION, large)), *answered(1)]
    with by_columns_at_once(few_frames=1 << 30):
        talk = ColumnTalk().at_once(*turns, *pairs(2, 3))
    assert talk.by_column == [2, 3]
    assert ids(talk) == [1, 2, 3]
    with by_columns_at_once(few_frames=1 << 30, most_joined_bytes=1 << 20):
        talk = ColumnTalk().at_once(*turns, *pairs(2, 3))
    assert talk.by_column == [1, 2, 3]


# -- requests that wait for the next batch --------------------------------------------------------


@pytest.mark.usefixtures("at_once")
def test_requests_without_an_answer_yet_are_read_with_it() -> None:
    talk = ColumnTalk().at_once(*pairs(1, 2), *asked(3, 4))
    assert ids(talk) == [1, 2]
    assert talk.tracker.kafka_held_bytes >= 2 * len(produce(3, VERSION))
    talk.at_once(*answered(3), *asked(5), *answered(4, 5))
    assert talk.by_column == [1, 2, 3, 4, 5]
    assert talk.pairs()[2:] == [(3, 5, 7), (4, 6, 9), (5, 8, 10)]
    assert talk.close().anomalies == []


@pytest.mark.usefixtures("at_once")
def test_they_are_unanswered_when_no_answer_comes() -> None:
    talk = ColumnTalk().at_once(*pairs(1, 2), *asked(3, 4)).close()
    assert talk.pairs() == [(1, 1, 2), (2, 3, 4), (3, 5, None), (4, 6, None)]
    assert talk.kinds() == ["unanswered_request"] * 2


@pytest.mark.usefixtures("at_once")
def test_a_part_of_a_request_waits_too() -> None:
    whole = produce(3, VERSION)
    talk = ColumnTalk().at_once(*pairs(1, 2), (CLIENT, whole[:30]))
    talk.at_once((CLIENT, whole[30:]), *answered(3), *pairs(4))
    assert talk.by_column == [1, 2, 3, 4]
    assert talk.pairs()[2] == (3, 5, 7)


def test_no_more_waits_than_is_bearable() -> None:
    with by_columns_at_once(most_held_bytes=len(produce(3, VERSION))):
        talk = ColumnTalk().at_once(*pairs(1, 2), *asked(3))
        held = talk.tracker.kafka_held_bytes
        assert held == len(produce(3, VERSION))
        talk = ColumnTalk().at_once(*pairs(1, 2), *asked(3, 4))
        # They are read, and wait as objects.
        talk.at_once(*answered(3, 4), *pairs(5))
    assert ids(talk) == [1, 2, 3, 4, 5]
    assert not {3, 4} & {*talk.by_column}


@pytest.mark.usefixtures("at_once")
def test_an_answer_that_is_cut_by_the_batch() -> None:
    answer = produce_answer(2, VERSION)
    talk = ColumnTalk().at_once(*pairs(1), *asked(2), (BROKER, answer[:9]))
    talk.at_once((BROKER, answer[9:]), *pairs(3))
    assert ids(talk) == [1, 2, 3]
    assert talk.pairs()[1] == (2, 3, 4)
    assert {1, 3} <= {*talk.by_column}


# -- the state of a connection --------------------------------------------------------------------


def connection() -> KafkaConnection:
    catalog = Catalog()
    reader = MessageReader(catalog, Decoders(catalog), lambda *_: Projection.of())
    ends = (Endpoint("10.0.0.1", 50_000), Endpoint("10.0.0.2", 9092))
    tcp = TcpConnection(1, ends, 1, CLIENT, TIME_NS, TIME_NS)
    locate = RequestLocator(reader, catalog, patience_bytes=PATIENCE_BYTES)
    peers = Peers(tcp, *ends)
    return KafkaConnection(peers, CLIENT, reader, locate, in_sync=(True, True), from_start=True)


def test_answered_requests_pass_a_connection() -> None:
    one = connection()
    assert one.pass_answered(5, 10)
    assert one.pass_answered(15, 1)
    assert not one.pass_answered(15, 1)


def test_they_do_while_another_request_waits_but_not_with_its_id() -> None:
    one = connection()
    one.feed(([chunk([produce(3, VERSION)])], []))
    assert not one.pass_answered(1, 10)
    assert not one.pass_answered(3, 1)
    assert one.pass_answered(4, 10)
    (exchange,) = one.feed(([], [chunk([produce_answer(3, VERSION)], first_packet=2)]))
    assert exchange.correlation_id == 3


@pytest.mark.parametrize("side", [CLIENT, BROKER])
def test_they_do_not_while_a_message_has_begun(side: int) -> None:
    one = connection()
    begun = chunk([produce(1, VERSION)[:20]])
    one.feed(([begun], []) if side == CLIENT else ([], [begun]))
    assert one.unfinished_bytes[side] > 0
    assert not one.pass_answered(2, 10)


def test_what_is_held_back_is_read_first() -> None:
    one = connection()
    one.held_back = [chunk([produce(1, VERSION)])]
    assert one.held_bytes == len(produce(1, VERSION))
    later = chunk([produce(2, VERSION)], stream_offset=len(produce(1, VERSION)), first_packet=2)
    answers = chunk([produce_answer(1, VERSION), produce_answer(2, VERSION)], first_packet=3)
    found = one.feed(([later], [answers]))
    assert [exchange.correlation_id for exchange in found] == [1, 2]
    assert one.held_back == []


@pytest.mark.parametrize("way", ["close", "shed"])
def test_what_is_held_back_is_not_forgotten(way: str) -> None:
    one = connection()
    one.held_back = [chunk([produce(1, VERSION)])]
    if way == "shed":
        one.shed()
    assert [exchange.correlation_id for exchange in one.close()] == [1]


# -- ids that were used ---------------------------------------------------------------------------

NEAR = st.integers(-3, 40) | st.sampled_from([2**31 - 3, 2**31 - 1, -(2**31)])


@given(st.lists(st.tuples(NEAR, st.integers(1, 6)), max_size=30))
def test_a_run_of_ids_is_noted_as_if_each_were(runs: list[tuple[int, int]]) -> None:
    at_once, one_by_one = _UsedIds(), _UsedIds()
    for first, wanted in runs:
        count = min(wanted, 2**31 - first)
        told = [one_by_one.add(number) for number in range(first, first + count)]
        assert at_once.add_run(first, count) == (not any(told))
        if any(told):
            return


@given(st.lists(NEAR, max_size=20), NEAR, st.integers(1, 6), NEAR)
def test_of_a_run_that_is_refused_nothing_is_noted(
    before: list[int], first: int, wanted: int, after: int
) -> None:
    count = min(wanted, 2**31 - first)
    refused, untouched = _UsedIds(), _UsedIds()
    for number in before:
        refused.add(number)
        untouched.add(number)
    if not refused.add_run(first, count):
        assert refused.add(after) == untouched.add(after)


@pytest.mark.parametrize("first", [10 * 64, 5, -5])
def test_of_very_many_runs_the_same_is_noted(first: int) -> None:
    at_once, one_by_one = _UsedIds(), _UsedIds()
    for begin in (*range(0, 640, 10), first):
        told = [one_by_one.add(number) for number in range(begin, begin + 3)]
        assert at_once.add_run(begin, 3) == (not any(told))
    assert any(told) == (first < 0)
