"""Lines of columns as bytes, built piece by piece.

In: the cells of each column, and the text between them. Out: text. Also texts of a column without
anything between them, as Arrow has them.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:

    def copy_bytes(into: memoryview, at: int, text: bytes, count: int) -> None:
        """Copy ``count`` bytes of a text; the compiled one is in the ``.pxd``."""
        into[at : at + count] = text[:count]


ZERO, MINUS = 0x30, 0x2D
MAX_DIGITS = 20
LARGEST_END = (1 << 31) - 1

QUOTE, COMMA = 0x22, 0x2C
OPEN, OPEN_LIST, CLOSE_LIST = 0x7B, 0x5B, 0x5D


if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

MIN_PLAIN = -(10**18)
"""Python writes numbers below this: the negative of the least 64-bit integer has no 64 bits."""
_ROOM = 4096
PIECE_BYTES = 128 << 10
"""Lines are written when they are this long together: they are still in the processor's cache."""
_NO_ITEMS, _ONE_NULL = b"[]", b"[null]"
_TRUE, _FALSE = b"true", b"false"


class TextBuffer:
    """Text that is being written.

    Attributes:
        data: the text, followed by free space.
        used: size of the text in bytes. A caller may reset it to an earlier value, to undo writes.
    """

    def __init__(self) -> None:
        self.data = memoryview(bytearray(_ROOM))
        self.used = 0

    def drain(self) -> bytes:
        """Return the text, and begin an empty one."""
        used, self.used = self.used, 0
        return bytes(self.data[:used])

    def make_room(self, count: int) -> None:
        """Make room for at least ``count`` more bytes."""
        if self.used + count > len(self.data):
            larger = memoryview(bytearray(2 * len(self.data) + count))
            larger[: self.used] = self.data[: self.used]
            self.data = larger

    def put_byte(self, byte: int) -> None:
        """Add a byte."""
        if self.used >= len(self.data):
            self.make_room(1)
        self.data[self.used] = byte
        self.used += 1

    def put_bytes(self, text: bytes) -> None:
        """Append bytes."""
        count = len(text)
        if self.used + count > len(self.data):
            self.make_room(count)
        copy_bytes(self.data, self.used, text, count)
        self.used += count

    def put_number(self, value: int) -> None:
        """Append a number in decimal digits, with a minus sign if it is negative."""
        if value >= 0:
            self._put_digits(value)
        elif value >= MIN_PLAIN:
            self.put_byte(MINUS)
            self._put_digits(-value)
        else:
            self.put_bytes(str(value).encode("ascii"))

    def _put_digits(self, value: int) -> None:
        """Append a number that is not negative, two digits at a time."""
        if self.used + MAX_DIGITS > len(self.data):
            self.make_room(MAX_DIGITS)
        digits = 1
        rest = value
        while rest >= 1000:
            rest //= 1000
            digits += 3
        if rest >= 10:
            digits += 1 if rest < 100 else 2
        at = self.used + digits
        self.used = at
        while value >= 100:
            rest = value // 100
            pair = value - rest * 100
            value = rest
            at -= 2
            self.data[at] = ZERO + pair // 10
            self.data[at + 1] = ZERO + pair % 10
        if value >= 10:
            at -= 2
            self.data[at] = ZERO + value // 10
            self.data[at + 1] = ZERO + value % 10
        else:
            self.data[at - 1] = ZERO + value


def texts_of_codes(codes: array[int], words: list[bytes]) -> tuple[array[int], bytes]:
    """Return texts that are indices of ``words``, one after another; -1 is an empty text.

    The first value has a 0 and the end of each text, of type code i. Raises OverflowError for
    2 GiB of texts or more.
    """
    text = TextBuffer()
    ends = array("i", bytes(4 * (len(codes) + 1)))
    known, made = memoryview(codes), memoryview(ends)
    for at in range(len(codes)):
        code = known[at]
        if code >= 0:
            word = words[code]
            text.put_bytes(word)
        if text.used > LARGEST_END:
            raise OverflowError("texts of 2 GiB in one column")
        made[at + 1] = text.used
    return ends, text.drain()


