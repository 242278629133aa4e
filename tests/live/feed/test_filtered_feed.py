from __future__ import annotations

import pytest

from kanalyze.errors import CaptureError
from kanalyze.live.feed.filtered_feed import FilteredFeed
from kanalyze.live.run import LiveSource
from kanalyze.model.anomalies import Anomaly, AnomalyKind
from kanalyze.net.endpoint_filter import EndpointFilter
from tests.support.packets import make_batch, segment, timed


def packets(*ports: int, first_number: int = 1):
    made = [segment(broker=("10.0.0.2", port), payload=bytes([port & 0xFF])) for port in ports]
    return make_batch(timed(made), first_number)


class Feed:
    """A feed that returns the given batches, one per read."""

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


def test_packets_that_are_left_keep_their_numbers_and_everything_else():
    batch = packets(22, 9092, 443, 9092, first_number=101)
    feed, _ = filtered(batch)
    found = feed.read(0.2)
    assert found.number.tolist() == [102, 104]
    assert found.buffer is batch.buffer
    for name in ("time_ns", "offset", "captured_bytes", "wire_bytes", "link_type"):
        assert getattr(found, name).tolist() == getattr(batch, name)[1::2].tolist()


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
    turns = []
    source = LiveSource(feed, "-", lambda packets: turns.append(packets) or True)
    assert [batch.number.tolist() for batch in source.batches()] == [[2]]
    assert [packets is None for packets in turns] == [True, False, True, True]
    assert [anomaly.kind for anomaly in source.anomalies] == [AnomalyKind.CAPTURE_TRUNCATED]


def test_other_attributes_are_those_of_the_feed():
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
