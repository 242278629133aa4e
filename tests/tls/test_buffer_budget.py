"""The buffered bytes of all connections with TLS are bounded, whatever they send."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.streams import Chunk, Gap, Segments, StreamUpdate
from kanalyze.model.tcp import Endpoint, TcpConnection
from kanalyze.tls.streams import DecryptedBatch, DecryptedStreams
from tests.support import tls_made as made
from tests.support.tls_talk import log_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kanalyze.model.streams import StreamItem

MAX_BYTES = 4 << 20
FLOOD = 1500
CONTENTS = [(0, b"request"), (1, b"response"), (0, b"again"), (1, b"the last")]
WHOLE = made.conversation(made.SUITE_13, CONTENTS).parts
HELLO = made.client_hello()
LONG_MESSAGE = made.record(22, made.message(11, bytes(200_000))[:16_000])
HALF_RECORD = b"\x17\x03\x03\x40\x00" + bytes(16_000)


class Peer:
    """A connection with chosen data from its ends."""

    def __init__(self, serial: int) -> None:
        ends = (Endpoint("10.0.0.1", serial % 60_000), Endpoint("10.0.0.2", 9092))
        self.tcp = TcpConnection(serial, ends, 1, 0, 0, 0, 1, (True, True))
        self._offsets = [0, 0]

    def sends(self, *parts: tuple[int, bytes], closed: bool = False) -> StreamUpdate:
        items: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        for side, data in parts:
            segments = Segments(memoryview(data), [0], [len(data)], [len(data)], [1], [1])
            items[side].append(Chunk(self._offsets[side], segments, 0, 1))
            self._offsets[side] += len(data)
        return StreamUpdate(self.tcp, items, closed)


def streams() -> DecryptedStreams:
    return DecryptedStreams(log_with(made.KEYS), MAX_BYTES)


def plaintext_of(batch: DecryptedBatch) -> list[bytes]:
    """The plaintext, or the bytes that pass unchanged."""
    items = [item for update in batch.updates for each in update.items for item in each]
    return [bytes(item.segments.buffer) for item in items if isinstance(item, Chunk)]


def peers(count: int) -> Iterator[Peer]:
    return map(Peer, range(1, count + 1))


def test_a_flood_of_hellos_frees_the_buffers_of_other_hellos() -> None:
    under_test, passed_on = streams(), 0
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for peer in peers(FLOOD):
            passed_on += len(plaintext_of(under_test.feed([peer.sends((0, HELLO))])))
            assert under_test.buffered_bytes <= MAX_BYTES
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The rest is the state of each connection: its endpoints, and whether it passes.
    assert after - before < MAX_BYTES + FLOOD * 400
    assert FLOOD - 500 < passed_on < FLOOD
    assert plaintext_of(under_test.feed([Peer(6000).sends(*WHOLE)])) == [
        b"requestagain",
        b"responsethe last",
    ]


def test_an_endless_handshake_buffers_no_more_than_a_message() -> None:
    under_test, peer = streams(), Peer(1)
    given, passed_on = HELLO, plaintext_of(under_test.feed([peer.sends((0, HELLO))]))
    for _ in range(100):
        passed_on += plaintext_of(under_test.feed([peer.sends((0, LONG_MESSAGE))]))
        given += LONG_MESSAGE
        assert under_test.buffered_bytes < 1 << 20
    assert b"".join(passed_on) == given


def test_incomplete_records_end_the_connections_that_sent_them() -> None:
    under_test, anomalies, ends = streams(), [], []
    busy = Peer(100_000)
    assert plaintext_of(under_test.feed([busy.sends(*WHOLE[:-4])])) == [b"request", b"response"]
    silent = list(peers(500))
    for peer in silent:
        updates, found = under_test.feed([peer.sends(*WHOLE[:-4], (0, HALF_RECORD)), busy.sends()])
        assert under_test.buffered_bytes <= MAX_BYTES
        anomalies += found
        ends += [update for update in updates if update.connection in [a.connection for a in found]]
    assert {each.kind for each in anomalies} == {AnomalyKind.MEMORY_LIMIT}
    assert len(anomalies) == len(ends) > 300
    assert silent[0].tcp in [each.connection for each in anomalies]
    for update in ends:
        assert [type(items[-1]) for items in update.items] == [Gap, Gap]
    # Ended connections give no more bytes, neither plaintext nor encrypted; others continue.
    assert (
        plaintext_of(under_test.feed([silent[0].sends((1, b"\x17\x03\x03\x00\x20" + bytes(32)))]))
        == []
    )
    assert plaintext_of(under_test.feed([busy.sends(*WHOLE[-4:])])) == [b"again", b"the last"]
    for peer in (*silent, busy):
        under_test.feed([peer.sends(closed=True)])
    assert under_test.buffered_bytes == 0
