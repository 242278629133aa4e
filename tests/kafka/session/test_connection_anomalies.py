"""The anomalies of a connection; and its buffers are dropped when memory is short."""

from __future__ import annotations

from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.tcp import Endpoint, TcpConnection
from tests.support import kafka as k
from tests.support.streams import TIME_NS
from tests.support.talk import BROKER, CLIENT, Talk


def large(correlation_id: int, size: int) -> bytes:
    """A request of an unknown API, so that none of its bytes can be skipped."""
    return k.request(999, 0, correlation_id, b"t" * size)


def shed(talk: Talk) -> None:
    """Let the connection drop what it has buffered, as the tracker does when memory is short."""
    (kafka,) = talk.tracker._kafka._by_serial.values()
    events = kafka.connection.shed()
    talk.exchanges += events.exchanges
    talk.anomalies += events.anomalies


def talk_of(tracker: ConnectionTracker, serial: int) -> Talk:
    talk = Talk(tracker=tracker)
    ends = (Endpoint("10.0.0.1", 50000 + serial), Endpoint("10.0.0.2", 9092))
    talk.tcp = TcpConnection(serial, ends, 1, CLIENT, TIME_NS, TIME_NS, start_seen=[True, True])
    return talk


def test_the_length_of_an_incomplete_message_is_that_of_the_bytes_that_came() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client((90_000_000).to_bytes(4, "big") + k.heartbeat(2)[4:]).close()
    sizes = {anomaly.kind.value: anomaly.length for anomaly in talk.anomalies}
    assert sizes == {"incomplete_frame": len(k.heartbeat(2)), "unanswered_request": None}
    (found,) = [one for one in talk.anomalies if one.kind is AnomalyKind.INCOMPLETE_FRAME]
    assert found.detail == "of 90000004 bytes"


def test_all_connections_together_buffer_no_more_than_the_limit() -> None:
    plain = Talk()
    tracker = ConnectionTracker(plain.reader, plain.catalog, most_kafka_bytes=1_000_000)
    talks = [talk_of(tracker, serial) for serial in range(1, 41)]
    for talk in talks:
        talk.client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
        talk.client(large(2, 90_000)[:80_000])
        assert tracker.kafka_bytes <= 1_000_000
    anomalies = [anomaly for talk in talks for anomaly in talk.anomalies]
    kinds = {anomaly.kind for anomaly in anomalies}
    assert kinds == {AnomalyKind.MEMORY_LIMIT}
    dropped = sum(anomaly.length or 0 for anomaly in anomalies)
    assert dropped >= 40 * 80_000 - 1_000_000
    assert all(anomaly.connection is not None for anomaly in anomalies)
    assert all(anomaly.stream_offset for anomaly in anomalies)


def test_a_request_whose_bytes_were_dropped_makes_an_exchange_with_times_and_sizes() -> None:
    talk = Talk()
    request = large(2, 90_000)
    talk.client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).client(request[:80_000])
    (kafka,) = talk.tracker._kafka._by_serial.values()
    shed(talk)
    assert kafka.connection.buffered_bytes < 5000
    talk.client(request[80_000:], k.heartbeat(3)).broker(k.heartbeat_answer(3)).close()
    assert talk.pairs() == [(1, 1, 2), (3, 5, 6), (2, 3, None)]
    last = talk.exchanges[-1]
    assert AnomalyKind.LOST_BYTES in last.anomalies
    assert last.request is not None
    assert last.request.length == len(request)


def test_the_oldest_pending_requests_are_given_up_when_memory_is_short() -> None:
    talk = Talk()
    talk.client(*(k.heartbeat(number) for number in range(10)))
    shed(talk)
    talk.broker(k.heartbeat_answer(9)).close()
    unanswered = [exchange.correlation_id for exchange in talk.exchanges if not exchange.response]
    assert sorted(unanswered) == list(range(9))
    limited = [e.correlation_id for e in talk.exchanges if "pending_limit" in e.anomalies]
    assert limited == [0, 1, 2, 3, 4]


def test_the_bytes_of_a_boundary_search_are_dropped_when_memory_is_short() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.loses(BROKER, 100)
    # The beginning of an awaited response, whose end has not come.
    talk.client(k.request(k.METADATA, 1, 2, b"\0\0\0\0"))
    talk.broker(k.response(2, b"\0\0\0\x01" + b"\0" * 4 + b"\0\x09localhost" * 400)[:3000])
    (kafka,) = talk.tracker._kafka._by_serial.values()
    buffered = kafka.connection.buffered_bytes
    shed(talk)
    assert buffered - kafka.connection.buffered_bytes >= 2900
    talk.close()
    assert "memory_limit" in talk.kinds()
