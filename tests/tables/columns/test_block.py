from __future__ import annotations

import pickle
from array import array
from operator import itemgetter
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.spec.rows.requests import COLUMNS, ErrorItem, PartitionItem
from kanalyze.tables.columns import block as blocks
from kanalyze.tables.columns.block import (
    Lists,
    RowBlock,
    Words,
    bytes_of_row,
    words_in_use,
)
from kanalyze.tables.columns.numpy_arrays import all_began_ns
from tests.support.cases import examples
from tests.support.rows import fetch, orphan, plain_traffic, row, rows


@settings(max_examples=examples(50))
@given(st.lists(rows(), max_size=6))
def test_rows_by_column_are_the_same_rows(given_rows):
    block = RowBlock.of_rows(given_rows)
    assert len(block) == len(given_rows)
    assert block.rows() == given_rows


def test_a_block_has_every_column_with_the_fields_of_its_structs():
    for block in (RowBlock.of_rows([]), RowBlock.of_rows([row()])):
        assert list(block.columns) == [column.name for column in COLUMNS]
        for column in COLUMNS:
            values = block.columns[column.name]
            if isinstance(values, Lists):
                assert list(values.fields) == [part.name for part in column.fields] or [""]
                assert len(values.offsets) == len(block) + 1


def test_values_have_python_types():
    (made,) = RowBlock.of_rows(
        [fetch(waited=True, errors=[ErrorItem("a", None, 6, "X")], anomalies=["trailing_bytes"])]
    ).rows()
    assert made.waited is True
    assert type(made.latency_ns) is int
    assert type(made.errors) is list
    assert type(made.errors[0]) is ErrorItem
    assert type(made.errors[0].code) is int
    assert type(made.partitions[0]) is PartitionItem
    assert made.anomalies == ["trailing_bytes"]


def test_a_text_is_stored_once_and_null_is_not_a_text():
    block = RowBlock.of_rows([row(client_id=name) for name in ("b", None, "a", "b", "")])
    assert block.columns["client_id"] == (array("i", [0, -1, 1, 0, 2]), ["b", "a", ""])


def test_a_number_beyond_int64_is_not_cut():
    with pytest.raises(OverflowError):
        RowBlock.of_rows([row(latency_ns=2**63)])


@settings(max_examples=examples(50))
@given(st.lists(rows(), min_size=1, max_size=5), st.data())
def test_any_rows_of_a_block_can_be_taken_in_any_order(given_rows, data):
    numbers = data.draw(st.lists(st.integers(0, len(given_rows) - 1), max_size=8))
    drain = RowBlock.of_rows(given_rows).take(numbers)
    assert drain.rows() == [given_rows[number] for number in numbers]


@settings(max_examples=examples(50))
@given(st.lists(rows(), max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_a_part_of_a_block_is_a_block(given_rows, one, two):
    first, end = sorted((min(one, len(given_rows)), min(two, len(given_rows))))
    part = RowBlock.of_rows(given_rows).part(first, end)
    assert len(part) == end - first
    assert part.rows() == given_rows[first:end]


def test_joined_blocks_need_not_know_the_same_words_or_nulls():
    one, two = plain_traffic(7), [orphan(client_id="new"), *plain_traffic(3, seed=2)]
    joined = RowBlock.joined([RowBlock.of_rows(one), RowBlock.of_rows([]), RowBlock.of_rows(two)])
    assert joined.rows() == one + two


def test_words_that_do_not_occur_are_left_out_when_there_are_many():
    words = [f"client-{number}" for number in range(100)]
    texts = Words(array("i", [70, -1, 3, 70]), words)
    in_use = words_in_use(texts)
    assert in_use.words == ["client-70", "client-3"]
    assert in_use.codes == array("i", [0, -1, 1, 0])
    assert words_in_use(in_use) is in_use


def test_joined_blocks_keep_their_shared_words():
    words = ["a", "b"]
    plain = RowBlock.of_rows([row()])
    parts = [
        RowBlock(1, {**plain.columns, "client_id": Words(array("i", [code]), words)})
        for code in (1, -1, 0)
    ]
    joined = RowBlock.joined(parts)
    assert [made.client_id for made in joined.rows()] == ["b", None, "a"]
    clients = joined.columns["client_id"]
    assert isinstance(clients, Words)
    assert clients.words is words


@settings(max_examples=examples(30))
@given(st.lists(rows(), max_size=6), st.integers(0, 12_000))
def test_pieces_of_a_block_are_as_large_as_allowed(given_rows, limit_bytes):
    block = RowBlock.of_rows(given_rows)
    with patch.object(blocks, "BUFFERED_BYTES", limit_bytes):
        pieces = [piece.rows() for piece in block.pieces()]
    assert [item for piece in pieces for item in piece] == given_rows
    for piece in pieces:
        assert piece
        assert len(piece) == 1 or sum(map(bytes_of_row, piece)) <= limit_bytes


def test_a_response_without_a_request_counts_by_its_own_time():
    rows = plain_traffic(4)
    times = [row.request_start_ns for row in rows]
    assert all_began_ns(RowBlock.of_rows(rows)).tolist() == times
    rows[1] = rows[1]._replace(request_start_ns=None, response_start_ns=7)
    rows[2] = rows[2]._replace(request_start_ns=5, response_start_ns=None)
    rows[3] = rows[3]._replace(request_start_ns=None, response_start_ns=None)
    assert [row.began_ns for row in rows] == [times[0], 7, 5, None]
    assert all_began_ns(RowBlock.of_rows(rows)).tolist() == [times[0], 7, 5, 0]


@settings(max_examples=examples(50))
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), rows()), max_size=4), min_size=1, max_size=4))
def test_merged_rows_are_in_the_order_of_a_stable_sort_by_key(parts):
    parts = [sorted(part, key=itemgetter(0)) for part in parts]
    keys = [array("q", [key for key, _ in part]) for part in parts]
    blocks_of_parts = [RowBlock.of_rows([made for _, made in part]) for part in parts]
    merged = RowBlock.merged(blocks_of_parts, keys)
    numbered = list(enumerate(item for part in parts for item in part))
    expected = sorted(numbered, key=lambda item: item[1][0])
    assert merged.block.rows() == [made for _, (_, made) in expected]
    assert merged.keys.tolist() == [key for _, (key, _) in expected]
    assert merged.order.tolist() == [number for number, _ in expected]


@settings(max_examples=examples(50))
@given(st.lists(rows(), max_size=6), st.integers(0, pickle.HIGHEST_PROTOCOL), st.booleans())
def test_a_block_can_be_sent_to_another_process(given_rows, protocol, apart):
    block = RowBlock.of_rows(given_rows)
    buffers: list[pickle.PickleBuffer] = []
    callback = buffers.append if apart and protocol >= 5 else None
    sent = pickle.dumps(block, protocol, buffer_callback=callback)
    assert bool(buffers) == (callback is not None)
    received = pickle.loads(sent, buffers=buffers)
    assert received.columns == block.columns
    assert len(received) == len(block)
    assert received.rows() == given_rows


def test_a_block_is_sent_without_the_words_of_other_blocks():
    words = [f"client-{number}" for number in range(1000)]
    plain = RowBlock.of_rows([row(), row()])
    texts = Words(array("i", [700, -1]), words)
    block = RowBlock(2, {**plain.columns, "client_id": texts})
    received = pickle.loads(pickle.dumps(block))
    assert received.columns["client_id"] == Words(array("i", [0, -1]), ["client-700"])
