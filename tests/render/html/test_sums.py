"""The sums of the page: quantiles of its bins, and the kind of an API."""

from __future__ import annotations

import pytest

from kanalyze.queries.page import BIN_RATIO
from kanalyze.render.html.sums import Sum, bin_position, kind_of
from tests.queries.test_page import bin_of


def test_the_others_have_no_kind() -> None:
    model = {"names": {"api": [{"kind": "produce"}, {"kind": ""}]}}
    assert [kind_of(model, api) for api in (0, 1, -1)] == ["produce", "", ""]


@pytest.mark.parametrize(
    ("latencies_ns", "p50_ns", "p99_ns"),
    [
        ([5_000, 1_000, 100_000], 5_000, 100_000),
        ([-10_000, -10_000, 5_000, 1_000], -10_000, 5_000),
        ([-(2**62), -7, -5_000], -5_000, -7),
        ([-(2**62), 2**62], -(2**62), 2**62),
    ],
)
def test_quantiles_of_a_selection_may_be_negative(
    latencies_ns: list[int], p50_ns: int, p99_ns: int
) -> None:
    figures = Sum(())
    figures.bins.update(map(bin_of, latencies_ns))
    figures.most_ns = max(latencies_ns)
    quantiles = figures.quantiles(BIN_RATIO)
    assert quantiles["p50"] == pytest.approx(p50_ns, 0.05)
    assert quantiles["p99"] == pytest.approx(p99_ns, 0.05)
    assert quantiles["max"] == max(latencies_ns)


def test_a_bin_is_between_its_position_and_the_next() -> None:
    for latency_ns in (-(2**62), -10_000, -1, 0, 1, 7, 2**62):
        first = bin_of(latency_ns)
        assert first <= bin_position(latency_ns, BIN_RATIO) <= first + 1
