"""Collects blocks of rows into the row groups of a Parquet file.

In: blocks of any length, with the columns of one table. Out: blocks, each a row group.

Where a row group ends depends only on the rows, not on the blocks that they came in: the same rows
make the same file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from kanalyze.spec.columns import TYPES
from kanalyze.tables.columns.arithmetic import add_list_sizes, add_word_sizes, sums_up_to
from kanalyze.tables.columns.block import Lists, RowBlock, Words, words_in_use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import ColumnValues

__all__ = ["RowGroups", "sizes_up_to", "utf8"]

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
    fixed = sum(TYPES[column.type].width for column in columns if column.type in TYPES)
    sizes = array("q", [fixed]) * count
    for column in columns:
        column_values = values[column.name]
        if isinstance(column_values, Words):
            _add_text_sizes(sizes, column_values)
        elif isinstance(column_values, Lists):
            items = column_values.offsets[-1]
            if column.fields:
                inner = _sizes(items, column_values.fields, column.fields)
            else:
                texts = column_values.fields[""]
                assert isinstance(texts, Words)
                inner = array("q", bytes(8 * items))
                _add_text_sizes(inner, texts)
            add_list_sizes(sizes, column_values.offsets, sums_up_to(inner), _OFFSET_BYTES)
    return sizes


def _add_text_sizes(sizes: array[int], texts: Words) -> None:
    codes, words = words_in_use(texts)
    lengths = [len(word) if word.isascii() else len(utf8(word)) for word in words]
    add_word_sizes(sizes, codes, array("q", lengths), _OFFSET_BYTES)


def utf8(text: str) -> bytes:
    """Return a text as UTF-8; lone surrogates are replaced by their escapes."""
    return text.encode("utf-8", "backslashreplace")


_OFFSET_BYTES = 4
