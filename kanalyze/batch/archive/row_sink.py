"""Where rows of an archive go: into files or to the driver; anomalies of packets, staged files.

In: rows of all tables, as they are made; anomalies that tasks found when they read captures. Out:
files, or rows of what tasks tell.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kanalyze.batch.archive.blocks import Told, from_arrow_stream, to_arrow_stream
from kanalyze.batch.archive.table_files import (
    OPEN_ANOMALIES,
    OPEN_CONNECTIONS,
    TableFiles,
    with_small_merged,
)
from kanalyze.export.arrow import BatchMaker, array_of
from kanalyze.spec.rows.anomalies import ANOMALY_COLUMNS, AnomalyRow
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.columns.block import Ints, RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kanalyze.batch.archive.planning import ReadSummary
    from kanalyze.batch.archive.table_files import WrittenFile
    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.connections import ConnectionRow
    from kanalyze.tables.filters import RowFilter

__all__ = [
    "OPEN_CONNECTIONS",
    "BucketSink",
    "FileRows",
    "PacketAnomalies",
    "ToldRows",
    "anomalies_of_packets",
    "numbered",
    "staged",
    "write_anomalies",
]


PacketAnomalies: TypeAlias = "tuple[str, int, bytes | memoryview]"
"""A capture, the number of a part of it, and anomalies of its packets, as an Arrow stream."""


_REQUESTS: Final = "requests"
_PENDING_BYTES: Final = 1 << 20
"""Size at which rows of a table are yielded."""


class BucketSink(Protocol):
    """Takes the rows of one bucket; the methods yield what the task tells the driver."""

    def add(self, rows: TableRows) -> Iterator[Told]:
        """Take rows of all tables."""

    def open_connections(self, rows: list[ConnectionRow]) -> Iterator[Told]:
        """Take the rows of connections that continue in later captures, after all others."""


class FileRows:
    """Writes all rows to files; requests have their numbers."""

    def __init__(self, files: TableFiles) -> None:
        """Write to ``files``, which takes the rows of one bucket after another."""
        self._files = files

    def add(self, rows: TableRows) -> Iterator[Told]:
        """Write rows; nothing is yielded."""
        for name, block in rows.blocks():
            self._files.add(name, numbered(block, rows.first_id) if name == _REQUESTS else block)
        yield from ()

    def open_connections(self, rows: list[ConnectionRow]) -> Iterator[Told]:
        """Write these rows; nothing is yielded."""
        self._files.add(OPEN_CONNECTIONS, RowBlock.of_rows(rows, TABLES["connections"].columns))
        yield from ()


class ToldRows:
    """Yields rows: those of a table together, when they have some size."""

    def __init__(self, tables: Mapping[str, Sequence[Column]], bucket: int) -> None:
        """Yield the rows of these tables, with these columns; others are left out."""
        self._bucket = bucket
        self._makers = {name: BatchMaker(columns) for name, columns in tables.items()}
        self._is_numbered = REQUEST_ID in tables[_REQUESTS]
        self._pending: dict[str, list[pa.RecordBatch]] = {}

    def add(self, rows: TableRows) -> Iterator[Told]:
        """Take rows; yield those of tables that have enough."""
        for name, block in rows.blocks():
            if name in self._makers:
                is_numbered = name == _REQUESTS and self._is_numbered
                chosen = numbered(block, rows.first_id) if is_numbered else block
                pending = self._pending.setdefault(name, [])
                pending.append(self._makers[name].of_block(chosen))
                if sum(batch.nbytes for batch in pending) >= _PENDING_BYTES:
                    yield self._told(name, self._pending.pop(name))

    def open_connections(self, rows: list[ConnectionRow]) -> Iterator[Told]:
        """Yield the pending rows, then these."""
        for name, pending in self._pending.items():
            yield self._told(name, pending)
        if rows and "connections" in self._makers:
            block = RowBlock.of_rows(rows, TABLES["connections"].columns)
            yield self._told(OPEN_CONNECTIONS, [self._makers["connections"].of_block(block)])

    def _told(self, name: str, batches: Sequence[pa.RecordBatch]) -> Told:
        return Told(name, to_arrow_stream(batches), self._bucket)


def numbered(block: RowBlock, first_id: int) -> RowBlock:
    """Return requests with their numbers."""
    numbers = Ints(array("q", range(first_id, first_id + len(block))), None)
    return RowBlock(len(block), {REQUEST_ID.name: numbers, **block.columns})


def staged(
    staging: str,
    read_summary: ReadSummary,
    more_rows: Sequence[AnomalyRow],
    written: Iterable[WrittenFile],
    merge: Callable[[Sequence[Sequence[WrittenFile]]], Sequence[WrittenFile]],
    *,
    keeps_open: bool,
) -> list[WrittenFile]:
    """Return all files of a job whose tasks write rows.

    Anomalies that no task wrote are written here.

    Args:
        staging: where tasks write rows.
        read_summary: has the captures that are left out.
        more_rows: further anomalies.
        written: the files that tasks wrote.
        merge: see :func:`.with_small_merged`.
        keeps_open: whether a run follows, which tries to read some captures again: their anomalies
            are in a file of their own, which it replaces.
    """
    files = TableFiles(staging)
    retried_table = OPEN_ANOMALIES if keeps_open else "anomalies"
    for table, rows in (
        ("anomalies", [*read_summary.anomaly_rows, *more_rows]),
        (retried_table, read_summary.retryable_rows),
    ):
        files.add(table, RowBlock.of_rows(rows, ANOMALY_COLUMNS))
    return with_small_merged([*files.finish(), *written], merge)


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
