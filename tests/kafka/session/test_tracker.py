"""Kafka or not, and which end is the client: by content alone."""

from __future__ import annotations

import struct
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from kanalyze.common.saved import load, save
from kanalyze.kafka.session.tracker import ConnectionTracker, KnownServers
from kanalyze.model.streams import StreamUpdate
from kanalyze.model.tcp import Endpoint, TcpConnection
from tests.support import kafka as k
from tests.support import kafka07 as old
from tests.support.cases import for_each
from tests.support.talk import BROKER, CLIENT, Talk, counted
from tests.support.work import peak_bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)
SERVER_HELLO = bytes.fromhex("160303007a020000760303") + bytes(120)


def is_port_9092(_ip: str, port: int) -> bool:
    return port == 9092


def test_the_client_is_known_by_its_requests_not_by_who_opened_the_connection() -> None:
    talk = Talk(opened_by=BROKER).client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    assert talk.pairs() == [(1, 1, 2)]
    assert talk.exchanges[0].peers.client == talk.tcp.endpoints[CLIENT]


@pytest.mark.parametrize("opened_by", [CLIENT, BROKER])
@pytest.mark.parametrize("loses", [0, 298])
def test_a_response_without_its_request_is_no_request(opened_by: int, loses: int) -> None:
    """The first response to Produce version 0: it begins as a Produce request, version 1, does."""
    server = 1 - opened_by
    partition = struct.pack(">iihq", 1, 0, 0, 5)
    answer = k.response(1, struct.pack(">i", 1) + k.string("a-topic-of-16-by") + partition)
    talk = Talk(opened_by=opened_by)
    if loses:
        talk.loses(opened_by, loses)
    talk.says(server, answer).close()
    assert talk.exchanges == []


def test_the_first_packet_may_be_the_brokers() -> None:
    # A capture that begins between a request and its response.
    talk = Talk(opened_by=None).broker(k.heartbeat_answer(7))
    talk.client(k.heartbeat(8)).broker(k.heartbeat_answer(8)).close()
    assert sorted(talk.pairs()) == [(7, None, 1), (8, 2, 3)]


def test_a_capture_that_begins_inside_a_large_request_loses_no_later_one() -> None:
    big = k.produce(1, acks=1, records=k.record_batch(9, size=300_000))
    talk = Talk(opened_by=None)
    talk.client(big[-200_000:]).broker(k.produce_answer(1))
    for number in range(2, 6):
        talk.client(k.heartbeat(number)).broker(k.heartbeat_answer(number))
    talk.close()
    answered = [pair for pair in talk.pairs() if None not in pair]
    assert [pair[0] for pair in answered] == [2, 3, 4, 5]


def test_an_incomplete_first_request_is_waited_for() -> None:
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
    talk = Talk(is_broker=is_port_9092)
    talk.client(frame).broker(k.response(1, b"x"))
    assert talk.pairs() == [(1, 1, 2)]


def test_a_tls_connection_gives_no_row_and_is_counted() -> None:
    talk = Talk().client(CLIENT_HELLO).broker(SERVER_HELLO).client(b"\x17\x03\x03\0\x10" * 9)
    talk.close()
    assert talk.exchanges == []
    assert talk.tracker.counts.tls == 1
    assert talk.anomalies == []


def test_a_tls_client_on_a_plaintext_port_is_named() -> None:
    for talk in (Talk(), Talk(is_broker=is_port_9092)):
        talk.client(CLIENT_HELLO)
        talk.tcp.packets = counted(talk.tcp.packets, BROKER, 1)
        talk.close()
        assert talk.kinds() == ["tls_on_plaintext_port"]
        assert "10.0.0.1:50000" in talk.anomalies[0].detail
        assert talk.tracker.counts.by_protocol == {"tls": 1}


def test_the_buffer_of_an_undecided_connection_is_bounded() -> None:
    for segments in ([b"\x05" * 100_000], [b"\x05"] * 400):
        talk = Talk(opened_by=None)
        for _ in range(60):
            talk.client(*segments)
            assert 0 < talk.tracker.undecided_bytes <= 256 * 1024


