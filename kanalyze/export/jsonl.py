"""Rows as JSON Lines: one object per row.

In: rows, or columns of rows. Out: ASCII bytes.

Every object has every column; null is written. Integers are exact, but a reader that converts them
to doubles loses nanoseconds. All characters except printable ASCII are escaped, so that nothing
that a client sent can control a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanalyze.export.column_texts import JsonTexts, json_lines
from kanalyze.export.files import FileWriter, OutputFile
from kanalyze.spec.rows.requests import COLUMNS
from kanalyze.tables.columns.block import RowBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kanalyze.spec.columns import AnyRow, Column

__all__ = ["JsonLinesWriter"]


class JsonLinesWriter(FileWriter):
    """Writes rows as JSON Lines."""

    def __init__(
        self, destination: str, columns: Sequence[Column] = COLUMNS, *, private: bool = False
    ) -> None:
        super().__init__(OutputFile(destination, private=private))
        self._columns = tuple(columns)
        self._texts = [(column.name, JsonTexts(column)) for column in columns]
        self._lines = json_lines([column.name for column in columns], b"\n")

    def write(self, rows: Iterable[AnyRow]) -> None:
        """Write rows; raises OSError."""
        self.write_block(RowBlock.of_rows(list(rows), self._columns))

    def write_block(self, block: RowBlock) -> None:
        """Write the rows of a block like ``write``."""
        for piece in block.pieces():
            cells = [texts.of(piece.columns[name]) for name, texts in self._texts]
            self.output.file.write(self._lines.lines(len(piece), cells))
