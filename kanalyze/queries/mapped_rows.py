"""Rows in Arrow's own layout, in files that are mapped into memory.

In: batches of rows. Out: views of them, which queries read where they lie.

To write rows like this takes a tenth of the time that compressing them into a database does, and
queries are as fast. But they need four times as much room, so only so many rows are kept like this.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from kanalyze.errors import KanalyzeError, reason_of
from kanalyze.queries.saved import view_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb
    import pyarrow as pa

_PREFIX = "mapped_"
"""How the names of tables begin by which DuckDB knows them."""
_KEPT_BYTES = 64 << 20
"""Up to so many bytes of rows stay in memory between queries. To map them again for each query
takes some per cent of the time of a report."""


class MappedTables:
    """The mapped rows of all tables of a database, as long as they are few."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, folder: Path, most_bytes: int
    ) -> None:
        """Begin without a table; up to ``most_bytes`` are mapped, with 0 nothing ever is."""
        self._connection = connection
        self._folder = folder
        self._most_bytes = most_bytes
        self._tables: dict[str, MappedRows] = {}
        self._columns: dict[str, list[tuple[str, str | None]]] = {}
        self.bytes = 0

    def create(self, table: str, schema: pa.Schema, columns: list[tuple[str, str | None]]) -> None:
        """Begin an empty table; for ``columns`` see :func:`~kanalyze.queries.saved.view_of`."""
        if self._most_bytes:
            self._tables[table] = MappedRows(self._folder / f"{table}.arrow", schema)
            self._columns[table] = columns

    def add(self, table: str, batch: pa.RecordBatch) -> bool:
        """Add rows to a table; return false if they are too many, or none are mapped any more."""
        if table not in self._tables or self.bytes + batch.nbytes > self._most_bytes:
            return False
        self._tables[table].add(batch)
        self.bytes += batch.nbytes
        return True

    def show(self) -> None:
        """Make the views of tables that have new rows; each hides the one of stored rows."""
        for table, rows in self._tables.items():
            if rows.is_changed:
                name = f"{_PREFIX}{table}"
                self._connection.register(name, rows.table())
                self._connection.execute(view_of(table, self._columns[table], name))

    def take_all(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield all rows with the names of their tables; from now on, no rows are mapped.

        The memory of rows that were written meanwhile is given back.
        """
        tables, self._tables = self._tables, {}
        self._most_bytes = self.bytes = 0
        for table, rows in tables.items():
            self._connection.execute(f"DROP VIEW IF EXISTS temp.{table}")
            self._connection.unregister(f"{_PREFIX}{table}")
            if rows.has_rows:
                for batch in rows.table().to_batches():
                    yield table, batch
                    rows.release()
            rows.close()

    def release(self) -> None:
        """Give back the memory of what was read, if it is much; it is read again when needed."""
        if self.bytes > _KEPT_BYTES:
            for rows in self._tables.values():
                rows.release()

    def close(self) -> None:
        """Close all files."""
        for rows in self._tables.values():
            rows.close()


class MappedRows:
    """The rows of one table."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Begin a new file without rows."""
        import pyarrow as pa

        self._path = path
        self._file = pa.OSFile(str(path), "wb")
        self._stream = pa.ipc.new_stream(self._file, schema)
        self._map: mmap.mmap | None = None
        self.has_rows = self.is_changed = False
        """``is_changed``: whether there are rows that the last :meth:`table` does not have."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows; raises KanalyzeError if there is no room for them."""
        try:
            self._stream.write_batch(batch)
        except OSError as error:
            raise KanalyzeError(f"{self._path}: {reason_of(error)}") from None
        self.has_rows = self.is_changed = True

    def table(self) -> pa.Table:
        """Return all rows, which lie in the file."""
        import pyarrow as pa

        with self._path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.is_changed = False
        # The stream has no end yet; the end of the file is as good.
        return pa.ipc.open_stream(pa.py_buffer(self._map)).read_all()

    def release(self) -> None:
        """Give back the memory of what was read; it is read again when it is needed."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file; the last table stays until nobody uses it."""
        self._map = None
        self._file.close()
