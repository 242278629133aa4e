from __future__ import annotations

import subprocess
import sys
from array import array
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.export import arrow
from kanalyze.export.arrow import BatchMaker, array_of, block_of, frame_of, table_of
from kanalyze.export.schema import arrow_schema
from kanalyze.spec.columns import with_times
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import Ints, RowBlock, Words
from tests.support.cases import examples, for_each
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


def test_text_that_is_not_unicode_is_written_with_escapes():
    batch = BatchMaker().of_rows([row(client_id="a\udc80", anomalies=["b\udc81"])])
    assert batch.column("client_id").to_pylist() == ["a\\udc80"]
    assert batch.column("anomalies").to_pylist() == [["b\\udc81"]]


def test_a_frame_has_the_rows_of_the_source():
    traffic = [*plain_traffic(50), failed("orders", 6, "NOT_LEADER_OR_FOLLOWER"), orphan()]
    traffic[0] = traffic[0]._replace(request_start_ns=START_NS + 1)
    frame = frame_of(map(RowBlock.of_rows, [traffic[:50], traffic[50:]]))
    for name in ("latency_ns", "client_id", "request_start_ns", "waited"):
        expected = [getattr(item, name) for item in traffic]
        assert [None if pd.isna(value) else value for value in frame[name]] == expected
    assert frame["errors"][50][0]["name"] == "NOT_LEADER_OR_FOLLOWER"
    assert frame["request_start_ns"].dtype == pd.Int64Dtype()
    assert frame["client_port"].dtype == "int64"
    assert frame["waited"].dtype == pd.BooleanDtype()


def test_no_batches_make_an_empty_table_with_all_columns():
    assert table_of([]).num_rows == 0
    assert frame_of([]).columns.to_list() == [column.name for column in with_times(COLUMNS)]


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


def test_a_table_is_made_of_blocks():
    traffic = plain_traffic(50)
    blocks = blocks_of(traffic, Random(1))
    made = table_of(blocks).select([column.name for column in COLUMNS])
    assert made.to_pylist() == [plain(item) for item in traffic]


# -- and back -------------------------------------------------------------------------------------


@settings(max_examples=examples(50))
@given(st.lists(rows(), max_size=5))
def test_rows_are_the_same_after_a_batch(given_rows):
    """Only texts that are not Unicode differ: Arrow has their escapes."""
    batch = BatchMaker().of_rows(given_rows)
    assert BatchMaker().of_rows(block_of(batch, COLUMNS).rows()).equals(batch)


def test_parts_of_batches_are_blocks_of_these_rows():
    traffic = [*plain_traffic(40), orphan(), row(waited=None), row(waited=True)]
    batch = BatchMaker().of_rows(traffic)
    random = Random(1)
    for _ in range(20):
        first = random.randrange(len(traffic))
        count = random.randrange(len(traffic) - first + 1)
        part = batch.slice(first, count)
        assert block_of(part, COLUMNS).rows() == traffic[first : first + count]


@for_each("name", ["capture", "connection_number", "errors", "anomalies"])
def test_a_null_in_a_column_without_nulls_is_refused(name):
    batch = BatchMaker().of_rows([row()])
    at = batch.schema.get_field_index(name)
    kind = batch.schema.field(name).type
    for value in ([None], [[None]])[: 1 + pa.types.is_list(kind)]:
        broken = batch.set_column(at, name, pa.array(value, kind))
        with pytest.raises(ValueError, match=f"{name} is null"):
            block_of(broken, COLUMNS)


def test_pandas_is_not_loaded():
    code = (
        "import sys\n"
        "from kanalyze.export.arrow import BatchMaker, block_of\n"
        "from kanalyze.spec.rows.requests import COLUMNS\n"
        "from tests.support.rows import orphan, plain_traffic\n"
        "block_of(BatchMaker().of_rows([*plain_traffic(9), orphan()]), COLUMNS).rows()\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- arrays of one type ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], pa.int64()),
        ([-1, 2**31 - 1], pa.int32()),
        ([-(2**63), 0], pa.int64()),
        ([True] * 9 + [False, True], pa.bool_()),
        ([], pa.string()),
        (["", "é", "x" * 300], pa.string()),
        ([], pa.binary()),
        ([b"\x00\xff"], pa.binary()),
        ((b"", b"one", b"\xff"), pa.binary()),
    ],
)
def test_arrays_are_those_of_pyarrow(values: Any, kind: pa.DataType) -> None:
    found = array_of(values, kind)
    found.validate(full=True)
    assert found.equals(pa.array(list(values), kind))


def test_columns_of_numpy_are_taken_as_they_are() -> None:
    numbers = np.arange(10)
    assert array_of(numbers[::3], pa.int64()).to_pylist() == [0, 3, 6, 9]
    assert array_of(numbers > 4, pa.bool_()).to_pylist() == [False] * 5 + [True] * 5


def test_a_number_beyond_the_type_is_an_error() -> None:
    with pytest.raises(OverflowError):
        array_of([2**31], pa.int32())


def test_more_bytes_than_arrow_counts_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_MAX_BYTES", 5)
    assert len(array_of([b"12345"], pa.binary())) == 1
    with pytest.raises(ValueError, match="2 GiB"):
        array_of(["123", "456"], pa.string())
