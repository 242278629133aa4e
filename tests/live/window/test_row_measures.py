"""What rows are measured and chosen by."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.common.texts import bounded_text
from kanalyze.live.window.row_measures import (
    RowChoice,
    RowMeasures,
    text_matches,
)
from kanalyze.model.tcp import Endpoint
from kanalyze.tables.columns.block import RowBlock, Words, columns_of_rows
from tests.support.cases import examples
from tests.support.rows import failed, fetch, orphan, partition, row, rows, unanswered


def measures_of(*rows) -> RowMeasures:
    return RowMeasures(columns_of_rows(rows))


def test_rows_are_classified_by_status_and_api():
    measures = measures_of(
        *(row(), fetch(waited=True), orphan(), unanswered(), failed(None, 6, "X")),
        *(row(api_name="JoinGroup"), row(api_name="MultiProduce"), row(api_name="MultiFetch")),
    )
    assert len(measures) == 8
    assert np.flatnonzero(measures.is_orphan).tolist() == [2]
    assert np.flatnonzero(~measures.is_request).tolist() == [2]
    assert np.flatnonzero(measures.is_error).tolist() == [4]
    assert np.flatnonzero(measures.is_join).tolist() == [5]
    assert np.flatnonzero(measures.is_produce).tolist() == [0, 4, 6]
    assert np.flatnonzero(measures.is_fetch).tolist() == [1, 3, 7]
    assert np.flatnonzero(measures.is_held_back).tolist() == [1]
    assert np.flatnonzero(measures.has_no_records).tolist() == [3]


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


def test_only_words_in_use_are_kept():
    block = RowBlock.of_rows([row(), row()])
    shared = Words(np.array([9, -1], dtype=np.int32), [str(number) for number in range(10)])
    measures = RowMeasures({**block.columns, "client_id": shared})
    assert measures.words("client_id").words == ["9"]


LONG = "x" * 9000


def chosen(choice: RowChoice, given_rows) -> list[int]:
    return [
        number for number, is_chosen in enumerate(choice(RowBlock.of_rows(given_rows))) if is_chosen
    ]


def names_of(item) -> list[str | None]:
    """Return all names in a row."""
    broker = str(Endpoint(item.broker_ip, item.broker_port))
    texts = [item.api_name, item.client_id, item.client_ip, item.group_id, item.error_name, broker]
    for item_partition in item.partitions:
        texts += [item_partition.topic, item_partition.topic_id]
    for error in item.errors:
        texts += [error.topic, error.name]
    return texts


@settings(max_examples=examples(40))
@given(
    st.lists(rows(), min_size=1, max_size=12), st.sampled_from(["a", "1", "9092", "o?d*", "*", ""])
)
def test_a_pattern_matches_any_name_in_a_row(given_rows, pattern):
    expected = [n for n, item in enumerate(given_rows) if text_matches(pattern, names_of(item))]
    assert chosen(RowChoice(naming=pattern), given_rows) == expected


@settings(max_examples=examples(40))
@given(st.lists(rows(), min_size=1, max_size=12), st.integers(0, 11), st.data())
def test_conditions_on_columns_select_rows_with_equal_values(given_rows, number, data):
    example = given_rows[number % len(given_rows)]
    names = data.draw(
        st.lists(st.sampled_from(["client_id", "client_ip", "broker_port", "api_key", "group_id"]))
    )
    columns = {name: getattr(example, name) for name in names}
    columns = {n: bounded_text(v) if isinstance(v, str) else v for n, v in columns.items()}
    expected = [
        n
        for n, item in enumerate(given_rows)
        if all(getattr(item, x) == getattr(example, x) for x in names)
    ]
    assert chosen(RowChoice(columns), given_rows) == expected


def test_a_fetch_of_unknown_waiting_counts_as_not_waited():
    given_rows = [fetch(waited=True), fetch(waited=False), fetch(waited=None)]
    assert chosen(RowChoice({"waited": 0}), given_rows) == [1, 2]
    assert chosen(RowChoice({"waited": 1}), given_rows) == [0]


def test_a_topic_matches_in_a_partition_or_an_error():
    given_rows = [
        row(partitions=[partition("a"), partition("b", 1)]),
        row(partitions=[partition("b")]),
        failed("b", 3, "X", partitions=[]),
        fetch(partitions=[partition(None, topic_id="id")]),
        fetch(partitions=[partition("c", topic_id="id")]),
        row(partitions=[]),
    ]
    assert chosen(RowChoice(topic=("b", None)), given_rows) == [0, 1, 2]
    assert chosen(RowChoice(topic=(None, "id")), given_rows) == [3]


def test_all_conditions_on_an_error_hold_for_the_same_item():
    with_one_error = failed("a", 6, "SIX")
    with_two_errors = with_one_error._replace(
        errors=[*with_one_error.errors, *failed("b", 3, "THREE").errors]
    )
    given_rows = [with_one_error, with_two_errors, row()]
    assert chosen(RowChoice(error={"code": 3, "topic": "b"}), given_rows) == [1]
    assert chosen(RowChoice(error={"code": 3, "topic": "a"}), given_rows) == []
    assert chosen(RowChoice(error={"name": "SIX"}), given_rows) == [0, 1]


def test_orphan_responses_have_no_client():
    long_name = "x" * 9000
    given_rows = [row(client_id=None), orphan(), row(client_id=long_name)]
    assert chosen(RowChoice({"client_id": bounded_text(long_name)}), given_rows) == [2]
    assert chosen(RowChoice({"client_id": None}), given_rows) == [0, 1]
    assert chosen(RowChoice({"client_id": None}, requests_only=True), given_rows) == [0]


def test_a_broker_is_named_by_address_and_port():
    given_rows = [row(broker_ip="::1", broker_port=9092, client_ip="10.0.0.1")]
    for pattern, matches in (("[::1]:9092", False), ("::1]:90", True), ("*::1*:9092", True)):
        assert chosen(RowChoice(naming=pattern), given_rows) == [0] * matches
