"""Plain values as bytes, and checks of a state that is made of them.

In: None, booleans, integers of 64 bits, bytes, texts, and tuples of these; or bytes. Out: bytes; or
the values that bytes hold, or ValueError.

A value begins with a byte that says what it is (see the constants). Sizes and numbers are varints:
seven bits a byte, the lowest first. No memory is taken for a value before its bytes are checked to
be there, and nothing nests deeper than :data:`MAX_DEEP`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

State: TypeAlias = tuple[Any, ...]
"""The state of an object as plain values; :mod:`kanalyze.common.saved` makes and reads it."""

# A first byte below NONE is the number itself. From SHORT_TUPLE on, it is a tuple, and what it has
# beyond SHORT_TUPLE is the number of items.
NONE: Final = 0x80
FALSE, TRUE = 0x81, 0x82
NUMBER, NEGATIVE = 0x83, 0x84  # a varint: the number n; for a negative one -1 - n
BYTES, TEXT = 0x85, 0x86  # the size, then the bytes
TUPLE: Final = 0x87  # the number of items, then the items
SHORT_TUPLE: Final = 0xC0
MAX_DEEP: Final = 32  # a state has some twelve levels
MAX_SHIFT: Final = 56  # bits before the ninth and last byte of a varint: 63 bits in all

_MOST, _LEAST = (1 << 63) - 1, -(1 << 63)
_LONGEST_WIDE_BYTES = 32
_MAX_COUNT = 1 << 62
"""The sum of any two such counts fits in 64 bits without a sign."""


def to_bytes(value: Any) -> bytes:
    """Return a plain value as bytes.

    Raises:
        TypeError: the value, or an item of it, is no plain value.
        OverflowError: an integer takes more than 64 bits.
        ValueError: tuples nest too deeply.
    """
    writer = StateWriter()
    writer.write(value, 0)
    return bytes(writer.data)


def from_bytes(data: bytes) -> Any:
    """Return the value that :func:`to_bytes` wrote; raises ValueError for any other bytes."""
    reader = StateReader(data)
    value = reader.read(0)
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes left over")
    return value


class StateWriter:
    """Writes plain values into ``data``."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, value: Any, depth: int) -> None:
        """Append a value; ``depth`` is the number of tuples around it."""
        data = self.data
        kind = type(value)
        if value is None:
            data.append(NONE)
        elif kind is int:
            number = value
            if not _LEAST <= number <= _MOST:
                raise OverflowError(f"{number} takes more than 64 bits")
            if number < 0:
                self._head(NEGATIVE, -1 - number)
            elif number < NONE:
                data.append(number)
            else:
                self._head(NUMBER, number)
        elif kind is tuple:
            count = len(value)
            if depth == MAX_DEEP:
                raise ValueError(f"tuples within tuples, more than {MAX_DEEP} deep")
            if count < 0x100 - SHORT_TUPLE:
                data.append(SHORT_TUPLE + count)
            else:
                self._head(TUPLE, count)
            for item in value:
                self.write(item, depth + 1)
        elif kind is bool:
            data.append(TRUE if value else FALSE)
        else:
            self._write_sized(value)

    def _write_sized(self, value: Any) -> None:
        if type(value) is bytes:
            self._head(BYTES, len(value))
            self.data += value
        elif type(value) is str:
            text = value.encode("utf-8", "surrogatepass")
            self._head(TEXT, len(text))
            self.data += text
        else:
            raise TypeError(f"no plain value: {type(value).__name__}")

    def _head(self, head: int, number: int) -> None:
        data = self.data
        data.append(head)
        while number >= 0x80:
            data.append((number & 0x7F) | 0x80)
            number >>= 7
        data.append(number)


