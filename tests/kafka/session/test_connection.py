"""Pairing of requests and responses. Each test is a case that other tools get wrong."""

from __future__ import annotations

import gc
import struct
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.kafka.session.connection import BothItems, LossSteps
from kanalyze.kafka.session.tracker import ConnectionTracker
from kanalyze.model.anomalies import AnomalyKind
from kanalyze.model.streams import Chunk, Gap, Segments, StreamItem
from tests.support import kafka as k
from tests.support.session import rows_of
from tests.support.talk import BROKER, CLIENT, Talk


def test_a_response_answers_the_request_with_its_correlation_id() -> None:
    talk = Talk().client(k.heartbeat(1)).client(k.heartbeat(2))
    talk.broker(k.heartbeat_answer(2)).broker(k.heartbeat_answer(1))
    assert talk.pairs() == [(2, 2, 3), (1, 1, 4)]


@pytest.mark.parametrize("correlation_id", [0, -1, -(2**31), 2**31 - 1])
def test_any_correlation_id_is_paired(correlation_id: int) -> None:
    talk = Talk().client(k.heartbeat(correlation_id)).broker(k.heartbeat_answer(correlation_id))
    assert talk.pairs() == [(correlation_id, 1, 2)]


def test_an_id_may_be_used_again_after_its_response() -> None:
    talk = Talk().at_once(
        (CLIENT, k.heartbeat(0)),
        (BROKER, k.heartbeat_answer(0)),
        (CLIENT, k.heartbeat(0)),
        (BROKER, k.heartbeat_answer(0)),
    )
    assert talk.pairs() == [(0, 1, 2), (0, 3, 4)]


def test_the_older_of_two_requests_with_one_id_is_answered_first() -> None:
    talk = Talk().client(k.heartbeat(5), k.heartbeat(5)).broker(k.heartbeat_answer(5))
    assert talk.pairs() == [(5, 1, 3)]
    talk.broker(k.heartbeat_answer(5))
    assert talk.pairs()[1] == (5, 2, 4)


def test_a_response_captured_before_its_request_is_paired_and_reported() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.broker(k.heartbeat_answer(2)).client(k.heartbeat(2))
    assert talk.pairs()[1] == (2, 4, 3)
    assert talk.kinds() == ["response_before_request"]


def test_after_a_loss_among_requests_an_orphan_is_not_kept_for_a_later_request() -> None:
    # A client that always uses id 0: the lost request's response must not be paired with the next.
    talk = Talk().client(k.heartbeat(0)).broker(k.heartbeat_answer(0))
    talk.loses(CLIENT, len(k.heartbeat(0)))
    talk.broker(k.heartbeat_answer(0))
    talk.client(k.heartbeat(0)).broker(k.heartbeat_answer(0)).close()
    assert talk.pairs() == [(0, 1, 2), (0, None, 3), (0, 4, 5)]


def test_acks_is_read_after_the_transactional_id() -> None:
    # Before it, the bytes 00 00 of an empty transactional id look like acks=0.
    body = k.string("") + struct.pack(">hii", 1, 1000, 0)
    talk = Talk().client(k.request(k.PRODUCE, 3, 7, body))
    talk.broker(k.response(7, struct.pack(">ii", 0, 0))).close()
    assert talk.pairs() == [(7, 1, 2)]
    assert not talk.exchanges[0].one_way


def test_an_unsupported_api_versions_request_is_answered_in_version_0() -> None:
    talk = Talk().client(k.api_versions(1, version=4))
    talk.broker(k.api_versions_answer_v0(1, error_code=35))
    (exchange,) = talk.exchanges
    assert exchange.response is not None
    assert exchange.response.version == 0
    assert exchange.response.values is not None
    assert not exchange.malformed


