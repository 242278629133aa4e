"""Where rows of an archive go: into files or to the driver; anomalies of packets, staged files.

In: rows of all tables, as they are made; anomalies that tasks found when they read captures. Out:
files, or rows of what tasks tell.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kanalyze.batch.archive.blocks import Told, load_report, to_arrow_stream
from kanalyze.batch.archive.table_files import (
    OPEN_CONNECTIONS,
    TableFiles,
)
from kanalyze.export.arrow import BatchMaker
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.columns.block import Ints, RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.anomalies import AnomalyRow
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
]


PacketAnomalies: TypeAlias = "tuple[str, int, bytes | memoryview]"
"""A capture, the number of a part of it, and anomalies of its packets, as a task told them."""


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


def anomalies_of_packets(
    packets_before: Mapping[tuple[str, int], int],
    row_filter: RowFilter,
    parts: Iterable[PacketAnomalies],
) -> Iterator[list[AnomalyRow]]:
    """Yield the anomalies of valid parts, with the packets' numbers in their captures.

    Args:
        packets_before: the number of packets in a capture before a part of it, by name and part.
        row_filter: applied to the anomalies.
        parts: the anomalies of parts.
    """
    for capture, part, data in parts:
        before = packets_before.get((capture, part))
        if before is None:
            continue
        shifted = (
            row if row.packet is None else row._replace(packet=row.packet + before)
            for row in load_report(data)
        )
        if rows := [row for row in shifted if row_filter.matches_anomaly(row)]:
            yield rows
