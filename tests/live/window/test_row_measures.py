from __future__ import annotations

import numpy as np

from kanalyze.live.window.row_measures import RowMeasures, rows_of_items, rows_with_items
from kanalyze.tables.columns.block import Lists, RowBlock, Words, columns_of_rows
from tests.support.rows import failed, fetch, orphan, partition, row, unanswered


def measures_of(*rows) -> RowMeasures:
    return RowMeasures(columns_of_rows(rows))


def test_rows_are_classified_by_status_and_api():
    measures = measures_of(
        row(), fetch(), orphan(), unanswered(), failed(None, 6, "X"), row(api_name="JoinGroup")
    )
    assert len(measures) == 6
    assert np.flatnonzero(measures.is_orphan).tolist() == [2]
    assert np.flatnonzero(~measures.is_request).tolist() == [2]
    assert np.flatnonzero(measures.is_error).tolist() == [4]
    assert np.flatnonzero(measures.is_join).tolist() == [5]
    assert np.flatnonzero(measures.is_produce).tolist() == [0, 4]
    assert np.flatnonzero(measures.is_fetch).tolist() == [1, 3]
    assert np.flatnonzero(measures.has_no_records).tolist() == [3]


def test_apis_of_the_old_protocol_have_records():
    measures = measures_of(row(api_name="MultiProduce"), row(api_name="MultiFetch"))
    assert measures.is_produce.tolist() == [True, False]
    assert measures.is_fetch.tolist() == [False, True]


def test_only_fetches_known_to_have_waited_are_long_polls():
    measures = measures_of(fetch(waited=True), fetch(waited=False), fetch(waited=None))
    assert measures.is_held_back.tolist() == [True, False, False]


def test_a_malformed_row_with_a_response_and_no_code_is_not_read():
    no_code = {"status": "malformed", "error_code": None, "error_name": None}
    no_response = {"response_start_ns": None, "latency_ns": None}
    measures = measures_of(
        row(**no_code), row(status="malformed"), row(**no_code, **no_response), orphan()
    )
    assert measures.is_unread.tolist() == [True, False, False, False]


def test_a_produce_request_without_partitions_has_no_records():
    empty = row(partitions=[], record_count=None, record_bytes=None)
    unread = empty._replace(status="malformed")
    measures = measures_of(empty, empty._replace(status="one_way"), unread)
    assert measures.has_no_records.tolist() == [True, True, False]


def test_partitions_are_those_of_produce_and_fetch_requests():
    metadata = row(api_name="Metadata", partitions=[partition("c")])
    refused = partition("b", 1, record_count=None, error_code=3)
    measures = measures_of(metadata, row(partitions=[partition("a"), refused], record_count=None))
    partitions = measures.partitions
    assert partitions is not None
    assert [partitions.topic.words[code] for code in partitions.topic.codes] == ["a", "b"]
    assert partitions.produced_records.tolist() == [1, 0]
    assert partitions.has_data.tolist() == [True, False]
    assert partitions.is_unknown.tolist() == [False, False]
    assert measures_of(metadata).partitions is None


def test_records_are_unknown_if_neither_partition_nor_row_counts_them():
    unknown = partition(record_count=None)
    measures = measures_of(
        fetch(partitions=[unknown], record_count=None),
        fetch(partitions=[unknown], record_count=4),
        unanswered(partitions=[unknown]),
    )
    assert measures.partitions is not None
    assert measures.partitions.is_unknown.tolist() == [True, False, False]


def test_items_have_the_row_number_of_their_list():
    lists = Lists(np.array([0, 2, 2, 3]), {})
    assert rows_of_items(lists).tolist() == [0, 0, 2]


def test_only_words_in_use_are_kept():
    block = RowBlock.of_rows([row(), row()])
    shared = Words(np.array([9, -1], dtype=np.int32), [str(number) for number in range(10)])
    measures = RowMeasures({**block.columns, "client_id": shared})
    assert measures.words("client_id").words == ["9"]


def test_the_time_of_a_row_is_that_of_its_response_or_of_its_request():
    rows = [row(), unanswered(), orphan()]
    times = measures_of(*rows).times_ns(unknown=-7).tolist()
    assert times == [rows[0].response_start_ns, rows[1].request_start_ns, rows[2].response_start_ns]
    neither = row(request_start_ns=None, response_start_ns=None)
    assert measures_of(neither).times_ns(unknown=-7).tolist() == [-7]


def test_rows_with_items_are_those_that_have_a_selected_item():
    errors = measures_of(row(), failed("t", 6, "X"), row()).lists("errors")
    assert rows_with_items(errors, np.array([True])).tolist() == [False, True, False]
    assert rows_with_items(errors, np.array([False])).tolist() == [False, False, False]
