from __future__ import annotations

import pytest

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import Endpoint, TcpConnection, TcpMeasures
from kanalyze.net.layer_stats import Notes
from kanalyze.net.tcp.delivery import DUPLICATE, Held, Segment
from kanalyze.net.tcp.stream_anomalies import Findings
from tests.support.packets import ACK

AFTER = Held(50, 4, b"data", 9, 7)


def new_findings(*, measure: bool = True) -> Findings:
    ends = (Endpoint("a", 1), Endpoint("b", 2))
    measures = TcpMeasures() if measure else None
    return Findings(TcpConnection(1, ends, 1, 0, 0, 0, measures=measures), 1, Notes())


def piece(marks: int = 0) -> Segment:
    return Segment(0, 0, ACK, 0, 4, 4, 9, 7, 0, 0, marks)


def test_gaps_and_what_a_snap_length_cut_off_are_counted_apart():
    findings = new_findings()
    findings.lost(40, 10, AFTER)
    findings.snapped(60, 100, 30, 9, 7)
    findings.snapped(160, 100, 100, 9, 7)
    assert findings.connection.lost_bytes == [0, 10]
    assert findings.connection.snapped_bytes == [0, 70]
    told = [(a.kind, a.stream_offset, a.length) for a in findings.notes.take()]
    assert told == [(AnomalyKind.LOST_BYTES, 40, 10), (AnomalyKind.SNAPPED_BYTES, 90, 70)]


def test_what_a_snap_length_cut_off_is_told_at_first_and_at_the_end():
    findings = new_findings()
    captured = [100, 30, 100, 100, 30, 0]
    for place in (0, 1, 2):
        findings.snapped(1000 + 100 * place, 100, captured[place], 9, place + 1)
    findings.end()
    for place in (3, 4, 5):
        findings.snapped(1000 + 100 * place, 100, captured[place], 9, place + 1)
    findings.snapped(1600, 100, captured[1], 9, 2)
    for _ in range(2):
        findings.end()
    assert findings.connection.snapped_bytes == [0, 70 + 70 + 100 + 70]
    told = [(a.packet, a.stream_offset, a.length, a.detail) for a in findings.notes.take()]
    assert told == [(2, 1130, 70, ""), (5, 1430, 240, "in 3 more packets")]
    assert findings.notes.counters.anomaly_bytes == {AnomalyKind.SNAPPED_BYTES: 310}


def test_what_is_told_has_its_place():
    findings = new_findings()
    findings.inconsistent(5, 2, piece())
    findings.limit(6, 1000, AFTER)
    for kind, offset, length, anomaly in zip(
        (AnomalyKind.INCONSISTENT_RETRANSMISSION, AnomalyKind.REORDER_LIMIT),
        (5, 6),
        (2, 1000),
        findings.notes.take(),
        strict=True,
    ):
        assert (anomaly.kind, anomaly.stream_offset, anomaly.length) == (kind, offset, length)
        assert (anomaly.time_ns, anomaly.packet, anomaly.direction) == (9, 7, 1)
        assert anomaly.connection is findings.connection


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
    findings = new_findings(measure=measure)
    tcp = findings.connection
    findings.repeated(piece(marks), 3, is_probe=is_probe)
    for kind in ("retransmitted", "keep_alive", "duplicate"):
        assert getattr(tcp, f"{kind}_bytes") == [0, 3 if kind == name else 0]
    # Duplicates are counted with all others, of which most hold no payload.
    expected = 0 if name == "duplicate" else 1
    if tcp.measures is not None:
        assert getattr(tcp.measures, f"{name}_packets") == [0, expected]


def test_packets_out_of_order_are_counted():
    findings = new_findings()
    findings.out_of_order()
    assert findings.connection.out_of_order_packets == [0, 1]
