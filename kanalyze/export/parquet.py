"""Rows as Parquet.

In: rows. Out: a Parquet file, compressed with Zstandard. This module must not know where rows come
from; pyarrow is imported when a file is opened.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from kanalyze.analysis.row import COLUMNS
from kanalyze.errors import UsageError
from kanalyze.export.arrow import record_batch
from kanalyze.export.files import STANDARD_OUTPUT, OutputFile
from kanalyze.export.schema import arrow_schema
from kanalyze.export.writer import FileWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kanalyze.analysis.row import AnyRow, Column

__all__ = ["ParquetWriter"]

ROW_GROUP_ROWS = 20_000
ROW_GROUP_BYTES = 8 << 20
"""Arrow bytes held back at most, about, before a row group is written."""


class ParquetWriter(FileWriter):
    """Writes rows as Parquet, in row groups of bounded size.

    Raises UsageError when the destination is standard output and that is a terminal.
    """

    def __init__(self, destination: str, columns: Sequence[Column] = COLUMNS) -> None:
        if destination == STANDARD_OUTPUT and sys.stdout.isatty():
            raise UsageError("Parquet is not for a terminal: give a file with -o, or redirect")
        import pyarrow.parquet as pq

        super().__init__(OutputFile(destination))
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._held: list[Any] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._writer = pq.ParquetWriter(
            _Positioned(self.output.file), self._schema, compression="zstd"
        )

    def write(self, rows: Sequence[AnyRow]) -> None:
        """Write rows; raises OSError."""
        for first in range(0, len(rows), ROW_GROUP_ROWS):
            batch = record_batch(rows[first : first + ROW_GROUP_ROWS], self._columns)
            self._held.append(batch)
            self._held_rows += batch.num_rows
            self._held_bytes += batch.nbytes
            if self._held_rows >= ROW_GROUP_ROWS or self._held_bytes >= ROW_GROUP_BYTES:
                self._write_group()

    def close(self) -> None:
        """Write what is held back and finish the file; raises OSError."""
        try:
            self._write_group()
            self._writer.close()
        except BaseException:
            self.abort()
            raise
        super().close()

    def abort(self) -> None:
        """Remove the file."""
        # pyarrow's writer would write its footer when it is collected: it must be closed while
        # there is a file to write it to, whatever becomes of that file.
        if self._writer.is_open:
            try:
                self._writer.close()
            except OSError:
                self._writer.is_open = False
        super().abort()

    def _write_group(self) -> None:
        import pyarrow as pa

        if not self._held_rows:
            return
        table = pa.Table.from_batches(self._held, schema=self._schema)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


class _Positioned:
    """A binary file that counts what it was given: pyarrow asks for positions, pipes have none."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._file.write(data)
        self._position += size
        return size

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True
