"""The permutation test of comparisons: its false alarms are counted."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kanalyze.queries.compare.chance import PERMUTATIONS, Counts, Resampled, chances, slices_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LEVEL = 0.05


@pytest.mark.parametrize(
    ("seconds", "slices"),
    [
        ((60, 60), (32, 32)),
        ((60, 600), (32, 320)),
        ((600, 60), (320, 32)),
        ((10, 11), (10, 11)),
        ((8, 8), (8, 8)),
        ((7, 100), None),
        ((0, 10), None),
        ((60, 7_000), (8, 933)),
        ((60, 8_000), None),
    ],
)
def test_slices_have_nearly_the_same_length(
    seconds: tuple[int, int], slices: tuple[int, int] | None
) -> None:
    assert slices_of(*seconds) == slices


def counts(failures: list[int], requests: list[int]) -> Counts:
    return Counts(np.array(failures, float), np.array(requests, float))


def test_the_chance_is_the_share_of_permutations_that_differ_as_much() -> None:
    """With 8 slices on each side, plain Python counts all permutations."""
    one = [1, 0, 2, 1, 0, 1, 1, 0]
    other = [1, 3, 2, 1, 4, 0, 3, 1]
    [chance] = chances([lambda: (counts(one, [50] * 8), counts(other, [50] * 8))])
    all_slices = one + other
    difference = sum(other) - sum(one)
    deals = [abs(sum(all_slices) - 2 * sum(deal)) for deal in combinations(all_slices, 8)]
    expected = sum(deal >= difference for deal in deals) / len(deals)
    # The variance of neighbouring slices may only raise the chance, and not by more than this.
    assert expected - 3 * (expected / PERMUTATIONS) ** 0.5 <= chance.alone <= expected * 4
    assert chance.among_all == chance.alone


def test_equal_slices_may_be_chance_and_different_slices_may_not() -> None:
    def same() -> tuple[Counts, Counts]:
        return counts([0] * 16, [10] * 16), counts([0] * 16, [10] * 16)

    def different() -> tuple[Counts, Counts]:
        return counts([0, 1] * 8, [10] * 16), counts([9, 10] * 8, [10] * 16)

    first, second = chances([same, different])
    assert first.alone == first.among_all == 1
    assert second.among_all < 0.01
    assert chances([]) == []


def test_one_burst_is_no_difference() -> None:
    """All 1,000 requests of one slice fail, and no others: independent failures would matter."""
    burst = [0] * 15 + [1000]
    [chance] = chances([lambda: (counts([0] * 16, [1000] * 16), counts(burst, [1000] * 16))])
    assert chance.alone > 0.9


# -- false alarms ---------------------------------------------------------------------------------

Draw = np.random.Generator


def independent(draw: Draw, times: NDArray[Any], seconds: float) -> NDArray[Any]:
    return np.exp(draw.normal(0, 0.7, len(times)))


def bursts(draw: Draw, times: NDArray[Any], seconds: float) -> NDArray[Any]:
    """Sometimes a broker stops for a second or two, and all requests wait until it continues."""
    latencies = independent(draw, times, seconds)
    for begin in draw.random(draw.poisson(0.05 * seconds)) * seconds:
        end = begin + draw.exponential(1.5)
        waiting = (times >= begin) & (times < end)
        latencies[waiting] += 1000 * (end - times[waiting])
    return latencies


def drifting(draw: Draw, times: NDArray[Any], seconds: float) -> NDArray[Any]:
    """The level of latencies drifts from second to second."""
    level = [draw.normal(0, 0.35)]
    for _ in range(int(seconds) + 1):
        level.append(0.5 * level[-1] + draw.normal(0, 0.3))
    return independent(draw, times, seconds) * np.exp(np.array(level)[times.astype(int)])


def connections(draw: Draw, times: NDArray[Any], seconds: float) -> NDArray[Any]:
    """Each twenty requests in a row belong to one connection, which is slow or fast as a whole."""
    many = len(times) // 20 + 1
    return np.exp(
        draw.normal(0, 0.3, len(times)) + np.repeat(draw.normal(0, 1, many), 20)[: len(times)]
    )


def pairs(
    draw: Draw, process: Callable[..., NDArray[Any]], a: tuple[int, int], b: tuple[int, int]
) -> list[Callable[[], tuple[Counts, Counts]]]:
    """Return the samples of 4 APIs whose latencies are alike; a side is ``(requests, seconds)``."""
    slice_counts = slices_of(a[1], b[1])
    assert slice_counts is not None
    samples = []
    for _ in range(4):
        times = [np.sort(draw.random(requests)) * seconds for requests, seconds in (a, b)]
        latencies = [process(draw, t, side[1]) for t, side in zip(times, (a, b), strict=True)]
        slices_of_requests = [
            (t / side[1] * slices).astype(int)
            for t, side, slices in zip(times, (a, b), slice_counts, strict=True)
        ]
        for part in (0.5, 0.9, 0.99):
            limit = quantile_of_both(latencies[0], latencies[1], part)
            one, other = (
                Counts(
                    np.bincount(w, latency > limit, slices),
                    np.bincount(w, minlength=slices).astype(float),
                )
                for w, latency, slices in zip(
                    slices_of_requests, latencies, slice_counts, strict=True
                )
            )
            samples.append(partial(lambda *both: both, one, other))
    return samples


def quantile_of_both(one: NDArray[Any], other: NDArray[Any], part: float) -> float:
    values = np.concatenate([one, other])
    weights = np.repeat([1 / len(one), 1 / len(other)], [len(one), len(other)]) / 2
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), part)])


PROCESSES = (independent, bursts, drifting, connections)
CASES = {
    "the same": ((2000, 60), (2000, 60)),
    "ten times the load": ((2000, 60), (20_000, 60)),
    "ten times as long": ((2000, 60), (20_000, 600)),
    "half as long, thrice the load": ((3000, 30), (2000, 60)),
}


def false_alarms(process: Callable[..., NDArray[Any]], case: str, seeds: int) -> float:
    alarms = 0
    for seed in range(seeds):
        draw = np.random.default_rng(seed)
        chances_found = chances(pairs(draw, process, *CASES[case]), seed)
        alarms += any(chance.among_all <= LEVEL for chance in chances_found)
    return alarms / seeds


@pytest.mark.few(1)
@pytest.mark.parametrize("process", PROCESSES)
def test_false_alarms_are_not_more_frequent_than_stated(
    process: Callable[..., NDArray[Any]],
) -> None:
    """With 20 comparisons of 12 figures each, the rate is known to 4.9 percentage points."""
    assert false_alarms(process, "the same", 20) <= LEVEL + 2.6 * (LEVEL * (1 - LEVEL) / 20) ** 0.5


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("process", PROCESSES)
def test_false_alarms_are_not_more_frequent_under_any_load(
    process: Callable[..., NDArray[Any]], case: str
) -> None:
    """With 200 comparisons, the rate is known to 1.5 percentage points."""
    assert false_alarms(process, case, 200) <= LEVEL + 2.6 * (LEVEL * (1 - LEVEL) / 200) ** 0.5


@pytest.mark.long
def test_intervals_contain_the_true_ratio() -> None:
    """95 % of them contain the true ratio, 1.5; 50 samples tell this to 8 percentage points."""
    base, containing = 1.005, 0
    for seed in range(50):
        draw = np.random.default_rng(seed)
        histograms = []
        for factor in (1.0, 1.5):
            latencies = 5e6 * factor * np.exp(draw.normal(0, 0.5, (32, 60)))
            places = np.floor(np.log(latencies) / np.log(base)).astype(int) - 2700
            places = places.clip(0, 899)
            histograms.append(np.array([np.bincount(line, minlength=900) for line in places]))
        interval = Resampled(32, 32, seed).log_ratio(histograms[0], histograms[1], 0.5)
        assert interval is not None
        containing += base ** interval[0] <= 1.5 <= base ** interval[1]
    assert 0.87 <= containing / 50 <= 1


def test_an_interval_of_shares_contains_the_difference() -> None:
    one, other = counts([1, 2] * 16, [100] * 32), counts([4, 6] * 16, [100] * 32)
    interval = Resampled(32, 32).difference(one, other)
    assert interval is not None
    assert 0.03 < interval[0] < 0.035 < interval[1] < 0.04
