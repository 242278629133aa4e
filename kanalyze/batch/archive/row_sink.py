"""Where rows of an archive go: a sink, the one that writes files, and anomalies of packets.

In: rows of all tables, as they are made; anomalies that tasks found when they read captures. Out:
control rows: reports, states; rows of anomalies, or files.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kanalyze.batch.archive.blocks import control_row, from_arrow_stream
from kanalyze.batch.archive.table_files import (
    OPEN_ANOMALIES,
    OPEN_CONNECTIONS,
    TableFiles,
    with_small_merged,
)
from kanalyze.common.named_tuples import NamedTuple
from kanalyze.export.arrow import array_of
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.columns.block import Ints, RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.batch.archive.planning import ReadSummary
    from kanalyze.batch.archive.table_files import WrittenFile
    from kanalyze.batch.archive.tasks import Job
    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.filters import RowFilter

__all__ = [
    "OPEN_CONNECTIONS",
    "BucketSink",
    "FileRows",
    "PacketAnomalies",
    "StagedFile",
    "anomalies_of_packets",
    "numbered",
    "staged",
    "write_anomalies",
]


PacketAnomalies: TypeAlias = "tuple[str, int, bytes | memoryview]"
"""A capture, the number of a part of it, and anomalies of its packets, as an Arrow stream."""


class BucketSink(Protocol):
    """Takes the rows of one bucket; ``add`` and ``open_connections`` yield batches for Spark."""

    def control(self, kind: str, data: bytes) -> pa.RecordBatch:
        """Return a control row."""

    def add(self, rows: TableRows) -> Iterator[pa.RecordBatch]:
        """Take rows of all tables."""

    def open_connections(self, rows: list[ConnectionRow]) -> Iterator[pa.RecordBatch]:
        """Take the rows of connections that continue in later captures, after all others."""


class YieldsRows(Protocol):
    """Yields rows where tasks do not write them; can be pickled."""

    def sink(self, columns: Sequence[Column], others: frozenset[str], bucket: int) -> BucketSink:
        """Return the sink for the rows of a bucket: columns of requests, and other tables."""

    def rows(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        """Yield rows of one table."""


class FileRows:
    """Writes all rows to files; requests have their numbers."""

    def __init__(self, files: TableFiles, bucket: int) -> None:
        """Write to ``files``, which takes the rows of one bucket after another."""
        self._files = files
        self._bucket = bucket

    def control(self, kind: str, data: bytes) -> pa.RecordBatch:
        """Return a control row."""
        return control_row(pa.schema([]), kind, self._bucket, data)

    def add(self, rows: TableRows) -> Iterator[pa.RecordBatch]:
        """Write rows; nothing is yielded."""
        for name, block in rows.blocks():
            if name == "requests":
                self._files.add(name, numbered(block, rows.first_id))
            else:
                self._files.add(name, block)
        yield from ()

    def open_connections(self, rows: list[ConnectionRow]) -> Iterator[pa.RecordBatch]:
        """Write these rows; nothing is yielded."""
        self._files.add(OPEN_CONNECTIONS, RowBlock.of_rows(rows, TABLES["connections"].columns))
        yield from ()


def numbered(block: RowBlock, first_id: int) -> RowBlock:
    """Return requests with their numbers."""
    numbers = Ints(array("q", range(first_id, first_id + len(block))), None)
    return RowBlock(len(block), {REQUEST_ID.name: numbers, **block.columns})


class StagedFile(NamedTuple):
    """A file with rows in the staging folder."""

    table: str
    name: str
    """Relative to the staging folder."""


def staged(
    job: Job,
    read_summary: ReadSummary,
    more_rows: Sequence[AnomalyRow],
    written: Iterable[WrittenFile],
    merge: Callable[[Sequence[Sequence[WrittenFile]]], Sequence[WrittenFile]],
) -> list[StagedFile]:
    """Return all files of a job whose tasks write rows.

    Anomalies that no task wrote are written here. If the job keeps connections open, those of
    captures that the next run tries to read again are in a file of their own, which it replaces.

    Args:
        job: the job.
        read_summary: has the captures that are left out.
        more_rows: further anomalies.
        written: the files that tasks wrote.
        merge: see :func:`.with_small_merged`.
    """
    assert job.staging is not None, "tasks write rows"
    files = TableFiles(job.staging)
    retried_table = OPEN_ANOMALIES if job.keeps_open else "anomalies"
    for table, rows in (
        ("anomalies", [*read_summary.anomaly_rows, *more_rows]),
        (retried_table, read_summary.retryable_rows),
    ):
        files.add(table, RowBlock.of_rows(rows, ANOMALY_COLUMNS))
    whole = with_small_merged([*files.finish(), *written], merge)
    return [StagedFile(file.table, file.name) for file in whole]


def write_anomalies(
    packets_before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    staging: str,
    streams: Iterable[PacketAnomalies],
) -> list[WrittenFile]:
    """Write the anomalies of packets to files below ``staging``, and return the files.

    For the other arguments see :func:`anomalies_of_packets`.
    """
    files = TableFiles(staging)
    try:
        for rows in anomalies_of_packets(packets_before, row_filter, streams):
            files.add("anomalies", RowBlock.of_rows(_as_rows(rows), ANOMALY_COLUMNS))
        return files.finish()
    except BaseException:
        files.abort()
        raise


def _as_rows(batch: pa.RecordBatch) -> list[AnomalyRow]:
    return [AnomalyRow(**row) for row in batch.to_pylist()]


def anomalies_of_packets(
    packets_before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    streams: Iterable[PacketAnomalies],
) -> Iterator[pa.RecordBatch]:
    """Yield the anomalies of valid parts, with the packets' numbers in their captures.

    Args:
        packets_before: the number of packets in a capture before a part of it, by name and part.
        row_filter: applied to the anomalies.
        streams: the anomalies of parts.
    """
    for capture, part, data in streams:
        earlier_packets = packets_before.get((capture, part))
        if earlier_packets is None:
            continue
        for rows in from_arrow_stream(data):
            yield _filtered(_shifted(rows, earlier_packets), row_filter)


def _shifted(rows: pa.RecordBatch, packets: int) -> pa.RecordBatch:
    index = rows.schema.get_field_index("packet")
    return rows.set_column(index, rows.schema.field(index), pc.add(rows.column(index), packets))


def _filtered(rows: pa.RecordBatch, row_filter: RowFilter) -> pa.RecordBatch:
    if row_filter.passes_all:
        return rows
    selected = [row_filter.matches_anomaly(row) for row in _as_rows(rows)]
    return rows.filter(array_of(selected, pa.bool_()))
