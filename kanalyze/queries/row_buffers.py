"""Rows that are buffered until there are enough of them to be written.

In: batches of rows, by table. Out: Arrow tables to be written, in the order of the rows.

Writing few rows costs several times as much per row, so rows are written by whole row groups:
DuckDB copies others twice. The rows of ``requests`` get their numbers here.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.queries.saved import REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

ROW_GROUP = 4096
"""Rows that are compressed together. Half as many take a third more time, and twice as many do not
fit into ``MOST_BYTES`` where each has a hundred partitions. DuckDB's default, thirty times as many,
takes 100 MB of memory."""
ROWS_AT_ONCE = 7 * ROW_GROUP
"""The rows of a table that are written at once, if they are small."""
_BYTES_AT_ONCE = 16 << 20
"""The size in bytes from which the row groups among the buffered rows of a table are written."""
MOST_BYTES = 3 * _BYTES_AT_ONCE
"""Maximum size of the buffered rows of a table in bytes, also if they are no row group yet."""
_BATCHES_AT_ONCE = 32
"""Maximum number of buffered batches: even a batch of few rows takes some 50 kB, for the objects of
its columns."""


class RowBuffers:
    """The buffered rows of all tables."""

    def __init__(self) -> None:
        """Begin without a table."""
        self._numbers: _RequestNumbers | None = None
        self._buffers: dict[str, _RowBuffer] = {}

    @property
    def tables(self) -> frozenset[str]:
        """The names of the tables."""
        return frozenset(self._buffers)

    def create(self, table: str, schema: pa.Schema) -> pa.Schema:
        """Begin an empty table; return its schema, in which ``requests`` has ``request_id``."""
        if table == "requests" and REQUEST_ID not in schema.names:
            self._numbers = _RequestNumbers(schema)
            schema = self._numbers.schema
        self._buffers[table] = _RowBuffer(schema.names)
        return schema

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        return self._buffers[table].columns

    def numbered(self, table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the next rows of a table: requests get their numbers, unless they have them."""
        if table == "requests" and self._numbers is not None:
            return self._numbers.added_to(batch)
        return batch

    def add(self, table: str, batch: pa.RecordBatch) -> pa.Table | None:
        """Add rows of :meth:`numbered` to a table; return those to be written now, if any."""
        return self._buffers[table].add(batch)

    def add_all(self, rows: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.Table]]:
        """Add rows to tables; yield tables with those that are to be written now."""
        for table, batch in rows:
            written = self.add(table, batch)
            if written is not None:
                yield table, written

    def take_all(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the name of each table that has buffered rows, and these rows."""
        for table, buffer in self._buffers.items():
            if buffer.rows:
                yield table, buffer.take_all()


class _RequestNumbers:
    """The numbers of requests: from 1, in the order of the rows."""

    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow as pa

        number = pa.field(REQUEST_ID, pa.int64(), nullable=False)
        self.schema: pa.Schema = schema.insert(0, number)
        self._requests = 0

    def added_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the next requests with their numbers as the first column."""
        import pyarrow as pa

        first = self._requests + 1
        self._requests += batch.num_rows
        numbers = array("q", range(first, self._requests + 1))
        column = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
        return pa.RecordBatch.from_arrays([column, *batch.columns], schema=self.schema)


class _RowBuffer:
    """The buffered rows of one table."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns
        self.rows = 0
        self._bytes = 0
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> pa.Table | None:
        """Add rows; return the rows that are to be written now, if any."""
        self._buffer(batch)
        is_large = self._bytes >= _BYTES_AT_ONCE or len(self._batches) >= _BATCHES_AT_ONCE
        if self.rows >= ROWS_AT_ONCE or (is_large and self.rows >= ROW_GROUP):
            return self._take_groups()
        if self._bytes >= MOST_BYTES or len(self._batches) >= _BATCHES_AT_ONCE:
            return self.take_all()
        return None

    def take_all(self) -> pa.Table:
        import pyarrow as pa

        rows = pa.Table.from_batches(self._batches)
        self.rows, self._bytes, self._batches = 0, 0, []
        return rows

    def _buffer(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.rows += batch.num_rows
        self._bytes += batch.nbytes

    def _take_groups(self) -> pa.Table:
        """Take as many rows as fill row groups; the others stay buffered."""
        rows = self.take_all()
        full_groups_rows = rows.num_rows // ROW_GROUP * ROW_GROUP
        for batch in rows.slice(full_groups_rows).to_batches():
            self._buffer(batch)
        return rows.slice(0, full_groups_rows)
