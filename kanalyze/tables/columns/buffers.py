"""Columns that are being written, and loops over the numbers of columns.

In: numbers and texts, with their positions; arrays of :mod:`array`, or other objects with the
buffer interface. Out: what the columns of :mod:`~kanalyze.tables.columns.block` are made of.

The caller makes room first, for many values at a time. A write beyond the room raises IndexError. A
position that is not written is null.

Arrays are made by ``array("q", [0]) * count``. ``array("q", bytes(8 * count))`` allocates twice,
and takes up to 30 times as long where that makes the allocator give memory back.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    from kanalyze.common.compiled import cells_from, texts_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kanalyze.spec.columns import Column

    Longs = Sequence[int] | memoryview
    """64-bit integers, contiguous in memory."""


class IntBuffer:
    """A column of nullable 64-bit integers that is being written."""

    def __init__(self) -> None:
        self._keep(array("q"), bytearray())

    def _keep(self, numbers: array[int], is_known: bytearray) -> None:
        self.numbers, self.is_known = numbers, is_known
        self.values, self.valid = memoryview(numbers), memoryview(is_known)
        self._first_value, self._first_valid = cells_from(self.values, 0), texts_from(self.valid, 0)
        self._room = len(is_known)

    def make_room(self, size: int) -> None:
        """Make room for ``size`` positions, which must be more than before."""
        if self._room == 0:
            self._keep(array("q", [0]) * size, bytearray(size))
        else:
            # Make new arrays: an array cannot grow while there is a memoryview of it.
            more = size - self._room
            self._keep(self.numbers + array("q", [0]) * more, self.is_known + bytes(more))

    def put(self, at: int, value: int) -> None:
        """Write a number."""
        if not 0 <= at < self._room:
            raise IndexError("no room at this position")
        self._first_value[at] = value
        self._first_valid[at] = 1

    def put_any(self, at: int, value: int | None) -> None:
        """Write a number or null."""
        if value is not None:
            self.put(at, value)

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

    def drain(self, count: int) -> tuple[array[int], bytearray | None]:
        """Return the first ``count`` numbers, and begin an empty column without room."""
        values, valid = self.numbers, self.is_known
        self._keep(array("q"), bytearray())
        # What was not written is given back in place.
        del values[count:], valid[count:]
        return values, valid if 0 in valid else None


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
        self._last_word: str | None = None
        self._last_code = -1
        self.numbers = array("i")
        self.codes = memoryview(self.numbers)

    def make_room(self, size: int) -> None:
        """Make room for ``size`` positions, which must be more than before."""
        more = array("i", [-1]) * (size - len(self.numbers))
        self.numbers = self.numbers + more if len(self.numbers) else more
        self.codes = memoryview(self.numbers)

    def code(self, word: str | None) -> int:
        """Return the number of a text; -1 for None."""
        if word is not self._last_word:  # often it is that of the row before
            self._last_code = -1 if word is None else self._code_of(word)
            self._last_word = word
        return self._last_code

    def _code_of(self, word: str) -> int:
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

    def drain(self, count: int) -> tuple[array[int], list[str]]:
        """Return the first ``count`` texts, and begin an empty column; words keep their numbers."""
        codes = self.numbers
        self.numbers = array("i")
        self.codes = memoryview(self.numbers)
        del codes[count:]  # in place
        return codes, self.words

    def forget(self) -> None:
        """Discard all words. Their numbers become invalid."""
        self.words, self.codes_by_word, self.characters = [], {}, 0
        self._last_word, self._last_code = None, -1


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


def picked_bytes(values: bytes | bytearray, numbers: Longs) -> bytearray:
    """Return the bytes at these positions, counted from 0."""
    count = len(numbers)
    result = bytearray(count)
    out = memoryview(result)
    for i in range(count):
        out[i] = values[numbers[i]]
    return result


def items_of_lists(offsets: Longs, numbers: Longs) -> tuple[array[int], array[int]]:
    """Return the offsets of the selected lists, and the positions of all their items."""
    count = len(numbers)
    result = array("q", [0]) * (count + 1)
    ends = memoryview(result)
    total = 0
    for i in range(count):
        n = numbers[i]
        total += offsets[n + 1] - offsets[n]
        ends[i + 1] = total
    items = array("q", [0]) * total
    out = memoryview(items)
    at = 0
    for i in range(count):
        n = numbers[i]
        for item in range(offsets[n], offsets[n + 1]):
            out[at] = item
            at += 1
    return result, items


def recoded(codes: Longs, new_codes: Longs) -> array[int]:
    """Return ``new_codes[code]`` for each 32-bit code; -1 stays -1."""
    count = len(codes)
    result = array("i", [0]) * count
    out = memoryview(result)
    for i in range(count):
        code = codes[i]
        out[i] = new_codes[code] if code >= 0 else -1
    return result


def first_places(codes: Longs, words: int) -> tuple[array[int], array[int]]:
    """Number codes by first appearance: return the new codes, and the old code of each new one.

    Codes are below ``words``; -1 stays -1.
    """
    numbers = array("i", [0]) * words
    number_of = memoryview(numbers)  # the new code plus 1; 0 for a code that has not appeared
    count = len(codes)
    result = array("i", [0]) * count
    out = memoryview(result)
    order = array("i", [0]) * min(words, count)
    old = memoryview(order)
    used = 0
    for i in range(count):
        code = codes[i]
        if code < 0:
            out[i] = -1
            continue
        if number_of[code] == 0:
            old[used] = code
            used += 1
            number_of[code] = used
        out[i] = number_of[code] - 1
    return result, order[:used]


# -- buffers of Arrow arrays ----------------------------------------------------------------------


def narrowed_ints(values: Longs) -> array[int]:
    """Return the values as 32-bit integers; raises OverflowError for one that does not fit."""
    count = len(values)
    result = array("i", [0]) * count
    out = memoryview(result)
    for i in range(count):
        value = values[i]
        if value < -0x80000000 or value > 0x7FFFFFFF:
            raise OverflowError(f"number does not fit in 32 bits: {value}")
        out[i] = value
    return result


def narrowed_shorts(values: Longs) -> array[int]:
    """Return the values as 16-bit integers; raises OverflowError for one that does not fit."""
    count = len(values)
    result = array("h", [0]) * count
    out = memoryview(result)
    for i in range(count):
        value = values[i]
        if value < -0x8000 or value > 0x7FFF:
            raise OverflowError(f"number does not fit in 16 bits: {value}")
        out[i] = value
    return result


def bits(flags: bytes | bytearray) -> bytearray | None:
    """Return one bit per byte: 0 for null (0); None if no byte is 0.

    The first is the lowest bit of a byte.
    """
    count = len(flags)
    result = bytearray((count + 7) // 8)
    out = memoryview(result)
    known = 0
    # Eight at a time: to change each bit where it is stored takes twice as long.
    for at in range(len(result)):
        first = 8 * at
        byte = 0
        for i in range(first, min(first + 8, count)):
            bit = flags[i] != 0
            byte |= bit << (i - first)
            known += bit
        out[at] = byte
    return result if known < count else None


def bits_of_longs(values: Longs) -> bytearray:
    """Return one bit per value: 1 if the value is not 0; otherwise as :func:`bits`."""
    count = len(values)
    result = bytearray((count + 7) // 8)
    out = memoryview(result)
    for i in range(count):
        if values[i] != 0:
            out[i >> 3] |= 1 << (i & 7)
    return result


def bits_of_codes(codes: Longs) -> bytearray | None:
    """Return one bit per 32-bit code: 0 for null (-1); None if no code is null."""
    count = len(codes)
    nulls = 0
    for i in range(count):
        nulls += codes[i] < 0
    if nulls == 0:  # most columns
        return None
    result = bytearray((count + 7) // 8)
    out = memoryview(result)
    for at in range(len(result)):
        first = 8 * at
        byte = 0
        for i in range(first, min(first + 8, count)):
            bit = codes[i] >= 0
            byte |= bit << (i - first)
        out[at] = byte
    return result


# -- sizes ----------------------------------------------------------------------------------------


def sums_up_to(values: Longs) -> array[int]:
    """Return the sums of the first 0, 1, ... n values: n + 1 numbers."""
    count = len(values)
    result = array("q", [0]) * (count + 1)
    out = memoryview(result)
    total = 0
    for i in range(count):
        total += values[i]
        out[i + 1] = total
    return result


def add_word_sizes(sizes: array[int], codes: Longs, word_sizes: Longs) -> None:
    """Add to each of ``sizes`` the size of the word with its code; nothing for -1."""
    out = memoryview(sizes)
    for i in range(len(codes)):
        code = codes[i]
        if code >= 0:
            out[i] += word_sizes[code]


def add_list_sizes(sizes: array[int], offsets: Longs, up_to: Longs) -> None:
    """Add to each of ``sizes`` the size of its list's items.

    ``up_to`` has the total size of all items before each item.
    """
    out = memoryview(sizes)
    for i in range(len(offsets) - 1):
        out[i] += up_to[offsets[i + 1]] - up_to[offsets[i]]
