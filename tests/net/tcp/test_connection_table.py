from __future__ import annotations

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.segments import Segments
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.shard import Shard
from kanalyze.net.tcp.connection_table import ConnectionTable
from kanalyze.net.tcp.delivery import Segment
from kanalyze.net.tcp.limits import ReassemblyLimits
from tests.support.packets import ACK, SYN

NONE = Segments(memoryview(b""), [], [], [], [], [])
LIMITS = ReassemblyLimits(connections=4, half_open=4, idle_ns=1000)


def pair(port: int) -> tuple[int, int]:
    return (0x0A000001_0000 | port, 0x0A000002_2384)


def first(packet: int, flags: int = ACK) -> Segment:
    return Segment(10, 0, flags, 0, 0, 0, packet, packet, 0, 0)


def new_table(shard: Shard) -> tuple[ConnectionTable, LayerStats]:
    stats = LayerStats()
    return ConnectionTable(LIMITS, stats, shard, None), stats


def test_serials_follow_the_packets_in_steps_of_the_number_of_shards():
    table, _ = new_table(Shard(1, 3))
    late, early = table.begin(pair(1), first(9)), table.begin(pair(2), first(5))
    table.assign_serials()
    assert (early.tcp.serial, late.tcp.serial) == (2, 5)


def test_a_promoted_connection_keeps_its_serial():
    table, _ = new_table(Shard(0, 1))
    table.begin_half_open(pair(1), first(1, SYN))
    table.assign_serials()
    promoted = table.promote(pair(1), NONE)
    assert promoted is not None
    assert (promoted.tcp.serial, promoted.tcp.opened_by) == (1, 0)
    assert (list(table.open), table.half_open) == ([pair(1)], {})
    assert table.promote(pair(2), NONE) is None


def test_connections_beyond_the_limit_are_closed_the_longest_silent_first():
    table, stats = new_table(Shard(0, 1))
    for port in range(5):
        table.begin(pair(port), first(port + 1))
        table.begin_half_open(pair(10 + port), first(port + 1, SYN))
    updates = table.close_excess(NONE)
    assert [update.connection.first_packet for update in updates] == [1, 2, 1, 2]
    assert {update.connection.end for update in updates} == {"limit"}
    kinds = [anomaly.kind for anomaly in stats.drain_anomalies()]
    assert kinds == [AnomalyKind.CONNECTION_LIMIT] * 4


def test_silent_connections_are_closed_and_active_ones_are_not():
    table, _ = new_table(Shard(0, 1))
    active, silent = table.begin(pair(1), first(1)), table.begin(pair(2), first(1))
    closed = [
        update.connection
        for step in range(8)
        for update in table.close_idle([active], step * 250, NONE)
    ]
    assert closed == [silent.tcp]
    assert silent.tcp.end == "idle"


def test_a_closed_connection_is_followed_by_one_with_the_next_number():
    table, stats = new_table(Shard(0, 1))
    begun = table.begin(pair(1), first(1))
    update = table.close(begun, NONE, "reset", 7)
    assert (update.closed_packet, table.open) == (7, {})
    assert table.is_late(pair(1), first(2))
    assert stats.counters.late_packets == 1
    assert table.begin(pair(1), first(3)).tcp.connection_number == 2
