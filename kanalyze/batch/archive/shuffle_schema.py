"""The schemas of data between tasks: rows of the shuffle, and table rows mixed with control rows.

In: blocks, reports and rows. Out: Arrow batches of two schemas, and back.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kanalyze.batch.archive.packed_segments import BlockError
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.arrow import arrays_of

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.batch.archive.partitioner import SegmentBlock, UnmatchedFragment
    from kanalyze.batch.archive.table_files import WrittenFile
    from kanalyze.batch.key_sources import KeyedCapture
    from kanalyze.capture.splits import SplitEnds
    from kanalyze.tables.quality import CaptureQuality

__all__ = [
    "ANOMALY_BUCKET",
    "BLOCKS_BUCKET",
    "CONTROL_FIELDS",
    "FIRST_KEY_NS",
    "REPORT_BUCKET",
    "SHUFFLE_KEY",
    "SHUFFLE_SCHEMA",
    "BlockGroup",
    "BucketReport",
    "CaptureReport",
    "ShuffleRow",
    "block_row",
    "control_row",
    "dump_report",
    "files_row",
    "from_arrow_stream",
    "load_report",
    "pack_state",
    "read_shuffle_rows",
    "shuffle_batch",
    "to_arrow_stream",
    "unpack_state",
    "with_control_columns",
]

REPORT_BUCKET: Final = -1
"""The bucket of a control row that holds a :class:`CaptureReport`."""
ANOMALY_BUCKET: Final = -2
"""The bucket of a control row that holds rows of anomalies, as an Arrow stream."""
BLOCKS_BUCKET: Final = -3
"""The bucket of a control row that holds each :class:`BlockGroup` of a task."""
FIRST_KEY_NS: Final = -(1 << 62)
"""The sort key of a bucket's saved state, which comes before all segments of the bucket."""

