r"""Rows as CSV: RFC 4180, UTF-8, a header line, ``\r\n`` line ends.

In: rows, or columns of rows. Out: bytes.

- null is an empty cell. Booleans are ``true`` and ``false``. Nested columns are compact JSON text.
- Text comes from the network and is not trusted. A backslash and every unprintable character (see
  :func:`kanalyze.common.texts.escape`) are written as JSON escapes: ``\\``, ``\n``, ``\u001b``.
  No cell has a line break.
- Spreadsheets run cells that begin with ``= + - @``, and some also those that begin with the
  full-width forms. A text that begins with one of these characters or with an apostrophe gets an
  apostrophe in front; a lone dash does not. The empty text, which is not null, is a single
  apostrophe. In countries with decimal commas, spreadsheets separate cells at semicolons. So such a
  character behind a semicolon is written as its escape, ``\u003d``, also in nested columns. To get
  the exact text, a reader removes one apostrophe and undoes the escapes. Numbers are not changed.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from kanalyze.common.texts import escape
from kanalyze.export.column_texts import JsonTexts, WordTexts, number_cells
from kanalyze.export.files import FileWriter, OutputFile
from kanalyze.export.lines import Cells, LineWriter, TextCells
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.spec.columns import AnyRow, Column
    from kanalyze.tables.columns.block import Lists

__all__ = ["CsvWriter", "csv_text"]

_FORMULA_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""For a character class of a regular expression."""
_AT_BEGIN = re.compile(f"[{_FORMULA_SIGNS}']")
_QUOTE = '"'
_NEEDS_QUOTES = re.compile('[",\r\n]')
_BEHIND_SEMICOLON = re.compile(rf"""(;[ '"\\]*)([{_FORMULA_SIGNS}])""")


class CsvWriter(FileWriter):
    """Writes rows as CSV. The header line is written even if there are no rows."""

    def __init__(
        self, destination: str, columns: Sequence[Column] = COLUMNS, *, private: bool = False
    ) -> None:
        super().__init__(OutputFile(destination, private=private))
        self._columns = tuple(columns)
        # With a single column, an empty cell would be an empty line, which is not a record.
        null = b"" if len(self._columns) > 1 else b'""'
        self._cells = [(column.name, _cells_of(column, null)) for column in columns]
        self._lines = LineWriter([b"", *[b","] * (len(self._columns) - 1)], b"\r\n")
        header = ",".join(_cell(column.name) for column in columns)
        self.output.file.write(f"{header}\r\n".encode())

    def write(self, rows: Sequence[AnyRow]) -> None:
        """Write rows; raises OSError."""
        self.write_block(RowBlock.of_rows(rows, self._columns))

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block like ``write``."""
        for piece in block.pieces():
            cells = [cells_of(piece.columns[name]) for name, cells_of in self._cells]
            self.output.file.write(self._lines.lines(len(piece), cells))


def csv_text(text: str) -> str:
    """Return a text as the content of a cell; see the module's docstring."""
    if text == "-":
        return text  # the name of standard input; no spreadsheet runs a lone dash
    text = _without_formulas(escape(text))
    return f"'{text}" if not text or _AT_BEGIN.match(text) else text


def _without_formulas(text: str) -> str:
    """Return a text, or JSON text, with the characters escaped that could begin a formula in it."""
    if ";" not in text:
        return text
    return _BEHIND_SEMICOLON.sub(lambda match: f"{match[1]}\\u{ord(match[2]):04x}", text)


def _cells_of(column: Column, null: bytes) -> Callable[[Any], Cells]:
    """Return a function that makes the cells of a column; ``null`` is the cell of null."""
    if column.type == "string":
        return WordTexts(lambda text: _cell(csv_text(text)), null).of
    if column.type.startswith("list<"):
        return partial(_lists, JsonTexts(column))
    return lambda ints: number_cells(column, ints, null)


_UNCHANGED = LineWriter([b""], b"")


def _lists(texts: JsonTexts, lists: Lists) -> Cells:
    """Return lists as cells with JSON text."""
    texts_of_rows = _UNCHANGED.each(len(lists.offsets) - 1, [texts.of(lists)])
    return TextCells([_cell(_without_formulas(text)).encode("ascii") for text in texts_of_rows])


def _cell(text: str) -> str:
    """Return a cell, in quotes if it needs them."""
    return text if _NEEDS_QUOTES.search(text) is None else f'"{text.replace(_QUOTE, 2 * _QUOTE)}"'
