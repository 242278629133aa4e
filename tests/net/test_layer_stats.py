from __future__ import annotations

from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.net.layer_stats import (
    MAX_ANOMALIES_PER_KIND,
    MAX_OTHER_NAMES,
    LayerStats,
    NetCounters,
)


def test_names_of_other_packets_are_bounded():
    one = NetCounters()
    for i in range(2 * MAX_OTHER_NAMES):
        one.count_other(f"name {i}", 2)
    assert len(one.other_packets) == MAX_OTHER_NAMES + 1
    assert one.other_packets["other"] == 2 * MAX_OTHER_NAMES


def test_anomalies_are_kept_up_to_a_bound_and_taken_once():
    stats = LayerStats()
    for i in range(MAX_ANOMALIES_PER_KIND + 5):
        stats.add(Anomaly(AnomalyKind.LOST_BYTES, length=i))
    stats.add(Anomaly(AnomalyKind.BAD_IP_HEADER))
    taken = stats.drain_anomalies()
    assert [a.length for a in taken[:-1]] == list(range(MAX_ANOMALIES_PER_KIND))
    assert taken[-1].kind == AnomalyKind.BAD_IP_HEADER
    assert stats.drain_anomalies() == []
    stats.add(Anomaly(AnomalyKind.LOST_BYTES))
    assert len(stats.drain_anomalies()) == 1
    assert stats.counters.anomalies == {
        AnomalyKind.LOST_BYTES: MAX_ANOMALIES_PER_KIND + 6,
        AnomalyKind.BAD_IP_HEADER: 1,
    }
