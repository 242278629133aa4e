"""Texts and ids in a buffer, told apart many at a time.

In: a buffer, and places in it. Out: which of them are the same, and their bytes once each. Must not
know what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kanalyze.gathers import overlapping

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["coded"]

_WORD_BYTES = 8
_LONG_BYTES = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""Odd, with irregular bits; which one does not matter, for what has the same hash is compared."""
_MASKS = np.array([(1 << 64) - (1 << 8 * (8 - held)) for held in range(9)], np.uint64)
"""Of a big-endian word, by how many of its first bytes count."""


def coded(
    data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int32], list[bytes]]:
    """Return for each of ``data[start:start + length]`` its index among those that differ.

    -1 for a negative length. Those that differ come in no particular order. Takes one step for
    each eight bytes of the longest; where one is longer than 64 bytes they are taken one by one.
    """
    count = len(start)
    longest = int(length.max(initial=0))
    if not count or longest > _LONG_BYTES or len(data) < _WORD_BYTES:
        return _one_by_one(data, start, length)
    words = _words(data, start, length, longest)
    mixed = length.astype(np.uint64)
    for word in words:
        mixed = (mixed ^ word) * _MIX
        mixed ^= mixed >> np.uint64(29)
    _, first, codes = np.unique(mixed, return_index=True, return_inverse=True)
    example = first[codes]
    same = length == length[example]
    for word in words:
        same &= word == word[example]
    if not same.all():
        return _one_by_one(data, start, length)
    begins, sizes = start[first].tolist(), length[first].tolist()
    found = [
        data[begin : begin + size].tobytes() if size > 0 else b""
        for begin, size in zip(begins, sizes, strict=True)
    ]
    return np.where(length < 0, -1, codes).astype(np.int32), found


def _words(
    data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64], longest: int
) -> list[NDArray[np.uint64]]:
    """Return the bytes of all texts, eight at a time, with zeros after their end."""
    every = overlapping(data, ">u8")
    last = len(every) - 1
    words = []
    for at in range(0, longest, _WORD_BYTES):
        held = np.clip(length - at, 0, _WORD_BYTES)
        begin = np.where(held > 0, start + at, 0)
        # At the end of the buffer a word begins earlier, and is shifted.
        inside = np.minimum(begin, last)
        word = every[inside].astype(np.uint64) << ((begin - inside) * 8).astype(np.uint64)
        words.append(word & _MASKS[held])
    return words


def _one_by_one(
    data: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int32], list[bytes]]:
    known: dict[bytes, int] = {}
    codes = [
        -1 if size < 0 else known.setdefault(data[at : at + size].tobytes(), len(known))
        for at, size in zip(start.tolist(), length.tolist(), strict=True)
    ]
    return np.array(codes, np.int32), list(known)
