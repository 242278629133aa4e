"""Rows as Parquet.

In: rows. Out: a Parquet file, compressed. pyarrow is imported when a file is opened.

Where a row group ends depends only on the rows, not on the blocks that they came in: the same rows
make the same file.
"""

from __future__ import annotations

import base64
import sys
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from kanalyze.errors import UsageError
from kanalyze.export.arrow import BatchMaker, block_of, utf8
from kanalyze.export.files import STANDARD_OUTPUT, FileWriter
from kanalyze.export.schema import arrow_schema, integer_columns, parquet_paths
from kanalyze.spec.columns import TYPES, with_times
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import Lists, RowBlock, Words, words_in_use
from kanalyze.tables.columns.buffers import add_list_sizes, add_word_sizes, sums_up_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import ColumnValues

_COLUMNS = with_times(COLUMNS)
_RARELY_REPEATED = ("int64", "timestamp")
"""Times, packet numbers, offsets and most sizes differ in every row. A dictionary would make them a
third larger, and slower to write."""
_TEXTS = ("string", "binary")
ROW_GROUP_ROWS = 20_000
ROW_GROUP_BYTES = 8 << 20
"""Approximate Arrow size, in bytes, at which a row group is written."""


class ParquetRows:
    """Writes blocks of rows into an open binary file, in row groups of bounded size."""

    def __init__(self, file: Any, columns: Sequence[Column], *, for_spark: bool = False) -> None:
        """Begin the file, which has ``write``, ``tell``, ``flush``, ``close`` and ``closed``.

        Timestamps are in ns, or ``for_spark``, which reads no others, in microseconds.
        """
        import pyarrow.parquet as pq

        self.columns = integer_columns(columns)
        # Texts are dictionary-encoded, as in Parquet.
        self._maker = BatchMaker(columns, coded=True)
        self._groups = RowGroups(self.columns, most_rows=ROW_GROUP_ROWS, most_bytes=ROW_GROUP_BYTES)
        paths = parquet_paths(columns)
        self._writer = pq.ParquetWriter(
            file,
            self._maker.schema,
            # Zstandard makes numbers in deltas only a few per cent smaller than Snappy does, and
            # takes a tenth of the time of writing more. Texts get much smaller.
            compression={
                path: "zstd" if kind in _TEXTS else "snappy" for path, kind in paths.items()
            },
            use_dictionary=[path for path, kind in paths.items() if kind not in _RARELY_REPEATED],
            # 8 % less than plain numbers, which take a fifth longer to write and to read.
            column_encoding={
                path: "DELTA_BINARY_PACKED"
                for path, kind in paths.items()
                if kind in _RARELY_REPEATED
            },
            # Those of texts take a seventh of the time of writing, and say little: rows are in the
            # order of time. Those of numbers take nearly none.
            write_statistics=[path for path, kind in paths.items() if kind not in _TEXTS],
            store_schema=False,
            coerce_timestamps="us" if for_spark else None,
            allow_truncated_timestamps=for_spark,
        )
        # The Arrow schema for readers of the file: texts are plain strings for them.
        schema = arrow_schema(columns, unit="us" if for_spark else "ns")
        if for_spark:
            schema = schema.remove_metadata()  # that of pandas
        plain = base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")
        self._writer.add_key_value_metadata({"ARROW:schema": plain})

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block; raises OSError."""
        self._write_groups(self._groups.add(block))

    def write_file(self, file: Any) -> None:
        """Write the rows of a file that was written like this one.

        Raises OSError, and pyarrow's errors for a file that is not Parquet.
        """
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(file).iter_batches(ROW_GROUP_ROWS):
            self.write_block(block_of(batch, self.columns))

    def close(self) -> None:
        """Write the buffered rows and finish the file; raises OSError."""
        self._write_groups(self._groups.rest())
        self._writer.close()

    def abort(self) -> None:
        """End without the buffered rows, after a failure."""
        # pyarrow's writer writes the footer when it is garbage-collected. So it must be closed
        # while its file exists, even though that file is removed.
        if self._writer.is_open:
            try:
                self._writer.close()
            except OSError:
                self._writer.is_open = False

    def _write_groups(self, groups: Iterable[RowBlock]) -> None:
        for group in groups:
            self._writer.write_batch(self._maker.of_block(group), row_group_size=len(group))


class ParquetWriter(FileWriter):
    """Writes rows as Parquet to a file or to standard output.

    Raises UsageError if the destination is standard output and that is a terminal.
    """

    def __init__(
        self, destination: str, columns: Sequence[Column] = _COLUMNS, *, private: bool = False
    ) -> None:
        if destination == STANDARD_OUTPUT and sys.stdout.isatty():
            raise UsageError(
                "Parquet cannot be shown on a terminal: use -o FILE, or redirect the output"
            )
        import pyarrow as pa

        super().__init__(destination, columns, private=private)
        # pyarrow counts the bytes itself: pipes have no position.
        self._rows = ParquetRows(pa.PythonFile(self.output.file, mode="w"), columns)

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block like ``write``; raises OSError."""
        self._rows.write_block(block)

    def close(self) -> None:
        """Write the buffered rows and finish the file; raises OSError."""
        try:
            self._rows.close()
        except BaseException:
            self.abort()
            raise
        super().close()

    def abort(self) -> None:
        """Remove the file."""
        self._rows.abort()
        super().abort()


