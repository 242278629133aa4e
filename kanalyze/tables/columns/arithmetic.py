"""Loops over the numbers of columns: they pick, join, narrow and count values.

In: arrays of :mod:`array`, or other objects with the buffer interface. Out: new arrays.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    Longs = Sequence[int] | memoryview
    """64-bit integers, contiguous in memory."""

__all__ = [
    "add_list_sizes",
    "add_word_sizes",
    "bits",
    "bits_of_codes",
    "bits_of_longs",
    "differences",
    "first_places",
    "items_of_lists",
    "narrowed_ints",
    "narrowed_shorts",
    "picked_bytes",
    "recoded",
    "sums_up_to",
]


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
    result = array("q", bytes(8 * (count + 1)))
    ends = memoryview(result)
    total = 0
    for i in range(count):
        n = numbers[i]
        total += offsets[n + 1] - offsets[n]
        ends[i + 1] = total
    items = array("q", bytes(8 * total))
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
    result = array("i", bytes(4 * count))
    out = memoryview(result)
    for i in range(count):
        code = codes[i]
        out[i] = new_codes[code] if code >= 0 else -1
    return result


def first_places(codes: Longs, words: int) -> tuple[array[int], array[int]]:
    """Number codes by first appearance: return the new codes, and the old code of each new one.

    Codes are below ``words``; -1 stays -1.
    """
    numbers = array("i", bytes(4 * words))
    number_of = memoryview(numbers)  # the new code plus 1; 0 for a code that has not appeared
    count = len(codes)
    result = array("i", bytes(4 * count))
    out = memoryview(result)
    order = array("i", bytes(4 * min(words, count)))
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
    result = array("i", bytes(4 * count))
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
    result = array("h", bytes(2 * count))
    out = memoryview(result)
    for i in range(count):
        value = values[i]
        if value < -0x8000 or value > 0x7FFF:
            raise OverflowError(f"number does not fit in 16 bits: {value}")
        out[i] = value
    return result


def bits(flags: bytes | bytearray) -> bytearray:
    """Return one bit per byte: 1 if the byte is not 0. The first is the lowest bit of a byte."""
    count = len(flags)
    result = bytearray((count + 7) // 8)
    out = memoryview(result)
    for i in range(count):
        if flags[i] != 0:
            out[i >> 3] |= 1 << (i & 7)
    return result


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
    result = bytearray((count + 7) // 8)
    out = memoryview(result)
    nulls = 0
    for i in range(count):
        if codes[i] >= 0:
            out[i >> 3] |= 1 << (i & 7)
        else:
            nulls += 1
    return result if nulls else None


# -- sizes ----------------------------------------------------------------------------------------


def differences(offsets: Longs) -> array[int]:
    """Return the number of items of each list."""
    count = len(offsets) - 1
    result = array("q", bytes(8 * max(count, 0)))
    out = memoryview(result)
    for i in range(count):
        out[i] = offsets[i + 1] - offsets[i]
    return result


def sums_up_to(values: Longs) -> array[int]:
    """Return the sums of the first 0, 1, ... n values: n + 1 numbers."""
    count = len(values)
    result = array("q", bytes(8 * (count + 1)))
    out = memoryview(result)
    total = 0
    for i in range(count):
        total += values[i]
        out[i + 1] = total
    return result


def add_word_sizes(sizes: array[int], codes: Longs, word_sizes: Longs, extra: int) -> None:
    """Add to each of ``sizes`` the size of the word with its code (0 for -1), plus ``extra``."""
    out = memoryview(sizes)
    for i in range(len(codes)):
        code = codes[i]
        out[i] += (word_sizes[code] if code >= 0 else 0) + extra


def add_list_sizes(sizes: array[int], offsets: Longs, up_to: Longs, extra: int) -> None:
    """Add to each of ``sizes`` the size of its list's items, plus ``extra``.

    ``up_to`` has the total size of all items before each item.
    """
    out = memoryview(sizes)
    for i in range(len(offsets) - 1):
        out[i] += up_to[offsets[i + 1]] - up_to[offsets[i]] + extra
