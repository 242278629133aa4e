"""Rows of a step, by column and one by one: what a row needs of those before it comes in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.analysis import block
from kanalyze.analysis.extract import Extractors
from kanalyze.analysis.row_batches import BatchMaker
from kanalyze.analysis.rows import RowMaker
from kanalyze.analysis.topics import TopicNames
from tests.support.batches import message
from tests.support.columnar import ColumnTalk, by_columns_at_once
from tests.support.kafka import record_batch
from tests.support.talk import BROKER, CLIENT, Talk
from tests.support.traffic import (
    Part,
    fetch,
    fetch_answer,
    metadata,
    metadata_answer,
    produce,
    produce_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.analysis.block import RowBatch
    from kanalyze.analysis.row import Row

    Place = Callable[[int], tuple[str, int | None]]
    Turn = tuple[int, bytes]

A, B = b"\1" * 16, b"\2" * 16


def one_capture(number: int) -> tuple[str, int | None]:
    return "x.pcap", number


def maker_of(talk: Talk, place: Place, told: Iterable[tuple[bytes, str]]) -> RowMaker:
    names = TopicNames(lambda: told)
    return RowMaker(talk.catalog, Extractors(talk.catalog), place, names)


def rows_of(
    *batches: Sequence[Turn], place: Place = one_capture, told: Iterable[tuple[bytes, str]] = ()
) -> tuple[list[RowBatch], list[Row]]:
    """The rows of a dialogue, in batches with columns; those made one by one are the same."""
    single = Talk()
    for turns in batches:
        single.at_once(*turns)
    maker = maker_of(single, place, told)
    expected = [maker.row(exchange) for exchange in single.exchanges]
    with by_columns_at_once():
        talk = ColumnTalk()
        for turns in batches:
            talk.at_once(*turns)
    maker = maker_of(talk, place, told)
    batch_maker = BatchMaker(maker, place)
    made = [
        batch
        for step in talk.steps
        for batch in batch_maker.batches(step.exchanges, step.turns, step.columns)
    ]
    assert [row for batch in made for row in batch.rows()] == expected
    return made, expected


def by_column(batches: Iterable[RowBatch]) -> int:
    return sum(len(block) for batch in batches for block in batch.blocks)


def pair(request: bytes, response: bytes) -> list[Turn]:
    return [(CLIENT, request), (BROKER, response)]


def produced(number: int, *parts: Part, version: int = 9) -> list[Turn]:
    return pair(produce(number, version, parts), produce_answer(number, version, parts))


def fetched(
    number: int, *parts: Part, version: int = 11, session_id: int = 0, epoch: int = -1
) -> list[Turn]:
    return pair(
        fetch(number, version, parts, session_id=session_id, epoch=epoch),
        fetch_answer(number, version, parts, session_id=session_id),
    )


def named(number: int, *names: tuple[bytes, str]) -> list[Turn]:
    return pair(metadata(number), metadata_answer(number, names))


def test_nothing_makes_no_rows() -> None:
    batches, rows = rows_of([])
    assert (by_column(batches), rows) == (0, [])


def test_a_step_without_columns_is_a_batch_of_objects() -> None:
    (batch,), rows = rows_of(named(1))
    assert (batch.blocks, batch.objects, batch.order) == ((), rows, None)


def test_rows_of_several_versions_and_apis_stand_in_the_order_of_their_exchanges() -> None:
    turns = [*produced(1, Part()), *fetched(2, Part()), *produced(3, Part(), version=8)]
    (batch,), rows = rows_of([*turns, *produced(4, Part()), *fetched(5, Part(), version=12)])
    assert [row.correlation_id for row in rows] == [1, 2, 3, 4, 5]
    assert sorted(map(len, batch.blocks)) == [1, 1, 1, 2]


def test_what_is_odd_is_an_object_between_columns() -> None:
    twice = produced(2, Part(), Part(error_code=3))
    (batch,), rows = rows_of([*produced(1, Part()), *twice, *produced(3, Part())])
    assert [row.correlation_id for row in batch.objects] == [2]
    assert by_column([batch]) == 2
    assert [row.correlation_id for row in rows] == [1, 2, 3]


def test_all_may_be_odd() -> None:
    batches, rows = rows_of([*fetched(1, Part(), epoch=0), *fetched(2, Part(), epoch=0)])
    assert (by_column(batches), len(rows)) == (0, 2)


def test_an_answer_in_another_order_is_odd() -> None:
    parts = (Part(partition=1), Part(partition=2, error_code=3))
    turns = pair(produce(1, 9, parts), produce_answer(1, 9, parts[::-1]))
    batches, rows = rows_of([*turns, *produced(2, *parts)])
    assert by_column(batches) == 1
    assert [part.error_code for part in rows[0].partitions] == [0, 3]


@pytest.mark.parametrize("held_bytes", [1, 5000, 9000])
def test_rows_are_made_no_more_at_a_time_than_may_be_held(
    held_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block, "HELD_BYTES", held_bytes)
    parts = [Part(partition=number) for number in range(5)]
    in_session = [
        turn
        for number in range(6)
        for turn in (
            *fetched(2 * number, *(() if number else parts), session_id=7, epoch=number),
            *produced(2 * number + 1),
        )
    ]
    batches, rows = rows_of([*in_session, *by_id(12, A), *named(13, (A, "a")), *by_id(14, A)])
    assert by_column(batches) == 8
    assert [len(row.partitions) for row in rows[:12:2]] == [5] * 6
    most = [list(map(block.bytes_of_row, batch.objects)) for batch in batches]
    assert all(sum(sizes) <= held_bytes or len(sizes) == 1 for sizes in most)
    # Those of columns are made into objects as carefully.
    for batch in batches:
        pieces = list(batch.pieces())
        assert [row for some in pieces for row in some] == batch.rows()
        sizes = [list(map(block.bytes_of_row, some)) for some in pieces]
        assert all(sum(some) <= held_bytes or len(some) == 1 for some in sizes)


# -- names of topics ------------------------------------------------------------------------------


def topics(rows: Iterable[Row]) -> list[str | None]:
    """Of what was produced to and fetched from; what names topics stands between them."""
    moved = [row for row in rows if row.api_name in ("Produce", "Fetch")]
    return [part.topic for row in moved for part in row.partitions]


def by_id(number: int, topic_id: bytes) -> list[Turn]:
    return fetched(number, Part("", topic_id), version=13)


def test_a_name_holds_from_where_it_is_told() -> None:
    batches, rows = rows_of(
        [*by_id(1, A), *named(2, (A, "a")), *by_id(3, A), *named(4, (A, "b")), *by_id(5, A)],
        [*by_id(6, A), *by_id(7, B)],
    )
    assert topics(rows) == [None, "a", "b", "b", None]
    assert by_column(batches) == 5


def test_a_name_that_is_told_later_is_looked_for() -> None:
    batches, rows = rows_of([*by_id(1, A), *by_id(2, B), *by_id(3, A)], told=[(A, "a")])
    assert topics(rows) == ["a", None, "a"]
    assert by_column(batches) == 3


def test_a_name_in_the_message_is_the_name() -> None:
    _, rows = rows_of([*produced(1, Part("t"), Part("u"), Part("t", partition=3))])
    assert topics(rows) == ["t", "u", "t"]


def test_a_topic_without_name_or_id_has_none() -> None:
    _, rows = rows_of([*produced(1, Part("")), *by_id(2, bytes(16))])
    assert topics(rows) == [None, None]


def test_errors_name_their_topics() -> None:
    failed = Part("", A, error_code=6)
    batches, rows = rows_of([*named(1, (A, "a")), *fetched(2, failed, version=13)])
    assert [error.topic for row in rows for error in row.errors] == ["a"]
    assert by_column(batches) == 1


# -- places in captures ---------------------------------------------------------------------------


def test_packets_have_the_numbers_of_their_captures() -> None:
    def place(number: int) -> tuple[str, int | None]:
        # Packets of two captures in turn, but for those of the first exchange.
        return ("a.pcap", number) if number < 3 else ("bc"[number % 2], number // 2)

    batches, rows = rows_of(
        [*produced(1, Part()), *produced(2, Part()), *produced(3, Part())], place=place
    )
    assert by_column(batches) == 3
    places = [(row.capture, row.request_packet, row.response_packet) for row in rows]
    assert places == [("a.pcap", 1, 2), ("c", 1, 2), ("c", 2, 3)]


def test_a_capture_that_begins_in_the_middle_of_the_packets() -> None:
    def place(number: int) -> tuple[str, int | None]:
        return ("a", number) if number <= 4 else ("b", number - 4)

    turns = [turn for number in range(4) for turn in produced(number, Part())]
    _, rows = rows_of(turns, turns[:0], place=place)
    assert [(row.capture, row.request_packet) for row in rows] == [
        ("a", 1), ("a", 3), ("b", 1), ("b", 3),
    ]  # fmt: skip


def test_a_place_that_was_forgotten_is_null() -> None:
    def place(number: int) -> tuple[str, int | None]:
        return ("(unknown)", None) if number < 4 else ("x", number)

    _, rows = rows_of([*produced(1, Part()), *produced(2, Part())], place=place)
    assert [(row.request_packet, row.response_packet) for row in rows] == [(None, None), (None, 4)]


# -- fetches that wait ----------------------------------------------------------------------------


def held_fetch(
    number: int, high_watermark: int, base_offset: int | None, version: int = 11, epoch: int = -1
) -> list[Turn]:
    """A fetch from one partition that is answered a while later; without an offset: by nothing."""
    records = None
    if base_offset is not None:
        records = base_offset.to_bytes(8, "big") + record_batch()[8:]
    part = Part(records=records, high_watermark=high_watermark)
    request, response = fetched(number, part, version=version, epoch=epoch)
    return [request, *[(CLIENT, b"")] * 5, response]


def test_whether_a_fetch_waited_is_told_by_those_before_it_however_they_come() -> None:
    turns = [
        *held_fetch(1, 10, 9),
        *held_fetch(2, 11, 10, version=12),
        *held_fetch(3, 12, 10),
        *held_fetch(4, 13, 12, epoch=0),  # in a session: an object
        *held_fetch(5, 14, 13, version=12),
        *held_fetch(6, 14, None, epoch=0),
        *held_fetch(7, 16, 14),
    ]
    batches, rows = rows_of(
        turns, held_fetch(8, 17, 16), held_fetch(9, 18, 3, version=12), held_fetch(10, 19, 18)
    )
    assert by_column(batches) == 8
    waited = [False, True, False, True, True, False, True, True, False, True]
    assert [row.waited for row in rows] == waited


def test_a_compressed_set_of_old_tells_what_came_while_a_fetch_waited() -> None:
    def held(number: int, high_watermark: int, last_offset: int) -> list[Turn]:
        old = message(1, offset=last_offset, attributes=1)
        part = Part(records=old, high_watermark=high_watermark)
        request, response = fetched(number, part)
        return [request, *[(CLIENT, b"")] * 5, response]

    _, rows = rows_of([*held(1, 10, 9), *held(2, 13, 12), *held(3, 13, 12)])
    assert [row.waited for row in rows] == [False, True, False]
    assert [row.partitions[0].base_offset for row in rows] == [None] * 3


@pytest.mark.parametrize("version", [2, 9, 13])
def test_of_a_produce_request_without_partitions_no_records_are_claimed(version: int) -> None:
    batches, rows = rows_of(
        [turn for number in range(9) for turn in produced(number, version=version)]
    )
    assert by_column(batches) == 9
    for row in rows:
        assert row.partitions == []
        assert row.record_count is row.record_bytes is None


def test_of_a_produce_request_nothing_is_said_of_waiting() -> None:
    batches, rows = rows_of(produced(1, Part()))
    assert by_column(batches) == 1
    assert rows[0].waited is None
