from __future__ import annotations

import pytest

from kanalyze.errors import CaptureError
from kanalyze.live.run import LiveSource
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.net.headers import EndpointFilter
from tests.support.packets import make_batch, segment, timed


def packets(*ports: int, first_number: int = 1):
    segments = [segment(broker=("10.0.0.2", port), payload=bytes([port & 0xFF])) for port in ports]
    return make_batch(timed(segments), first_number)


class Feed:
    """A feed that returns the given batches, one at each read."""

    def __init__(self, *batches) -> None:
        self._batches = list(batches)
        self.dropped_packets = 7
        self.about = None
        self.anomalies = [Anomaly(AnomalyKind.CAPTURE_TRUNCATED)]

    @property
    def is_at_end(self) -> bool:
        return not self._batches

    def read(self, timeout_s: float):
        if not self._batches:
            return None
        batch = self._batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch


def filtered(*batches):
    """Return what an analysis reads, and what each tick has."""
    ticks = []
    source = LiveSource(
        Feed(*batches),
        "-",
        lambda packets: ticks.append(packets) or True,
        filters=[EndpointFilter([9092, 443], []), EndpointFilter([9092], [])],
    )
    return list(source.batches()), ticks, source


def test_packets_that_all_filters_select_keep_all_their_columns():
    batch = packets(22, 9092, 443, 9092, first_number=101)
    (selected,), _, _ = filtered(batch)
    assert selected.number.tolist() == [102, 104]
    assert selected.buffer is batch.buffer
    for name in ("time_ns", "offset", "captured_bytes", "wire_bytes", "link_type"):
        assert getattr(selected, name).tolist() == getattr(batch, name)[1::2].tolist()


def test_a_batch_of_only_selected_packets_is_not_copied():
    batch = packets(9092, 9092)
    assert filtered(batch)[0][0] is batch


def test_a_batch_without_selected_packets_does_not_end_a_capture():
    batches = [packets(22), packets(9092, first_number=2), None, packets(443, first_number=3)]
    selected, ticks, source = filtered(*batches)
    assert [batch.number.tolist() for batch in selected] == [[2]]
    assert [packets is None for packets in ticks] == [True, False, True, True, True]
    assert [anomaly.kind for anomaly in source.anomalies] == [AnomalyKind.CAPTURE_TRUNCATED]
    assert source.dropped_packets == 7


def test_an_error_of_the_feed_is_passed_on():
    with pytest.raises(CaptureError, match="no right"):
        filtered(CaptureError("eth0: no right to capture"))
