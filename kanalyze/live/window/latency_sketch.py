"""A mergeable quantile sketch over 64-bit integers: durations in nanoseconds.

In: integers. Out: exact count, sum, minimum and maximum; quantiles, exact for small counts and
within 0.4 % for large ones. This module must not know what the numbers mean.

Up to :data:`EXACT_LIMIT` values are kept as they are. Beyond, they are counted in buckets as a
high-dynamic-range histogram has them: a value's exponent and its leading 8 bits. What a sketch
says depends on the multiset of its values alone, so adding in any order, in parts, and merging
those parts in any order all give the same answer, to the bit.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["EXACT_LIMIT", "RELATIVE_ERROR", "Latencies", "LatencySketch"]

EXACT_LIMIT = 512
"""Quantiles of up to this number of values are exact."""

RELATIVE_ERROR = 1 / 256
"""No quantile is further than this share of itself from a value of that rank."""

_SIGNIFICANT_BITS = 8
_LEADING = 1 << (_SIGNIFICANT_BITS - 1)  # the smallest number of 8 significant bits
_PENDING_LIMIT = 256
_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1


class Latencies(NamedTuple):
    """Values, with precomputed data for all sketches that they are added to."""

    items: array[int]
    """Type code q."""
    sum: int
    min: int
    """0 when there are no values, as ``max``."""
    max: int

    @classmethod
    def of(cls, values: Iterable[int]) -> Latencies:
        """Return values; those outside int64 as the nearest int64."""
        items = _int64s(values)
        return cls(items, sum(items), min(items, default=0), max(items, default=0))


class LatencySketch:
    """Counts of int64 values by bucket.

    Values outside int64 are taken as the nearest int64. Memory: 5 kB of pending values, and 8
    bytes for each bucket from the lowest that occurs to the highest, of which there are at most
    14,592: 1 kB for each doubling that the values spread over.
    """

    __slots__ = ("_buckets", "_lowest", "_pending", "count", "max", "min", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        """Smallest value; None if there is none."""
        self.max: int | None = None
        # All values while they are at most EXACT_LIMIT; beyond, those not yet in a bucket.
        self._pending: array[int] = array("q")
        self._lowest = 0
        # How many values there are in bucket _lowest, in the next one, ...
        self._buckets: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def add(self, value: int) -> None:
        """Add one value."""
        self.add_many((value,))

    def add_many(self, values: Iterable[int]) -> None:
        """Add values, as adding each would."""
        self.add_values(Latencies.of(values))

    def add_values(self, values: Latencies) -> None:
        """Prepare values to be added to several sketches."""
        if not values.items:
            return
        self.count += len(values.items)
        self.sum += values.sum
        self._widen(values.min, values.max)
        self._hold(values.items)

    def merge(self, other: LatencySketch) -> None:
        """Add the values of another sketch; associative and commutative."""
        if other.min is None or other.max is None:
            return
        self.count += other.count
        self.sum += other.sum
        self._widen(other.min, other.max)
        self._hold(other._pending)
        if len(other._buckets):
            self._count(other._lowest, other._buckets)

    def quantile(self, q: float) -> int | None:
        """Return the value of rank ``max(1, ceil(q * count))`` of the values in rising order.

        ``q`` lies between 0 and 1 and counts as its shortest decimal (0.07 is 7/100). Up to
        ``EXACT_LIMIT`` values the answer is exact; beyond, it is the middle of the bucket that
        holds it, kept within minimum and maximum. None when there are no values.
        """
        if self.min is None or self.max is None:
            return None
        rank = max(1, _ceiling_of_share(q, self.count))
        if self.count <= EXACT_LIMIT:
            return sorted(self._pending)[rank - 1]
        if rank >= self.count:
            return self.max
        middle = _middle_of(self._bucket_of_rank(rank))
        return min(max(middle, self.min), self.max)

    def _widen(self, smallest: int, largest: int) -> None:
        self.min = smallest if self.min is None else min(self.min, smallest)
        self.max = largest if self.max is None else max(self.max, largest)

    def _hold(self, values: array[int]) -> None:
        self._pending.extend(values)
        if self.count > EXACT_LIMIT and len(self._pending) > _PENDING_LIMIT:
            self._fold()

    def _fold(self) -> None:
        if not self._pending:
            return
        values = np.frombuffer(self._pending, dtype=np.int64)
        buckets = _buckets_of(values)
        lowest = int(buckets.min())
        self._count(lowest, np.bincount(buckets - lowest))
        self._pending = array("q")

    def _count(self, lowest: int, counts: NDArray[np.int64]) -> None:
        """Add to the counts of the buckets from ``lowest`` on."""
        end = lowest + len(counts)
        bucket_end = self._lowest + len(self._buckets)
        if not len(self._buckets):
            self._lowest, self._buckets = lowest, np.zeros(len(counts), dtype=np.int64)
        elif lowest < self._lowest or end > bucket_end:
            before = max(self._lowest - lowest, 0)
            self._buckets = np.pad(self._buckets, (before, max(end - bucket_end, 0)))
            self._lowest -= before
        self._buckets[lowest - self._lowest : end - self._lowest] += counts

    def _bucket_of_rank(self, rank: int) -> int:
        self._fold()
        return self._lowest + int(np.searchsorted(np.cumsum(self._buckets), rank))


def _ceiling_of_share(share: float, count: int) -> int:
    """Return ``ceil(share * count)``, computed of the shortest decimal of ``share``, 0 to 1."""
    digits, _, exponent = str(share).partition("e")
    integer, _, decimals = digits.partition(".")
    per: int = 10 ** (len(decimals) - int(exponent or 0))
    return -(-int(integer + decimals) * count // per)


def _int64s(values: Iterable[int]) -> array[int]:
    values = values if isinstance(values, list | tuple) else list(values)
    try:
        return array("q", values)
    except OverflowError:
        return array("q", [min(max(value, _INT64_MIN), _INT64_MAX) for value in values])


def _buckets_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bucket of each value; buckets rise with the values.

    A value below 256 is its own bucket. Any other with exponent ``e`` (the bits beyond its
    leading 8) and leading bits ``m`` (128 to 255) is in bucket ``128 * e + m``. Negative values
    have the bucket of their complement, mirrored.
    """
    size = np.where(values < 0, ~values, values)
    # frexp of a number above 2**53 may round up to the next power of two: one exponent too many.
    bits = np.frexp(size.astype(np.float64))[1].astype(np.int64)
    exponent: NDArray[np.int64] = np.maximum(bits - _SIGNIFICANT_BITS, 0)
    exponent -= (exponent > 0) & ((size >> exponent) < _LEADING)
    bucket: NDArray[np.int64] = _LEADING * exponent + (size >> exponent)
    return np.where(values < 0, ~bucket, bucket)


def _middle_of(bucket: int) -> int:
    """Return the middle, rounded down, of the values that fall into a bucket."""
    if bucket < 0:
        return ~_middle_of(~bucket)
    exponent = max(bucket // _LEADING - 1, 0)
    leading = bucket - _LEADING * exponent
    return (leading << exponent) + ((1 << exponent) - 1) // 2
