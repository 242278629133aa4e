"""Copies of bytes out of buffers that are used again.

In: buffers, positions in them. Out: bytes.

Compiled by Cython, with the types in ``byte_copies.pxd``: it copies without making a memoryview.
Uncompiled it does the same, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

try:
    import cython
except ModuleNotFoundError:  # the stand-in for an environment without Cython
    from kanalyze.common.compiled import cython

__all__ = ["append", "copy_bytes", "copy_from_array", "joined"]


def copy_bytes(data: memoryview, begin: int, end: int) -> bytes:
    """Return a copy of ``data[begin:end]``; raises IndexError if the buffer lacks some of it."""
    if begin < 0 or end > len(data):
        raise IndexError("bytes that are not in the buffer")
    if begin >= end:
        return b""
    if cython.compiled:
        first: Any = cython.address(data[begin])
        copied: bytes = first[: end - begin]
        return copied
    return bytes(data[begin:end])


def copy_from_array(array: bytearray, begin: int, end: int) -> bytes:
    """Return a copy of ``array[begin:end]``; raises IndexError if the array lacks some of it."""
    if begin < 0 or end > len(array):
        raise IndexError("bytes that are not in the array")
    if begin >= end:
        return b""
    if cython.compiled:
        first: Any = array
        copied: bytes = first[begin:end]
        return copied
    return bytes(array[begin:end])


def append(array: bytearray, data: memoryview, begin: int, end: int) -> None:
    """Add ``data[begin:end]`` to an array; raises IndexError if the buffer lacks some of it."""
    array += copy_bytes(data, begin, end)


def joined(data: memoryview, begins: Sequence[int], ends: Sequence[int]) -> bytearray:
    """Return a copy of some ranges of a buffer, one after another.

    Args:
        data: the buffer.
        begins: index of the first byte of each range; an array of 64-bit integers.
        ends: index after the last byte of each; a range that ends before it begins is empty.

    Raises:
        IndexError: the buffer lacks some of it.
    """
    source, firsts, lasts = data, begins, ends
    size = len(source)
    total = 0
    for index in range(len(firsts)):
        if firsts[index] < lasts[index]:
            if firsts[index] < 0 or lasts[index] > size:
                raise IndexError("bytes that are not in the buffer")
            total += lasts[index] - firsts[index]
    copies = bytearray(total)
    target = memoryview(copies)
    at = 0
    for index in range(len(firsts)):
        if firsts[index] < lasts[index]:
            until = at + lasts[index] - firsts[index]
            target[at:until] = source[firsts[index] : lasts[index]]
            at = until
    return copies
