"""Idle connections are recognized, by a clock that may jump."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.net.tcp.idle_timer import IdleTimer

IDLE_NS = 1_000
TIMES = st.integers(-(10**18), 10**18)


def timer_after(*times_ns: int) -> IdleTimer:
    idle_timer = IdleTimer(IDLE_NS)
    for time_ns in times_ns:
        idle_timer.advance_to(time_ns)
    return idle_timer


def test_a_connection_seen_just_now_is_not_idle():
    idle_timer = timer_after(0, 100, 200)
    assert not idle_timer.is_idle(idle_timer.tick)


@pytest.mark.parametrize(("until_ns", "is_idle"), [(1_000, False), (1_250, True), (9_000, True)])
def test_a_connection_not_seen_for_the_idle_time_is_idle(until_ns, is_idle):
    idle_timer = timer_after(0)
    active_tick = idle_timer.tick
    for time_ns in range(0, until_ns + 1, 10):
        idle_timer.advance_to(time_ns)
    assert idle_timer.is_idle(active_tick) is is_idle


@pytest.mark.parametrize("jump_ns", [365 * 86400 * 10**9, -365 * 86400 * 10**9, 10 * IDLE_NS])
def test_a_clock_that_jumps_makes_no_connection_idle(jump_ns):
    idle_timer = timer_after(0, 100)
    active_tick = idle_timer.tick
    for time_ns in range(jump_ns, jump_ns + 500, 10):
        idle_timer.advance_to(time_ns)
    assert not idle_timer.is_idle(active_tick)


def test_after_a_jump_time_passes_as_before():
    idle_timer = timer_after(0, -(10**15))
    active_tick = idle_timer.tick
    for time_ns in range(-(10**15), -(10**15) + 2 * IDLE_NS, 10):
        idle_timer.advance_to(time_ns)
    assert idle_timer.is_idle(active_tick)


@given(st.lists(TIMES, max_size=50))
def test_every_tick_is_reported(times_ns):
    idle_timer = IdleTimer(IDLE_NS)
    ticks = sum(idle_timer.advance_to(time_ns) for time_ns in times_ns)
    assert ticks == idle_timer.tick