# -- bounds ---------------------------------------------------------------------------------------


def new_tracker(**options: Any) -> ConnectionTracker:
    talk = Talk()
    return ConnectionTracker(talk.reader, talk.catalog, **options)


def other_talk(tracker: ConnectionTracker, serial: int, opened_by: int | None = None) -> Talk:
    talk = Talk(tracker=tracker, opened_by=opened_by)
    talk.tcp.serial = serial
    return talk


def test_the_buffers_of_all_connections_are_bounded_and_the_oldest_are_dropped_first() -> None:
    tracker = new_tracker(most_undecided_bytes=100_000)
    talks = [other_talk(tracker, serial) for serial in range(1, 31)]
    for talk in talks:
        talk.client(b"\x05" * 10_000)
        assert tracker.undecided_bytes <= 100_000
    anomalies = [anomaly for talk in talks for anomaly in talk.anomalies]
    assert {anomaly.kind.value for anomaly in anomalies} == {"memory_limit"}
    given_up = [anomaly.connection for anomaly in anomalies]
    assert given_up == [talk.tcp for talk in talks[: len(given_up)]]
    assert [anomaly.length for anomaly in anomalies] == [10_000] * len(anomalies)
    assert tracker.counts.by_protocol == {"unknown": len(anomalies)}
    for talk in talks:
        talk.client(b"\x05" * 100).close()
    assert tracker.counts.by_protocol == {"unknown": 30}
    assert tracker.undecided_bytes == 0


def test_a_connection_that_was_given_up_is_not_read_again() -> None:
    tracker = new_tracker(most_undecided_bytes=24_000)
    first, second = other_talk(tracker, 1), other_talk(tracker, 2)
    first.client(b"\x05" * 15_000)
    second.client(b"\x05" * 15_000)
    first.client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).close()
    assert first.exchanges == []
    second.client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).close()
    assert second.pairs() == [(1, 2, 3)]


def test_a_request_in_one_byte_segments_is_recognized() -> None:
    talk = Talk(opened_by=CLIENT)
    frame = k.heartbeat(1) + k.produce(2, acks=1)
    for index in range(len(frame)):
        talk.client(frame[index : index + 1])
    talk.broker(k.heartbeat_answer(1), k.produce_answer(2)).close()
    assert [pair[0] for pair in talk.pairs()] == [1, 2]
    assert talk.tracker.undecided_bytes == 0


def test_the_searched_bytes_are_in_proportion_to_the_segments() -> None:
    """Bytes are counted, not seconds: twice the segments lead to about twice the search."""
    totals = []
    for size in (2000, 4000):
        talk = Talk(opened_by=None)
        searched_bytes = record_searches(talk.tracker)
        for _ in range(size):
            talk.client(b"\x05")
        totals.append(sum(searched_bytes))
    assert totals[1] < 3 * totals[0]
    assert totals[1] < 4000 * 64


def record_searches(tracker: ConnectionTracker) -> list[int]:
    """Let the search for requests record how many bytes it gets each time."""
    lengths: list[int] = []
    scanner = tracker._undecided._detector._scanner
    locate = scanner._locate

    class Counting:
        verdict = staticmethod(locate.verdict)

        def candidates(self, view: memoryview) -> Iterator[tuple[int, str]]:
            lengths.append(len(view))
            return locate.candidates(view)

    scanner._locate = Counting()  # type: ignore[assignment]
    return lengths


# -- either side first ----------------------------------------------------------------------------


def test_no_exchange_is_lost_if_a_response_is_captured_before_the_first_request() -> None:
    talk = Talk(opened_by=CLIENT).broker(k.heartbeat_answer(1))
    talk.client(k.heartbeat(1)).client(k.heartbeat(2)).broker(k.heartbeat_answer(2)).close()
    assert sorted(pair[0] or 0 for pair in talk.pairs()) == [1, 2]
    assert all(exchange.response is not None for exchange in talk.exchanges)


