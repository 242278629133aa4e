r"""Rows as CSV: RFC 4180, UTF-8, a header line, ``\r\n`` line ends.

In: rows, or columns of them. Out: bytes. This module must not know where they go.

- null is an empty cell; true and false are those words; nested columns are compact JSON text.
- Text comes from the network and is not trusted. In it, a backslash and every character that is not
  printable (see :func:`kanalyze.common.escaping.escape`) stand as JSON escapes: ``\\``, ``\n``,
  ``\u001b``. No cell has a line break.
- Spreadsheets run cells that begin with ``= + - @``, and some with the full-width forms of these. A
  text that begins with one of them (a lone dash is none), or with an apostrophe, gets an apostrophe
  in front; the empty text, which is not null, is a single apostrophe. Where numbers have a comma,
  semicolons part cells: behind one of these such a character stands as its escape, ``\u003d``, in
  nested columns too. So a reader that wants the exact text takes one apostrophe off and undoes the
  escapes; numbers are left alone.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from kanalyze.common.escaping import escape
from kanalyze.export.column_texts import JsonTexts, WordTexts, number_cells
from kanalyze.export.files import OutputFile
from kanalyze.export.lines import Cells, LineWriter, TextCells
from kanalyze.export.writer import FileWriter
from kanalyze.tables.columns.block import RowBlock, columns_of_rows
from kanalyze.tables.row import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.tables.columns.block import Lists
    from kanalyze.tables.row import AnyRow, Column

__all__ = ["CsvWriter", "csv_text"]

_FORMULA_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""As a character class of a regular expression has them."""
_AT_BEGIN = re.compile(f"[{_FORMULA_SIGNS}']")
_QUOTE = '"'
_NEEDS_QUOTES = re.compile('[",\r\n]')
_BEHIND_SEMICOLON = re.compile(rf"""(;[ '"\\]*)([{_FORMULA_SIGNS}])""")


class CsvWriter(FileWriter):
    """Writes rows as CSV; the header line comes even when there are no rows."""

    def __init__(
        self, destination: str, columns: Sequence[Column] = COLUMNS, *, private: bool = False
    ) -> None:
        super().__init__(OutputFile(destination, private=private))
        self._columns = tuple(columns)
        # A line of nothing at all would be none.
        null = b"" if len(self._columns) > 1 else b'""'
        self._cells = [(column.name, _cells_of(column, null)) for column in columns]
        self._lines = LineWriter([b"", *[b","] * (len(self._columns) - 1)], b"\r\n")
        header = ",".join(_cell(column.name) for column in columns)
        self.output.file.write(f"{header}\r\n".encode())

    def write(self, rows: Sequence[AnyRow]) -> None:
        """Write rows; raises OSError."""
        self.write_block(RowBlock(len(rows), columns_of_rows(rows, self._columns)))

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block, as ``write`` would."""
        for piece in block.pieces():
            cells = [cells_of(piece.columns[name]) for name, cells_of in self._cells]
            self.output.file.write(self._lines.lines(len(piece), cells))


def csv_text(text: str) -> str:
    """Return a text as a cell has it; see the module."""
    if text == "-":
        return text  # standard input's name; no spreadsheet runs a lone dash
    text = _without_formulas(escape(text))
    return f"'{text}" if not text or _AT_BEGIN.match(text) else text


def _without_formulas(text: str) -> str:
    """Return a text, or JSON text, with escapes for what would begin a formula in its middle."""
    if ";" not in text:
        return text
    return _BEHIND_SEMICOLON.sub(lambda found: f"{found[1]}\\u{ord(found[2]):04x}", text)


def _cells_of(column: Column, null: bytes) -> Callable[[Any], Cells]:
    """Return what makes the cells of a column; ``null`` is that of null."""
    if column.type == "string":
        return WordTexts(lambda text: _cell(csv_text(text)), null).of
    if column.type.startswith("list<"):
        return partial(_lists, JsonTexts(column))
    return lambda ints: number_cells(column, ints, null)


_AS_THEY_ARE = LineWriter([b""], b"")


def _lists(texts: JsonTexts, lists: Lists) -> Cells:
    """Return lists as JSON, and that as a cell."""
    made = _AS_THEY_ARE.each(len(lists.offsets) - 1, [texts.of(lists)])
    return TextCells([_cell(_without_formulas(text)).encode("ascii") for text in made])


def _cell(text: str) -> str:
    """Return a text, in quotes if it needs them."""
    return text if _NEEDS_QUOTES.search(text) is None else f'"{text.replace(_QUOTE, 2 * _QUOTE)}"'
