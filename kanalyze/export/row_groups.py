"""Blocks of rows gathered into the row groups of a Parquet file.

In: blocks of any length, with the columns of one table. Out: blocks, each a row group. This module
must not know what the columns mean or where row groups go.

Where a row group ends depends on the rows alone, never on the blocks they came in: the same rows
make the same file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kanalyze.analysis.block import Lists, RowBlock, Words, words_in_use

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kanalyze.analysis.block import ColumnValues
    from kanalyze.analysis.row import Column

__all__ = ["RowGroups", "sizes_up_to", "utf8"]

_Sizes: TypeAlias = "NDArray[np.int64]"

_MOST_HELD_BLOCKS = 32
"""A block takes some 20 KB for its arrays alone, however few its rows: captures of large messages
bring a few dozen rows at a time."""


class RowGroups:
    """Holds rows back until there are enough for a row group.

    A row group ends with the row that makes it ``most_rows``, or with the one that makes it
    ``most_bytes`` or more, as :func:`sizes_up_to` counts them.
    """

    def __init__(self, columns: Sequence[Column], *, most_rows: int, most_bytes: int) -> None:
        self._columns = columns
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._held: list[RowBlock] = []
        self._held_rows = 0
        self._held_bytes = 0

    def add(self, block: RowBlock) -> Iterator[RowBlock]:
        """Take a block that has at least the columns; yield each row group that is complete."""
        names = [column.name for column in self._columns]
        block = RowBlock(len(block), {name: block.columns[name] for name in names})
        sizes = sizes_up_to(block, self._columns)
        first = 0
        while first < len(block):
            full = sizes[first] + self._most_bytes - self._held_bytes
            end = min(first + self._most_rows - self._held_rows, int(np.searchsorted(sizes, full)))
            is_complete = end <= len(block)
            end = min(end, len(block))
            self._held.append(block.part(first, end))
            if len(self._held) > _MOST_HELD_BLOCKS:
                self._held = [RowBlock.joined(self._held)]
            self._held_rows += end - first
            self._held_bytes += int(sizes[end] - sizes[first])
            first = end
            if is_complete:
                yield from self.rest()

    def rest(self) -> Iterator[RowBlock]:
        """Yield what is held back, if anything, and hold nothing more."""
        if not self._held:
            return
        joined = RowBlock.joined(self._held)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        yield joined


def sizes_up_to(block: RowBlock, columns: Sequence[Column]) -> _Sizes:
    """Return how many bytes the rows before each row take, and at last all rows: n + 1 numbers.

    Bytes of values, texts and offsets as Arrow holds them, a bool counted as one, without what
    says where nulls are.
    """
    sizes = np.zeros(len(block), dtype=np.int64)
    for column in columns:
        sizes += _sizes(block.columns[column.name], column)
    return _up_to(sizes)


def _sizes(values: ColumnValues, column: Column) -> _Sizes | int:
    """Return how many bytes each value takes; one number where all take the same."""
    if isinstance(values, Words):
        return _text_sizes(values)
    if not isinstance(values, Lists):
        return _WIDTHS[column.type]
    if not column.fields:
        items = values.fields[""]
        assert isinstance(items, Words)
        inner = _text_sizes(items)
    else:
        inner = np.zeros(values.offsets[-1], dtype=np.int64)
        for field in column.fields:
            inner += _sizes(values.fields[field.name], field)
    return np.diff(_up_to(inner)[values.offsets]) + _OFFSET_BYTES


def _text_sizes(texts: Words) -> _Sizes:
    codes, words = words_in_use(texts)
    sizes = [len(word) if word.isascii() else len(utf8(word)) for word in words]
    # Code -1, null, finds the last one.
    return np.array([*sizes, 0], dtype=np.int64)[codes] + _OFFSET_BYTES


def utf8(text: str) -> bytes:
    """Return a text as files hold it; what is no valid Unicode as escapes."""
    return text.encode("utf-8", "backslashreplace")


def _up_to(sizes: _Sizes) -> _Sizes:
    return np.concatenate(([0], np.cumsum(sizes)))


_WIDTHS = {"bool": 1, "int16": 2, "int32": 4, "int64": 8}
_OFFSET_BYTES = 4
