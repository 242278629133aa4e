from __future__ import annotations

from dataclasses import fields

from kanalyze.net.limits import ReassemblyLimits


def test_all_limits_have_a_bound_above_0_unless_told_otherwise():
    limits = ReassemblyLimits()
    assert all(getattr(limits, column.name) > 0 for column in fields(limits))


def test_all_directions_together_may_hold_more_than_one():
    limits = ReassemblyLimits()
    assert limits.held_bytes > 2 * limits.held_bytes_per_direction
