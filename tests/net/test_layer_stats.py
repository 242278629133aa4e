from __future__ import annotations

from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.net.layer_stats import (
    MAX_ANOMALIES_PER_KIND,
    MAX_OTHER_NAMES,
    LayerStats,
    NetCounters,
)


def test_merging_adds_every_counter():
    one, two = NetCounters(), NetCounters()
    counters = [name for name, value in vars(one).items() if isinstance(value, int)]
    assert len(counters) > 12
    for i, name in enumerate(counters):
        setattr(one, name, i + 1)
        setattr(two, name, 1000)
    one.unknown_link_type = {7: 1, 8: 2}
    two.unknown_link_type = {8: 3, 9: 4}
    two.anomalies = {AnomalyKind.LOST_BYTES: 5}
    one.other_packets = {"ARP": 1, "UDP": 2}
    two.other_packets = {"UDP": 3, "ESP": 4}
    one.tunnels, two.tunnels = {"GRE": 1}, {"GRE": 2, "VXLAN": 3}
    one.merge(two)
    assert one.other_packets == {"ARP": 1, "UDP": 5, "ESP": 4}
    assert one.tunnels == {"GRE": 3, "VXLAN": 3}
    for i, name in enumerate(counters):
        assert getattr(one, name) == i + 1001
    assert one.unknown_link_type == {7: 1, 8: 5, 9: 4}
    assert one.anomalies == {AnomalyKind.LOST_BYTES: 5}


def test_names_of_other_packets_are_bounded_in_sums_too():
    one, two = NetCounters(), NetCounters()
    for i in range(MAX_OTHER_NAMES):
        one.count_other(f"one {i}", 1)
        two.count_other(f"two {i}", 2)
    one.count_other("one more", 5)
    one.merge(two)
    assert len(one.other_packets) == MAX_OTHER_NAMES + 1
    assert one.other_packets["other"] == 5 + 2 * MAX_OTHER_NAMES


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