SHUFFLE_SCHEMA: Final = pa.schema(
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
"""Blocks of segments on their way to their bucket. All columns but ``data`` are the sort key.
``part`` numbers the parts of captures, in the order in which they are read; a part that is read
again has a new number."""

CONTROL_FIELDS: Final = (
    pa.field("_kind", pa.string()),
    pa.field("_bucket", pa.int32()),
    pa.field("_data", pa.binary()),
)
"""Columns after those of a table. In a row of the table they are null. In a control row the table's
columns are null, and these have the kind of row, its bucket and its data."""


class ShuffleRow(NamedTuple):
    """One row of :data:`SHUFFLE_SCHEMA`."""

    bucket: int
    first_key_ns: int
    file_time_ns: int
    capture: str
    part: int
    first_packet: int
    data: bytes | memoryview


SHUFFLE_KEY: Final = ShuffleRow._fields[:-1]
"""The columns by which rows are sorted."""


class CaptureReport(NamedTuple):
    """The result of reading a capture, or a part of one, besides segments."""

    part: int
    """See :data:`SHUFFLE_SCHEMA`."""
    capture: str
    file_time_ns: int
    """Unix time of its first packet in ns; 0 if it has none."""
    quality: CaptureQuality
    fragments: Sequence[UnmatchedFragment]
    ends: SplitEnds | None
    """The ends of this part of a file; None for a whole capture."""
    unreadable: str | None
    """Why the capture is left out; None if it is not."""
    is_foreign: bool = False
    """True if it is not a capture; false if reading failed, which may succeed later."""
    keyed: KeyedCapture | None = None
    """Where it has secrets of TLS, but not the secrets; None if it has none."""
    topic_names: Mapping[bytes, str] | None = None
    """Names of topics, by id, that the task had found up to the end of this part; None if the part
    was not read."""


class BlockGroup(NamedTuple):
    """Where blocks are in a file; sorted by bucket, then by time and capture."""

    first_key_ns: int
    """The lowest key of a block in the group."""
    file: str
    """Name of the file in the folder."""
    starts: array[int]
    """Index of the first byte of each bucket in the file; at the end the index after the last."""


class BucketReport(NamedTuple):
    """The result of rebuilding a bucket, besides rows."""

    bucket: int
    quality: CaptureQuality
    open_quality: CaptureQuality
    """The counts that would be added if all open connections were closed now."""
    topic_names: dict[bytes, str]
    """Topic names by topic id."""
    unresolved_ids: frozenset[bytes]
    """Topic ids in rows whose name is unknown."""
    closed: str | None = None
    """Why the connections of the bucket's saved state were closed; None if they were continued."""


def block_row(block: SegmentBlock, file_time_ns: int, capture: str, part: int) -> ShuffleRow:
    """Return a block of a capture as a row of the shuffle."""
    sort_key = (block.bucket, block.first_key_ns, file_time_ns, capture, part, block.first_packet)
    return ShuffleRow(*sort_key, block.data)


def shuffle_batch(rows: Sequence[ShuffleRow]) -> pa.RecordBatch:
    """Return a batch of :data:`SHUFFLE_SCHEMA`."""
    columns = list(zip(*rows, strict=True)) or [()] * len(SHUFFLE_SCHEMA)
    return pa.RecordBatch.from_arrays(arrays_of(columns, SHUFFLE_SCHEMA), schema=SHUFFLE_SCHEMA)


def read_shuffle_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[ShuffleRow]:
    """Yield the rows of batches, without copying their data."""
    for batch in batches:
        data = batch.column("data")
        others = [batch.column(name).to_pylist() for name in SHUFFLE_SCHEMA.names[:-1]]
        for index, values in enumerate(zip(*others, strict=True)):
            yield ShuffleRow._make((*values, memoryview(data[index].as_buffer()).cast("B")))


def with_control_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of a table with :data:`CONTROL_FIELDS`, which are null."""
    arrays = [*batch.columns, *(pa.nulls(len(batch), field.type) for field in CONTROL_FIELDS)]
    return pa.RecordBatch.from_arrays(arrays, schema=_with_control_fields(batch.schema))


def control_row(schema: pa.Schema, kind: str, bucket: int, data: bytes) -> pa.RecordBatch:
    """Return a control row among rows of ``schema``."""
    values = (kind, bucket, data)
    arrays = [
        *(pa.nulls(1, field.type) for field in schema),
        *arrays_of(([value] for value in values), CONTROL_FIELDS),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_with_control_fields(schema))


def files_row(files: Sequence[WrittenFile]) -> pa.RecordBatch:
    """Return the control row of files that a task wrote, in a batch with no other columns."""
    return control_row(pa.schema([]), "files", -1, dump_report(files))


def _with_control_fields(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_nullable(True) for field in schema]
    return pa.schema([*fields, *CONTROL_FIELDS])


def to_arrow_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return batches of one schema, at least one, as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    rows = pa.Table.from_batches(batches).combine_chunks()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def from_arrow_stream(data: bytes | memoryview) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow stream."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        yield from reader


def pack_state(packet_index: str, connections: bytes) -> bytes:
    """Return the saved state of a bucket: its packet index, and its open connections."""
    text = packet_index.encode()
    return len(text).to_bytes(4) + text + connections


def unpack_state(data: bytes) -> tuple[str, bytes]:
    """Undo :func:`pack_state`. Raises BlockError for other bytes."""
    length = int.from_bytes(data[:4])
    try:
        return data[4 : 4 + length].decode(), data[4 + length :]
    except UnicodeDecodeError as error:
        raise BlockError(f"the state of a bucket is damaged: {error}") from error


def dump_report(
    report: CaptureReport | BucketReport | Sequence[WrittenFile] | Sequence[BlockGroup],
) -> bytes:
    """Serialize a report for the driver of the same job."""
    return pickle.dumps(report, pickle.HIGHEST_PROTOCOL)


def load_report(data: bytes) -> Any:
    """Undo :func:`dump_report`. The bytes must come from a task of this job."""
    return pickle.loads(data)  # noqa: S301 - see above
