from __future__ import annotations

from kanalyze.live.window.step_sums import Amounts
from tests.live.snapshots import nothing


def test_amounts_are_made_rates_of_the_window():
    snapshot = nothing()._replace(window_ns=2_500_000_000)
    assert snapshot.per_second(10) == 4


def test_the_share_of_errors():
    assert nothing().error_share == 0
    assert nothing()._replace(traffic=Amounts(8, 2, 0, 0)).error_share == 0.25
