"""Columns that are being written: numbers and texts by row.

In: numbers and texts, with their positions. Out: columns of :mod:`~kanalyze.tables.columns.block`.

The caller makes room first, for many values at a time. A write beyond the room raises IndexError. A
position that is not written is null.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kanalyze.tables.columns.block import Ints, Words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kanalyze.spec.columns import Column

__all__ = ["IntBuffer", "WordBuffer", "buffers_of", "ints_of", "words_of"]


class IntBuffer:
    """A column of nullable 64-bit integers that is being written."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self.is_known = bytearray()
        self.values = memoryview(self.numbers)
        self.valid = memoryview(self.is_known)

    def make_room(self, size: int) -> None:
        """Make room for ``size`` positions, which must be more than before."""
        more = size - len(self.is_known)
        # Make new arrays: an array cannot grow while there is a memoryview of it.
        self.numbers = self.numbers + array("q", bytes(8 * more))
        self.is_known = self.is_known + bytes(more)
        self.values = memoryview(self.numbers)
        self.valid = memoryview(self.is_known)

    def put(self, at: int, value: int) -> None:
        """Write a number."""
        self.values[at] = value
        self.valid[at] = 1

    def put_any(self, at: int, value: int | None) -> None:
        """Write a number or null."""
        if value is not None:
            self.values[at] = value
            self.valid[at] = 1

    def get(self, at: int) -> int | None:
        """Return the number at a position; None for null."""
        return self.values[at] if self.valid[at] else None

    def change(self, at: int, value: int | None) -> None:
        """Overwrite a number, or make it null."""
        self.values[at] = 0 if value is None else value
        self.valid[at] = value is not None

    def shift(self, count: int, shift: int) -> None:
        """Add ``shift`` to each of the first ``count`` numbers that is not null."""
        for at in range(count):
            if self.valid[at]:
                self.values[at] += shift

    def least(self, count: int) -> int:
        """Return the minimum of the first ``count`` numbers; 2^63 - 1 if all are null."""
        least = 0x7FFFFFFFFFFFFFFF
        for at in range(count):
            if self.valid[at] and self.values[at] < least:
                least = self.values[at]
        return least

    def largest(self, count: int) -> int:
        """Return the maximum of the first ``count`` numbers, but at least -1."""
        largest = -1
        for at in range(count):
            if self.valid[at] and self.values[at] > largest:
                largest = self.values[at]
        return largest

    def drain(self, count: int) -> Ints:
        """Return the first ``count`` numbers, and begin an empty column without room."""
        values, valid = self.numbers[:count], self.is_known[:count]
        self.numbers = array("q")
        self.is_known = bytearray()
        self.values = memoryview(self.numbers)
        self.valid = memoryview(self.is_known)
        return Ints(values, valid if 0 in valid else None)


class WordBuffer:
    """A column of nullable texts that is being written; each text is stored as a number.

    Attributes:
        words: the text of each number. Blocks share this list, and it grows.
        characters: total length of all words.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self.codes_by_word: dict[str, int] = {}
        self.characters = 0
        self.numbers = array("i")
        self.codes = memoryview(self.numbers)

    def make_room(self, size: int) -> None:
        """Make room for ``size`` positions, which must be more than before."""
        more = size - len(self.numbers)
        self.numbers = self.numbers + array("i", b"\xff" * (4 * more))
        self.codes = memoryview(self.numbers)

    def code(self, word: str | None) -> int:
        """Return the number of a text; -1 for None."""
        if word is None:
            return -1
        code = self.codes_by_word.get(word)
        if code is not None:
            return code
        self.codes_by_word[word] = new_code = len(self.words)
        self.words.append(word)
        self.characters += len(word)
        return new_code

    def put_code(self, at: int, code: int) -> None:
        """Write the text with this number; -1 is null."""
        self.codes[at] = code

    def put(self, at: int, word: str | None) -> None:
        """Write a text or null."""
        self.codes[at] = self.code(word)

    def fill(self, count: int, code: int) -> None:
        """Write the text with number ``code`` to the first ``count`` positions."""
        for at in range(count):
            self.codes[at] = code

    def drain(self, count: int) -> Words:
        """Return the first ``count`` texts, and begin an empty column; words keep their numbers."""
        codes = self.numbers[:count]
        self.numbers = array("i")
        self.codes = memoryview(self.numbers)
        return Words(codes, self.words)

    def forget(self) -> None:
        """Discard all words. Their numbers become invalid."""
        self.words, self.codes_by_word, self.characters = [], {}, 0


def buffers_of(columns: Sequence[Column]) -> dict[str, IntBuffer | WordBuffer]:
    """Return a buffer for each column of a table, and for each field of its lists.

    A field's name is ``LIST.FIELD``. A list of structs has no buffer of its own; a list of texts
    has one, for its texts.
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
    """Return the buffer of a column of numbers."""
    buffer = buffers[name]
    assert isinstance(buffer, IntBuffer)
    return buffer


def words_of(buffers: Mapping[str, IntBuffer | WordBuffer], name: str) -> WordBuffer:
    """Return the buffer of a column of texts."""
    buffer = buffers[name]
    assert isinstance(buffer, WordBuffer)
    return buffer
