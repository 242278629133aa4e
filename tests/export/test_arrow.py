from __future__ import annotations

from array import array
from random import Random

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.export.arrow import BatchMaker, frame_of, table_of
from kanalyze.export.schema import arrow_schema, choose_columns
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import Ints, RowBlock, Words
from tests.support.cases import examples
from tests.support.row_blocks import blocks_of
from tests.support.rows import START_NS, failed, orphan, plain_traffic, row, rows


def plain(item) -> dict:
    """Return a row as Arrow gives it back."""
    made = item._asdict()
    for name in ("errors", "partitions"):
        made[name] = [part._asdict() for part in made[name]]
    return made


def without_surrogates(value):
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {name: without_surrogates(item) for name, item in value.items()}
    return value


@settings(max_examples=examples(50))
@given(st.lists(rows(), max_size=5))
def test_a_batch_has_the_given_rows(given_rows):
    batch = BatchMaker().of_rows(given_rows)
    assert batch.schema.equals(arrow_schema(), check_metadata=True)
    assert batch.to_pylist() == [without_surrogates(plain(item)) for item in given_rows]
    batch.validate(full=True)


def test_columns_can_be_chosen():
    batch = BatchMaker(choose_columns(["latency_ns", "client_id"])).of_rows([row()])
    assert batch.to_pylist() == [{"latency_ns": 2_000_000, "client_id": "app"}]


def test_text_that_is_not_unicode_is_written_with_escapes():
    batch = BatchMaker().of_rows([row(client_id="a\udc80", anomalies=["b\udc81"])])
    assert batch.column("client_id").to_pylist() == ["a\\udc80"]
    assert batch.column("anomalies").to_pylist() == [["b\\udc81"]]


def test_batches_make_one_table():
    table = table_of(map(RowBlock.of_rows, [[row()], [], [orphan(), row()]]))
    assert table.column("status").to_pylist() == ["ok", "orphan_response", "ok"]


def test_no_batches_make_an_empty_table_with_all_columns():
    assert table_of([]).num_rows == 0
    assert frame_of([]).columns.to_list() == [column.name for column in with_times(COLUMNS)]


def test_a_frame_keeps_times_exact_beside_nulls():
    frame = frame_of(map(RowBlock.of_rows, [[row(request_start_ns=START_NS + 1), orphan()]]))
    assert frame["request_start_ns"].to_list() == [START_NS + 1, pd.NA]
    assert frame["request_start_ns"].dtype == pd.Int64Dtype()


def test_columns_that_are_never_null_have_plain_types():
    frame = frame_of(map(RowBlock.of_rows, [[row()]]))
    assert frame["client_port"].dtype == "int64"
    assert frame["waited"].dtype == pd.BooleanDtype()


def test_a_frame_has_the_rows_of_the_source():
    traffic = plain_traffic(200)
    frame = frame_of(map(RowBlock.of_rows, [traffic[:50], traffic[50:]]))
    assert frame["latency_ns"].to_list() == [item.latency_ns for item in traffic]
    assert frame["client_id"].to_list() == [item.client_id for item in traffic]
    assert int(frame["record_count"].sum()) == sum(item.record_count or 0 for item in traffic)


def test_nested_columns_are_lists_in_a_frame():
    frame = frame_of(map(RowBlock.of_rows, [[failed("orders", 6, "NOT_LEADER_OR_FOLLOWER")]]))
    assert frame["errors"][0][0]["name"] == "NOT_LEADER_OR_FOLLOWER"


def test_a_number_that_does_not_fit_its_column_is_not_cut():
    with pytest.raises(OverflowError):
        BatchMaker().of_rows([row(latency_ns=2**63)])


@settings(max_examples=examples(50))
@given(st.lists(rows(), max_size=5))
def test_a_block_makes_the_same_batch_as_its_rows(given_rows):
    batch = BatchMaker().of_block(RowBlock.of_rows(given_rows))
    batch.validate(full=True)
    assert batch.equals(BatchMaker().of_rows(given_rows), check_metadata=True)


@settings(max_examples=examples(50))
@given(st.lists(rows(), max_size=5))
def test_arrays_match_those_that_pyarrow_makes(given_rows):
    batch = BatchMaker().of_rows(given_rows)
    for name in ("latency_ns", "client_id", "waited", "api_key", "anomalies"):
        values = without_surrogates([getattr(item, name) for item in given_rows])
        made = batch.column(name)
        assert made.equals(pa.array(values, made.type))
        assert made.null_count == values.count(None)


def test_only_words_that_occur_in_a_block_are_converted():
    block = RowBlock.of_rows([row(), row(), row()])
    codes = array("i", [40_000, -1, 2])
    texts = Words(codes, [f"client-{number}" for number in range(50_000)])
    batch = BatchMaker().of_block(RowBlock(3, {**block.columns, "client_id": texts}))
    assert batch.column("client_id").to_pylist() == ["client-40000", None, "client-2"]


def test_a_number_that_fits_int64_but_not_its_column_is_not_cut_either():
    block = RowBlock.of_rows([row(), row()])
    ports = Ints(array("q", [1, 2**31]), None)
    with pytest.raises(OverflowError):
        BatchMaker().of_block(RowBlock(2, {**block.columns, "client_port": ports}))


def test_slices_of_columns_can_be_converted():
    traffic = plain_traffic(10)
    whole = RowBlock.of_rows(traffic)
    latencies = whole.columns["latency_ns"]
    assert isinstance(latencies, Ints)
    part = RowBlock.of_rows(traffic[::3])
    part.columns["latency_ns"] = Ints(latencies.values[::3], None)
    assert BatchMaker().of_block(part).equals(BatchMaker().of_rows(traffic[::3]))


def test_a_table_is_made_of_blocks():
    traffic = plain_traffic(50)
    blocks = blocks_of(traffic, Random(1))
    made = table_of(blocks).select([column.name for column in COLUMNS])
    assert made.to_pylist() == [plain(item) for item in traffic]
