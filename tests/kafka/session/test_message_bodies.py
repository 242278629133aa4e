"""Bodies that are read within bounds."""

from __future__ import annotations

import struct

from tests.support import kafka as k
from tests.support.kafka import string
from tests.support.talk import Talk


def test_a_body_that_is_too_large_to_read_keeps_its_header_times_and_sizes() -> None:
    talk = Talk()
    topics = struct.pack(">i", 5_000_000) + string("t" * 2) * 5_000_000
    request = k.request(k.METADATA, 0, 1, topics)
    assert len(request) > 16 << 20
    for at in range(0, len(request), 4 << 20):
        talk.client(request[at : at + (4 << 20)])
    talk.client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    (large,) = [exchange for exchange in talk.exchanges if exchange.correlation_id == 1]
    assert large.request is not None
    assert (large.request.length, large.request.values) == (len(request), None)
    assert "memory_limit" in large.anomalies
    assert not large.malformed
    assert (2, 6, 7) in talk.pairs()
