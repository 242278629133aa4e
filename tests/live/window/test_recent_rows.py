from __future__ import annotations

import numpy as np
import pytest

from kanalyze.live.window import windows as windows_module
from kanalyze.live.window.row_measures import RowChoice
from kanalyze.live.window.windows import RecentRows
from kanalyze.tables.columns.block import RowBlock
from tests.support.rows import START_NS, row

ALL_ROWS = RowChoice()
SECOND_NS = 1_000_000_000


def block(*numbers: int, **columns) -> RowBlock:
    """Return rows with these packet numbers, a second apart. Later rows have lower latencies."""
    return RowBlock.of_rows(
        [
            row(
                request_packet=number,
                request_start_ns=START_NS + number * SECOND_NS,
                response_start_ns=START_NS + number * SECOND_NS,
                latency_ns=1000 - number,
                **columns,
            )
            for number in numbers
        ]
    )


def packets_found(
    kept: RecentRows, choice=ALL_ROWS, *, since=0, most=100, slowest=False
) -> list[int]:
    rows, count = kept.find(choice, since_ns=since, most=most, slowest=slowest)
    assert count >= len(rows)
    return [item.request_packet for item in rows]


def filled() -> RecentRows:
    kept = RecentRows(60, SECOND_NS)
    kept.begin()
    for step, numbers in enumerate([(1, 2), (5, 3), (4,)]):
        kept.add(step, block(*numbers, client_id=f"c{step}"))
    return kept


def test_the_latest_or_the_slowest_come_first():
    assert packets_found(filled()) == [5, 4, 3, 2, 1]
    assert packets_found(filled(), slowest=True) == [1, 2, 3, 4, 5]
    assert packets_found(filled(), slowest=True, most=2) == [1, 2]
    assert packets_found(filled(), most=2) == [5, 4]
    assert filled().find(ALL_ROWS, since_ns=0, most=2, slowest=True)[1] == 5


def test_rows_are_selected_by_condition_and_by_time():
    assert packets_found(filled(), RowChoice({"client_id": "c1"})) == [5, 3]
    assert packets_found(filled(), since=START_NS + 3 * SECOND_NS) == [5, 4, 3]


def test_a_request_without_a_latency_is_sorted_last():
    kept = RecentRows(60, SECOND_NS)
    kept.add(1, RowBlock.of_rows([row(latency_ns=None, request_packet=7), row(request_packet=8)]))
    assert packets_found(kept, slowest=True) == [8, 7]


def test_rows_of_old_steps_are_dropped():
    kept = RecentRows(2, SECOND_NS)
    kept.begin()
    for step in range(5):
        kept.add(step, block(step))
    assert packets_found(kept) == [4, 3]
    assert kept.first_step == 3


@pytest.mark.parametrize(("name", "limit"), [("MAX_ROWS", 5), ("MAX_BYTES", 40_000)])
def test_memory_is_bounded(monkeypatch, name, limit):
    monkeypatch.setattr(windows_module, name, limit)
    kept = RecentRows(60, SECOND_NS)
    kept.begin()
    for number in range(50):
        kept.add(number, block(number, client_id=f"{number}" + "x" * 5000))
    assert packets_found(kept)[0] == 49
    assert 1 < len(packets_found(kept)) < 10
    assert kept.first_step > 40
    # The latest block is kept, however large it is.
    kept.add(51, block(*range(100), client_id="y" * 50_000))
    assert len(packets_found(kept)) == 100


def test_blocks_after_a_number_are_returned():
    kept = filled()
    serials = [kept_block.serial for kept_block in kept.after(0)]
    assert [kept_block.step for kept_block in kept.after(serials[1])] == [2]
    kept.begin()
    assert (list(kept.after(0)), kept.begun, kept.first_step) == ([], 2, 0)


def test_rows_may_be_chosen_by_any_function():
    assert packets_found(filled(), lambda block: np.arange(len(block)) == 1) == [3, 2]
