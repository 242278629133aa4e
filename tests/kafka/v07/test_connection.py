"""Kafka 0.7: responses come in the order of requests, and have no correlation id."""

from __future__ import annotations

import pytest

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.events import ConnectionEvents
from kanalyze.kafka.session.exchange import Peers
from kanalyze.kafka.v07.connection import ExchangeBuilder07
from tests.kafka.session.test_message_reader import frame_of
from tests.support import kafka07 as old
from tests.support.session import TCP
from tests.support.talk import BROKER, CLIENT, Talk

PacketPairs = list[tuple[int | None, int | None]]


def packet_pairs(talk: Talk) -> PacketPairs:
    """(request packet, response packet) of every exchange."""
    return [(request, response) for _, request, response in talk.pairs()]


def test_responses_come_in_the_order_of_requests() -> None:
    talk = Talk().client(old.fetch(0), old.offsets(), old.fetch(9))
    talk.broker(old.fetched(old.message()), old.offsets_answer(5), old.fetched()).close()
    assert packet_pairs(talk) == [(1, 4), (2, 5), (3, 6)]
    assert [(e.wire, e.api_key, e.api_version) for e in talk.exchanges] == [
        ("kafka-0.7", kind, 0) for kind in (old.FETCH, old.OFFSETS, old.FETCH)
    ]
    assert {(e.correlation_id, e.client_id) for e in talk.exchanges} == {(None, None)}
    assert talk.anomalies == []


def test_produce_and_multiproduce_get_no_response() -> None:
    multiproduce = old.request(old.MULTIPRODUCE, old.produce_part(old.message()))
    talk = Talk().client(old.produce(), multiproduce, old.fetch(0)).broker(old.fetched()).close()
    assert [exchange.one_way for exchange in talk.exchanges] == [True, True, False]
    assert packet_pairs(talk) == [(1, None), (2, None), (3, 4)]
    assert talk.anomalies == []


def test_a_request_without_a_response_is_unanswered_when_the_connection_ends() -> None:
    talk = Talk().client(old.fetch(0), old.fetch(1)).broker(old.fetched()).close()
    assert packet_pairs(talk) == [(1, 3), (2, None)]
    assert talk.kinds() == ["unanswered_request"]


def test_an_unreadable_response_is_malformed_and_paired_with_its_request() -> None:
    talk = Talk().client(old.offsets()).broker(old.fetched(b"\x7f" * 20)).close()
    (exchange,) = talk.exchanges
    assert exchange.malformed
    assert packet_pairs(talk) == [(1, 2)]
    assert talk.kinds() == ["malformed_body"]


def test_a_wrong_checksum_is_an_anomaly_and_the_message_is_kept() -> None:
    bad = old.message()[:-1] + b"X"
    talk = Talk().client(old.produce(), old.produce(bad)).close()
    assert talk.kinds() == ["wrong_crc"]
    assert talk.anomalies[0].detail == ""
    assert [exchange.malformed for exchange in talk.exchanges] == [False, False]


@pytest.mark.parametrize("side", [CLIENT, BROKER])
def test_after_a_lost_boundary_nothing_is_paired(side: int) -> None:
    talk = Talk().client(old.fetch(0)).broker(old.fetched())
    talk.client(old.fetch(5))
    talk.loses(side, 1000)
    talk.client(old.offsets()).broker(old.offsets_answer(1))
    talk.client(old.offsets()).broker(old.offsets_answer(2)).close()
    assert packet_pairs(talk)[0] == (1, 2)
    assert [pair for pair in packet_pairs(talk)[1:] if None not in pair] == []


def test_the_offset_of_the_next_fetch_proves_a_pair() -> None:
    talk = Talk(opened_by=None)
    at = 4096
    message_sets = [old.message(b"x" * size) for size in (10, 20, 30, 40)]
    for messages in message_sets:
        talk.client(old.fetch(at)).broker(old.fetched(messages))
        at += len(messages)
    talk.client(old.fetch(at)).broker(old.fetched()).close()
    paired = [pair for pair in packet_pairs(talk) if None not in pair]
    assert paired == [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10)]


def test_no_pair_is_made_if_the_next_fetch_contradicts_it() -> None:
    # A client with two fetches in flight, seen from the middle: each response is one request late.
    talk = Talk(opened_by=None).broker(old.fetched(old.message(b"x" * 99)))
    at = 4096
    for size in (10, 20, 30):
        talk.client(old.fetch(at)).broker(old.fetched(old.message(b"x" * (size + 1))))
        at += len(old.message(b"x" * size))
    talk.close()
    assert [pair for pair in packet_pairs(talk) if None not in pair] == []


def test_a_loss_inside_record_data_keeps_the_order() -> None:
    big = old.produce(old.message(b"x" * 9000))
    talk = Talk().client(old.fetch(0)).broker(old.fetched())
    talk.client(big[:200]).loses(CLIENT, 5000).client(big[5200:], old.fetch(1))
    talk.broker(old.fetched()).close()
    # The produce in between is recognized by its type, although bytes are missing.
    assert packet_pairs(talk) == [(1, 2), (3, None), (5, 6)]
    assert talk.exchanges[1].one_way
    assert talk.exchanges[1].malformed
    assert talk.kinds() == ["missing_bytes"]


def test_a_frame_cut_by_the_end_of_the_capture_is_reported() -> None:
    talk = Talk().client(old.fetch(0)).broker(old.fetched(old.message(b"x" * 900))[:100]).close()
    assert packet_pairs(talk) == [(1, None)]
    assert "incomplete_frame" in talk.kinds()


def test_bytes_are_counted_by_whether_they_were_read() -> None:
    talk = Talk().client(old.fetch(0)).broker(old.fetched()).close()
    counts = talk.tracker.counts
    assert (counts.kafka, counts.decoded_bytes) == (1, len(old.fetch(0)) + len(old.fetched()))
    assert (counts.undecoded_bytes, counts.skipped_bytes) == (0, 0)


def test_requests_in_flight_are_bounded() -> None:
    talk = Talk().client(*(old.fetch(i) for i in range(10_001)))
    assert "pending_limit" in talk.kinds()
    assert len(talk.exchanges) == 10_001


def new_builder(*, is_certain: bool = True) -> ExchangeBuilder07:
    return ExchangeBuilder07(Peers(TCP, *TCP.endpoints), CLIENT, is_certain=is_certain, keep=None)


def test_a_state_has_the_pending_requests() -> None:
    builder, other = new_builder(), new_builder(is_certain=False)
    builder.add_request(frame_of(old.fetch(0)), ConnectionEvents())
    load(other, save(builder))
    assert (len(other), save(other)) == (1, save(builder))