def test_the_direction_of_the_client_alone_is_enough() -> None:
    for opened_by in (None, CLIENT):
        talk = Talk(opened_by=opened_by).client(k.heartbeat(1)).client(k.heartbeat(2)).close()
        assert talk.pairs() == [(1, 1, None), (2, 2, None)]


def test_responses_alone_are_not_recognized() -> None:
    talk = Talk(opened_by=None)
    for number in range(5):
        talk.broker(k.heartbeat_answer(number))
    talk.close()
    assert talk.exchanges == []
    assert talk.tracker.counts.by_protocol == {"unknown": 1}


def test_responses_alone_are_kafka_on_a_forced_port() -> None:
    talk = Talk(opened_by=CLIENT, is_broker=is_port_9092)
    talk.broker(k.heartbeat_answer(1)).broker(k.heartbeat_answer(2)).close()
    assert talk.tracker.counts.kafka == 1
    assert talk.pairs() == [(1, None, 1), (2, None, 2)]


def test_between_two_brokers_the_one_that_opened_is_the_client() -> None:
    for opened_by in (CLIENT, BROKER):
        talk = Talk(opened_by=opened_by, is_broker=lambda _ip, _port: True)
        talk.says(opened_by, k.heartbeat(1)).says(1 - opened_by, k.heartbeat_answer(1)).close()
        assert talk.pairs() == [(1, 1, 2)]


def test_a_forced_broker_of_kafka_0_7_is_recognized_also_after_an_update_without_bytes() -> None:
    first, second = Talk(is_broker=is_port_9092), Talk(is_broker=is_port_9092)
    second._update(StreamUpdate(second.tcp, ([], []), closed=False))
    for talk in (first, second):
        talk.client(old.fetch(0)).broker(old.fetched()).close()
        assert [exchange.wire for exchange in talk.exchanges] == ["kafka-0.7"]


@pytest.mark.parametrize("name", [None, "", "x"])
def test_a_client_without_a_good_client_id_is_recognized_by_a_response(name: str | None) -> None:
    for opened_by in (None, CLIENT):
        talk = Talk(opened_by=opened_by)
        for number in (5, 6):
            talk.client(k.heartbeat(number, client_id=name)).broker(k.heartbeat_answer(number))
        talk.close()
        assert talk.pairs() == [(5, 1, 2), (6, 3, 4)]


def test_an_unanswered_request_without_a_client_id_is_recognized_at_the_end() -> None:
    talk = Talk(opened_by=CLIENT).client(k.request(k.LIST_GROUPS, 0, 1, client_id=None))
    assert talk.exchanges == []
    talk.close()
    assert talk.pairs() == [(1, 1, None)]


# -- TLS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [True, False])
def test_a_plaintext_client_on_a_tls_port_keeps_its_row(*, at_once: bool) -> None:
    alert = b"\x15\x03\x03\0\x02\x02\x46"
    talk = Talk()
    if at_once:
        talk.at_once((CLIENT, k.api_versions(1)), (BROKER, alert))
    else:
        talk.client(k.api_versions(1)).broker(alert)
    talk.close()
    assert [(e.api_key, e.response) for e in talk.exchanges] == [(k.API_VERSIONS, None)]
    assert talk.tracker.counts.kafka == 1


def test_tls_whose_beginning_was_not_captured_is_recognized_by_its_records() -> None:
    records = b"".join(b"\x17\x03\x03\x02\0" + bytes([n]) * 512 for n in range(20))
    talk = Talk(opened_by=None).client(records[200:]).broker(records[300:]).close()
    assert talk.tracker.counts.by_protocol == {"tls": 1}


# -- closed connections ---------------------------------------------------------------------------


