"""What tasks send one another comes back as it was."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kanalyze.spark.archive.packed_segments import BlockError
from kanalyze.spark.archive.shuffle_schema import (
    FOUND_FIELDS,
    SENT_SCHEMA,
    BucketReport,
    Sent,
    beside_rows,
    from_stream,
    joined,
    parted,
    read_sent,
    report_of,
    reported,
    rows_found,
    sent_batch,
    to_stream,
)
from kanalyze.tables.quality import CaptureQuality

PARTITIONS = pa.list_(pa.struct([("topic", pa.string())]))
ROWS = pa.record_batch(
    [pa.array(["a", "b"]), pa.array([[{"topic": "t"}], []], PARTITIONS)],
    schema=pa.schema(
        [pa.field("name", pa.string(), nullable=False), pa.field("partitions", PARTITIONS)]
    ),
)


def test_what_is_sent() -> None:
    sent = [Sent(3, 5, 7, "a.pcap", 0, 11, b"data"), Sent(-1, 0, 0, "b.pcap", 2, 0, b"")]
    batch = sent_batch(sent)
    assert batch.schema == SENT_SCHEMA
    found = list(read_sent([batch.slice(1), batch.slice(0, 1)]))
    assert [one._replace(data=bytes(one.data)) for one in found] == [sent[1], sent[0]]


def test_nothing_is_sent() -> None:
    assert sent_batch([]).num_rows == 0
    assert list(read_sent([sent_batch([])])) == []


def test_rows_and_what_is_beside_them_have_one_schema() -> None:
    rows, beside = rows_found(ROWS), beside_rows(ROWS.schema, "report", 4, b"x")
    assert rows.schema == beside.schema
    assert all(field.nullable for field in rows.schema)
    names = [field.name for field in FOUND_FIELDS]
    assert rows.select(names).to_pylist() == [dict.fromkeys(names)] * 2
    assert rows.select(["name", "partitions"]).to_pylist() == ROWS.to_pylist()
    (row,) = beside.to_pylist()
    assert row == {"name": None, "partitions": None, "_kind": "report", "_bucket": 4, "_data": b"x"}


def test_a_stream() -> None:
    (batch,) = from_stream(memoryview(to_stream(ROWS)))
    assert batch == ROWS


def test_a_report() -> None:
    report = BucketReport(
        2, CaptureQuality(["a"]), CaptureQuality(), None, {b"x" * 16: "t"}, frozenset({b"y" * 16})
    )
    found = report_of(reported(report))
    assert found.told == report.told
    assert found.unnamed == report.unnamed
    assert found.quality.to_dict() == report.quality.to_dict()


def test_what_is_left_open() -> None:
    assert parted(joined("é places", b"\0state")) == ("é places", b"\0state")
    assert parted(joined("", b"")) == ("", b"")


def test_what_is_left_open_may_be_damaged() -> None:
    with pytest.raises(BlockError, match="damaged"):
        parted(b"\0\0\0\2\xff\xfe")
