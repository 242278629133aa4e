from __future__ import annotations

import pyarrow as pa
import pytest

from kanalyze.queries.row_buffers import MOST_BYTES, ROW_GROUP, ROWS_AT_ONCE, RowBuffers

SCHEMA = pa.schema([("number", pa.int64())])


def batch(first: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": range(first, first + count)}, SCHEMA)


@pytest.fixture
def buffers() -> RowBuffers:
    made = RowBuffers()
    made.create("things", SCHEMA)
    return made


def test_few_rows_are_buffered_until_they_are_taken(buffers: RowBuffers) -> None:
    assert buffers.add("things", batch(0, 3)) is None
    assert buffers.add("things", batch(3, 2)) is None
    ((table, rows),) = buffers.take_all()
    assert (table, rows["number"].to_pylist()) == ("things", [0, 1, 2, 3, 4])
    assert list(buffers.take_all()) == []


def test_whole_row_groups_are_written_and_the_rest_is_buffered(buffers: RowBuffers) -> None:
    assert buffers.add("things", batch(0, ROWS_AT_ONCE - 1)) is None
    rows = buffers.add("things", batch(ROWS_AT_ONCE - 1, ROW_GROUP + 2))
    assert rows is not None
    assert rows.num_rows == ROWS_AT_ONCE + ROW_GROUP
    ((_, rest),) = buffers.take_all()
    assert rest["number"].to_pylist() == [ROWS_AT_ONCE + ROW_GROUP]


def test_many_small_batches_are_written_before_a_row_group_is_full(buffers: RowBuffers) -> None:
    written = [buffers.add("things", batch(number, 1)) for number in range(1000)]
    tables = [rows_written for rows_written in written if rows_written is not None]
    assert len(tables) > 1
    numbers = [number for rows_written in tables for number in rows_written["number"].to_pylist()]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("row_bytes", [1 << 10, 10_000, 1 << 20])
def test_large_rows_are_written_by_row_groups_where_these_fit(row_bytes: int) -> None:
    buffers = RowBuffers()
    schema = pa.schema([("text", pa.string())])
    buffers.create("things", schema)
    large = pa.RecordBatch.from_pydict({"text": ["x" * row_bytes] * 1000}, schema)
    written = [rows for _ in range(24) if (rows := buffers.add("things", large)) is not None]
    group_fits = ROW_GROUP * row_bytes < MOST_BYTES
    assert written
    assert all((rows.num_rows % ROW_GROUP == 0) == group_fits for rows in written)


def test_requests_are_numbered_from_1_unless_they_have_ids() -> None:
    buffers = RowBuffers()
    assert buffers.create("requests", SCHEMA).names == ["request_id", "number"]
    for rows in (batch(10, 2), batch(12, 1)):
        buffers.add("requests", buffers.numbered("requests", rows))
    ((_, rows),) = buffers.take_all()
    assert rows.to_pydict() == {"request_id": [1, 2, 3], "number": [10, 11, 12]}

    numbered = pa.schema([("request_id", pa.int64())])
    buffers = RowBuffers()
    assert buffers.create("requests", numbered) == numbered
    rows = pa.RecordBatch.from_pydict({"request_id": [7]}, numbered)
    buffers.add("requests", buffers.numbered("requests", rows))
    ((_, rows),) = buffers.take_all()
    assert rows.to_pydict() == {"request_id": [7]}