def test_each_closed_connection_has_a_summary() -> None:
    tracker = new_tracker(collect_summaries=True)
    kafka, tls, web, silent, early = (
        other_talk(tracker, serial, opened_by=CLIENT) for serial in range(1, 6)
    )
    kafka.client(k.api_versions(1, name="lib", number="1.2")).client(k.heartbeat(2))
    kafka.broker(k.api_versions_answer_v0(1, 35)).close()
    tls.client(CLIENT_HELLO).broker(SERVER_HELLO).close()
    web.client(b"GET / HTTP/1.1\r\n\r\n").broker(b"HTTP/1.1 200 OK\r\n\r\n").close()
    silent.close()
    early.client(old.fetch(0)).broker(old.fetched()).close()
    summaries = [each for talk in (kafka, tls, web, silent, early) for each in talk.summaries]
    assert [(e.tcp, e.protocol, e.client_index) for e in summaries] == [
        (kafka.tcp, "kafka", CLIENT),
        (tls.tcp, "tls", CLIENT),
        (web.tcp, "http", None),
        (silent.tcp, "none", None),
        (early.tcp, "kafka-0.7", CLIENT),
    ]
    first = summaries[0]
    assert (first.client_id, first.software_name, first.software_version) == ("test", "lib", "1.2")
    request_bytes = len(k.api_versions(1, name="lib", number="1.2")) + len(k.heartbeat(2))
    read_bytes = request_bytes + len(k.api_versions_answer_v0(1, 35))
    assert (first.requests, first.decoded_bytes) == (2, read_bytes)
    assert (first.undecoded_bytes, first.skipped_bytes) == (0, 0)
    assert summaries[4].requests == 1
    assert (tracker.serials, tracker.kafka_bytes) == (set(), 0)
    counts = tracker.counts
    assert sum(counts.by_protocol.values()) == counts.tls + counts.other == 3


# -- Kafka 0.7 ------------------------------------------------------------------------------------


def test_kafka_0_7_is_recognized_by_content_and_by_either_end() -> None:
    talk = Talk(opened_by=BROKER).client(old.fetch(0)).broker(old.fetched()).close()
    assert [(e.wire, e.api_key) for e in talk.exchanges] == [("kafka-0.7", old.FETCH)]
    assert talk.exchanges[0].peers.client == talk.tcp.endpoints[CLIENT]


@for_each("topic", ["t", "abc", "test", "clicks", "orders-2011.eu", "x" * 200])
def test_no_topic_of_kafka_0_7_is_taken_for_a_version(topic: str) -> None:
    offsets = old.request(old.OFFSETS, old.place(topic) + struct.pack(">qi", 0, 100))
    for frame in (old.produce(topic=topic), old.fetch(0, topic=topic), offsets):
        talk = Talk().client(frame).close()
        assert [exchange.wire for exchange in talk.exchanges] == ["kafka-0.7"]


def test_later_versions_are_not_taken_for_kafka_0_7() -> None:
    talk = Talk().client(k.produce(1, 1), k.heartbeat(2), k.api_versions(3)).close()
    assert {exchange.wire for exchange in talk.exchanges} == {"kafka"}


def test_the_response_decides_if_a_request_is_valid_in_both_protocols() -> None:
    for response, wire in ((old.fetched(), "kafka-0.7"), (None, "kafka")):
        talk = Talk()
        reader = talk.tracker._undecided._detector._first
        inner = reader.verdict
        # As if the frame were a valid request of later versions too.
        reader.verdict = (  # type: ignore[method-assign]
            lambda view, inner=inner: "yes" if len(view) >= 14 else inner(view)
        )
        frame = old.fetch(0, topic="t")
        talk.at_once((CLIENT, frame), (BROKER, response or b"\0\0\0\x08" + frame[8:12] + bytes(4)))
        talk.close()
        assert {exchange.wire for exchange in talk.exchanges} == {wire}


def test_a_capture_that_begins_inside_a_produce_of_kafka_0_7_loses_no_later_one() -> None:
    big = old.produce(old.message(b"\xee" * 100_000))
    talk = Talk(opened_by=None).client(big[5000:])
    talk.client(old.produce(), old.produce(topic="clicks")).close()
    assert [exchange.request.start_packet for exchange in talk.exchanges] == [2, 3]  # type: ignore[union-attr]


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


