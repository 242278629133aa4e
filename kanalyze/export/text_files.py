r"""Rows as CSV and as JSON Lines.

In: rows, or columns of rows (:mod:`~kanalyze.tables.columns.block`). Out: bytes. A text that is
repeated is escaped only once.

CSV is that of RFC 4180, in UTF-8, with a header line and ``\r\n`` line ends:

- null is an empty cell. Booleans are ``true`` and ``false``. Nested columns are compact JSON text.
- A timestamp is ISO 8601 in UTC with nanoseconds, ``2026-01-31T09:30:00.123456789Z``.
- Text comes from the network and is not trusted. A backslash and every unprintable character (see
  :func:`kanalyze.common.texts.escape`) are written as JSON escapes: ``\\``, ``\n``, ``\u001b``.
  No cell has a line break.
- Spreadsheets run cells that begin with ``= + - @``, and some also those that begin with the
  full-width forms. A text that begins with one of these characters or with an apostrophe gets an
  apostrophe in front; a lone dash does not. The empty text, which is not null, is a single
  apostrophe. In countries with decimal commas, spreadsheets separate cells at semicolons. So such a
  character behind a semicolon is written as its escape, ``\u003d``, also in nested columns. To get
  the exact text, a reader removes one apostrophe and undoes the escapes. Numbers are not changed.

JSON Lines are ASCII, one object per row. Every object has every column; null is written. Integers
are exact, but a reader that converts them to doubles loses nanoseconds. All characters except
printable ASCII are escaped, so that nothing that a client sent can control a terminal.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Any

from kanalyze.common.texts import escape
from kanalyze.common.times import format_time
from kanalyze.export.files import FileWriter
from kanalyze.export.text import (
    Cells,
    LineWriter,
    ListCells,
    NumberCells,
    QuotedListCells,
    WordCells,
)
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import Lists, Words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import ColumnValues, Ints, RowBlock


def _quoted(text: str) -> str:
    """Return a text as JSON, in ASCII."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    from json.encoder import encode_basestring_ascii  # imported late: few texts need it

    return encode_basestring_ascii(text)


class WordTexts:
    """The cells of one column of texts."""

    def __init__(self, shown: Callable[[str], str], null: bytes) -> None:
        """Make the cells of a column.

        Args:
            shown: returns the cell of a text.
            null: the cell of null.
        """
        self._shown = shown
        self._null = null
        self._words: list[str] = []
        self._texts: list[bytes] = []
        """The cells of the words converted so far, in the order of the column's words."""

    def of(self, texts: Words) -> Cells:
        """Return the cells of a column."""
        return WordCells(texts.codes, self._of_words(texts), self._null)

    def _of_words(self, texts: Words) -> list[bytes]:
        words = texts.words
        if words is not self._words:
            self._words, self._texts = words, []
        # Blocks share a list of words, which only grows: convert the new ones.
        self._texts += [self._shown(word).encode("utf-8") for word in words[len(self._texts) :]]
        return self._texts


class JsonTexts:
    """The values of one column as JSON."""

    def __init__(self, column: Column, shown: Callable[[str], str] = _quoted) -> None:
        """Set up; ``shown`` returns a text, and a key of an item, as it is written."""
        self._column = column
        self._words = WordTexts(shown, b"null")
        self._fields = [JsonTexts(field, shown) for field in column.fields]
        self._list_cells = ListCells if shown is _quoted else QuotedListCells
        self._item = LineWriter([b""], b"")
        if column.fields:
            self._item = json_lines([field.name for field in column.fields], b"", shown)

    def of(self, values: ColumnValues) -> Cells:
        """Return each value of a column as JSON."""
        if isinstance(values, Words):
            return self._words.of(values)
        if isinstance(values, Lists):
            return self._of_lists(values)
        if self._column.source:
            return time_cells(values, b"null", _quoted)
        return number_cells(self._column, values, b"null")

    def _of_lists(self, lists: Lists) -> Cells:
        if self._fields:
            items = [
                texts.of(lists.fields[field.name])
                for texts, field in zip(self._fields, self._column.fields, strict=True)
            ]
        else:
            texts = lists.fields[""]
            assert isinstance(texts, Words)
            items = [self._words.of(texts)]
        return self._list_cells(lists.offsets, self._item, items)


