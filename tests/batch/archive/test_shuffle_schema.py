"""Data that tasks send one another is read back unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.batch.archive.shuffle import (
    CONTROL_FIELDS,
    SHUFFLE_SCHEMA,
    BucketReport,
    ShuffleRow,
    control_row,
    dump_report,
    from_arrow_stream,
    load_report,
    pack_state,
    read_shuffle_rows,
    shuffle_batch,
    to_arrow_stream,
    unpack_state,
    with_control_columns,
)
from kanalyze.tables.quality import CaptureQuality

PARTITIONS = pa.list_(pa.struct([("topic", pa.string())]))
ROWS = pa.record_batch(
    [pa.array(["a", "b"]), pa.array([[{"topic": "t"}], []], PARTITIONS)],
    schema=pa.schema(
        [pa.field("name", pa.string(), nullable=False), pa.field("partitions", PARTITIONS)]
    ),
)


def test_shuffle_rows_are_read_back_unchanged() -> None:
    sent = [
        ShuffleRow(3, 5, 7, "a.pcap", 0, 11, b"data"),
        ShuffleRow(-1, 0, 0, "b.pcap", 2, 0, b""),
    ]
    batch = shuffle_batch(sent)
    assert batch.schema == SHUFFLE_SCHEMA
    found = list(read_shuffle_rows([batch.slice(1), batch.slice(0, 1)]))
    assert [row._replace(data=bytes(row.data)) for row in found] == [sent[1], sent[0]]


def test_no_shuffle_rows_make_an_empty_batch() -> None:
    assert shuffle_batch([]).num_rows == 0
    assert list(read_shuffle_rows([shuffle_batch([])])) == []


def test_rows_and_control_rows_have_the_same_schema() -> None:
    rows, control = with_control_columns(ROWS), control_row(ROWS.schema, "report", 4, b"x")
    assert rows.schema == control.schema
    assert all(field.nullable for field in rows.schema)
    names = [field.name for field in CONTROL_FIELDS]
    assert rows.select(names).to_pylist() == [dict.fromkeys(names)] * 2
    assert rows.select(["name", "partitions"]).to_pylist() == ROWS.to_pylist()
    (row,) = control.to_pylist()
    assert row == {"name": None, "partitions": None, "_kind": "report", "_bucket": 4, "_data": b"x"}


def test_an_arrow_stream_is_read_back_unchanged() -> None:
    (batch,) = from_arrow_stream(memoryview(to_arrow_stream([ROWS])))
    assert batch == ROWS


def test_a_report_is_read_back_unchanged() -> None:
    report = BucketReport(
        2, CaptureQuality(["a"]), CaptureQuality(), {b"x" * 16: "t"}, frozenset({b"y" * 16})
    )
    found = load_report(dump_report(report))
    assert found.topic_names == report.topic_names
    assert found.unresolved_ids == report.unresolved_ids
    assert found.quality.to_dict() == report.quality.to_dict()


def test_a_saved_state_is_read_back_unchanged() -> None:
    assert unpack_state(pack_state("é places", b"\0state")) == ("é places", b"\0state")
    assert unpack_state(pack_state("", b"")) == ("", b"")


def test_a_damaged_state_is_an_error() -> None:
    with pytest.raises(BlockError, match="damaged"):
        unpack_state(b"\0\0\0\2\xff\xfe")
