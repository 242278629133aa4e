"""A growing text, as bytes.

In: bytes and numbers. Out: the text.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

if not cython.compiled:
    ZERO, MINUS = 0x30, 0x2D
    MAX_DIGITS = 20
    FEW_BYTES = 128  # up to here a loop copies as fast as a memoryview, which takes 0.3 us to make

__all__ = ["TextBuffer"]

MIN_PLAIN = -(10**18)
"""Python writes numbers below this: the negative of the least 64-bit integer has no 64 bits."""
_ROOM = 4096


class TextBuffer:
    """Text that is being written.

    Attributes:
        data: the text, followed by free space.
        used: size of the text in bytes. A caller may reset it to an earlier value, to undo writes.
    """

    __slots__ = ("data", "used")

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

    def put(self, text: memoryview) -> None:
        """Append bytes."""
        count = len(text)
        if self.used + count > len(self.data):
            self.make_room(count)
        at = self.used
        for i in range(count):
            self.data[at + i] = text[i]
        self.used = at + count

    def put_bytes(self, text: bytes) -> None:
        """Append bytes; like :meth:`put`, but for a bytes object."""
        count = len(text)
        if self.used + count > len(self.data):
            self.make_room(count)
        at = self.used
        if count > FEW_BYTES:
            view = memoryview(text)
            self.data[at : at + count] = view
        else:
            for i in range(count):
                self.data[at + i] = text[i]
        self.used = at + count

    def put_number(self, value: int) -> None:
        """Append a number in decimal digits, with a minus sign if it is negative."""
        if value < MIN_PLAIN:
            self._put_text(value)
            return
        if self.used + MAX_DIGITS > len(self.data):
            self.make_room(MAX_DIGITS)
        if value < 0:
            self.data[self.used] = MINUS
            self.used += 1
            value = -value
        at = self.used + 1
        quotient = value // 10
        while quotient > 0:
            at += 1
            quotient //= 10
        self.used = at
        while True:
            at -= 1
            quotient = value // 10
            self.data[at] = ZERO + (value - quotient * 10)
            if quotient == 0:
                return
            value = quotient

    def _put_text(self, value: object) -> None:
        self.put_bytes(str(value).encode("ascii"))
