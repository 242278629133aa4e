"""Connections whose protocol is not known yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kanalyze.kafka.session.undecided import (
    KafkaStart,
    NotKafka,
    UndecidedConnections,
    open_connection,
)
from kanalyze.model.streams import Chunk, StreamUpdate
from tests.support import kafka as k
from tests.support.streams import chunk
from tests.support.talk import BROKER, CLIENT, Talk

if TYPE_CHECKING:
    from kanalyze.kafka.session.undecided import Decision
    from kanalyze.model.streams import StreamItem

HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


class Feeder:
    """Feeds one connection to :class:`UndecidedConnections`."""

    def __init__(self, opened_by: int | None = CLIENT, most_bytes: int = 1 << 20) -> None:
        talk = Talk(opened_by=opened_by)
        self.tcp = talk.tcp
        self.undecided = UndecidedConnections(talk.reader, talk.catalog, None, most_bytes)
        self.offsets = [0, 0]

    def feed(self, side: int, data: bytes, *, closed: bool = False) -> Decision | None:
        items: tuple[list[StreamItem], list[StreamItem]] = ([], [])
        if data:
            items[side].append(chunk([data], stream_offset=self.offsets[side]))
        self.offsets[side] += len(data)
        return self.undecided.feed(StreamUpdate(self.tcp, items, closed=closed))


def test_kafka_at_first_sight_is_not_buffered() -> None:
    feeder = Feeder()
    start = feeder.feed(CLIENT, k.heartbeat(1))
    assert isinstance(start, KafkaStart)
    assert (start.client_index, start.wire, start.in_sync) == (CLIENT, "kafka", (True, True))
    assert (start.dropped_bytes, len(feeder.undecided)) == (0, 0)


def test_bytes_before_the_decision_are_returned_with_it() -> None:
    feeder = Feeder()
    request = k.heartbeat(1)
    assert feeder.feed(CLIENT, request[:10]) is None
    assert feeder.tcp.serial in feeder.undecided
    assert feeder.undecided.buffered_bytes > 10
    start = feeder.feed(CLIENT, request[10:])
    assert isinstance(start, KafkaStart)
    (item,) = start.items[CLIENT]
    assert isinstance(item, Chunk)
    assert list(item.segments.length) == [10, len(request) - 10]
    assert (feeder.undecided.buffered_bytes, len(feeder.undecided)) == (0, 0)


def test_another_protocol_is_named_at_the_end_and_tls_with_its_client() -> None:
    feeder = Feeder()
    feeder.feed(CLIENT, b"GET / HTTP/1.1\r\n")
    other = feeder.feed(CLIENT, b"\r\n", closed=True)
    assert isinstance(other, NotKafka)
    assert (other.protocol, other.client_index, other.anomaly) == ("http", None, None)
    tls = Feeder()
    tls.feed(CLIENT, HELLO)
    decision = tls.feed(BROKER, HELLO)
    assert isinstance(decision, NotKafka)
    assert (decision.protocol, decision.client_index) == ("tls", CLIENT)


def test_above_the_bound_the_oldest_are_dropped_with_an_anomaly() -> None:
    feeder = Feeder(opened_by=None, most_bytes=10_000)
    assert feeder.feed(CLIENT, b"\x05" * 20_000) is None
    (dropped,) = feeder.undecided.drop_oldest()
    assert (dropped.tcp, dropped.protocol) == (feeder.tcp, "unknown")
    assert dropped.anomaly is not None
    assert dropped.anomaly.length == 20_000
    assert (feeder.undecided.buffered_bytes, feeder.undecided.drop_oldest()) == (0, [])


def test_only_an_open_connection_has_a_state() -> None:
    tcp = Talk().tcp
    assert open_connection({1: tcp}, 1) is tcp
    with pytest.raises(ValueError, match="no connection 2"):
        open_connection({1: tcp}, 2)
