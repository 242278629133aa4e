"""Drafts of rows: of which exchanges there are any, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kanalyze.analysis.block import Ints, Words
from kanalyze.analysis.extract import FETCH, PRODUCE
from kanalyze.analysis.row import COLUMNS
from kanalyze.analysis.row_columns import COLUMN_APIS, draft_rows, finished_block
from tests.support import kafka as k
from tests.support.columnar import ColumnTalk, by_columns_at_once
from tests.support.talk import BROKER, CLIENT
from tests.support.traffic import Part, fetch, fetch_answer, produce, produce_answer

if TYPE_CHECKING:
    from kanalyze.analysis.row_columns import RowDraft
    from kanalyze.connection.columns import ExchangeColumns

A, B = b"\1" * 16, b"\2" * 16
ONE, TWO = Part("t", partition=0), Part("t", partition=1)
OTHER = Part("u", partition=0)
NULL = Part("u", partition=1, records=None)


def columns_of(*turns: tuple[bytes, bytes], apis: frozenset[int] = COLUMN_APIS) -> ExchangeColumns:
    """Exchanges of one version, as columns."""
    said = [turn for request, response in turns for turn in ((CLIENT, request), (BROKER, response))]
    with by_columns_at_once():
        (found,) = ColumnTalk(apis).at_once(*said).steps[0].columns
    assert len(found) == len(turns)
    return found


def draft_of(*turns: tuple[bytes, bytes]) -> RowDraft:
    found = draft_rows(columns_of(*turns))
    assert found is not None
    return found


def produced(
    number: int, *parts: Part, answered: tuple[Part, ...] | None = None
) -> tuple[bytes, bytes]:
    return produce(number, 9, parts), produce_answer(
        number, 9, parts if answered is None else answered
    )


def fetched(
    number: int, *parts: Part, answered: tuple[Part, ...] | None = None
) -> tuple[bytes, bytes]:
    return fetch(number, 11, parts), fetch_answer(
        number, 11, parts if answered is None else answered
    )


# -- what is usual --------------------------------------------------------------------------------

SAME = ((), (ONE,), (ONE, TWO), (ONE, OTHER, NULL), (ONE, OTHER, TWO))
NOT_SAME = {
    "fewer": ((ONE, TWO), (ONE,)),
    "more": ((ONE,), (ONE, TWO)),
    "none": ((ONE,), ()),
    "none asked for": ((), (ONE,)),
    "another order": ((ONE, TWO), (TWO, ONE)),
    "another partition": ((ONE,), (TWO,)),
    "another topic": ((ONE,), (OTHER,)),
    "another length of name": ((ONE,), (ONE._replace(topic="tt"),)),
}


@pytest.mark.parametrize("parts", SAME, ids=len)
def test_messages_that_speak_of_the_same_partitions_are_usual(parts: tuple[Part, ...]) -> None:
    for turn in (produced(1, *parts), fetched(1, *parts)):
        assert draft_of(turn).kept.tolist() == [0]


@pytest.mark.parametrize("what", NOT_SAME)
def test_messages_that_do_not_are_left_out(what: str) -> None:
    parts, answered = NOT_SAME[what]
    for make in (produced, fetched):
        odd = make(2, *parts, answered=answered)
        assert draft_rows(columns_of(odd)) is None
        among = draft_of(make(1, ONE), odd, make(3, ONE, TWO), make(4))
        assert among.kept.tolist() == [0, 2, 3]
        assert among.exchanges.correlation_id.tolist() == [1, 3, 4]
        assert among.parts.offsets.tolist() == [0, 1, 3, 3]


def test_one_that_produces_to_a_partition_twice_is_left_out() -> None:
    # Its answer's code and offset are those of which of the two?
    twice, apart = produced(2, ONE, ONE), produced(3, ONE, OTHER, ONE)
    assert draft_of(produced(1, ONE), twice, apart, produced(4, ONE)).kept.tolist() == [0, 3]


def test_one_that_fetches_a_partition_twice_is_not() -> None:
    assert draft_of(fetched(1, ONE, ONE)).kept.tolist() == [0]


def test_the_same_partition_of_other_topics_and_messages_is_not_twice() -> None:
    assert draft_of(produced(1, ONE, OTHER), produced(2, ONE, OTHER)).kept.tolist() == [0, 1]


@pytest.mark.parametrize(("session_id", "epoch"), [(0, 0), (7, 1), (7, -1)])
def test_fetch_sessions_are_left_out(session_id: int, epoch: int) -> None:
    odd = fetch(2, 11, [ONE], session_id=session_id, epoch=epoch), fetch_answer(2, 11, [ONE])
    assert draft_of(fetched(1, ONE), odd, fetched(3, ONE)).kept.tolist() == [0, 2]


def test_an_error_above_all_partitions_is_left_out() -> None:
    odd = fetch(2, 11, [ONE]), fetch_answer(2, 11, [ONE], error_code=70)
    assert draft_of(fetched(1, ONE), odd).kept.tolist() == [0]


def test_ids_of_topics_tell_them_apart_as_names_do() -> None:
    def by_id(number: int, asked: bytes, answered: bytes) -> tuple[bytes, bytes]:
        parts = [Part("", topic_id) for topic_id in (asked, answered)]
        return fetch(number, 13, parts[:1]), fetch_answer(number, 13, parts[1:])

    found = draft_of(by_id(1, A, A), by_id(2, A, B), by_id(3, B, B))
    assert found.kept.tolist() == [0, 2]
    ids = [found.parts.topic_ids[code] for code in found.parts.topic_id.tolist()]
    assert ids == [A, B]


def test_other_apis_have_no_rows_of_columns() -> None:
    turn = k.heartbeat(1), k.heartbeat_answer(1)
    assert draft_rows(columns_of(turn, apis=frozenset({k.HEARTBEAT}))) is None


# -- what they say --------------------------------------------------------------------------------


def topics_of(draft: RowDraft) -> list[str]:
    return [draft.parts.topics[code] for code in draft.parts.topic.tolist()]


def test_partitions_stand_in_the_order_of_their_rows() -> None:
    draft = draft_of(produced(1, ONE, TWO), produced(2), produced(3, OTHER, NULL))
    parts = draft.parts
    assert parts.offsets.tolist() == [0, 2, 2, 4]
    assert topics_of(draft) == ["t", "t", "u", "u"]
    assert parts.partition.tolist() == [0, 1, 0, 1]
    assert parts.records.is_null.tolist() == [False, False, False, True]
    assert parts.topic_id.tolist() == [-1] * 4


def test_an_offset_that_is_not_known_is_null() -> None:
    known, unknown = ONE._replace(base_offset=5), TWO._replace(base_offset=-1)
    base_offset = draft_of(produced(1, known, unknown)).parts.base_offset
    assert base_offset.valid is not None
    assert (base_offset.values.tolist(), base_offset.valid.tolist()) == ([5, 0], [True, False])
    ends = ONE._replace(high_watermark=5), TWO._replace(high_watermark=-1)
    high_watermark = draft_of(fetched(1, *ends)).parts.high_watermark
    assert high_watermark.valid is not None
    assert high_watermark.valid.tolist() == [True, False]


def test_what_only_one_of_the_apis_has_is_null_in_the_other() -> None:
    made, got = draft_of(produced(1, ONE)), draft_of(fetched(1, ONE))
    assert made.acks is not None
    assert made.acks.tolist() == [-1]
    assert got.max_wait_ms is not None
    assert (made.max_wait_ms, made.min_bytes) == (None, None)
    assert (got.acks, got.transactional_id) == (None, None)
    assert got.max_wait_ms.tolist() == [500]


def test_a_block_has_every_column_of_a_row() -> None:
    draft = draft_of(produced(1, ONE, TWO._replace(error_code=6)), produced(2))
    block = finished_block(
        draft,
        api_name="Produce",
        captures=Words(np.zeros(2, np.int32), ["x.pcap"]),
        request_packet=Ints(np.array([1, 3]), None),
        response_packet=Ints(np.array([2, 4]), None),
        topic=Words(np.array([0, -1], np.int32), ["t"]),
        topic_id_text=lambda _: None,
        tells_throttle=False,
        waited=None,
    )
    assert list(block.columns.keys() - {column.name for column in COLUMNS}) == []
    failed, empty = block.rows()
    assert (failed.status, failed.error_code) == ("error", 6)
    assert failed.errors == [(None, 1, 6, "NOT_LEADER_OR_FOLLOWER")]
    assert [part.topic for part in failed.partitions] == ["t", None]
    assert (failed.record_count, failed.record_bytes) == (2, 162)
    assert (empty.status, empty.error_name, empty.errors) == ("ok", "NONE", [])
    # Of no partition nothing is known; of one without records it is 0.
    assert (empty.record_count, empty.record_bytes) == (None, None)
    assert failed.throttle_time_ms is failed.waited is failed.min_bytes is None


def test_columns_are_made_of_produce_and_fetch() -> None:
    assert {PRODUCE, FETCH} == COLUMN_APIS
