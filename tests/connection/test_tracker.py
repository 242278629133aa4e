"""Kafka or not, and which end is the client: by content alone."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.talk import BROKER, CLIENT, Talk

if TYPE_CHECKING:
    from kanalyze.connection.locate import RequestLocator

CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)
SERVER_HELLO = bytes.fromhex("160303007a020000760303") + bytes(120)


def test_the_client_is_known_by_what_it_says_not_by_who_opened() -> None:
    talk = Talk(opened_by=BROKER).client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    assert talk.pairs() == [(1, 1, 2)]
    assert talk.exchanges[0].peers.client == talk.tcp.endpoints[CLIENT]


def test_the_first_packet_may_be_the_brokers() -> None:
    # A capture that begins between a request and its response.
    talk = Talk(opened_by=None).broker(k.heartbeat_answer(7))
    talk.client(k.heartbeat(8)).broker(k.heartbeat_answer(8)).close()
    assert talk.pairs() == [(7, None, 1), (8, 2, 3)]


def test_a_capture_that_begins_inside_a_large_request_loses_no_later_one() -> None:
    big = k.produce(1, acks=1, records=k.record_batch(9, size=300_000))
    talk = Talk(opened_by=None)
    talk.client(big[-200_000:]).broker(k.produce_answer(1))
    for number in range(2, 6):
        talk.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    talk.close()
    answered = [pair for pair in talk.pairs() if None not in pair]
    assert [pair[0] for pair in answered] == [2, 3, 4, 5]


def test_a_first_request_that_is_still_on_its_way_is_waited_for() -> None:
    big = k.produce(1, acks=1, records=k.record_batch(9, size=30_000))
    talk = Talk().client(big[:1000])
    assert talk.exchanges == []
    talk.client(big[1000:]).broker(k.produce_answer(1))
    assert talk.pairs() == [(1, 1, 3)]


def test_a_connection_that_ends_within_its_first_request_still_gives_a_row() -> None:
    big = k.produce(1, acks=1, records=k.record_batch(9, size=30_000))
    talk = Talk().client(big[:1000]).close()
    assert [exchange.api_key for exchange in talk.exchanges] == [k.PRODUCE]


def test_a_forced_broker_needs_no_proof() -> None:
    frame = k.request(999, 3, 1, b"a vendor's own")
    talk = Talk(is_broker=lambda _ip, port: port == 9092)
    talk.client(frame).broker(k.response(1, b"x"))
    assert talk.pairs() == [(1, 1, 2)]


def test_a_tls_connection_gives_no_row_and_is_counted() -> None:
    talk = Talk().client(CLIENT_HELLO).broker(SERVER_HELLO).client(b"\x17\x03\x03\0\x10" * 9)
    talk.close()
    assert talk.exchanges == []
    assert talk.tracker.counts.tls == 1
    assert talk.anomalies == []


def test_a_tls_client_on_a_plaintext_port_is_named() -> None:
    talk = Talk().client(CLIENT_HELLO)
    talk.tcp.packets[BROKER] += 1
    talk.close()
    assert talk.kinds() == ["tls_on_plaintext_port"]
    assert "10.0.0.1:50000" in talk.anomalies[0].detail


ZOOKEEPER = struct.pack(">iiqiqi", 44, 0, 0, 30_000, 0, 16) + bytes(16)
POSTGRES = struct.pack(">ii", 41, 196_608) + b"user\0postgres\0database\0postgres\0\0"


@pytest.mark.parametrize(
    ("client", "server"),
    [
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nhello"),
        (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
        (ZOOKEEPER, ZOOKEEPER[:40]),
        (POSTGRES, b"R\0\0\0\x08\0\0\0\0"),
        (bytes(400), bytes(400)),
        (b"\0\0\0\x04\0\0\0\0" * 50, b"\0\0\0\x04\0\0\0\0" * 50),
        (b"\xff" * 400, b"\xff" * 400),
    ],
    ids=["http", "redis", "zookeeper", "postgresql", "zeros", "small sizes", "ones"],
)
@pytest.mark.parametrize("opened_by", [CLIENT, None])
def test_other_protocols_give_no_row(client: bytes, server: bytes, opened_by: int | None) -> None:
    talk = Talk(opened_by=opened_by)
    for _ in range(3):
        talk.client(client).broker(server)
    talk.close()
    assert talk.exchanges == []
    assert (talk.tracker.counts.kafka, talk.tracker.counts.other) == (0, 1)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_give_no_row(seed: int) -> None:
    noise = random.Random(seed)
    talk = Talk(opened_by=None)
    for _ in range(4):
        talk.client(noise.randbytes(20_000)).broker(noise.randbytes(20_000))
    talk.close()
    assert talk.exchanges == []


def test_what_is_held_of_an_undecided_connection_is_bounded() -> None:
    talk = Talk(opened_by=None)
    for _ in range(40):
        talk.client(b"\x05" * 100_000)
    (state,) = talk.tracker._undecided.values()
    held = sum(map(len, (i.segments.buffer for i in state.directions[CLIENT].items)))
    assert held <= 400_000


# -- Kafka 0.7 ------------------------------------------------------------------------------------


def test_kafka_0_7_is_told_by_content_and_by_either_end() -> None:
    talk = Talk(opened_by=BROKER).client(old.fetch(0)).broker(old.fetched()).close()
    assert [(e.wire, e.api_key) for e in talk.exchanges] == [("kafka-0.7", old.FETCH)]
    assert talk.exchanges[0].peers.client == talk.tcp.endpoints[CLIENT]


@pytest.mark.parametrize("topic", ["t", "abc", "test", "clicks", "orders-2011.eu", "x" * 200])
@pytest.mark.parametrize("kind", ["produce", "fetch", "offsets"])
def test_no_topic_of_kafka_0_7_is_taken_for_a_version(kind: str, topic: str) -> None:
    part = old.place(topic) + struct.pack(">qi", 0, 100)
    frames = {
        "produce": old.produce(topic=topic),
        "fetch": old.fetch(0, topic=topic),
        "offsets": old.request(old.OFFSETS, part),
    }
    talk = Talk().client(frames[kind]).close()
    assert [exchange.wire for exchange in talk.exchanges] == ["kafka-0.7"]


def test_later_versions_are_not_taken_for_kafka_0_7() -> None:
    talk = Talk().client(k.produce(1, 1), k.heartbeat(2), k.api_versions(3)).close()
    assert {exchange.wire for exchange in talk.exchanges} == {"kafka"}


def test_of_two_sound_readings_the_answer_decides() -> None:
    class Both:
        """Stands for the locator of later versions, which finds the frame sound too."""

        def __init__(self, inner: RequestLocator) -> None:
            self.verdict = lambda view: "yes" if len(view) >= 14 else inner.verdict(view)

    for answer, wire in ((old.fetched(), "kafka-0.7"), (None, "kafka")):
        talk = Talk()
        talk.tracker._locate = Both(talk.tracker._locate)  # type: ignore[assignment]
        frame = old.fetch(0)
        talk.at_once((CLIENT, frame), (BROKER, answer or b"\0\0\0\x08" + frame[8:12] + bytes(4)))
        talk.close()
        assert {exchange.wire for exchange in talk.exchanges} == {wire}


def test_a_capture_that_begins_inside_a_produce_of_kafka_0_7_loses_no_later_one() -> None:
    big = old.produce(old.message(b"\xee" * 100_000))
    talk = Talk(opened_by=None).client(big[5000:])
    talk.client(old.produce(), old.produce(topic="clicks")).close()
    assert [exchange.request.start_packet for exchange in talk.exchanges] == [2, 3]  # type: ignore[union-attr]


def test_a_forced_broker_may_speak_kafka_0_7() -> None:
    talk = Talk(is_broker=lambda _ip, port: port == 9092)
    talk.client(old.fetch(0)).broker(old.fetched()).close()
    assert [exchange.wire for exchange in talk.exchanges] == ["kafka-0.7"]


# -- SASL with no handshake -----------------------------------------------------------------------

MECHANISM = b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"  # Kerberos 5


def gssapi(secret: bytes) -> bytes:
    inner = MECHANISM + secret
    token = b"\x60\x82" + struct.pack(">H", len(inner)) + inner
    return struct.pack(">i", len(token)) + token


def test_gssapi_tokens_with_no_handshake_come_before_the_first_request() -> None:
    talk = Talk().client(gssapi(b"ticket-" * 60)).broker(gssapi(b"answer-" * 20))
    talk.client(b"\0\0\0\0").broker(b"\0\0\0\x04\x01\0\0\0").client(b"\0\0\0\x05\x01\0\0\0x")
    talk.client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).close()
    assert talk.pairs() == [(1, 6, 7)]
    assert talk.anomalies == []
    assert talk.exchanges[0].peers.principal is None
    assert talk.tracker.counts.undecoded_bytes == 0


def test_tokens_are_shown_nowhere() -> None:
    talk = Talk().client(gssapi(b"ticket-" * 60)).broker(gssapi(b"answer-" * 20))
    talk.client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).close()
    shown = repr([talk.exchanges, talk.anomalies, talk.exchanges[0].request.values])  # type: ignore[union-attr]
    assert "ticket" not in shown
    assert "answer-" not in shown
    assert not talk.tracker._undecided


def test_gssapi_tokens_that_no_request_follows_are_no_kafka() -> None:
    talk = Talk()
    for number in range(20):
        talk.client(gssapi(b"%d" % number)).broker(gssapi(b"reply"))
    talk.close()
    assert talk.exchanges == []
    assert talk.tracker.counts.other == 1


def test_a_port_pair_used_again_begins_anew() -> None:
    first = Talk().client(k.heartbeat(1))
    again = Talk(tracker=first.tracker)
    again.tcp.serial, again.tcp.connection_number = 2, 2
    first.close()
    again.client(old.fetch(0)).broker(old.fetched()).close()
    assert first.pairs() == [(1, 1, None)]
    assert [(e.wire, e.peers.tcp.connection_number) for e in again.exchanges] == [("kafka-0.7", 2)]


def test_a_tls_connection_has_its_lifetime_and_its_bytes() -> None:
    talk = Talk().client(CLIENT_HELLO).broker(SERVER_HELLO).close()
    assert talk.tcp.payload_bytes == [len(CLIENT_HELLO), len(SERVER_HELLO)]
    assert talk.tcp.last_time_ns >= talk.tcp.first_time_ns
    assert talk.tracker.counts.kafka_bytes == 0


def test_a_client_may_have_port_9092() -> None:
    talk = Talk(opened_by=None)
    talk.broker(k.heartbeat(1)).client(k.heartbeat_answer(1)).close()
    (exchange,) = talk.exchanges
    assert exchange.peers.client.port == 9092
    assert talk.pairs() == [(1, 1, 2)]
