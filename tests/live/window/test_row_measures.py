from __future__ import annotations

import numpy as np

from kanalyze.live.window.row_measures import RowMeasures, rows_of_items
from kanalyze.tables.columns.block import Lists, RowBlock, Words, columns_of_rows
from tests.support.rows import failed, fetch, orphan, partition, row, unanswered


def measures_of(*rows) -> RowMeasures:
    return RowMeasures(columns_of_rows(rows))


def plain(columns) -> list[list[int]]:
    return [column.tolist() for column in columns]


def test_rows_are_classified_by_status_and_api():
    some = measures_of(
        row(), fetch(), orphan(), unanswered(), failed(None, 6, "X"), row(api_name="JoinGroup")
    )
    assert len(some) == 6
    assert np.flatnonzero(some.is_orphan).tolist() == [2]
    assert np.flatnonzero(~some.is_request).tolist() == [2]
    assert np.flatnonzero(some.is_error).tolist() == [4]
    assert np.flatnonzero(some.is_join).tolist() == [5]
    assert np.flatnonzero(some.is_produce).tolist() == [0, 4]
    assert np.flatnonzero(some.is_fetch).tolist() == [1, 3]
    assert np.flatnonzero(some.has_no_records).tolist() == [3]


def test_apis_of_the_old_protocol_carry_records_too():
    some = measures_of(row(api_name="MultiProduce"), row(api_name="MultiFetch"))
    assert some.is_produce.tolist() == [True, False]
    assert some.is_fetch.tolist() == [False, True]


def test_a_fetch_is_slow_on_purpose_only_where_that_is_known():
    some = measures_of(fetch(waited=True), fetch(waited=False), fetch(waited=None))
    assert some.is_held_back.tolist() == [True, False, False]


def test_traffic_is_zero_where_it_is_not_known():
    some = measures_of(row(), orphan(), failed(None, 6, "X", response_bytes=None))
    assert plain(some.traffic) == [[1, 0, 1], [0, 0, 1], [200, 0, 200], [50, 50, 0]]


def test_a_produce_request_without_partitions_has_no_records():
    empty = row(partitions=[], record_count=None, record_bytes=None)
    unread = empty._replace(status="malformed")
    some = measures_of(empty, empty._replace(status="one_way"), unread)
    assert some.has_no_records.tolist() == [True, True, False]


def test_partitions_are_those_that_were_produced_to_or_fetched_from():
    metadata = row(api_name="Metadata", partitions=[partition("c")])
    refused = partition("b", 1, record_count=None, error_code=3)
    some = measures_of(metadata, row(partitions=[partition("a"), refused], record_count=None))
    parts = some.partitions
    assert parts is not None
    assert parts.row.tolist() == [1, 1]
    assert [parts.topic.words[code] for code in parts.topic.codes] == ["a", "b"]
    assert parts.record_count.tolist() == [1, 0]
    assert parts.is_refused.tolist() == [False, True]
    assert parts.is_unknown.tolist() == [False, False]
    assert measures_of(metadata).partitions is None


def test_a_partition_is_unknown_where_nothing_says_what_was_in_it():
    unknown = partition(record_count=None)
    some = measures_of(
        fetch(partitions=[unknown], record_count=None),
        fetch(partitions=[unknown], record_count=4),
        unanswered(partitions=[unknown]),
    )
    assert some.partitions is not None
    assert some.partitions.is_unknown.tolist() == [True, False, False]


def test_items_know_the_row_of_their_list():
    lists = Lists(np.array([0, 2, 2, 3]), {})
    assert rows_of_items(lists).tolist() == [0, 0, 2]


def test_only_words_in_use_are_looked_at():
    block = RowBlock.of_rows([row(), row()])
    shared = Words(np.array([9, -1], dtype=np.int32), [str(number) for number in range(10)])
    some = RowMeasures({**block.columns, "client_id": shared})
    assert some.words("client_id").words == ["9"]
