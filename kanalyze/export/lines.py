"""Builds lines of text from columns.

In: the cells of each column, and the text between them. Out: the lines, as bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.export.text_buffer import TextBuffer

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
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
    """The cells of one column, one per row."""

    __slots__ = ()

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        raise NotImplementedError


class NumberCells(Cells):
    """Cells of numbers, with a text for null."""

    __slots__ = ("_has_nulls", "_null", "_valid", "_values")

    def __init__(self, values: array[int], valid: bytearray | None, null: bytes) -> None:
        """Make the cells of ``values``; a value is null if its byte in ``valid`` is 0."""
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
    """Cells of booleans (0 or 1) as JSON, with a text for null."""

    __slots__ = ()

    def _put_known(self, text: TextBuffer, row: int) -> None:
        text.put_bytes(b"true" if self._values[row] else b"false")


class WordCells(Cells):
    """Cells of texts that are stored once and referred to by number, with a text for null."""

    __slots__ = ("_codes", "_null", "_words")

    def __init__(self, codes: array[int], words: list[bytes], null: bytes) -> None:
        """Make the cells of ``codes``, which are indices of ``words``; -1 is null."""
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
    """Cells of texts, written unchanged."""

    __slots__ = ("_texts",)

    def __init__(self, texts: list[bytes]) -> None:
        """Make the cells; there is one text for each row."""
        self._texts = texts

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        word = self._texts[row]
        text.put_bytes(word)


class ListCells(Cells):
    """Cells of lists, as JSON."""

    __slots__ = ("_items", "_offsets", "_writer")

    def __init__(self, offsets: array[int], writer: LineWriter, items: list[Cells]) -> None:
        """Make the cells of lists.

        Args:
            offsets: index of each list's first item, and at the end the number of all items.
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
        """Make a writer.

        Args:
            before: the text in front of each cell.
            end: the text after the last cell.
        """
        self._before = list(before)
        self._end = end
        self._text = TextBuffer()

    def lines(self, rows: int, cells: list[Cells]) -> bytes:
        """Return the lines of the first ``rows`` rows, given the cells of each column."""
        text = self._text
        for row in range(rows):
            self.put(text, row, cells)
        return text.drain()

    def each(self, rows: int, cells: list[Cells]) -> list[str]:
        """Return the lines as separate texts; all cells must be ASCII."""
        text = self._text
        lines = []
        for row in range(rows):
            self.put(text, row, cells)
            lines.append(str(text.drain(), "ascii"))
        return lines

    def put(self, text: TextBuffer, row: int, cells: list[Cells]) -> None:
        """Write one line."""
        for index in range(len(cells)):
            before = self._before[index]
            text.put_bytes(before)
            cell = cells[index]
            cell.put(text, row)
        text.put_bytes(self._end)