def test_an_api_versions_request_newer_than_the_tables_is_still_a_request() -> None:
    newer = Talk().catalog.api(k.API_VERSIONS)
    assert newer is not None
    talk = Talk().client(k.api_versions(1, version=newer.versions.highest + 1))
    talk.broker(k.api_versions_answer_v0(1, error_code=35))
    assert talk.pairs() == [(1, 1, 2)]
    assert talk.exchanges[0].anomalies == ["unknown_api_version"]


def test_api_versions_responses_have_no_tags_in_their_header() -> None:
    body = struct.pack(">h", 0) + b"\x02" + struct.pack(">hhh", 18, 0, 4) + b"\0"
    body += struct.pack(">i", 0) + b"\0"
    talk = Talk().client(k.api_versions(1)).broker(k.response(1, body))
    (exchange,) = talk.exchanges
    assert exchange.anomalies == []
    assert exchange.response is not None
    assert exchange.response.version == 3


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    frame = struct.pack(">hhi", k.CONTROLLED_SHUTDOWN, 0, 3) + struct.pack(">i", 1)
    talk = Talk().client(k.heartbeat(1), struct.pack(">i", len(frame)) + frame)
    talk.broker(k.heartbeat_answer(1), k.response(3, struct.pack(">hi", 0, 0)))
    assert [(e.api_key, e.client_id) for e in talk.exchanges] == [(12, "test"), (7, None)]
    assert talk.anomalies == []


def test_trailing_bytes_are_an_anomaly_and_the_message_is_kept() -> None:
    # librdkafka's ApiVersions v0 requests carry four zero bytes after the body.
    talk = Talk().client(k.request(k.API_VERSIONS, 0, 1, bytes(4)))
    talk.broker(k.api_versions_answer_v0(1))
    assert talk.pairs() == [(1, 1, 2)]
    assert talk.kinds() == ["trailing_bytes"]
    assert talk.tracker.counts.undecoded_bytes == 0


def test_bytes_left_over_after_a_body_are_not_decoded() -> None:
    talk = Talk().client(k.heartbeat(1), k.heartbeat(2)).broker(k.heartbeat_answer(1))
    left_over = b"\0\0\0\1", b"\0" * 5, b"x", b"y" * 70_000
    for number, rest in enumerate(left_over, 3):
        talk.client(k.request(k.API_VERSIONS, 0, number, rest))
        talk.broker(k.response(number, struct.pack(">hi", 0, 0) + rest))
    talk.close()
    counts = talk.tracker.counts
    assert talk.kinds().count("trailing_bytes") == 2 * len(left_over)
    assert counts.undecoded_bytes == 2 * sum(map(len, left_over))
    assert counts.decoded_bytes == counts.kafka_bytes - counts.undecoded_bytes


def test_a_snapped_frame_keeps_its_header_and_times() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client(k.produce(2, acks=1, records=k.record_batch(5, size=900)), snap=40)
    talk.broker(k.produce_answer(2))
    exchange = talk.exchanges[1]
    assert (exchange.api_key, exchange.correlation_id, exchange.malformed) == (0, 2, True)
    assert talk.kinds() == ["missing_bytes"]


def test_a_request_is_decoded_despite_a_loss_inside_its_record_data() -> None:
    big = k.produce(2, acks=1, records=k.record_batch(5, size=9000))
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client(big[:200]).loses(CLIENT, 5000).client(big[5200:], k.heartbeat(3))
    talk.broker(k.produce_answer(2), k.heartbeat_answer(3))
    assert [exchange.malformed for exchange in talk.exchanges] == [False, False, False]
    assert talk.exchanges[1].request is not None
    ((_, _, partitions),) = talk.exchanges[1].request.values[2]
    assert partitions[0][1].record_count == 5


def test_both_directions_are_in_sync_again_after_a_lost_boundary() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    lost, kept = k.heartbeat(2), k.heartbeat(3)
    talk.client(lost[:10]).loses(CLIENT, len(lost) - 4).client(kept[6:], k.heartbeat(4))
    responses = [k.heartbeat_answer(i) for i in (2, 3, 4)]
    talk.loses(BROKER, len(responses[0]) + 3).broker(responses[1][3:], responses[2]).close()
    assert (4, 5, 7) in talk.pairs()
    assert all(packet != 7 or cid == 4 for cid, _, packet in talk.pairs())
    assert "not_in_sync" in talk.kinds()


