from __future__ import annotations

import pytest

from kanalyze.net.tcp.limits import ReassemblyLimits


def test_all_limits_have_a_bound_above_0_unless_set_otherwise():
    limits = ReassemblyLimits()
    assert limits.idle_ns is None  # a capture ends
    assert all(limit > 0 for limit in limits._replace(idle_ns=1))


def test_all_directions_together_may_buffer_more_than_one():
    limits = ReassemblyLimits()
    assert limits.buffered_bytes > 2 * limits.buffered_bytes_per_direction


@pytest.mark.parametrize("total_bytes", [1 << 20, 16 << 20, 1 << 30, 1 << 36])
def test_limits_are_shares_of_the_memory(total_bytes):
    limits = ReassemblyLimits.of_memory(total_bytes, idle_ns=1)
    assert all(limit > 0 for limit in limits)
    assert limits.buffered_bytes == total_bytes // 2
    assert limits.buffered_bytes > 2 * limits.buffered_bytes_per_direction
    assert limits.buffered_bytes_per_direction <= ReassemblyLimits().buffered_bytes_per_direction
    assert 4000 * limits.connections < total_bytes // 4
    assert limits.timed_segments * 24 < total_bytes // 8


def test_more_memory_allows_more_connections_and_the_same_wait_for_holes():
    small, large = (ReassemblyLimits.of_memory(mebibytes << 20) for mebibytes in (4, 400))
    assert large.connections >= 99 * small.connections
    assert large.time_wait_pairs >= 99 * small.time_wait_pairs
    assert large.hole_ns == small.hole_ns == ReassemblyLimits().hole_ns


def test_a_run_without_end_remembers_fewer_closed_connections():
    capture, endless = (ReassemblyLimits.of_memory(1 << 30, idle_ns) for idle_ns in (None, 1))
    assert endless.time_wait_pairs < capture.time_wait_pairs // 4
    assert endless._replace(idle_ns=None, time_wait_pairs=capture.time_wait_pairs) == capture


@pytest.mark.parametrize("total_bytes", [-1, 0, (1 << 20) - 1])
def test_less_than_a_mebibyte_is_refused(total_bytes):
    with pytest.raises(ValueError, match="too little memory"):
        ReassemblyLimits.of_memory(total_bytes)