_MAX_BUFFERED_BLOCKS = 32
"""A block's arrays take some 20 KB even if it has few rows, and captures of large messages give
blocks of a few dozen rows. So small blocks are merged up to this number of rows."""


class RowGroups:
    """Buffers rows until they fill a row group.

    A row group ends with the row that brings it to ``most_rows``, or to at least ``most_bytes`` as
    counted by :func:`sizes_up_to`.
    """

    def __init__(self, columns: Sequence[Column], *, most_rows: int, most_bytes: int) -> None:
        self._columns = columns
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._buffered: list[RowBlock] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0

    def add(self, block: RowBlock) -> Iterator[RowBlock]:
        """Add a block that has at least the columns; yield the row groups that are complete."""
        block = block.only(column.name for column in self._columns)
        sizes = sizes_up_to(block, self._columns)
        first = 0
        while first < len(block):
            full = sizes[first] + self._most_bytes - self._buffered_bytes
            end = min(first + self._most_rows - self._buffered_rows, bisect_left(sizes, full))
            is_complete = end <= len(block)
            end = min(end, len(block))
            self._buffered.append(block.part(first, end))
            if len(self._buffered) > _MAX_BUFFERED_BLOCKS:
                self._buffered = [RowBlock.joined(self._buffered)]
            self._buffered_rows += end - first
            self._buffered_bytes += sizes[end] - sizes[first]
            first = end
            if is_complete:
                yield from self.rest()

    def rest(self) -> Iterator[RowBlock]:
        """Yield the buffered rows, if any, as a last row group; empty the buffer."""
        if not self._buffered:
            return
        joined = RowBlock.joined(self._buffered)
        self._buffered, self._buffered_rows, self._buffered_bytes = [], 0, 0
        yield joined


def sizes_up_to(block: RowBlock, columns: Sequence[Column]) -> array[int]:
    """Return the sizes in bytes of the first 0, 1, ... n rows: n + 1 numbers.

    A size counts values, texts and offsets in Arrow's layout, without the bitmaps of nulls. A bool
    counts as one byte.
    """
    return sums_up_to(_sizes(len(block), block.columns, columns))


def _sizes(count: int, values: Mapping[str, ColumnValues], columns: Sequence[Column]) -> array[int]:
    """Return the size in bytes of each row, or of each item of a list, in the given columns."""
    fixed = sum(map(_width, columns))
    sizes = array("q", [fixed]) * count
    for column in columns:
        column_values = values[column.name]
        if isinstance(column_values, Words):
            _add_text_sizes(sizes, column_values)
        elif isinstance(column_values, Lists) and (items := column_values.offsets[-1]):
            if column.fields:
                inner = _sizes(items, column_values.fields, column.fields)
            else:
                texts = column_values.fields[""]
                assert isinstance(texts, Words)
                inner = array("q", [_OFFSET_BYTES]) * items
                _add_text_sizes(inner, texts)
            add_list_sizes(sizes, column_values.offsets, sums_up_to(inner))
    return sizes


def _add_text_sizes(sizes: array[int], texts: Words) -> None:
    codes, words = words_in_use(texts)
    lengths = [len(word) if word.isascii() else len(utf8(word)) for word in words]
    if lengths:
        add_word_sizes(sizes, codes, array("q", lengths))


def _width(column: Column) -> int:
    """Return the bytes that a value takes, without those of a text or of the items of a list."""
    return (TYPES[column.type].width if column.type in TYPES else 0) or _OFFSET_BYTES


_OFFSET_BYTES = 4