def test_a_request_cut_by_the_end_of_the_capture_keeps_its_header() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    talk.client(k.produce(2, acks=1, records=k.record_batch(5, size=900))[:300]).close()
    exchange = talk.exchanges[1]
    assert (exchange.api_key, exchange.correlation_id) == (0, 2)
    assert exchange.request is not None
    assert exchange.request.end_ns is None
    assert "incomplete_frame" in talk.kinds()


def test_the_oldest_request_is_given_up_if_too_many_are_in_flight() -> None:
    talk = Talk().client(*(k.heartbeat(i) for i in range(10_001)))
    assert [exchange.correlation_id for exchange in talk.exchanges] == [0]
    assert "pending_limit" in talk.kinds()


def test_correlation_ids_belong_to_one_connection() -> None:
    first = Talk().client(k.heartbeat(5))
    second = Talk(tracker=first.tracker)
    second.tcp.serial = 2
    second.client(k.heartbeat(6)).broker(k.heartbeat_answer(6), k.heartbeat_answer(5)).close()
    first.broker(k.heartbeat_answer(5))
    assert second.pairs() == [(6, 1, 2), (5, None, 3)]
    assert first.pairs() == [(5, 1, 2)]


def test_a_large_response_without_its_id_is_skipped() -> None:
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    response = k.response(2, b"x" * 200_000)
    talk.client(k.heartbeat(2), k.heartbeat(3))
    # Of the first packet, the size and half of the correlation id were captured.
    talk.broker(response[:1000], snap=6).broker(response[1000:150_000])
    talk.broker(response[150_000:]).broker(k.heartbeat_answer(3)).close()
    assert [pair[0] for pair in talk.pairs() if pair[2] is not None] == [1, 3]
    assert "missing_bytes" in talk.kinds()


def test_a_closed_connection_is_freed_without_garbage_collection() -> None:
    """Thousands of short connections would otherwise wait for the garbage collector."""
    talk = Talk().client(k.heartbeat(1)).broker(k.heartbeat_answer(1))
    kafka = weakref.ref(talk.tracker._kafka._by_serial[talk.tcp.serial].connection)
    gc.disable()
    try:
        talk.close()
        assert kafka() is None
    finally:
        gc.enable()


# -- memory is short -------------------------------------------------------------------------------


def large(correlation_id: int, size: int) -> bytes:
    """A request of an unknown API, so that none of its bytes can be skipped."""
    return k.request(999, 0, correlation_id, b"t" * size)


def shed(talk: Talk) -> None:
    """Let the connection drop what it has buffered, as the tracker does when memory is short."""
    (kafka,) = talk.tracker._kafka._by_serial.values()
    events = kafka.connection.shed()
    talk.exchanges += events.exchanges
    talk.anomalies += events.anomalies


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
    talks = [Talk(tracker=tracker) for _ in range(40)]
    for serial, talk in enumerate(talks):
        talk.tcp.serial = serial
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


# -- steps about losses ----------------------------------------------------------------------------

SEGMENT_BYTES = 10


def segments_of(offset: int, *packets: int) -> Chunk:
    """Segments of ten bytes, between two segments that belong to other chunks."""
    numbers = [0, *packets, 0]
    lengths = [SEGMENT_BYTES] * len(numbers)
    starts = [index * SEGMENT_BYTES for index in range(len(numbers))]
    buffer = memoryview(bytes(SEGMENT_BYTES * len(numbers)))
    segments = Segments(buffer, starts, lengths, lengths, [0] * len(numbers), numbers)
    return Chunk(offset, segments, 1, 1 + len(packets))


