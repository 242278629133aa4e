r"""Rows as CSV: RFC 4180, UTF-8, a header line, ``\r\n`` line ends.

In: rows. Out: bytes. This module must not know where they go.

- null is an empty cell; true and false are those words; nested columns are compact JSON text.
- Text is what somebody sent over a network. In it, a backslash and every character that is not
  printable (see :func:`kanalyze.analysis.text.escape`) stand as JSON escapes: ``\\``, ``\n``,
  ``\u001b``. No cell has a line break.
- Spreadsheets run cells that begin with ``= + - @``, and some with the full-width forms of these. A
  text that begins with one of them (a lone dash is none), or with an apostrophe, gets an apostrophe
  in front; the empty text, which is not null, is a single apostrophe. Where numbers have a comma,
  semicolons part cells: behind one of these such a character stands as its escape, ``\u003d``, in
  nested columns too. So a reader that wants the exact text takes one apostrophe off and undoes the
  escapes; numbers are left alone.
"""

from __future__ import annotations

import csv
import io
import json
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kanalyze.analysis.row import COLUMNS
from kanalyze.analysis.text import escape
from kanalyze.export.files import OutputFile
from kanalyze.export.jsonl import json_item_maker
from kanalyze.export.writer import FileWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kanalyze.analysis.row import AnyRow, Column

__all__ = ["CsvWriter", "csv_text"]

_FORMULA_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""As they stand between brackets of a regular expression."""
_AT_BEGIN = re.compile(f"[{_FORMULA_SIGNS}']")
_BEHIND_SEMICOLON = re.compile(rf"""(;[ '"\\]*)([{_FORMULA_SIGNS}])""")
_MEMORY = 10_000

_to_json = json.JSONEncoder(ensure_ascii=True, check_circular=False, separators=(",", ":")).encode


class CsvWriter(FileWriter):
    """Writes rows as CSV; the header line comes even when there are no rows."""

    def __init__(
        self, destination: str, columns: Sequence[Column] = COLUMNS, *, private: bool = False
    ) -> None:
        super().__init__(OutputFile(destination, private=private))
        self._columns = [_cells_of(column) for column in columns]
        self._write_lines([tuple(column.name for column in columns)])

    def write(self, rows: Sequence[AnyRow]) -> None:
        """Write rows; raises OSError."""
        if rows:
            self._write_lines(zip(*[cells(rows) for cells in self._columns], strict=True))

    def _write_lines(self, lines: Iterable[tuple[Any, ...]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(lines)
        self.output.file.write(text.getvalue().encode("utf-8"))


def csv_text(text: str) -> str:
    """Return a text as the module says a cell holds it."""
    if text == "-":
        return text  # standard input's name; no spreadsheet runs a lone dash
    text = _without_formulas(escape(text))
    return f"'{text}" if not text or _AT_BEGIN.match(text) else text


def _without_formulas(text: str) -> str:
    """Return a text, or JSON text, with escapes for what would begin a formula in its middle."""
    if ";" not in text:
        return text
    return _BEHIND_SEMICOLON.sub(lambda found: f"{found[1]}\\u{ord(found[2]):04x}", text)


def _cells_of(column: Column) -> Callable[[Sequence[AnyRow]], Sequence[Any]]:
    """Return what makes a column's cells of rows."""
    pick = attrgetter(column.name)
    convert = _converter(column)

    def cells(rows: Sequence[AnyRow]) -> Sequence[Any]:
        values = map(pick, rows)
        return list(values if convert is None else map(convert, values))

    return cells


def _converter(column: Column) -> Callable[[Any], Any] | None:
    if column.type == "string":
        return _text_converter()
    if column.type == "bool":
        return {None: None, True: "true", False: "false"}.get
    if column.type.startswith("list<"):
        return _json_converter(column)
    return None


def _text_converter() -> Callable[[str | None], str | None]:
    # The same few texts come again and again.
    known: dict[str | None, str | None] = {None: None}

    def convert(text: str | None) -> str | None:
        cell = known.get(text)
        if cell is None and text is not None:
            if len(known) >= _MEMORY:
                known.clear()
                known[None] = None
            cell = known[text] = csv_text(text)
        return cell

    return convert


def _json_converter(column: Column) -> Callable[[list[Any]], str]:
    maker = json_item_maker(column)

    def convert(items: list[Any]) -> str:
        if not items:
            return "[]"
        return _without_formulas(_to_json(items if maker is None else maker(items)))

    return convert