def json_lines(
    names: Sequence[str], end: bytes, shown: Callable[[str], str] = _quoted
) -> LineWriter:
    """Return a writer of JSON objects with these keys, whose values are JSON already."""
    before = [f"{',' if place else '{'}{shown(name)}:" for place, name in enumerate(names)]
    return LineWriter([text.encode("ascii") for text in before], (b"}" if names else b"{}") + end)


def number_cells(column: Column, ints: Ints, null: bytes) -> Cells:
    """Return the cells of a column of numbers or booleans; ``null`` is the cell of null."""
    return NumberCells(ints.values, ints.valid, null, are_bools=column.type == "bool")


def time_cells(ints: Ints, null: bytes, shown: Callable[[str], str]) -> Cells:
    """Return Unix times in ns as cells of timestamps; ``shown`` returns one as it is written."""
    texts: list[bytes] = []
    codes = array("i")
    valid = ints.valid
    for row, time_ns in enumerate(ints.values):
        if valid is not None and not valid[row]:
            codes.append(-1)
            continue
        codes.append(len(texts))
        texts.append(shown(format_time(time_ns)).encode("ascii"))
    return WordCells(codes, texts, null)


_FORMULA_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""For a character class of a regular expression."""
_AT_BEGIN = f"[{_FORMULA_SIGNS}']"
_QUOTE = '"'
_NEEDS_QUOTES = '[",\r\n]'
_BEHIND_SEMICOLON = rf"""(;[ '"\\]*)([{_FORMULA_SIGNS}])"""


class _LinesWriter(FileWriter):
    """Writes rows as lines of text."""

    _cells: list[tuple[str, Callable[[Any], Cells]]]
    """Columns of blocks, and what makes the cells of each."""
    _lines: LineWriter

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block like ``write``."""
        for piece in block.pieces():
            cells = [cells_of(piece.columns[name]) for name, cells_of in self._cells]
            self._lines.write(self.output.file, len(piece), cells)


class CsvWriter(_LinesWriter):
    """Writes rows as CSV. The header line is written even if there are no rows."""

    def __init__(
        self, destination: str, columns: Sequence[Column] = COLUMNS, *, private: bool = False
    ) -> None:
        super().__init__(destination, columns, private=private)
        # With a single column, an empty cell would be an empty line, which is not a record.
        null = b"" if len(self._columns) > 1 else b'""'
        self._cells = [
            (column.source or column.name, _cells_of(column, null)) for column in columns
        ]
        self._lines = LineWriter([b"", *[b","] * (len(self._columns) - 1)], b"\r\n")
        header = ",".join(_cell(column.name) for column in columns)
        self.output.file.write(f"{header}\r\n".encode())


def csv_text(text: str) -> str:
    """Return a text as the content of a cell; see the module's docstring."""
    if text == "-":
        return text  # the name of standard input; no spreadsheet runs a lone dash
    text = _without_formulas(escape(text))
    return f"'{text}" if not text or re.match(_AT_BEGIN, text) else text


def _without_formulas(text: str) -> str:
    """Return a text, or one as JSON, with the characters escaped that could begin a formula."""
    if ";" not in text:
        return text
    return re.sub(_BEHIND_SEMICOLON, lambda match: f"{match[1]}\\u{ord(match[2]):04x}", text)


def _cells_of(column: Column, null: bytes) -> Callable[[Any], Cells]:
    """Return a function that makes the cells of a column; ``null`` is the cell of null."""
    if column.type == "string":
        return WordTexts(lambda text: _cell(csv_text(text)), null).of
    if column.type.startswith("list<"):
        return JsonTexts(column, _quoted_in_csv).of
    if column.source:
        return lambda ints: time_cells(ints, null, str)
    return lambda ints: number_cells(column, ints, null)


def _quoted_in_csv(text: str) -> str:
    """Return a text in a list as JSON inside of a cell, which is in quotes."""
    return _without_formulas(_quoted(text)).replace(_QUOTE, 2 * _QUOTE)


def _cell(text: str) -> str:
    """Return a cell, in quotes if it needs them."""
    return (
        text if re.search(_NEEDS_QUOTES, text) is None else f'"{text.replace(_QUOTE, 2 * _QUOTE)}"'
    )


class JsonLinesWriter(_LinesWriter):
    """Writes rows as JSON Lines."""

    def __init__(
        self, destination: str, columns: Sequence[Column] = COLUMNS, *, private: bool = False
    ) -> None:
        super().__init__(destination, columns, private=private)
        self._cells = [(column.source or column.name, JsonTexts(column).of) for column in columns]
        self._lines = json_lines([column.name for column in columns], b"\n")