class StateReader:
    """Reads plain values from bytes; ``at`` is the index of the next byte."""

    __slots__ = ("at", "data", "end", "source")

    def __init__(self, data: bytes) -> None:
        self.source = data
        self.data = memoryview(data)
        self.at = 0
        self.end = len(data)

    def read(self, depth: int) -> Any:
        """Return the next value; ``depth`` is the number of tuples around it."""
        head = self._byte()
        if head < NONE:
            return head
        if head >= SHORT_TUPLE:
            return self._tuple(head - SHORT_TUPLE, depth)
        if head == NONE:
            return None
        if head == NUMBER:
            return self._number()
        if head == TUPLE:
            return self._tuple(self._number(), depth)
        if head == TRUE:
            return True
        if head == FALSE:
            return False
        if head == BYTES:
            return self._bytes()
        if head == TEXT:
            return self._bytes().decode("utf-8", "surrogatepass")
        if head == NEGATIVE:
            return -1 - self._number()
        raise ValueError(f"a value that begins with {head}")

    def _byte(self) -> int:
        if self.at >= self.end:
            raise ValueError("the bytes end within a value")
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _number(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            if shift > MAX_SHIFT:
                raise ValueError("a number of more than 63 bits")
            bits = byte & 0x7F
            number |= bits << shift
            if byte < 0x80:
                return number
            shift += 7

    def _bytes(self) -> bytes:
        size = self._number()
        begin = self.at
        if size > self.end - begin:
            raise ValueError("the bytes end within a value")
        self.at = begin + size
        return self.source[begin : begin + size]

    def _tuple(self, count: int, depth: int) -> tuple[Any, ...]:
        if count > self.end - self.at:
            raise ValueError("the bytes end within a value")
        if depth == MAX_DEEP:
            raise ValueError(f"tuples within tuples, more than {MAX_DEEP} deep")
        values = []
        for _i in range(count):
            values.append(self.read(depth + 1))  # noqa: PERF401 - compiled, this is faster
        return tuple(values)


# -- checks ---------------------------------------------------------------------------------------


def fields(state: object, kinds: str, defaults: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Return ``state`` if it is a tuple of values of certain kinds.

    Args:
        state: the value to check.
        kinds: a letter for each value: ``i`` an integer, ``n`` an integer from 0 to 2^62, ``b``
            true or false, ``s`` a text, ``y`` bytes, ``t`` a tuple. A capital letter allows None,
            too; ``*`` allows anything.
        defaults: the last values that a state of an older format may lack, all of them together:
            the layout of a class grows only at its end.

    Raises:
        ValueError: the state is not such a tuple.
    """
    if not isinstance(state, tuple):
        raise ValueError(f"no {len(kinds)} values")  # noqa: TRY004 - a state that is refused
    if defaults and len(state) == len(kinds) - len(defaults):
        state += defaults
    if len(state) != len(kinds):
        raise ValueError(f"no {len(kinds)} values")
    for index in range(len(kinds)):
        if not is_of_kind(state[index], kinds[index]):
            raise ValueError(f"value {index} is not of kind {kinds[index]}")
    return state


def items(state: object, kinds: str) -> tuple[Any, ...]:
    """Return ``state`` if it is a tuple of any length whose values are all of one kind.

    ``kinds`` is one letter, as for :func:`fields`. Raises ValueError for anything else.
    """
    if not isinstance(state, tuple):
        raise ValueError("no tuple")  # noqa: TRY004 - as for every other state that is refused
    for index in range(len(state)):
        if not is_of_kind(state[index], kinds):
            raise ValueError(f"value {index} is not of kind {kinds}")
    return state


def is_of_kind(value: Any, letter: str) -> bool:
    """Return true if a value is of the kind that a letter names (see :func:`fields`)."""
    if letter.isupper():
        if value is None:
            return True
        letter = letter.lower()
    kind = type(value)
    if letter == "n":
        return kind is int and 0 <= value <= _MAX_COUNT
    if letter == "i":
        return kind is int
    if letter == "b":
        return kind is bool
    if letter == "t":
        return kind is tuple
    if letter == "y":
        return kind is bytes
    return letter == "*" or (kind is str and letter == "s")


# -- integers of more than 64 bits ----------------------------------------------------------------


def wide(number: int) -> int | bytes:
    """Return an integer of 0 or more as a plain value, however large."""
    if number <= _MOST:
        return number
    return number.to_bytes((number.bit_length() + 7) // 8)


def from_wide(value: object) -> int:
    """Return the integer that :func:`wide` turned into a plain value; raises ValueError."""
    if type(value) is bytes and len(value) <= _LONGEST_WIDE_BYTES:
        return int.from_bytes(value)
    if type(value) is not int or value < 0:
        raise ValueError("no integer of 0 or more")
    return value
