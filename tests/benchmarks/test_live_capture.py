from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.live_capture import Flood, measure

if TYPE_CHECKING:
    from tests.support.netns import Namespace


@pytest.mark.parametrize("by_messages", [False, True])
def test_sent_packets_are_read_or_dropped(namespace: Namespace, by_messages: bool) -> None:
    """The namespace is not used: without the right to make one, this test is not selected."""
    measured = measure(Flood(0.3, 5000, 1514), by_messages=by_messages)
    assert measured.sent >= measured.arrived > 0
    assert measured.received == measured.arrived
    assert measured.read + measured.dropped == measured.received
    assert measured.batches >= 1
    assert measured.seconds >= 0
