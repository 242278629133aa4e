"""Open Kafka connections: read in steps after a loss, bounded together, summarized."""

from __future__ import annotations

from tests.kafka.session.test_tracker import new_tracker, other_talk
from tests.support import kafka as k
from tests.support.talk import BROKER, CLIENT, Talk


def test_a_summary_agrees_with_the_exchanges() -> None:
    talk = other_talk(new_tracker(collect_summaries=True), 3, opened_by=CLIENT)
    talk.client(k.heartbeat(1), k.heartbeat(2)).broker(k.heartbeat_answer(1)).close()
    (summary,) = talk.summaries
    assert (summary.tcp, summary.protocol, summary.client_id) == (talk.tcp, "kafka", "test")
    assert summary.requests == 2
    sizes = 2 * len(k.heartbeat(1)) + len(k.heartbeat_answer(1))
    assert (summary.decoded_bytes, summary.undecoded_bytes, summary.skipped_bytes) == (sizes, 0, 0)
    assert len(talk.tracker._kafka) == 0
    assert talk.tracker.kafka_bytes == 0


def test_requests_that_are_given_up_for_lack_of_memory_are_counted_too() -> None:
    talk = Talk(tracker=new_tracker(collect_summaries=True, most_kafka_bytes=20_000))
    talk.at_once(*((CLIENT, k.heartbeat(number)) for number in range(50)))
    assert len(talk.exchanges) == 25
    talk.close()
    assert (talk.summaries[0].requests, len(talk.exchanges)) == (50, 50)


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
