"""What tasks send one another: the columns of blocks, and of what becomes of them.

In: blocks, reports and rows. Out: Arrow batches of two schemas, and back. Must not know: who makes
what is sent, nor Spark.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kanalyze.common.named_tuples import NamedTuple
from kanalyze.spark.archive.packed_segments import BlockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kanalyze.capture.splits import SplitEnds
    from kanalyze.spark.archive.partitioner import Loose
    from kanalyze.statistics.summary import Statistics
    from kanalyze.tables.quality import CaptureQuality

__all__ = [
    "ANOMALY_BUCKET",
    "FIRST_KEY_NS",
    "FOUND_FIELDS",
    "REPORT_BUCKET",
    "SENT_SCHEMA",
    "BucketReport",
    "CaptureReport",
    "Sent",
    "beside_rows",
    "from_stream",
    "joined",
    "parted",
    "read_sent",
    "report_of",
    "reported",
    "rows_found",
    "sent_batch",
    "to_stream",
]

REPORT_BUCKET: Final = -1
"""Stands where what is sent is a :class:`CaptureReport`."""
ANOMALY_BUCKET: Final = -2
"""Stands where what is sent are rows of anomalies, as an Arrow stream."""
FIRST_KEY_NS: Final = -(1 << 62)
"""When what comes before all segments of a bucket counts as captured: what was left open there."""

SENT_SCHEMA: Final = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("first_key_ns", pa.int64(), nullable=False),
        pa.field("file_time_ns", pa.int64(), nullable=False),
        pa.field("capture", pa.string(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),
        pa.field("first_packet", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
"""Of blocks of segments on their way to their bucket; sorted by all but the last column they are in
their order. ``part`` tells readings of parts of the captures apart."""

FOUND_FIELDS: Final = (
    pa.field("_kind", pa.string()),
    pa.field("_bucket", pa.int32()),
    pa.field("_data", pa.binary()),
)
"""Beside the columns of rows: null beside a row; else the row is null, and these say what it is."""


class Sent(NamedTuple):
    """One row of :data:`SENT_SCHEMA`."""

    bucket: int
    first_key_ns: int
    file_time_ns: int
    capture: str
    part: int
    first_packet: int
    data: bytes | memoryview


class CaptureReport(NamedTuple):
    """What a capture, or a part of one, was like."""

    part: int
    """As in :data:`SENT_SCHEMA`."""
    capture: str
    file_time_ns: int
    """When its first packet was captured; 0 where it has none."""
    quality: CaptureQuality
    loose: list[Loose]
    ends: SplitEnds | None
    """Where it is part of a file."""
    unreadable: str | None
    """Why it is left out."""
    is_foreign: bool = False
    """What is left out is no capture; else it could not be read, which may change."""


class BucketReport(NamedTuple):
    """What came of a bucket besides rows."""

    bucket: int
    quality: CaptureQuality
    open_quality: CaptureQuality
    """What would be added if all that stays open ended now."""
    statistics: Statistics | None
    """None where nobody asked for them."""
    told: dict[bytes, str]
    """Names of topics by id."""
    unnamed: frozenset[bytes]
    """Ids in rows that nobody had named."""


def sent_batch(sent: Sequence[Sent]) -> pa.RecordBatch:
    """Return a batch of :data:`SENT_SCHEMA`."""
    columns = list(zip(*sent, strict=True)) or [()] * len(SENT_SCHEMA)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, SENT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SENT_SCHEMA)


def read_sent(batches: Iterable[pa.RecordBatch]) -> Iterator[Sent]:
    """Give the rows of batches; of each the data is not copied."""
    for batch in batches:
        data = batch.column("data")
        others = [batch.column(name).to_pylist() for name in SENT_SCHEMA.names[:-1]]
        for index, values in enumerate(zip(*others, strict=True)):
            yield Sent._make((*values, memoryview(data[index].as_buffer()).cast("B")))


def rows_found(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with :data:`FOUND_FIELDS` beside them."""
    arrays = [*batch.columns, *(pa.nulls(len(batch), field.type) for field in FOUND_FIELDS)]
    return pa.RecordBatch.from_arrays(arrays, schema=_found_schema(batch.schema))


def beside_rows(schema: pa.Schema, kind: str, bucket: int, data: bytes) -> pa.RecordBatch:
    """Return something else than a row of ``schema``, where rows are expected."""
    values = (kind, bucket, data)
    arrays = [
        *(pa.nulls(1, field.type) for field in schema),
        *(pa.array([value], field.type) for value, field in zip(values, FOUND_FIELDS, strict=True)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_found_schema(schema))


def _found_schema(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_nullable(True) for field in schema]
    return pa.schema([*fields, *FOUND_FIELDS])


def to_stream(batch: pa.RecordBatch) -> bytes:
    """Return a batch as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def from_stream(data: bytes | memoryview) -> Iterator[pa.RecordBatch]:
    """Give the batches of an Arrow stream."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        yield from reader


def joined(places: str, carried: bytes) -> bytes:
    """Return what is left open of a bucket: where its packets were, and its connections."""
    text = places.encode()
    return len(text).to_bytes(4) + text + carried


def parted(data: bytes) -> tuple[str, bytes]:
    """Undo :func:`joined`. Raises BlockError for anything else."""
    length = int.from_bytes(data[:4])
    try:
        return data[4 : 4 + length].decode(), data[4 + length :]
    except UnicodeDecodeError as error:
        raise BlockError(f"what was carried over is damaged: {error}") from error


def reported(report: CaptureReport | BucketReport) -> bytes:
    """Return a report as bytes, for the driver of the same job."""
    return pickle.dumps(report, pickle.HIGHEST_PROTOCOL)


def report_of(data: bytes) -> Any:
    """Undo :func:`reported`. The bytes have to be from a task of this job, and nobody else."""
    return pickle.loads(data)  # noqa: S301 - see above
