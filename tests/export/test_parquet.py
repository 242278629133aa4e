from __future__ import annotations

import io
import subprocess
import sys
from array import array
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.errors import UsageError
from kanalyze.export import parquet
from kanalyze.export.arrow import BatchMaker
from kanalyze.export.parquet import ParquetWriter, RowGroups, sizes_up_to
from kanalyze.export.schema import arrow_schema, choose_columns, parquet_paths
from kanalyze.spec.columns import Column, with_times
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import RowBlock, Words
from tests.support.cases import examples
from tests.support.row_blocks import blocks_of
from tests.support.rows import failed, fetch, orphan, plain_traffic, row, rows, unanswered

if TYPE_CHECKING:
    from pathlib import Path

    from kanalyze.spec.rows.requests import Row


def written(folder: Path, rows: list[Row]) -> Path:
    target = folder / "out.parquet"
    with ParquetWriter(str(target)) as writer:
        writer.write(rows)
    return target


MIXED = [row(), fetch(), orphan(), unanswered(), failed("orders", 6, "X"), row(client_id="")]


def test_rows_are_read_back_unchanged(tmp_path):
    target = tmp_path / "out.parquet"
    with ParquetWriter(str(target)) as writer:
        writer.write(MIXED[:2])
        writer.write([])
        writer.write(MIXED[2:])
    table = pq.read_table(target)
    assert table.to_pylist() == BatchMaker(with_times(COLUMNS)).of_rows(MIXED).to_pylist()
    assert table.schema.equals(arrow_schema(with_times(COLUMNS)), check_metadata=True)


TIMED = [
    row(request_start_ns=1_700_000_000_123_456_789, response_start_ns=None),
    row(request_start_ns=None, throttle_time_ms=None, waited=None, request_packet=2**53 + 1),
]
TIMES = ["request_start", "request_end", "response_start", "response_end"]


def test_pandas_reads_times_as_timestamps_and_never_floats(tmp_path):
    target = written(tmp_path, TIMED)
    frame = pd.read_parquet(target)
    for name in TIMES:
        assert str(frame.dtypes[f"{name}_time"]) == "datetime64[ns, UTC]"
        expected = [getattr(timed_row, f"{name}_ns") for timed_row in TIMED]
        times = frame[f"{name}_time"]
        assert [None if x is pd.NaT else x.value for x in times] == expected
        assert [None if x is pd.NA else x for x in frame[f"{name}_ns"]] == expected
    assert not [name for name, kind in frame.dtypes.items() if str(kind).startswith("float")]
    numbers = [column.name for column in COLUMNS if column.nullable and column.type[:3] == "int"]
    assert {str(frame.dtypes[name]) for name in numbers} == {"Int64"}
    assert str(frame.dtypes["waited"]) == "boolean"
    assert frame["request_packet"][1] == 2**53 + 1


def test_duckdb_reads_exact_times(tmp_path):
    target = written(tmp_path, TIMED)
    for name in TIMES:
        sql = f"SELECT {name}_ns, epoch_ns({name}_time), typeof({name}_time) FROM '{target}'"
        for ns, time_ns, kind in duckdb.sql(sql).fetchall():
            assert (time_ns, kind) == (ns, "TIMESTAMPTZ_NS")


def test_timestamps_are_columns_that_can_be_chosen(tmp_path):
    columns = choose_columns(["request_start_time", "client_id"], with_times(COLUMNS))
    with ParquetWriter(str(tmp_path / "out.parquet"), columns) as writer:
        writer.write(TIMED)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["request_start_time", "client_id"]
    assert table["request_start_time"].cast("int64").to_pylist() == [
        1_700_000_000_123_456_789,
        None,
    ]


def row_groups(target) -> list[int]:
    metadata = pq.ParquetFile(target).metadata
    return [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]


def test_row_groups_are_bounded_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 10_000)
    with ParquetWriter(str(tmp_path / "out.parquet")) as writer:
        for _ in range(4):
            writer.write(plain_traffic(100))
    groups = row_groups(tmp_path / "out.parquet")
    assert sum(groups) == 400
    assert len(groups) > 4
    assert all(10_000 / 1000 < count < 10_000 / 200 for count in groups[:-1])


