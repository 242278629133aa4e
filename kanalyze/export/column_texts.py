"""Columns as texts: the cells for the lines of a file.

In: columns of :mod:`~kanalyze.tables.columns.block`. Out: their cells, as
:class:`~kanalyze.export.lines.Cells`.

A text that is repeated is escaped only once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kanalyze.export.lines import (
    Cells,
    LineWriter,
    ListCells,
    NumberCells,
    TruthCells,
    WordCells,
)
from kanalyze.tables.columns.block import Lists, Words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.spec.columns import Column
    from kanalyze.tables.columns.block import ColumnValues, Ints

__all__ = ["JsonTexts", "WordTexts", "json_lines", "number_cells"]

_quoted: Callable[[str], str] = json.encoder.encode_basestring_ascii
"""Return a text as JSON, in ASCII."""


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

    def __init__(self, column: Column) -> None:
        self._column = column
        self._words = WordTexts(_quoted, b"null")
        self._fields = [JsonTexts(field) for field in column.fields]
        self._item = LineWriter([b""], b"")
        if column.fields:
            self._item = json_lines([field.name for field in column.fields], b"")

    def of(self, values: ColumnValues) -> Cells:
        """Return each value of a column as JSON."""
        if isinstance(values, Words):
            return self._words.of(values)
        if isinstance(values, Lists):
            return self._of_lists(values)
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
        return ListCells(lists.offsets, self._item, items)


def json_lines(names: Sequence[str], end: bytes) -> LineWriter:
    """Return a writer of JSON objects with these keys, whose values are JSON already."""
    before = [f"{',' if place else '{'}{_quoted(name)}:" for place, name in enumerate(names)]
    return LineWriter([text.encode("ascii") for text in before], (b"}" if names else b"{}") + end)


def number_cells(column: Column, ints: Ints, null: bytes) -> Cells:
    """Return the cells of a column of numbers or booleans; ``null`` is the cell of null."""
    kind = TruthCells if column.type == "bool" else NumberCells
    return kind(ints.values, ints.valid, null)
