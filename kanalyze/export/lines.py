"""Lines of text, made of columns.

In: what stands for the cells of each column, and what stands between them. Out: the lines, as
bytes. This module must not know which format that is.

Compiled by Cython, with the types in ``lines.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.export.text_buffer import TextBuffer

try:
    import cython
except ModuleNotFoundError:  # what it is needed for here, where nothing is compiled
    from kanalyze.common.compiled import cython

if not cython.compiled:
    OPEN_LIST, CLOSE_LIST, COMMA = 0x5B, 0x5D, 0x2C

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

__all__ = [
    "Cells",
    "LineWriter",
    "ListCells",
    "NumberCells",
    "TextCells",
    "TruthCells",
    "WordCells",
]


class Cells:
    """The cells of one column."""

    __slots__ = ()

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        raise NotImplementedError


class NumberCells(Cells):
    """Numbers, and what stands for none."""

    __slots__ = ("_has_nulls", "_null", "_valid", "_values")

    def __init__(self, values: array[int], valid: bytearray | None, null: bytes) -> None:
        """Have values; those where ``valid`` is 0 are none."""
        self._values = memoryview(values)
        self._has_nulls = valid is not None
        self._valid = memoryview(bytearray() if valid is None else valid)
        self._null = null

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        if self._has_nulls and self._valid[row] == 0:
            text.put_bytes(self._null)
        else:
            self._put_known(text, row)

    def _put_known(self, text: TextBuffer, row: int) -> None:
        text.put_number(self._values[row])


class TruthCells(NumberCells):
    """Truths, 0 or 1, as JSON has them, and what stands for none."""

    __slots__ = ()

    def _put_known(self, text: TextBuffer, row: int) -> None:
        text.put_bytes(b"true" if self._values[row] else b"false")


class WordCells(Cells):
    """Texts by number, and what stands for none."""

    __slots__ = ("_codes", "_null", "_words")

    def __init__(self, codes: array[int], words: list[bytes], null: bytes) -> None:
        """Have codes: which of the words each is, -1 for none."""
        self._codes = memoryview(codes)
        self._words = words
        self._null = null

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        code = self._codes[row]
        if code < 0:
            text.put_bytes(self._null)
        else:
            word = self._words[code]
            text.put_bytes(word)


class TextCells(Cells):
    """Texts as they are."""

    __slots__ = ("_texts",)

    def __init__(self, texts: list[bytes]) -> None:
        """Have a text for each row."""
        self._texts = texts

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        word = self._texts[row]
        text.put_bytes(word)


class ListCells(Cells):
    """Lists as JSON has them."""

    __slots__ = ("_items", "_offsets", "_writer")

    def __init__(self, offsets: array[int], writer: LineWriter, items: list[Cells]) -> None:
        """Have lists of items.

        Args:
            offsets: where each list begins among the items, and at last where the last one ends.
            writer: writes an item.
            items: the cells of all items.
        """
        self._offsets = memoryview(offsets)
        self._writer = writer
        self._items = items

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        first, end = self._offsets[row], self._offsets[row + 1]
        text.put_byte(OPEN_LIST)
        for item in range(first, end):
            if item > first:
                text.put_byte(COMMA)
            self._writer.put(text, item, self._items)
        text.put_byte(CLOSE_LIST)


class LineWriter:
    """Writes lines of cells."""

    def __init__(self, before: Sequence[bytes], end: bytes) -> None:
        """Make one.

        Args:
            before: what stands before each cell.
            end: what stands behind the last one.
        """
        self._before = list(before)
        self._end = end
        self._text = TextBuffer()

    def lines(self, rows: int, cells: list[Cells]) -> bytes:
        """Return so many lines of the cells of each column."""
        text = self._text
        for row in range(rows):
            self.put(text, row, cells)
        return text.drain()

    def each(self, rows: int, cells: list[Cells]) -> list[str]:
        """Return the lines, each by itself; they are ASCII."""
        text = self._text
        made = []
        for row in range(rows):
            self.put(text, row, cells)
            made.append(str(text.drain(), "ascii"))
        return made

    def put(self, text: TextBuffer, row: int, cells: list[Cells]) -> None:
        """Write one line."""
        for index in range(len(cells)):
            before = self._before[index]
            text.put_bytes(before)
            cell = cells[index]
            cell.put(text, row)
        text.put_bytes(self._end)