@pytest.mark.parametrize("limit", [("ROW_GROUP_ROWS", 90), ("ROW_GROUP_BYTES", 20_000)])
def test_the_same_rows_in_any_batches_make_the_same_file(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(parquet, *limit)
    traffic = [*MIXED, *plain_traffic(400), row(client_id="\ud800", principal="\u00e9"), *MIXED]
    written = set()
    for seed in range(6):
        target = tmp_path / f"{seed}.parquet"
        with ParquetWriter(str(target)) as writer:
            for block in blocks_of(traffic, Random(seed)):
                if seed % 2:
                    writer.write(block.rows())
                else:
                    writer.write_block(block)
        assert len(row_groups(target)) > 3
        written.add(target.read_bytes())
    assert len(written) == 1


def test_texts_have_a_dictionary_and_times_have_none(tmp_path):
    target = written(tmp_path, plain_traffic(10))
    group = pq.ParquetFile(target).metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    kinds = parquet_paths(with_times(COLUMNS))
    for made in columns:
        is_text = kinds[made.path_in_schema] == "string"
        assert made.compression == ("ZSTD" if is_text else "SNAPPY")
        assert made.is_stats_set == (not is_text)
    with_dictionary = {made.path_in_schema for made in columns if made.has_dictionary_page}
    assert {"client_id", "api_key", "partitions.list.element.topic"} <= with_dictionary
    assert not {"latency_ns", "partitions.list.element.base_offset"} & with_dictionary


def test_pandas_is_not_loaded_to_write_a_file(tmp_path):
    code = (
        "import sys\n"
        "from kanalyze.export.parquet import ParquetWriter\n"
        "from tests.support.rows import plain_traffic\n"
        "with ParquetWriter(sys.argv[1]) as writer: writer.write(plain_traffic(100))\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out.parquet")]
    subprocess.run(command, check=True)
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 100


def test_no_rows_make_a_file_with_all_columns(tmp_path):
    ParquetWriter(str(tmp_path / "out.parquet")).close()
    assert pq.read_table(tmp_path / "out.parquet").schema.names == [
        column.name for column in with_times(COLUMNS)
    ]


def test_a_full_disk_is_an_error_without_a_traceback():
    code = (
        "import sys\n"
        "from kanalyze.export.parquet import ParquetWriter\n"
        "from tests.support.rows import row\n"
        "try:\n"
        "    with ParquetWriter('/dev/full') as writer: writer.write([row()])\n"
        "except OSError as error: sys.exit(error.errno)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 28
    assert done.stderr == b""


def test_parquet_is_not_written_to_a_terminal(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(UsageError, match="terminal"):
        ParquetWriter("-")


def test_parquet_is_written_to_a_pipe():
    code = (
        "from kanalyze.export.parquet import ParquetWriter\n"
        "from tests.support.rows import row\n"
        "with ParquetWriter('-') as writer: writer.write([row()])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert pq.read_table(io.BytesIO(done.stdout)).num_rows == 1


# -- row groups ------------------------------------------------------------------------------------

TEXTS = (Column("text", "string", "", nullable=False, meaning=""),)


def texts(*values: str) -> RowBlock:
    codes = array("i", range(len(values)))
    return RowBlock(len(values), {"text": Words(codes, values)})


def unpacked(group: RowBlock) -> list[str]:
    column = group.columns["text"]
    assert isinstance(column, Words)
    return [column.words[code] for code in column.codes]


def groups_of(*blocks: RowBlock, most_rows: int = 1000, most_bytes: int = 1 << 20) -> list:
    groups = RowGroups(TEXTS, most_rows=most_rows, most_bytes=most_bytes)
    made = [group for block in blocks for group in groups.add(block)]
    made += groups.rest()
    assert list(groups.rest()) == []
    return list(map(unpacked, made))


def sizes_of(given_rows: list[Row]) -> list[int]:
    return sizes_up_to(RowBlock.of_rows(given_rows), COLUMNS).tolist()


def test_a_row_group_is_full_at_the_limit_of_rows():
    assert groups_of(texts(*"abcde"), texts(*"fg"), most_rows=3) == [
        ["a", "b", "c"],
        ["d", "e", "f"],
        ["g"],
    ]


def test_a_group_ends_with_the_row_that_makes_it_large_enough():
    # A text takes 4 bytes more than its characters.
    many = ["x" * 6, "x" * 5, "y", "x" * 100, "z"]
    assert groups_of(texts(*many), most_bytes=20) == [many[:3], many[3:4], many[4:]]


@given(st.lists(st.text("ab", max_size=9), max_size=30), st.lists(st.integers(0, 30)))
def test_groups_do_not_depend_on_the_batches(values, cuts):
    edges = [0, *sorted(cut for cut in cuts if cut < len(values)), len(values)]
    parts = [texts(*values[first:last]) for first, last in pairwise(edges)]
    limits = {"most_rows": 7, "most_bytes": 50}
    assert groups_of(*parts, **limits) == groups_of(texts(*values), **limits)


@settings(max_examples=examples(40))
@given(st.lists(rows(), min_size=1, max_size=6))
def test_the_size_of_a_row_does_not_depend_on_other_rows(given_rows):
    sizes = [after - before for before, after in pairwise(sizes_of(given_rows))]
    assert sizes == [sizes_of([item])[-1] for item in given_rows]


def test_sizes_are_close_to_those_of_arrow():
    traffic = [*plain_traffic(1000), *(failed("\u00e9" * 20, 6, "X") for _ in range(100))]
    assert 0.95 < sizes_of(traffic)[-1] / BatchMaker().of_rows(traffic).nbytes < 1.0
