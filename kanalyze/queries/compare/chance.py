"""Whether a share differs between two captures by more than chance; and by how much, at least.

In: counts of requests by slices of time, of two sides. Out: probabilities and intervals. This
module must not know what is counted.

Requests that follow each other are alike: a pause of a broker slows all of them down. So what is
counted are not requests: both sides are cut into slices of the same length (see :func:`slices_of`),
and a slice is what varies from one to the next. Everything is a share: of requests that failed, or
of those slower than the quantile of both sides together (each of which has half the weight). The
quantiles are equal where these shares are, so that a test of shares is one of quantiles.

Slice ``s`` of a side has ``x`` of ``n`` requests. With ``u = x / mean(n)`` and ``w = n / mean(n)``
of its side, the shares are ``p = mean(u)``, and that of all slices together is ``p0``; ``e = u - p0
w`` is what a slice has beyond it, and all ``e`` add up to 0. The statistic is the difference of the
mean of ``e`` on both sides, which is that of ``p``, over its standard error; and the chance of it
is counted: slices are dealt to the sides anew, thousands of times, and a difference is beyond
chance where hardly any deal has one as large.

- The error of the difference is the largest of three: that among the deals; that of each side by
  itself, ``sum (x - p n)**2``, since a side with fewer requests varies more; and that of
  independent requests times what the slices of either side vary more than those would (the design
  effect), since the side with fewer requests may have missed what comes in lumps.
- Slices that resemble the one before say less. The variance grows by ``(1 + r) / (1 - r)``, where
  ``r`` is the correlation of neighbours, corrected for its bias of ``(1 + 3 r) / S``.
- Many things are compared. The largest statistic of all of them in each deal is what each is held
  against (Westfall and Young's maxT): so ``chance`` is the probability that anything at all is said
  to differ where nothing does. It needs no assumption on how the things depend on each other, and
  finds no less than Holm's method.

Intervals are of 95 %, by a bootstrap of the slices of each side.

What no test on two captures can know: what lasts longer than a capture (a broker that was restarted
in the meantime, another hour of the day) differs between them, and not by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kanalyze.common.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

__all__ = ["Chance", "Counts", "Resampled", "chances", "slices_of"]

DEALS = 1999
RESAMPLES = 999
MOST_OF_SHORTER = 32
"""Slices of the shorter side, at most."""
LEAST_SLICES = 8
"""Of the shorter side; with fewer there is no test."""
MOST_SLICES = 1024
"""Of the longer side."""
_MOST_CORRELATION = 0.95
_AT_ONCE = 512
_INTERVAL = (2.5, 97.5)
_EQUAL = 1e-4
"""Statistics in single precision that differ by less are the same."""


class Counts(NamedTuple):
    """By slices of one side: ``found`` of ``among``."""

    found: Floats
    among: Floats


class Chance(NamedTuple):
    """How probable a difference is where there is none."""

    alone: float
    """Of this difference, had nothing else been looked at."""
    among_all: float
    """Of any difference that is as large, among all that were looked at."""


def slices_of(one: int, other: int) -> tuple[int, int] | None:
    """Return how many slices of the same length two sides have; None where they are too few.

    Args:
        one: how many seconds of a side have requests. A slice takes no less than one of them.
        other: those of the other side.
    """
    shorter, longer = sorted((one, other))
    if not shorter:
        return None
    many = min(MOST_OF_SHORTER, shorter, MOST_SLICES * shorter // longer)
    if many < LEAST_SLICES:
        return None
    most = min(round(many * longer / shorter), MOST_SLICES)
    return (many, most) if one <= other else (most, many)


def chances(pairs: Sequence[Callable[[], tuple[Counts, Counts]]], seed: int = 0) -> list[Chance]:
    """Return the chance of each difference.

    Args:
        pairs: each gives the counts of two sides; all have as many slices on the one side, and as
            many on the other. They are made when they are needed, a few hundred at once.
        seed: of the deals.
    """
    if not pairs:
        return []
    one, other = pairs[0]()
    deals = _deals(len(one.found), len(other.found), seed)
    largest = np.zeros(DEALS)
    alone: list[float] = []
    statistics: list[float] = []
    for first in range(0, len(pairs), _AT_ONCE):
        made = [_statistic(*pair()) for pair in pairs[first : first + _AT_ONCE]]
        found = np.array([statistic for _, statistic in made])
        sums = deals @ np.array([residuals for residuals, _ in made], np.float32).T
        dealt = np.abs(sums)
        np.maximum(largest, dealt.max(axis=1), out=largest)
        alone += _beyond(dealt, found)
        statistics += found.tolist()
    held = np.sort(largest)
    return [
        Chance(each, (1 + len(held) - int(np.searchsorted(held, statistic - _EQUAL))) / (DEALS + 1))
        for each, statistic in zip(alone, statistics, strict=True)
    ]


def _beyond(dealt: NDArray[np.floating], found: Floats) -> list[float]:
    """Return the share of deals that are at least as large, for each column."""
    share: Floats = (1 + (dealt >= found - _EQUAL).sum(axis=0)) / (DEALS + 1)
    return list(map(float, share))


def _deals(one: int, other: int, seed: int) -> NDArray[np.float32]:
    """Return deals: times residuals each gives the difference of the means."""
    many = one + other
    order = np.random.default_rng(seed).random((DEALS, many), dtype=np.float32)
    of_one = np.argpartition(order, one - 1, axis=1)[:, :one]
    weights = np.full((DEALS, many), 1 / other, np.float32)
    np.put_along_axis(weights, of_one, np.float32(-1 / one), axis=1)
    return weights


def _statistic(one: Counts, other: Counts) -> tuple[Floats, float]:
    """Return what each slice has beyond the common share, and the absolute statistic.

    The residuals are such that the difference of their means over the deals has variance 1.
    """
    sides = (one, other)
    levels = [side.among.mean() for side in sides]
    units = [side.found / level for side, level in zip(sides, levels, strict=True)]
    weights = [side.among / level for side, level in zip(sides, levels, strict=True)]
    shares = [float(unit.mean()) for unit in units]
    many = [len(unit) for unit in units]
    common = sum(share * m for share, m in zip(shares, many, strict=True)) / sum(many)
    residuals = np.concatenate(
        [unit - common * weight for unit, weight in zip(units, weights, strict=True)]
    )
    own = [u - p * w for u, w, p in zip(units, weights, shares, strict=True)]
    of_deals = float((residuals**2).sum()) / (sum(many) - 1) * sum(1 / m for m in many)
    if not of_deals:
        return residuals, 0.0
    of_sides = [float((rest**2).sum()) / (m * (m - 1)) for rest, m in zip(own, many, strict=True)]
    independent = [p * (1 - p) / side.among.sum() for p, side in zip(shares, sides, strict=True)]
    design = max(1.0, *(v / i for v, i in zip(of_sides, independent, strict=True) if i > 0), 1.0)
    in_lumps = design * common * (1 - common) * sum(1 / side.among.sum() for side in sides)
    variance = max(of_deals, sum(of_sides), float(in_lumps)) * _inflation(own)
    return residuals / of_deals**0.5, abs(shares[1] - shares[0]) / variance**0.5


def _inflation(own: Iterable[Floats]) -> float:
    """Return how much larger a variance is for slices that resemble their neighbours."""
    rests = list(own)
    total = sum(float((rest**2).sum()) for rest in rests)
    if not total:
        return 1.0
    correlation = sum(float((rest[1:] * rest[:-1]).sum()) for rest in rests) / total
    correlation += (1 + 3 * max(correlation, 0)) * 2 / sum(map(len, rests))
    correlation = min(max(correlation, 0.0), _MOST_CORRELATION)
    return (1 + correlation) / (1 - correlation)


class Resampled:
    """Slices of two sides drawn anew, with replacement: what intervals are made of."""

    def __init__(self, one: int, other: int, seed: int = 0) -> None:
        """Draw.

        Args:
            one: slices of a side.
            other: those of the other.
            seed: of the draws.
        """
        draw = np.random.default_rng(seed)
        self._times = [
            draw.multinomial(many, np.full(many, 1 / many), RESAMPLES).astype(np.float64)
            for many in (one, other)
        ]

    def difference(self, one: Counts, other: Counts) -> tuple[float, float] | None:
        """Return the interval of how much larger the share of the other side is."""
        shares = []
        for times, side in zip(self._times, (one, other), strict=True):
            among = times @ side.among
            with np.errstate(invalid="ignore", divide="ignore"):
                shares.append((times @ side.found) / among)
        return _interval(shares[1] - shares[0])

    def log_ratio(self, one: Floats, other: Floats, part: float) -> tuple[float, float] | None:
        """Return the interval of the difference of a quantile, in bins of histograms.

        Args:
            one: how many are in each bin, by slices of a side.
            other: likewise; the bins are the same.
            part: of 1: which quantile.
        """
        places = []
        for times, bins in zip(self._times, (one, other), strict=True):
            # In single precision, which counts to 16 million: an interval needs no more.
            running = times.astype(np.float32) @ np.cumsum(bins, axis=1).astype(np.float32)
            total = running[:, -1:]
            place = (running < part * total).sum(axis=1).astype(np.float64)
            place[total[:, 0] == 0] = np.nan
            places.append(place)
        return _interval(places[1] - places[0])


def _interval(values: Floats) -> tuple[float, float] | None:
    """Return the interval of what could be had of most draws."""
    known = values[~np.isnan(values)]
    if len(known) < RESAMPLES // 2:
        return None
    low, high = np.percentile(known, _INTERVAL)
    return float(low), float(high)
