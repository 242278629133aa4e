"""Open Kafka connections: read in steps after a loss, bounded together, summarized."""

from __future__ import annotations

from tests.kafka.session.test_tracker import new_tracker, other_talk
from tests.support import kafka as k
from tests.support.talk import BROKER, CLIENT, Talk


def test_a_summary_has_what_the_exchanges_say() -> None:
    talk = other_talk(new_tracker(collect_summaries=True), 3, opened_by=CLIENT)
    talk.client(k.heartbeat(1), k.heartbeat(2)).broker(k.heartbeat_answer(1)).close()
    (summary,) = talk.summaries
    assert (summary.tcp, summary.protocol, summary.client_id) == (talk.tcp, "kafka", "test")
    assert summary.requests == 2
    sizes = 2 * len(k.heartbeat(1)) + len(k.heartbeat_answer(1))
    assert (summary.decoded_bytes, summary.undecoded_bytes, summary.skipped_bytes) == (sizes, 0, 0)
    assert len(talk.tracker._kafka) == 0
    assert talk.tracker.kafka_bytes == 0


def test_requests_that_are_dropped_for_want_of_memory_are_counted_too() -> None:
    talk = Talk(tracker=new_tracker(collect_summaries=True, most_kafka_bytes=20_000))
    talk.at_once(*((CLIENT, k.heartbeat(number)) for number in range(50)))
    assert len(talk.exchanges) == 25
    talk.close()
    assert (talk.summaries[0].requests, len(talk.exchanges)) == (50, 50)


def test_after_a_loss_the_rest_of_a_batch_is_read_as_if_it_came_in_steps() -> None:
    turns = [(CLIENT, k.heartbeat(number)) for number in range(2, 300)]
    turns += [(BROKER, k.heartbeat_answer(number)) for number in range(2, 300)]
    many = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).loses(BROKER, 100)
    single = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1)).loses(BROKER, 100)
    many.at_once(*turns).close()
    for turn in turns:
        single.at_once(turn)
    assert sorted(many.pairs()) == sorted(single.close().pairs())


def test_a_request_that_expects_no_response_is_complete_once_it_has_waited_for_long() -> None:
    talk = Talk().client(k.produce(1, acks=0))
    assert talk.exchanges == []
    late_ns = talk.tcp.last_time_ns + 60_000_000_000
    assert list(talk.tracker.in_flight(late_ns)) == []
    assert [each.correlation_id for each in talk.tracker.feed([]).exchanges] == [1]
    assert talk.tracker.feed([]).exchanges == []
