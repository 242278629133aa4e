"""Tests whether a share differs between two captures by more than chance, and by how much.

In: counts of requests by slices of time, of two sides. Out: probabilities and intervals.

Requests that follow each other are correlated: a pause of a broker slows all of them down. So the
unit of the test is not the request but a slice of time: both sides are divided into slices of the
same length (see :func:`slices_of`). Everything is expressed as a share: the share of requests that
failed, or of requests that were slower than a quantile of both sides together (with equal weight
for the sides). Quantiles are equal if these shares are, so a test of shares also tests quantiles.

Slice ``s`` of a side has ``x`` of ``n`` requests. With ``u = x / mean(n)`` and ``w = n / mean(n)``
of its side, the shares are ``p = mean(u)``, and the share over all slices is ``p0``; ``e = u - p0
w`` is the residual of a slice, and all ``e`` add up to 0. The statistic is the difference of the
means of ``e`` on both sides, which equals that of ``p``, divided by its standard error. Its
probability is found by permutation: slices are reassigned to the sides at random, thousands of
times. A difference is beyond chance if hardly any permutation has one as large.

- The standard error is the largest of three: that over the permutations; that of each side by
  itself, ``sum (x - p n)**2``, because a side with fewer requests varies more; and that of
  independent requests, multiplied by the excess variance of slices on either side (the design
  effect), because the side with fewer requests may have missed what comes in bursts.
- Slices that are correlated with the previous slice have less information. The variance is
  multiplied by ``(1 + r) / (1 - r)``, where ``r`` is the correlation of neighbours, corrected for
  its bias of ``(1 + 3 r) / S``.
- Many things are compared. Each statistic is compared with the largest of all statistics in each
  permutation (Westfall and Young's maxT). So ``chance`` is the probability that any difference is
  reported if there is none. The method needs no assumption about how the things depend on each
  other, and finds at least as much as Holm's method.

Intervals are 95 % intervals, from a bootstrap of the slices of each side.

No test on two captures can detect causes that last longer than a capture (a broker that was
restarted in between, another hour of the day). They make captures differ, and not by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

PERMUTATIONS = 1999
RESAMPLES = 999
MAX_OF_SHORTER = 32
"""Maximum number of slices of the shorter side."""
MIN_SLICES = 8
"""Minimum number of slices of the shorter side; with fewer there is no test."""
MAX_SLICES = 1024
"""Maximum number of slices of the longer side."""
_MAX_CORRELATION = 0.95
_AT_ONCE = 512
_INTERVAL = (2.5, 97.5)
_EQUAL = 1e-4
"""Statistics in single precision that differ by less than this are equal."""


class Counts(NamedTuple):
    """For each slice of one side, the number of slow or failed requests, ``hits``, and of all."""

    hits: Floats
    requests: Floats


class Chance(NamedTuple):
    """The probability of a difference if both sides are equal."""

    alone: float
    """Probability of this difference, if it were the only one tested."""
    among_all: float
    """Probability that any tested difference is as large."""


def slices_of(seconds_a: int, seconds_b: int) -> tuple[int, int] | None:
    """Return the numbers of slices of equal length on both sides; None if there are too few.

    Args:
        seconds_a: number of seconds with requests on one side. A slice is at least one second.
        seconds_b: the same for the other side.
    """
    shorter, longer = sorted((seconds_a, seconds_b))
    if not shorter:
        return None
    short_slices = min(MAX_OF_SHORTER, shorter, MAX_SLICES * shorter // longer)
    if short_slices < MIN_SLICES:
        return None
    long_slices = min(round(short_slices * longer / shorter), MAX_SLICES)
    return (short_slices, long_slices) if seconds_a <= seconds_b else (long_slices, short_slices)


def chances(pairs: Sequence[Callable[[], tuple[Counts, Counts]]], seed: int = 0) -> list[Chance]:
    """Return the chance of each difference.

    Args:
        pairs: functions that return the counts of two sides. The number of slices of each side
            is the same in all pairs. They are called when needed, a few hundred at a time.
        seed: seed of the permutations.
    """
    if not pairs:
        return []
    first_side, second_side = pairs[0]()
    permutations = _permutations(len(first_side.hits), len(second_side.hits), seed)
    largest = np.zeros(PERMUTATIONS)
    alone_chances: list[float] = []
    statistics: list[float] = []
    for first in range(0, len(pairs), _AT_ONCE):
        residuals_and_statistics = [_statistic(*pair()) for pair in pairs[first : first + _AT_ONCE]]
        batch_statistics = np.array([statistic for _, statistic in residuals_and_statistics])
        sums = (
            permutations
            @ np.array([residuals for residuals, _ in residuals_and_statistics], np.float32).T
        )
        permuted = np.abs(sums)
        np.maximum(largest, permuted.max(axis=1), out=largest)
        alone_chances += _beyond(permuted, batch_statistics)
        statistics += batch_statistics.tolist()
    ordered = np.sort(largest)
    return [
        Chance(
            alone,
            (1 + len(ordered) - int(np.searchsorted(ordered, statistic - _EQUAL)))
            / (PERMUTATIONS + 1),
        )
        for alone, statistic in zip(alone_chances, statistics, strict=True)
    ]


def _beyond(permuted: NDArray[np.floating], statistics: Floats) -> list[float]:
    """Return, for each column, the share of permutations with a value at least as large."""
    share: Floats = (1 + (permuted >= statistics - _EQUAL).sum(axis=0)) / (PERMUTATIONS + 1)
    return list(map(float, share))


def _permutations(slices_a: int, slices_b: int, seed: int) -> NDArray[np.float32]:
    """Return permutations as a matrix: times residuals it gives differences of means."""
    slice_count = slices_a + slices_b
    order = np.random.default_rng(seed).random((PERMUTATIONS, slice_count), dtype=np.float32)
    of_a = np.argpartition(order, slices_a - 1, axis=1)[:, :slices_a]
    weights = np.full((PERMUTATIONS, slice_count), 1 / slices_b, np.float32)
    np.put_along_axis(weights, of_a, np.float32(-1 / slices_a), axis=1)
    return weights


def _statistic(a: Counts, b: Counts) -> tuple[Floats, float]:
    """Return the residual of each slice, and the absolute statistic.

    The residuals are scaled so that the difference of their means has variance 1 over the
    permutations.
    """
    sides = (a, b)
    levels = [side.requests.mean() for side in sides]
    units = [side.hits / level for side, level in zip(sides, levels, strict=True)]
    weights = [side.requests / level for side, level in zip(sides, levels, strict=True)]
    shares = [float(unit.mean()) for unit in units]
    slice_counts = [len(unit) for unit in units]
    total = sum(slice_counts)
    common = sum(share * m for share, m in zip(shares, slice_counts, strict=True)) / total
    residuals = np.concatenate(
        [unit - common * weight for unit, weight in zip(units, weights, strict=True)]
    )
    own_residuals = [u - p * w for u, w, p in zip(units, weights, shares, strict=True)]
    residual_variance = float((residuals**2).sum()) / (total - 1)
    permutation_variance = residual_variance * sum(1 / m for m in slice_counts)
    if not permutation_variance:
        return residuals, 0.0
    side_variances = [
        float((residual**2).sum()) / (m * (m - 1))
        for residual, m in zip(own_residuals, slice_counts, strict=True)
    ]
    independent = [p * (1 - p) / side.requests.sum() for p, side in zip(shares, sides, strict=True)]
    ratios = [v / i for v, i in zip(side_variances, independent, strict=True) if i > 0]
    design = max([1.0, *ratios])
    burst_variance = design * common * (1 - common) * sum(1 / side.requests.sum() for side in sides)
    variance = max(permutation_variance, sum(side_variances), float(burst_variance))
    variance *= _inflation(own_residuals)
    return residuals / permutation_variance**0.5, abs(shares[1] - shares[0]) / variance**0.5


def _inflation(residuals_of_sides: Iterable[Floats]) -> float:
    """Return the factor of a variance for slices that are correlated with their neighbours."""
    sides = list(residuals_of_sides)
    total = sum(float((side**2).sum()) for side in sides)
    if not total:
        return 1.0
    correlation = sum(float((side[1:] * side[:-1]).sum()) for side in sides) / total
    correlation += (1 + 3 * max(correlation, 0)) * 2 / sum(map(len, sides))
    correlation = min(max(correlation, 0.0), _MAX_CORRELATION)
    return (1 + correlation) / (1 - correlation)


class Resampled:
    """Bootstrap samples of the slices of two sides, from which intervals are computed."""

    def __init__(self, slices_a: int, slices_b: int, seed: int = 0) -> None:
        """Draw the samples.

        Args:
            slices_a: number of slices of one side.
            slices_b: number of slices of the other side.
            seed: seed of the draws.
        """
        draw = np.random.default_rng(seed)
        self._times = [
            draw.multinomial(size, np.full(size, 1 / size), RESAMPLES).astype(np.float64)
            for size in (slices_a, slices_b)
        ]

    def difference(self, a: Counts, b: Counts) -> tuple[float, float] | None:
        """Return the interval of the other side's share minus this side's share."""
        shares = []
        for times, side in zip(self._times, (a, b), strict=True):
            totals = times @ side.requests
            with np.errstate(invalid="ignore", divide="ignore"):
                shares.append((times @ side.hits) / totals)
        return _interval(shares[1] - shares[0])

    def log_ratio(self, a: Floats, b: Floats, part: float) -> tuple[float, float] | None:
        """Return the interval of the difference of a quantile, in bins of histograms.

        Args:
            a: number of requests by slice and bin, on one side.
            b: the same for the other side, with the same bins.
            part: which quantile, 0 to 1.
        """
        bins_of_quantile = []
        for times, bins in zip(self._times, (a, b), strict=True):
            # Single precision is exact up to 16 million, which is enough for an interval.
            running = times.astype(np.float32) @ np.cumsum(bins, axis=1).astype(np.float32)
            total = running[:, -1:]
            bin_of_quantile = (running < part * total).sum(axis=1).astype(np.float64)
            bin_of_quantile[total[:, 0] == 0] = np.nan
            bins_of_quantile.append(bin_of_quantile)
        return _interval(bins_of_quantile[1] - bins_of_quantile[0])


def _interval(values: Floats) -> tuple[float, float] | None:
    """Return the 95 % interval of sampled values; None if too few samples have a value."""
    defined = values[~np.isnan(values)]
    if len(defined) < RESAMPLES // 2:
        return None
    low, high = np.percentile(defined, _INTERVAL)
    return float(low), float(high)
