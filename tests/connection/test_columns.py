"""Exchanges as columns, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kanalyze.connection.exchange import Exchange, Message
from tests.support import kafka as k
from tests.support.columnar import ColumnTalk, by_columns_at_once, in_short
from tests.support.talk import BROKER, CLIENT, Talk
from tests.support.traffic import Part, fetch, fetch_answer, produce, produce_answer

if TYPE_CHECKING:
    from kanalyze.connection.columns import ExchangeColumns

CLIENT_IDS = ("test", "caf\u00e9", "", None)
PARTS = [Part("t", partition=1), Part("u", records=None, error_code=3)]


def turns() -> list[tuple[int, bytes]]:
    made = []
    for number, client_id in enumerate(CLIENT_IDS):
        made.append((CLIENT, produce(number, 9, PARTS[: number % 3], client_id=client_id)))
        made.append((BROKER, produce_answer(number, 9, PARTS[: number % 3], throttle_ms=number)))
    return made


@pytest.fixture
def columns() -> ExchangeColumns:
    with by_columns_at_once():
        (found,) = ColumnTalk().at_once(*turns()).steps[0].columns
    return found


def said_of(message: Message | None) -> object:
    if message is None:
        return None
    return {name: in_short(getattr(message, name)) for name in Message.__slots__}


def said(exchange: Exchange) -> dict[str, object]:
    """All that an exchange says."""
    made = {name: getattr(exchange, name) for name in Exchange.__slots__}
    peers = made.pop("peers")
    return made | {
        "peers": (str(peers.client), str(peers.broker)),
        "request": said_of(exchange.request),
        "response": said_of(exchange.response),
    }


def test_as_objects_they_are_those_that_are_read_one_by_one(columns: ExchangeColumns) -> None:
    one_by_one = Talk().at_once(*turns()).exchanges
    assert len(columns) == len(CLIENT_IDS)
    assert list(map(said, columns.exchanges())) == list(map(said, one_by_one))


def test_some_are_taken_in_any_order(columns: ExchangeColumns) -> None:
    whole = list(map(said, columns.exchanges()))
    some = columns.taken(np.array([3, 0, 2]))
    assert list(map(said, some.exchanges())) == [whole[3], whole[0], whole[2]]
    assert some.turn.tolist() == [3, 0, 2]
    assert len(columns.taken(np.array([], np.int64))) == 0


def test_what_is_taken_leaves_the_others_as_they_were(columns: ExchangeColumns) -> None:
    before = list(map(said, columns.exchanges()))
    columns.taken(np.array([1])).turn[:] = 99
    assert list(map(said, columns.exchanges())) == before
    assert columns.turn.tolist() == [0, 1, 2, 3]


def test_they_tell_when_bytes_were_last_lost() -> None:
    talk = ColumnTalk(is_broker=lambda _, port: port == 9092)
    first = k.produce(1, acks=1, version=8, records=k.record_batch(1, 500))
    with by_columns_at_once():
        talk.client(first[:200]).loses(CLIENT, 300).client(first[500:])
        talk.broker(k.produce_answer(1, version=8))
        talk.at_once((CLIENT, fetch(2, 11)), (BROKER, fetch_answer(2, 11)))
    (columns,) = talk.steps[-1].columns
    (exchange,) = columns.exchanges()
    assert exchange.correlation_id == 2
    assert exchange.lost_ns is not None
    assert exchange.lost_ns == talk.exchanges[0].lost_ns
