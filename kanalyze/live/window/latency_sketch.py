"""A mergeable quantile sketch over 64-bit integers: durations in nanoseconds.

In: integers. Out: quantiles, exact for small counts and within 0.4 % for large ones.

Up to :data:`EXACT_LIMIT` values are kept unchanged. Beyond, they are counted in buckets like those
of a high-dynamic-range histogram: a bucket is an exponent and the leading 8 bits. The results
depend only on the multiset of values, so adding and merging in any order give exactly the same
results.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["EXACT_LIMIT", "RELATIVE_ERROR", "LatencySketch"]

EXACT_LIMIT = 512
"""Quantiles of up to this number of values are exact."""

RELATIVE_ERROR = 1 / 256
"""The maximum relative error of a quantile, compared to the value of that rank."""

_SIGNIFICANT_BITS = 8
_LEADING = 1 << (_SIGNIFICANT_BITS - 1)  # the smallest number of 8 significant bits
_PENDING_LIMIT = 256
_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1
_NO_BUCKETS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


class LatencySketch:
    """Counts of int64 values by bucket.

    Memory: 5 kB for pending values, and 8 bytes for each bucket from the lowest to the highest that
    occurs, at most 14,592 buckets. That is 1 kB for each power of two that the values span.
    """

    __slots__ = ("_buckets", "_highest_ns", "_lowest", "_lowest_ns", "_pending", "count")

    def __init__(self, values: array[int] | None = None) -> None:
        """Begin with ``values`` (type code ``q``), an array that is used from now on."""
        # All values, up to EXACT_LIMIT; beyond, the values that are not in a bucket yet.
        self._pending = array("q") if values is None else values
        self.count = len(self._pending)
        self._lowest = 0
        # The numbers of values in bucket _lowest, in the next one, and so on.
        self._buckets = _NO_BUCKETS
        # Bounds of the values in buckets.
        self._lowest_ns, self._highest_ns = _INT64_MAX, _INT64_MIN

    def add(self, values: Iterable[int]) -> None:
        """Add values."""
        before = len(self._pending)
        self._pending.extend(values)
        self.count += len(self._pending) - before
        if self.count > EXACT_LIMIT and len(self._pending) > _PENDING_LIMIT:
            self._count_pending()

    def merge(self, other: LatencySketch) -> None:
        """Add the values of another sketch; associative and commutative."""
        if len(other._buckets):
            self.count += other.count - len(other._pending)
            self._lowest_ns = min(self._lowest_ns, other._lowest_ns)
            self._highest_ns = max(self._highest_ns, other._highest_ns)
            self._count(other._lowest, other._buckets)
        self.add(other._pending)

    def quantile(self, q: float) -> int | None:
        """Return the value of rank ``max(1, ceil(q * count))``; None without values.

        ``q`` is from 0 to 1, and counts as its shortest decimal (0.07 is 7/100). Up to
        ``EXACT_LIMIT`` values the result is exact. Beyond, it is the middle of the bucket of that
        rank, clipped to minimum and maximum.
        """
        if not self.count:
            return None
        rank = max(1, _ceiling_of_share(q, self.count))
        if self.count <= EXACT_LIMIT:
            return sorted(self._pending)[rank - 1]
        self._count_pending()
        if rank >= self.count:
            return self._highest_ns
        bucket = self._lowest + int(np.searchsorted(np.cumsum(self._buckets), rank))
        return min(max(_middle_of(bucket), self._lowest_ns), self._highest_ns)

    def _count_pending(self) -> None:
        if not self._pending:
            return
        values = np.frombuffer(self._pending, dtype=np.int64)
        self._lowest_ns = min(self._lowest_ns, int(values.min()))
        self._highest_ns = max(self._highest_ns, int(values.max()))
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


def _ceiling_of_share(share: float, count: int) -> int:
    """Return ``ceil(share * count)`` for the shortest decimal of ``share``, from 0 to 1."""
    digits, _, exponent = str(share).partition("e")
    integer, _, decimals = digits.partition(".")
    denominator: int = 10 ** (len(decimals) - int(exponent or 0))
    return -(-int(integer + decimals) * count // denominator)


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
