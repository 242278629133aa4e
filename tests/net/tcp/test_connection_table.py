from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.segment_columns import Shard
from kanalyze.net.tcp.connection_table import ConnectionTable, IdleTimer
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.segment_iterator import new_segment
from tests.support.packets import ACK, RST, SYN, reassemble, segment, timed


def test_serials_follow_the_packets_in_steps_of_the_number_of_shards():
    table = ConnectionTable(ReassemblyLimits(), LayerStats(), Shard(1, 3), None)
    late, early = (
        table.begin((port, port + 1), new_segment(10, 0, ACK, 0, 0, 0, packet, packet, 0, 0))
        for port, packet in ((1, 9), (2, 5))
    )
    table.assign_serials()
    assert (early.tcp.serial, late.tcp.serial) == (2, 5)


def test_the_oldest_closed_connections_are_forgotten():
    clients = [("10.0.0.1", port) for port in (1, 2, 3, 1, 3)]
    packets = [
        segment(flags=flags, seq=1000 * number + (flags == RST), client=client)
        for number, client in enumerate(clients)
        for flags in (SYN, RST)
    ]
    done = reassemble(timed(packets), 2, ReassemblyLimits(time_wait_pairs=2))
    numbers = [connection.connection_number for connection in done.connections]
    assert numbers == [1, 1, 1, 1, 2]


IDLE_NS = 1_000
TIMES = st.integers(-(10**18), 10**18)


def timer_after(*times_ns: int) -> IdleTimer:
    idle_timer = IdleTimer(IDLE_NS)
    for time_ns in times_ns:
        idle_timer.advance_to(time_ns)
    return idle_timer


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
