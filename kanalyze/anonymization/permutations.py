"""Keyed permutations: each number below a size has a stand-in, which is another such number.

In: a key, a size, a number. Out: a number below the same size.

A Feistel network over HMAC-SHA-256 (Luby and Rackoff) permutes numbers of an even number of bits,
as many as the size needs. A result that is not below the size is permuted again until one is (cycle
walking, Black and Rogaway); that too is a permutation. So no table is needed, and two numbers never
get the same stand-in.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Permutation", "random_bytes"]

_ROUNDS: Final = 10
_DIGEST: Final = "sha256"
_DIGEST_BYTES: Final = 32


def random_bytes(key: bytes, label: bytes, count: int) -> bytes:
    """Return ``count`` pseudorandom bytes, which depend only on the key and the label."""
    if count <= _DIGEST_BYTES:
        return hmac.digest(key, label, _DIGEST)[:count]
    seed = hmac.digest(key, label, _DIGEST)
    blocks = -(-count // _DIGEST_BYTES)
    parts = [hmac.digest(seed, index.to_bytes(4), _DIGEST) for index in range(blocks)]
    return b"".join(parts)[:count]


class Permutation:
    """A permutation of the numbers from 0 up to, but not including, a size."""

    def __init__(self, key: bytes, label: bytes, size: int) -> None:
        """Make one; each ``label`` has a permutation of its own. ``size`` is 1 or more."""
        self._size = size
        self._half_bits = max((size - 1).bit_length() + 1 >> 1, 1)
        self._half_bytes = self._half_bits + 7 >> 3
        self._mask = (1 << self._half_bits) - 1
        self._key = hmac.digest(key, b"permutation %d " % size.bit_length() + label, _DIGEST)

    def of(self, number: int, stays: Callable[[int], bool] | None = None) -> int:
        """Return the stand-in of a number.

        A number for which ``stays`` returns true is its own stand-in, and that of no other number.
        """
        if stays is not None and stays(number):
            return number
        while True:
            number = self._once(number)
            if number < self._size and (stays is None or not stays(number)):
                return number

    def _once(self, number: int) -> int:
        left, right = number >> self._half_bits, number & self._mask
        for turn in range(_ROUNDS):
            label = bytes((turn,)) + right.to_bytes(self._half_bytes)
            noise = random_bytes(self._key, label, self._half_bytes)
            left, right = right, left ^ (int.from_bytes(noise) & self._mask)
        return left << self._half_bits | right