def test_tokens_are_in_no_exchange_and_no_anomaly() -> None:
    talk = Talk().client(gssapi(b"ticket-" * 60)).broker(gssapi(b"answer-" * 20))
    talk.client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).close()
    shown = repr([talk.exchanges, talk.anomalies, talk.exchanges[0].request.values])  # type: ignore[union-attr]
    assert "ticket" not in shown
    assert "answer-" not in shown
    assert talk.tracker.undecided_bytes == 0


def test_gssapi_tokens_without_a_request_after_them_are_not_kafka() -> None:
    talk = Talk()
    for number in range(20):
        talk.client(gssapi(b"%d" % number)).broker(gssapi(b"reply"))
    talk.close()
    assert talk.exchanges == []
    assert talk.tracker.counts.other == 1


def test_a_port_pair_used_again_begins_anew() -> None:
    first = Talk().client(k.heartbeat(1))
    second = Talk(tracker=first.tracker)
    second.tcp.serial, second.tcp.connection_number = 2, 2
    first.close()
    second.client(old.fetch(0)).broker(old.fetched()).close()
    assert first.pairs() == [(1, 1, None)]
    assert [(e.wire, e.peers.tcp.connection_number) for e in second.exchanges] == [("kafka-0.7", 2)]


def test_a_tls_connection_has_its_lifetime_and_its_bytes() -> None:
    talk = Talk().client(CLIENT_HELLO).broker(SERVER_HELLO).close()
    assert talk.tcp.payload_bytes == (len(CLIENT_HELLO), len(SERVER_HELLO))
    assert talk.tcp.last_time_ns >= talk.tcp.first_time_ns
    assert talk.tracker.counts.kafka_bytes == 0


def test_a_client_may_have_port_9092() -> None:
    talk = Talk(opened_by=None)
    talk.broker(k.heartbeat(1)).client(k.heartbeat_answer(1)).close()
    (exchange,) = talk.exchanges
    assert exchange.peers.client.port == 9092
    assert talk.pairs() == [(1, 1, 2)]


def test_an_end_that_was_a_server_is_known_after_its_connection_and_in_a_state() -> None:
    talk = Talk(opened_by=None).client(k.heartbeat(8)).broker(k.heartbeat_answer(8)).close()
    tracker, ends = talk.tracker, talk.tcp.endpoints
    other = TcpConnection(9, (ends[1], Endpoint("10.0.0.7", 9)), 1, None, 0, 0)
    assert tracker.servers.client_of(other) == 1
    continued = new_tracker()
    load(continued, save(tracker), {})
    assert continued.servers.client_of(other) == 1
    continued = new_tracker()
    load(continued, save(tracker)[:-1], {})
    assert continued.servers.client_of(other) is None


def test_the_client_of_a_closed_connection_is_known_with_its_last_anomalies() -> None:
    talk = Talk(opened_by=None).broker(k.heartbeat_answer(7))
    talk.client(k.heartbeat(8)).broker(k.heartbeat_answer(8)).client(k.heartbeat(9)).close()
    assert talk.kinds()[-1] == "unanswered_request"
    assert (talk.closed_clients, talk.summaries) == ({talk.tcp.serial: CLIENT}, [])
    assert talk.tracker.client_index(talk.tcp) is None


def test_requests_that_are_given_up_for_lack_of_memory_are_reported_at_once() -> None:
    talk = Talk(tracker=new_tracker(most_kafka_bytes=20_000, collect_summaries=True))
    talk.at_once(*((CLIENT, k.heartbeat(number)) for number in range(1, 400)))
    given_up = [exchange for exchange in talk.exchanges if exchange.response is None]
    assert len(given_up) > 100
    assert {kind.value for exchange in given_up for kind in exchange.anomalies} >= {"pending_limit"}
    talk.close()
    assert sorted(each.correlation_id for each in talk.exchanges) == list(range(1, 400))
    assert talk.summaries[0].requests == 399