def gap(offset: int, packet: int) -> Gap:
    return Gap(offset, SEGMENT_BYTES, 0, packet)


def packets_of(items: BothItems) -> list[list[object]]:
    """Each direction as numbers of packets; a gap as a text with the packet after it."""
    return [
        [
            entry
            for item in side
            for entry in (
                [f"gap before {item.packet}"]
                if isinstance(item, Gap)
                else item.segments.packet[item.first : item.last]
            )
        ]
        for side in items
    ]


LOSSY: BothItems = (
    [segments_of(0, 1, 3), gap(20, 8), segments_of(30, 8, 9, 10, 12)],
    [segments_of(0, 2, 4, 7, 11)],
)


def test_the_items_before_a_loss_are_a_step() -> None:
    steps = LossSteps(LOSSY)
    assert not steps.is_at_loss()
    assert packets_of(steps.to_loss()) == [[1, 3], [2, 4, 7]]
    assert steps.is_at_loss()
    assert packets_of(steps.to_loss()) == [["gap before 8", 8, 9, 10, 12], [11]]
    assert not steps.has_any()


@pytest.mark.parametrize(("segments", "packet"), [(1, 8), (2, 9), (3, 10), (9, 12)])
def test_the_step_about_a_loss_ends_so_many_segments_after_it(segments: int, packet: int) -> None:
    steps = LossSteps(LOSSY)
    steps.to_loss()
    ours, theirs = packets_of(steps.about(segments))
    assert ours[-1] == packet
    assert theirs == ([11] if packet > 11 else [])


def test_without_a_loss_the_segments_of_both_directions_count() -> None:
    steps = LossSteps(([segments_of(0, 1, 3, 9)], [segments_of(0, 2, 6)]))
    assert packets_of(steps.about(2)) == [[1, 3], [2, 6]]


def test_a_step_ends_before_the_next_loss() -> None:
    steps = LossSteps(
        (
            [gap(0, 2), segments_of(10, 2, 3), gap(30, 6), segments_of(40, 6, 7)],
            [segments_of(0, 5, 9)],
        )
    )
    assert packets_of(steps.about(100)) == [["gap before 2", 2, 3], []]
    assert packets_of(steps.about(100)) == [[], [5]]
    assert packets_of(steps.about(100)) == [["gap before 6", 6, 7], []]
    assert packets_of(steps.to_loss()) == [[], [9]]


def test_segments_after_a_later_packet_belong_to_the_next_step() -> None:
    # Packet 3 was captured early, or 9 was held back.
    steps = LossSteps(([segments_of(0, 1, 9, 3)], [gap(0, 5)]))
    assert packets_of(steps.to_loss()) == [[1], []]
    assert packets_of(steps.about(9)) == [[], ["gap before 5"]]
    assert packets_of(steps.about(9)) == [[9, 3], []]


SIDES = st.lists(
    st.one_of(
        st.lists(st.integers(1, 40), min_size=1, max_size=6),
        st.integers(1, 40),
    ),
    max_size=5,
)


def side_of(parts: list[list[int] | int]) -> list[StreamItem]:
    items: list[StreamItem] = []
    offset = 0
    for part in parts:
        if isinstance(part, int):
            items.append(gap(offset, part))
            offset += SEGMENT_BYTES
        else:
            items.append(segments_of(offset, *part))
            offset += SEGMENT_BYTES * len(part)
    return items


@given(SIDES, SIDES, st.lists(st.integers(0, 5), min_size=1))
def test_the_steps_together_are_the_whole(one, other, sizes) -> None:
    """A size of 0 stands for everything before the next loss."""
    items = (side_of(one), side_of(other))
    steps, taken = LossSteps(items), []
    while steps.has_any():
        segments = sizes[len(taken) % len(sizes)]
        taken.append(steps.about(segments) if segments else steps.to_loss())
        assert any(taken[-1])
    for side in (0, 1):
        assert rows_of([item for step in taken for item in step[side]]) == rows_of(items[side])
