"""Columns as texts: what a line of a file says of each value.

In: columns of :mod:`~kanalyze.analysis.block`. Out: a list with an entry for each row. This module
must not know where lines go.

A text that comes again and again is escaped once.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kanalyze.analysis.block import Lists, Words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kanalyze.analysis.block import ColumnValues, Ints
    from kanalyze.analysis.row import Column

__all__ = ["JsonTexts", "WordTexts", "json_object", "number_texts", "truth_texts"]

_quoted: Callable[[str], str] = json.JSONEncoder(ensure_ascii=True).encode


class WordTexts:
    """What stands for the texts of one column."""

    def __init__(self, shown: Callable[[str], str], null: Any) -> None:
        """Begin.

        Args:
            shown: what stands for a text.
            null: what stands for none.
        """
        self._shown = shown
        self._null = null
        self._words: list[str] = []
        self._texts: list[Any] = []
        """What stands for the first of these words."""

    def of(self, texts: Words) -> list[Any]:
        """Return what stands for each text of a column."""
        # Code -1, null, finds the last one.
        return list(map([*self._of_words(texts), self._null].__getitem__, texts.codes))

    def _of_words(self, texts: Words) -> Sequence[Any]:
        words = texts.words
        if words is not self._words:
            self._words, self._texts = words, []
        # Words are added to a list that blocks share; the others are as they were.
        self._texts += map(self._shown, words[len(self._texts) :])
        return self._texts


class JsonTexts:
    """The values of one column as JSON."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._words = WordTexts(_quoted, "null")
        self._fields = [JsonTexts(field) for field in column.fields]
        self._item = json_object([field.name for field in column.fields])

    def of(self, values: ColumnValues) -> list[Any]:
        """Return what ``%s`` writes as JSON, for each value of a column."""
        if isinstance(values, Words):
            return self._words.of(values)
        if isinstance(values, Lists):
            return self._of_lists(values)
        return (
            truth_texts(values, "null")
            if self._column.type == "bool"
            else number_texts(values, "null")
        )

    def _of_lists(self, lists: Lists) -> list[str]:
        if self._fields:
            by_field = [
                texts.of(lists.fields[field.name])
                for texts, field in zip(self._fields, self._column.fields, strict=True)
            ]
            items = list(map(self._item.__mod__, zip(*by_field, strict=True)))
        else:
            texts = lists.fields[""]
            assert isinstance(texts, Words)
            items = self._words.of(texts)
        return [
            f"[{','.join(items[first:end])}]" if end > first else "[]"
            for first, end in pairwise(lists.offsets)
        ]


def json_object(names: Sequence[str]) -> str:
    """Return what ``%`` makes a JSON object of, given the JSON of the values of these names."""
    return "{" + ",".join(f"{_quoted(name)}:%s" for name in names) + "}"


def number_texts(ints: Ints, null: Any) -> list[Any]:
    """Return the numbers of a column, and ``null`` where there is none."""
    if ints.valid is None:
        return ints.values.tolist()
    if 1 not in ints.valid:
        return [null] * len(ints.values)
    pairs = zip(ints.values, ints.valid, strict=True)
    return [value if valid else null for value, valid in pairs]


def truth_texts(ints: Ints, null: Any) -> list[Any]:
    """Return ``true`` or ``false`` for each value of a column, and ``null`` where there is none."""
    said = {0: "false", 1: "true", null: null}
    return list(map(said.__getitem__, number_texts(ints, null)))
