from __future__ import annotations

import pytest

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import Endpoint, TcpConnection, TcpMeasures
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.delivery import DUPLICATE, BufferedSegment, Segment
from kanalyze.net.tcp.stream_anomalies import StreamAnomalies
from tests.support.packets import ACK

AFTER = BufferedSegment(50, 4, b"data", 9, 7)


def new_anomalies(*, measure: bool = True) -> StreamAnomalies:
    ends = (Endpoint("a", 1), Endpoint("b", 2))
    measures = TcpMeasures() if measure else None
    return StreamAnomalies(TcpConnection(1, ends, 1, 0, 0, 0, measures=measures), 1, LayerStats())


def piece(marks: int = 0) -> Segment:
    return Segment(0, 0, ACK, 0, 4, 4, 9, 7, 0, 0, marks)


def test_gaps_and_snapped_bytes_are_counted_separately():
    anomalies = new_anomalies()
    anomalies.lost(40, 10, AFTER)
    anomalies.snapped(60, 100, 30, 9, 7)
    anomalies.snapped(160, 100, 100, 9, 7)
    assert anomalies.connection.lost_bytes == [0, 10]
    assert anomalies.connection.snapped_bytes == [0, 70]
    reported = [(a.kind, a.stream_offset, a.length) for a in anomalies.stats.drain_anomalies()]
    assert reported == [(AnomalyKind.LOST_BYTES, 40, 10), (AnomalyKind.SNAPPED_BYTES, 90, 70)]


def test_snapped_bytes_are_reported_at_first_and_at_the_end():
    anomalies = new_anomalies()
    captured = [100, 30, 100, 100, 30, 0]
    for index in (0, 1, 2):
        anomalies.snapped(1000 + 100 * index, 100, captured[index], 9, index + 1)
    anomalies.end()
    for index in (3, 4, 5):
        anomalies.snapped(1000 + 100 * index, 100, captured[index], 9, index + 1)
    anomalies.snapped(1600, 100, captured[1], 9, 2)
    for _ in range(2):
        anomalies.end()
    assert anomalies.connection.snapped_bytes == [0, 70 + 70 + 100 + 70]
    reported = [
        (a.packet, a.stream_offset, a.length, a.detail) for a in anomalies.stats.drain_anomalies()
    ]
    assert reported == [(2, 1130, 70, ""), (5, 1430, 240, "in 3 more packets")]
    assert anomalies.stats.counters.anomaly_bytes == {AnomalyKind.SNAPPED_BYTES: 310}


def test_an_anomaly_has_its_offset_packet_and_direction():
    anomalies = new_anomalies()
    anomalies.inconsistent(5, 2, piece())
    anomalies.limit(6, 1000, AFTER)
    for kind, offset, length, anomaly in zip(
        (AnomalyKind.INCONSISTENT_RETRANSMISSION, AnomalyKind.REORDER_LIMIT),
        (5, 6),
        (2, 1000),
        anomalies.stats.drain_anomalies(),
        strict=True,
    ):
        assert (anomaly.kind, anomaly.stream_offset, anomaly.length) == (kind, offset, length)
        assert (anomaly.time_ns, anomaly.packet, anomaly.direction) == (9, 7, 1)
        assert anomaly.connection is anomalies.connection


@pytest.mark.parametrize("measure", [True, False])
@pytest.mark.parametrize(
    ("marks", "is_probe", "name"),
    [
        (0, False, "retransmitted"),
        (0, True, "keep_alive"),
        (DUPLICATE, False, "duplicate"),
        (DUPLICATE, True, "duplicate"),
    ],
)
def test_bytes_seen_before_are_counted_by_why_they_come_again(marks, is_probe, name, measure):
    anomalies = new_anomalies(measure=measure)
    tcp = anomalies.connection
    anomalies.repeated(piece(marks), 3, is_probe=is_probe)
    for kind in ("retransmitted", "keep_alive", "duplicate"):
        assert getattr(tcp, f"{kind}_bytes") == [0, 3 if kind == name else 0]
    # Duplicates are counted with all others, of which most hold no payload.
    expected = 0 if name == "duplicate" else 1
    if tcp.measures is not None:
        assert getattr(tcp.measures, f"{name}_packets") == [0, expected]


def test_packets_out_of_order_are_counted():
    anomalies = new_anomalies()
    anomalies.out_of_order()
    assert anomalies.connection.out_of_order_packets == [0, 1]
