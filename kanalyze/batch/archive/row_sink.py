"""Where the rows of a bucket go: the interface of a sink, and the sink that writes files.

In: rows of all tables, as they are made. Out: control rows: reports, states.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from kanalyze.batch.archive.shuffle_schema import control_row
from kanalyze.batch.archive.table_files import OPEN_CONNECTIONS
from kanalyze.spec.rows.cluster import REQUEST_ID
from kanalyze.spec.rows.tables import TABLES
from kanalyze.tables.columns.block import Ints, RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kanalyze.batch.archive.table_files import TableFiles
    from kanalyze.runtime.table_rows import TableRows
    from kanalyze.spec.columns import Column
    from kanalyze.spec.rows.connections import ConnectionRow

__all__ = ["OPEN_CONNECTIONS", "BucketSink", "FileRows", "numbered"]


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
