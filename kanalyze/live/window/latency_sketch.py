"""A mergeable quantile sketch over 64-bit integers: durations in nanoseconds.

In: integers. Out: exact count, sum, minimum and maximum; quantiles, exact for small counts and
within 0.4 % for large ones.

Up to :data:`EXACT_LIMIT` values are kept unchanged. Beyond, they are counted in buckets like those
of a high-dynamic-range histogram: a bucket is an exponent and the leading 8 bits. The results
depend only on the multiset of values, so adding and merging in any order give exactly the same
results.
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
"""The maximum relative error of a quantile, compared to the value of that rank."""

_SIGNIFICANT_BITS = 8
_LEADING = 1 << (_SIGNIFICANT_BITS - 1)  # the smallest number of 8 significant bits
_PENDING_LIMIT = 256
_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1


class Latencies(NamedTuple):
    """Values with their sum and range, computed once for several sketches."""

    items: array[int]
    """The values; type code ``q``."""
    sum: int
    min: int
    """0 if there are no values, like ``max``."""
    max: int

    @classmethod
    def of(cls, values: Iterable[int]) -> Latencies:
        """Return values; a value outside int64 becomes the nearest int64."""
        items = _int64s(values)
        return cls(items, sum(items), min(items, default=0), max(items, default=0))


class LatencySketch:
    """Counts of int64 values by bucket.

    A value outside int64 counts as the nearest int64. Memory: 5 kB for pending values, and 8 bytes
    for each bucket from the lowest to the highest that occurs, at most 14,592 buckets. That is 1 kB
    for each power of two that the values span.
    """

    __slots__ = ("_buckets", "_lowest", "_pending", "count", "max", "min", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        """Smallest value; None if there is none."""
        self.max: int | None = None
        # All values, up to EXACT_LIMIT; beyond, the values that are not in a bucket yet.
        self._pending: array[int] = array("q")
        self._lowest = 0
        # The numbers of values in bucket _lowest, in the next one, and so on.
        self._buckets: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def add(self, value: int) -> None:
        """Add one value."""
        self.add_many((value,))

    def add_many(self, values: Iterable[int]) -> None:
        """Add several values."""
        self.add_values(Latencies.of(values))

    def add_values(self, values: Latencies) -> None:
        """Add prepared values, which may be added to several sketches."""
        if not values.items:
            return
        self.count += len(values.items)
        self.sum += values.sum
        self._widen(values.min, values.max)
        self._add_pending(values.items)

    def merge(self, other: LatencySketch) -> None:
        """Add the values of another sketch; associative and commutative."""
        if other.min is None or other.max is None:
            return
        self.count += other.count
        self.sum += other.sum
        self._widen(other.min, other.max)
        self._add_pending(other._pending)
        if len(other._buckets):
            self._count(other._lowest, other._buckets)

    def quantile(self, q: float) -> int | None:
        """Return the value of rank ``max(1, ceil(q * count))``; None without values.

        ``q`` is from 0 to 1, and counts as its shortest decimal (0.07 is 7/100). Up to
        ``EXACT_LIMIT`` values the result is exact. Beyond, it is the middle of the bucket of that
        rank, clipped to minimum and maximum.
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

    def _add_pending(self, values: array[int]) -> None:
        self._pending.extend(values)
        if self.count > EXACT_LIMIT and len(self._pending) > _PENDING_LIMIT:
            self._count_pending()

    def _count_pending(self) -> None:
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
        self._count_pending()
        return self._lowest + int(np.searchsorted(np.cumsum(self._buckets), rank))


def _ceiling_of_share(share: float, count: int) -> int:
    """Return ``ceil(share * count)`` for the shortest decimal of ``share``, from 0 to 1."""
    digits, _, exponent = str(share).partition("e")
    integer, _, decimals = digits.partition(".")
    denominator: int = 10 ** (len(decimals) - int(exponent or 0))
    return -(-int(integer + decimals) * count // denominator)


def _int64s(values: Iterable[int]) -> array[int]:
    values = values if isinstance(values, list | tuple) else list(values)
    try:
        return array("q", values)
    except OverflowError:
        return array("q", [min(max(value, _INT64_MIN), _INT64_MAX) for value in values])


def _buckets_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bucket of each value; a higher value never has a lower bucket.

    A value from 0 to 255 is its own bucket. A higher value with exponent ``e`` (the number of bits
    after its leading 8) and leading bits ``m`` (128 to 255) is in bucket ``128 * e + m``. The
    bucket of a negative value is ``~b``, where ``b`` is the bucket of its complement.
    """
    size = np.where(values < 0, ~values, values)
    # frexp of a number above 2**53 may round up to the next power of two: the exponent is then 1
    # too high.
    bits = np.frexp(size.astype(np.float64))[1].astype(np.int64)
    exponent: NDArray[np.int64] = np.maximum(bits - _SIGNIFICANT_BITS, 0)
    exponent -= (exponent > 0) & ((size >> exponent) < _LEADING)
    bucket: NDArray[np.int64] = _LEADING * exponent + (size >> exponent)
    return np.where(values < 0, ~bucket, bucket)


def _middle_of(bucket: int) -> int:
    """Return the middle of the values of a bucket, rounded down."""
    if bucket < 0:
        return ~_middle_of(~bucket)
    exponent = max(bucket // _LEADING - 1, 0)
    leading = bucket - _LEADING * exponent
    return (leading << exponent) + ((1 << exponent) - 1) // 2
