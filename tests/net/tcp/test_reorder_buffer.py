from __future__ import annotations

import pytest

from kanalyze.common.saved import load, save
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.delivery import Segment
from kanalyze.net.tcp.limits import ReassemblyLimits
from kanalyze.net.tcp.reorder_buffer import ReorderBuffer
from kanalyze.net.tcp.stream_anomalies import StreamAnomalies

LIMITS = ReassemblyLimits(
    buffered_bytes_per_direction=20,
    buffered_segments_per_direction=3,
    acknowledged_hole_segments=2,
    acknowledged_hole_ns=50,
    hole_ns=1000,
)
DATA = bytes(range(100))


class Filled:
    """A buffer of a stream that begins at 0, and the anomalies that it reported."""

    def __init__(self) -> None:
        ends = (Endpoint("a", 1), Endpoint("b", 2))
        self.stats = LayerStats()
        self.anomalies = StreamAnomalies(TcpConnection(1, ends, 1, 0, 0, 0), 0, self.stats)
        self.buffer = ReorderBuffer(LIMITS)

    def insert(self, begin: int, end: int, data: bytes = DATA, time_ns: int = 0) -> int:
        source = memoryview(data[begin:end])
        piece = Segment(0, 0, 0, 0, end - begin, len(source), time_ns, 1, 0, 0)
        return self.buffer.insert(piece, begin, 0, source, self.anomalies)

    @property
    def pieces(self) -> list[tuple[int, bytes]]:
        return [(piece.stream_offset, piece.data) for piece in self.buffer.segments]


def test_bytes_are_buffered_once_and_in_order():
    filled = Filled()
    assert [filled.insert(*ends) for ends in ((30, 34), (10, 14), (12, 32))] == [0, 0, 4]
    assert filled.pieces == [(10, DATA[10:14]), (14, DATA[14:30]), (30, DATA[30:34])]
    assert filled.buffer.payload_bytes == 24
    assert filled.buffer.exceeds_limits()
    assert filled.stats.drain_anomalies() == []


def test_other_bytes_in_the_same_place_are_reported():
    filled = Filled()
    filled.insert(10, 20)
    filled.insert(15, 25, bytes(100))
    (anomaly,) = filled.stats.drain_anomalies()
    kind = AnomalyKind.INCONSISTENT_RETRANSMISSION
    assert (anomaly.kind, anomaly.stream_offset, anomaly.length) == (kind, 15, 5)


def test_contiguous_segments_leave_up_to_the_next_hole():
    filled = Filled()
    for ends in ((10, 14), (14, 16), (20, 22)):
        filled.insert(*ends)
    assert filled.buffer.pop_contiguous(9, 5) == []
    assert [piece.stream_offset for piece in filled.buffer.pop_contiguous(10, 5)] == [10, 14]
    assert (filled.pieces, filled.buffer.payload_bytes) == ([(20, DATA[20:22])], 2)
    assert filled.buffer.hole_since_ns == 5


def test_a_hole_is_overdue_by_age_or_soon_after_its_acknowledgment():
    filled = Filled()
    assert not filled.buffer.is_overdue(10**9)
    filled.insert(10, 14)
    assert [filled.buffer.is_overdue(now_ns) for now_ns in (1000, 1001)] == [False, True]
    assert not filled.buffer.count_segment()
    filled.buffer.acknowledge(14, 100)
    assert [filled.buffer.is_overdue(now_ns) for now_ns in (150, 151)] == [False, True]
    assert [filled.buffer.count_segment() for _ in range(2)] == [False, True]


def test_a_state_is_loaded_and_one_that_overlaps_is_refused():
    filled, loaded = Filled(), Filled()
    filled.insert(10, 14)
    filled.insert(20, 24)
    state = save(filled.buffer)
    load(loaded.buffer, state)
    assert (loaded.pieces, loaded.buffer.payload_bytes) == (filled.pieces, 8)
    with pytest.raises(ValueError, match="overlap"):
        load(Filled().buffer, (*state[:-1], 2 * state[-1]))