# -- connections without payload ------------------------------------------------------------------


def test_a_connection_without_payload_is_not_buffered_and_has_a_summary() -> None:
    tracker = new_tracker(collect_summaries=True)
    talk = other_talk(tracker, 5)
    silent = StreamUpdate(talk.tcp, ([], []), closed=False)
    assert peak_bytes_of(lambda: tracker.feed([silent])) < 1000
    assert (tracker.serials, tracker.client_index(talk.tcp)) == (set(), None)
    talk.close()
    (summary,) = talk.summaries
    assert (summary.tcp, summary.protocol, summary.client_index) == (talk.tcp, "none", None)
    assert tracker.counts.by_protocol == {"none": 1}


def test_a_connection_with_payload_in_a_later_batch_is_known_at_first_sight() -> None:
    tracker = new_tracker()
    talk = other_talk(tracker, 5, opened_by=CLIENT)
    tracker.feed([StreamUpdate(talk.tcp, ([], []), closed=False)])
    talk.at_once((CLIENT, k.heartbeat(1)), (BROKER, k.heartbeat_answer(1)))
    assert (tracker.undecided_bytes, tracker.counts.kafka, len(talk.pairs())) == (0, 1, 1)


# -- open connections ------------------------------------------------------------------------------


def test_after_a_loss_the_rest_of_a_batch_is_read_as_if_it_came_in_steps() -> None:
    turns = [(CLIENT, k.heartbeat(number)) for number in range(2, 300)]
    turns += [(BROKER, k.heartbeat_answer(number)) for number in range(2, 300)]
    in_one_batch = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).loses(BROKER, 100)
    one_by_one = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).loses(BROKER, 100)
    in_one_batch.at_once(*turns).close()
    for turn in turns:
        one_by_one.at_once(turn)
    assert sorted(in_one_batch.pairs()) == sorted(one_by_one.close().pairs())


def test_a_one_way_request_is_complete_after_a_long_wait() -> None:
    talk = Talk().client(k.produce(1, acks=0))
    assert talk.exchanges == []
    late_ns = talk.tcp.last_time_ns + 60_000_000_000
    assert list(talk.tracker.in_flight(late_ns)) == []
    assert [each.correlation_id for each in talk.tracker.feed([]).exchanges] == [1]
    assert talk.tracker.feed([]).exchanges == []


@pytest.mark.parametrize(("opened_by", "client_index"), [(0, None), (None, 0), (1, 0)])
def test_the_end_a_connection_goes_to_is_a_server(
    opened_by: int | None, client_index: int | None
) -> None:
    ends = client, broker, other = Endpoint("a", 50_000), Endpoint("b", 9092), Endpoint("c", 40_000)
    servers = KnownServers()
    servers.note(TcpConnection(1, (client, broker), 1, opened_by, 0, 0), client_index)
    found = {
        pair: servers.client_of(TcpConnection(2, pair, 1, None, 0, 0))
        for pair in permutations(ends, 2)
    }
    assert found[broker, other] == 1
    assert found[other, broker] == 0
    assert found[client, other] is None
    servers.note(TcpConnection(3, (client, other), 1, opened_by, 0, 0), client_index)
    assert servers.client_of(TcpConnection(2, (other, broker), 1, None, 0, 0)) is None


def test_known_servers_are_bounded_and_saved() -> None:
    servers, other = KnownServers(), KnownServers()
    for port in range(5000):
        servers.note(TcpConnection(1, (Endpoint("a", 1), Endpoint("b", port)), 1, 0, 0, 0), 0)
    load(other, save(servers))
    assert len(save(other)) == 4096
    with pytest.raises(ValueError, match="more servers"):
        load(other, (*save(servers), ("b", 9999)))


def test_a_state_of_a_connection_that_is_not_open_is_refused() -> None:
    for data in (k.heartbeat(1), k.heartbeat(1)[:9]):
        talk = Talk().client(data)
        with pytest.raises(ValueError, match="no connection 1"):
            load(new_tracker(), save(talk.tracker), {})
