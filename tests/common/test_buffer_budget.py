"""The connections that are silent for longest lose their bytes first."""

from __future__ import annotations

from kanalyze.common.buffer_budget import BufferBudget


def test_a_quarter_is_freed_at_once_from_the_longest_silent_connections() -> None:
    budget = BufferBudget(100)
    for serial in range(10):
        budget.note(serial, 10)
    budget.note(0, 10)
    assert list(budget.excess()) == []
    budget.note(10, 5)
    assert list(budget.excess()) == [1, 2, 3]
    assert budget.total == 75
