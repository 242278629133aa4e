"""Columns that grow: numbers and texts are put into them one after the other.

In: numbers and texts, with their places. Out: columns of :mod:`~kanalyze.tables.columns.block`.
This module must not know what the columns mean.

The writer makes room first, for many values at a time: writing beyond it raises IndexError. A
position that was not written is null.

Compiled by Cython, with the types in ``buffers.pxd``; uncompiled it does the same, slowly.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.tables.columns.block import Ints, Words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kanalyze.tables.row import Column

__all__ = ["IntBuffer", "WordBuffer", "buffers_of", "ints_of", "words_of"]


class IntBuffer:
    """Numbers of 64 bits, or none."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self.is_known = bytearray()
        self.values = memoryview(self.numbers)
        self.valid = memoryview(self.is_known)

    def make_room(self, places: int) -> None:
        """Have room for so many places, more than before."""
        more = places - len(self.is_known)
        # New ones: nothing can be added to an array while there is a view of it.
        self.numbers = self.numbers + array("q", bytes(8 * more))
        self.is_known = self.is_known + bytes(more)
        self.values = memoryview(self.numbers)
        self.valid = memoryview(self.is_known)

    def put(self, at: int, value: int) -> None:
        """Put a number."""
        self.values[at] = value
        self.valid[at] = 1

    def put_any(self, at: int, value: int | None) -> None:
        """Put a number, or none."""
        if value is not None:
            self.values[at] = value
            self.valid[at] = 1

    def get(self, at: int) -> int | None:
        """Return the number at a place, or none."""
        return self.values[at] if self.valid[at] else None

    def change(self, at: int, value: int | None) -> None:
        """Put another number, or none."""
        self.values[at] = 0 if value is None else value
        self.valid[at] = value is not None

    def shift(self, count: int, shift: int) -> None:
        """Add a number to each of the first ``count`` numbers."""
        for at in range(count):
            if self.valid[at]:
                self.values[at] += shift

    def least(self, count: int) -> int:
        """Return the least of the first ``count`` numbers that is not null; 2^63 - 1 if all are."""
        found = 0x7FFFFFFFFFFFFFFF
        for at in range(count):
            if self.valid[at] and self.values[at] < found:
                found = self.values[at]
        return found

    def largest(self, count: int) -> int:
        """Return the largest of the first ``count`` numbers; -1 if none is above."""
        found = -1
        for at in range(count):
            if self.valid[at] and self.values[at] > found:
                found = self.values[at]
        return found

    def drain(self, count: int) -> Ints:
        """Return the first ``count`` numbers, and begin anew without room."""
        values, valid = self.numbers[:count], self.is_known[:count]
        self.numbers = array("q")
        self.is_known = bytearray()
        self.values = memoryview(self.numbers)
        self.valid = memoryview(self.is_known)
        return Ints(values, valid if 0 in valid else None)


class WordBuffer:
    """Texts, or none, by number.

    Attributes:
        words: the texts by their numbers; blocks share it, and it grows.
        characters: of all words.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.known: dict[str, int] = {}
        self.characters = 0
        self.numbers = array("i")
        self.codes = memoryview(self.numbers)

    def make_room(self, places: int) -> None:
        """Have room for so many places, more than before."""
        more = places - len(self.numbers)
        self.numbers = self.numbers + array("i", b"\xff" * (4 * more))
        self.codes = memoryview(self.numbers)

    def code(self, word: str | None) -> int:
        """Return the number of a text, -1 for none."""
        if word is None:
            return -1
        found = self.known.get(word)
        if found is not None:
            return found
        self.known[word] = made = len(self.words)
        self.words.append(word)
        self.characters += len(word)
        return made

    def put_code(self, at: int, code: int) -> None:
        """Put the text with a number, -1 for none."""
        self.codes[at] = code

    def put(self, at: int, word: str | None) -> None:
        """Put a text, or none."""
        self.codes[at] = self.code(word)

    def fill(self, count: int, code: int) -> None:
        """Write the text with a number to the first ``count`` positions."""
        for at in range(count):
            self.codes[at] = code

    def drain(self, count: int) -> Words:
        """Return the first ``count`` texts, and begin anew; their numbers stay valid."""
        codes = self.numbers[:count]
        self.numbers = array("i")
        self.codes = memoryview(self.numbers)
        return Words(codes, self.words)

    def forget(self) -> None:
        """Forget all words: from here on they have other numbers."""
        self.words, self.known, self.characters = [], {}, 0


def buffers_of(columns: Sequence[Column]) -> dict[str, IntBuffer | WordBuffer]:
    """Return a buffer for each column of a table, and for each field of its lists.

    The names are those of the columns, ``LIST.FIELD`` of fields. A list itself has none, but one of
    texts: its texts are that column's.
    """
    buffers: dict[str, IntBuffer | WordBuffer] = {}
    for column in columns:
        if column.type == "list<string>":
            buffers[column.name] = WordBuffer()
        for field in column.fields or (column,):
            name = field.name if field is column else f"{column.name}.{field.name}"
            if not field.type.startswith("list<"):
                buffers[name] = WordBuffer() if field.type == "string" else IntBuffer()
    return buffers


def ints_of(buffers: Mapping[str, IntBuffer | WordBuffer], name: str) -> IntBuffer:
    """Return the numbers of a name."""
    found = buffers[name]
    assert isinstance(found, IntBuffer)
    return found


def words_of(buffers: Mapping[str, IntBuffer | WordBuffer], name: str) -> WordBuffer:
    """Return the texts of a name."""
    found = buffers[name]
    assert isinstance(found, WordBuffer)
    return found