class Cells:
    """The cells of one column, one per row."""

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        raise NotImplementedError


class NumberCells(Cells):
    """Cells of numbers, or of booleans (0 or 1) as JSON, with a text for null."""

    def __init__(
        self, values: array[int], valid: bytearray | None, null: bytes, *, are_bools: bool = False
    ) -> None:
        """Make the cells of ``values``; a value is null if its byte in ``valid`` is 0."""
        self._are_bools = are_bools
        self._values = memoryview(values)
        self._has_nulls = valid is not None
        self._valid = memoryview(bytearray() if valid is None else valid)
        self._null = null

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        if self._has_nulls and self._valid[row] == 0:
            text.put_bytes(self._null)
        elif self._are_bools:
            text.put_bytes(_TRUE if self._values[row] else _FALSE)
        else:
            text.put_number(self._values[row])


class WordCells(Cells):
    """Cells of texts that are stored once and referred to by number, with a text for null."""

    def __init__(self, codes: array[int], words: list[bytes], null: bytes) -> None:
        """Make the cells of ``codes``, which are indices of ``words``; -1 is null."""
        self._codes = memoryview(codes)
        self._words = words
        self._null = null

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        code = self._codes[row]
        if code < 0:
            text.put_bytes(self._null)
        else:
            word = self._words[code]
            text.put_bytes(word)


class ListCells(Cells):
    """Cells of lists, as JSON."""

    def __init__(self, offsets: array[int], writer: LineWriter, items: list[Cells]) -> None:
        """Make the cells of lists.

        Args:
            offsets: index of each list's first item, and at the end the number of all items.
            writer: writes an item.
            items: the cells of all items.
        """
        self._offsets = memoryview(offsets)
        self._writer = writer
        self._items = items

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        first, end = self._offsets[row], self._offsets[row + 1]
        text.put_byte(OPEN_LIST)
        for item in range(first, end):
            if item > first:
                text.put_byte(COMMA)
            self._writer.put(text, item, self._items)
        text.put_byte(CLOSE_LIST)


class QuotedListCells(ListCells):
    """Cells of lists as JSON in CSV: in quotes, unless they have neither a quote nor a comma.

    What writes the items doubles the quotes in them.
    """

    def put(self, text: TextBuffer, row: int) -> None:
        """Write the cell of a row."""
        count = self._offsets[row + 1] - self._offsets[row]
        begin = text.used
        text.put_byte(QUOTE)
        ListCells.put(self, text, row)
        first = text.data[begin + 2]
        if count > 1 or first in (QUOTE, OPEN):
            text.put_byte(QUOTE)
        else:  # no item, or one null
            text.used = begin
            text.put_bytes(_ONE_NULL if count == 1 else _NO_ITEMS)


class LineWriter:
    """Writes lines of cells."""

    def __init__(self, before: Sequence[bytes], end: bytes) -> None:
        """Make a writer.

        Args:
            before: the text in front of each cell.
            end: the text after the last cell.
        """
        self._before = list(before)
        self._end = end
        self._text = TextBuffer()

    def write(self, file: BinaryIO, rows: int, cells: list[Cells]) -> None:
        """Write the lines of the first ``rows`` rows to a file, given the cells of each column.

        Raises OSError if the system does.
        """
        text = self._text
        text.used = 0
        for row in range(rows):
            self.put(text, row, cells)
            if text.used >= PIECE_BYTES:
                file.write(text.data[: text.used])
                text.used = 0
        file.write(text.data[: text.used])

    def each(self, rows: int, cells: list[Cells]) -> list[str]:
        """Return the lines as separate texts; all cells must be ASCII."""
        text = self._text
        text.used = 0
        lines = []
        for row in range(rows):
            self.put(text, row, cells)
            lines.append(str(text.drain(), "ascii"))
        return lines

    def put(self, text: TextBuffer, row: int, cells: list[Cells]) -> None:
        """Write one line."""
        for index in range(len(cells)):
            before = self._before[index]
            text.put_bytes(before)
            cell = cells[index]
            cell.put(text, row)
        text.put_bytes(self._end)
