from __future__ import annotations

import pytest

from kanalyze.errors import CaptureError
from kanalyze.live.feed.filtered_feed import FilteredFeed
from kanalyze.live.run import LiveSource
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.net.endpoint_filter import EndpointFilter
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
        self.waited_s = []

    @property
    def is_at_end(self) -> bool:
        return not self._batches

    def read(self, timeout_s: float):
        self.waited_s.append(timeout_s)
        if not self._batches:
            return None
        batch = self._batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch


def filtered(*batches) -> tuple[FilteredFeed, Feed]:
    feed = Feed(*batches)
    return FilteredFeed(feed, EndpointFilter([9092], [])), feed


def test_selected_packets_keep_all_their_columns():
    batch = packets(22, 9092, 443, 9092, first_number=101)
    feed, _ = filtered(batch)
    selected = feed.read(0.2)
    assert selected.number.tolist() == [102, 104]
    assert selected.buffer is batch.buffer
    for name in ("time_ns", "offset", "captured_bytes", "wire_bytes", "link_type"):
        assert getattr(selected, name).tolist() == getattr(batch, name)[1::2].tolist()


def test_a_batch_of_only_selected_packets_is_not_copied():
    batch = packets(9092, 9092)
    assert filtered(batch)[0].read(0.2) is batch


def test_a_batch_without_selected_packets_returns_none_without_waiting_again():
    feed, inner = filtered(packets(22, 443), None, packets(9092))
    assert feed.read(0.2) is None
    assert inner.waited_s == [0.2]
    assert feed.read(0.1) is None
    assert len(feed.read(0.1)) == 1
    assert inner.waited_s == [0.2, 0.1, 0.1]


def test_a_batch_without_selected_packets_does_not_end_a_capture():
    batches = [packets(22), packets(9092, first_number=2), packets(443, first_number=3)]
    feed, _ = filtered(*batches)
    ticks = []
    source = LiveSource(feed, "-", lambda packets: ticks.append(packets) or True)
    assert [batch.number.tolist() for batch in source.batches()] == [[2]]
    assert [packets is None for packets in ticks] == [True, False, True, True]
    assert [anomaly.kind for anomaly in source.anomalies] == [AnomalyKind.CAPTURE_TRUNCATED]


def test_other_attributes_are_those_of_the_inner_feed():
    feed, inner = filtered(packets(22))
    assert feed.dropped_packets == 7
    assert feed.anomalies is inner.anomalies
    assert not feed.is_at_end
    feed.read(0.2)
    assert feed.is_at_end
    inner.dropped_packets = None
    assert feed.dropped_packets is None


def test_an_error_of_the_feed_is_passed_on():
    feed, _ = filtered(CaptureError("eth0: no right to capture"))
    with pytest.raises(CaptureError, match="no right"):
        feed.read(0.2)
