from __future__ import annotations

from kanalyze.live.window.snapshot import Amounts
from tests.live.snapshots import nothing


def test_rates_are_amounts_per_second_of_the_window():
    snapshot = nothing()._replace(window_ns=2_500_000_000)
    assert snapshot.per_second(10) == 4


def test_the_error_share_is_that_of_all_requests():
    assert nothing().error_share == 0
    assert nothing()._replace(traffic=Amounts(8, 2, 0, 0)).error_share == 0.25


def test_requests_whose_response_was_not_read_have_no_part_in_the_error_share():
    assert nothing()._replace(traffic=Amounts(8, 2, 0, 0, 4)).error_share == 0.5
    assert nothing()._replace(traffic=Amounts(8, 0, 0, 0, 8)).error_share is None
