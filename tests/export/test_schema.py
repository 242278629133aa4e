from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanalyze.errors import UsageError
from kanalyze.export.schema import arrow_schema, choose_columns, parquet_paths
from kanalyze.spec.rows.records import RECORD_COLUMNS
from kanalyze.spec.rows.requests import COLUMNS


def test_columns_of_another_table_can_be_chosen():
    chosen = choose_columns(["value", "topic"], RECORD_COLUMNS)
    assert [column.name for column in chosen] == ["value", "topic"]
    assert choose_columns(None, RECORD_COLUMNS) == RECORD_COLUMNS
    with pytest.raises(UsageError, match="unknown column: 'latency_ns'"):
        choose_columns(["latency_ns"], RECORD_COLUMNS)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["clientid"], "unknown column: 'clientid'; did you mean client_id, "),
        (["xyz"], "unknown column: 'xyz'; there are capture, connection,"),
        ([], "columns: name at least one"),
        (["capture", "capture"], "columns: name at least one column, and each only once"),
    ],
)
def test_unknown_repeated_and_no_columns_are_refused(names, reason):
    with pytest.raises(UsageError, match=f"^{reason}"):
        choose_columns(names)


def test_types_nullability_and_meanings_match_the_columns():
    schema = arrow_schema()
    assert schema.names == [column.name for column in COLUMNS]
    assert schema.field("latency_ns").metadata[b"unit"] == b"ns"
    assert all(field.metadata[b"meaning"] for field in schema)
    assert b"unit" not in schema.field("client_id").metadata
    assert schema.field("latency_ns").type == pa.int64()
    assert schema.field("latency_ns").nullable
    assert schema.field("client_port").type == pa.int32()
    assert not schema.field("client_port").nullable
    assert schema.field("acks").type == pa.int16()
    assert schema.field("waited").type == pa.bool_()
    assert schema.field("anomalies").type.value_type == pa.string()
    partitions = schema.field("partitions").type.value_type
    assert partitions.field("record_count").type == pa.int64()
    assert partitions.field("partition").nullable  # null for a topic as a whole


def test_paths_match_those_in_a_file(tmp_path):
    pq.write_table(arrow_schema().empty_table(), tmp_path / "x.parquet")
    schema = pq.ParquetFile(tmp_path / "x.parquet").schema
    paths = parquet_paths()
    assert [schema.column(index).path for index in range(len(schema))] == list(paths)
    assert paths["latency_ns"] == "int64"
    assert paths["anomalies.list.element"] == "string"
    assert paths["errors.list.element.code"] == "int16"


def test_pyarrow_is_not_imported_before_a_schema_is_needed():
    code = "import kanalyze.export.open, sys; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
