from __future__ import annotations

import pytest

from kanalyze.model.tcp import RoundTrips
from kanalyze.net.tcp.connection import MAX_TIMED_SEGMENTS, RoundTripTimer, TimedSegments
from tests.support.cases import for_each
from tests.support.measuring import at, measured, numbered
from tests.support.packets import ACK, FIN, RST, SYN


def timer() -> RoundTripTimer:
    return RoundTripTimer(RoundTrips(), TimedSegments())


NO_SAMPLES = (0, 0, None, None)


def summed(sums: RoundTrips) -> tuple[int | None, ...]:
    return sums.samples, sums.total_ns, sums.least_ns, sums.most_ns


def samples(*events: tuple[str, int, int, int]) -> tuple[int | None, ...]:
    """Feed ``("send", sequence, length, time)`` and ``("ack", sequence, 0, time)``.

    Returns number, sum, least and most of the samples.
    """
    one = timer()
    for kind, sequence, length, time_ns in events:
        if kind == "send":
            one.send(sequence % 2**32, length, time_ns)
        else:
            one.acknowledge(sequence % 2**32, time_ns)
    assert one.last - one.first == one.all_timed.count
    return summed(one.sums)


@pytest.mark.parametrize("origin", [0, 2**32 - 150, 2**31 - 150])
def test_each_segment_whose_end_is_acknowledged_gives_a_sample(origin):
    sums = samples(
        ("send", origin, 100, 10),
        ("send", origin + 100, 100, 20),
        ("ack", origin + 100, 0, 50),
        ("ack", origin + 200, 0, 90),
    )
    assert sums == (2, 40 + 70, 40, 70)


SAMPLES = {
    "many segments, one acknowledgment": (
        [*(("send", i * 10, 10, i) for i in range(5)), ("ack", 50, 0, 100)],
        (1, 96, 96, 96),
    ),
    "an acknowledgment within a segment": ([("send", 0, 100, 0), ("ack", 50, 0, 10)], NO_SAMPLES),
    "the rest acknowledged later": (
        [("send", 0, 100, 0), ("ack", 50, 0, 10), ("ack", 100, 0, 30)],
        (1, 30, 30, 30),
    ),
    "repeated acknowledgments": (
        [("send", 0, 100, 0), ("ack", 100, 0, 40), ("ack", 100, 0, 900), ("ack", 60, 0, 950)],
        (1, 40, 40, 40),
    ),
    "sent again after its acknowledgment": (
        [("send", 0, 100, 0), ("ack", 100, 0, 30), ("send", 0, 100, 40), ("ack", 100, 0, 70)],
        (1, 30, 30, 30),
    ),
    "neighbours of a retransmitted segment": (
        [
            *(("send", i * 10, 10, i) for i in range(3)),
            ("send", 10, 10, 3),
            *(("ack", i * 10, 0, 9 + i) for i in (1, 2, 3)),
        ],
        (2, 20, 10, 10),
    ),
    "an acknowledgment captured before its data": (
        [("ack", 0, 0, 0), ("ack", 100, 0, 10), ("send", 0, 100, 20), ("ack", 100, 0, 5000)],
        NO_SAMPLES,
    ),
    "a time before that of the data": ([("send", 0, 100, 20), ("ack", 100, 0, 10)], NO_SAMPLES),
    "a probe of an old byte": (
        [("send", 0, 10, 0), ("ack", 10, 0, 5), ("send", 9, 1, 100), ("ack", 10, 0, 105)],
        (1, 5, 5, 5),
    ),
    "a segment behind a hole": (
        [("send", 0, 10, 0), ("send", 50, 10, 1), ("ack", 60, 0, 9)],
        (1, 8, 8, 8),
    ),
    "a segment that fills a hole": (
        [("send", 0, 10, 0), ("send", 50, 10, 1), ("send", 10, 40, 2), ("ack", 50, 0, 9)],
        NO_SAMPLES,
    ),
}


@for_each("name", SAMPLES)
def test_only_an_acknowledgment_of_a_segment_sent_once_gives_a_sample(name):
    events, expected = SAMPLES[name]
    assert samples(*events) == expected


@pytest.mark.parametrize("again", [(0, 100), (50, 10), (99, 1), (-10, 20), (0, 300)])
def test_a_segment_retransmitted_in_part_gives_no_sample(again):
    start, length = again
    events = [("send", -50, 50, 0), ("ack", 0, 0, 1), ("send", 0, 100, 5)]
    sums = samples(*events, ("send", start, length, 8), ("ack", 100, 0, 20))
    assert sums == (1, 1, 1, 1)


def test_cells_are_used_again():
    one = timer()
    for i in range(10_000):
        one.send(i * 10, 10, i)
        one.send(i * 10 + 5, 5, i)
        if i >= 3:
            one.acknowledge((i - 3) * 10 + 10, i)
    assert one.all_timed.count <= 4
    assert len(one.ends) <= 32


@pytest.mark.parametrize("first", [0, 1, 20, 40])
def test_a_retransmission_takes_segments_out_of_the_middle(first):
    """Whether or not cells before them are in use."""
    one = timer()
    for i in range(60):
        one.send(i * 10, 10, i)
    one.acknowledge(first * 10, 60)
    before, total_ns = one.sums.samples, one.sums.total_ns
    one.send(450, 35, 61)
    assert one.all_timed.count == 60 - first - 4
    for i in range(first, 60):
        one.acknowledge(i * 10 + 10, 100)
    kept = [i for i in range(first, 60) if i not in range(45, 49)]
    assert one.sums.samples - before == len(kept)
    assert one.sums.total_ns - total_ns == sum(100 - i for i in kept)
    assert one.all_timed.count == 0


def test_segments_without_an_acknowledgment_take_bounded_memory():
    one = timer()
    for i in range(MAX_TIMED_SEGMENTS + 10):
        one.send(i * 10, 10, i)
    assert one.all_timed.count == MAX_TIMED_SEGMENTS
    assert len(one.starts) == len(one.ends) == len(one.times) <= 2 * MAX_TIMED_SEGMENTS
    one.acknowledge(100, 10**6)
    assert one.sums.samples == 0
    one.acknowledge(110, 10**6)
    assert one.sums.total_ns == 10**6 - 10
    one.drop_all()
    assert one.all_timed.count == 0


def test_an_acknowledgment_after_gigabytes_of_data_is_a_sample_of_the_last_segment():
    one = timer()
    one.acknowledge(0, 0)
    size = 1 << 28
    for i in range(40):
        one.send(i * size % 2**32, size, i)
    one.acknowledge(40 * size % 2**32, 100)
    assert summed(one.sums) == (1, 61, 61, 61)


BATCHES = for_each("batch_packets", [0, 1, 2])
SYN_NS, ANSWER_NS, ACK_NS = 100, 350, 400


def to_broker(identification: int = 1, **named) -> bytes:
    return numbered(identification, **named)


def to_client(identification: int = 1, **named) -> bytes:
    return numbered(identification, to_broker=False, **named)


FIRST = (SYN_NS, to_broker(1, seq=0, flags=SYN))
ANSWER = (ANSWER_NS, to_client(1, seq=900, ack=1, flags=SYN | ACK))
LAST = (ACK_NS, to_broker(2, seq=1, ack=901))


def one(*packets, batch_packets=0):
    (connection,) = measured(at(*packets), batch_packets)
    return connection


def halves(*packets, batch_packets=0):
    measures = one(*packets, batch_packets=batch_packets).measures
    return measures.handshake_rtt_ns, measures.answer_rtt_ns, measures.opener_rtt_ns


# The handshake

DATA = (ACK_NS, to_broker(2, seq=1, ack=901, payload=b"x"))
MORE = (ACK_NS, to_broker(2, seq=1, ack=950))
LATE = (9_000_000, to_broker(3, seq=1, ack=901, payload=b"late"))
CROSSING = (150, to_client(1, seq=900, flags=SYN))
HANDSHAKES = {
    "whole": ((FIRST, ANSWER, LAST), (300, 250, 50)),
    "ended by data": ((FIRST, ANSWER, DATA), (300, 250, 50)),
    "no SYN": ((ANSWER, LAST), (None, None, 50)),
    "no answer": ((FIRST, LAST), (None, None, None)),
    "no end": ((FIRST, ANSWER), (None, 250, None)),
    "none": ((LAST,), (None, None, None)),
    "wrong order": ((ANSWER, (SYN_NS + 300, FIRST[1]), LAST), (None, None, 50)),
    "the last ACK before the answer": ((FIRST, (200, LAST[1]), ANSWER, LATE), (None, 250, None)),
    "more acknowledged": ((FIRST, ANSWER, MORE), (None, 250, None)),
    "simultaneous": ((FIRST, CROSSING, ANSWER, LAST), (None, None, None)),
}


@BATCHES
@for_each("name", HANDSHAKES)
def test_a_handshake_is_timed_in_two_halves_as_far_as_it_was_seen_in_order(name, batch_packets):
    packets, expected = HANDSHAKES[name]
    assert halves(*packets, batch_packets=batch_packets) == expected


@BATCHES
def test_a_handshake_captured_twice_is_timed_by_its_first_copies(batch_packets):
    packets = [(time + late, data) for time, data in (FIRST, ANSWER, LAST) for late in (0, 20)]
    connection = one(*packets, batch_packets=batch_packets)
    assert connection.measures.handshake_rtt_ns == 300
    assert connection.measures.syn_retransmissions == [0, 0]
    assert connection.measures.duplicate_packets == [2, 1]


AGAIN = {
    "the SYN": (
        (FIRST, (SYN_NS + 200, to_broker(7, seq=0, flags=SYN)), ANSWER, LAST),
        ([1, 0], (None, None, 50)),
    ),
    "the SYN-ACK": (
        (FIRST, ANSWER, (ANSWER_NS + 10, to_client(7, seq=900, ack=1, flags=SYN | ACK)), LAST),
        ([0, 1], (None, 250, None)),
    ),
}


@BATCHES
@for_each("name", AGAIN)
def test_what_is_sent_again_of_a_handshake_leaves_its_half_unknown(name, batch_packets):
    packets, (retransmissions, expected) = AGAIN[name]
    measures = one(*packets, batch_packets=batch_packets).measures
    assert (measures.syn_retransmissions, measures.syn_time_ns) == (retransmissions, SYN_NS)
    assert halves(*packets, batch_packets=batch_packets) == expected


@BATCHES
def test_a_refused_connection_has_no_handshake(batch_packets):
    refusal = (150, to_client(0, seq=0, ack=1, flags=RST | ACK))
    connection = one(FIRST, refusal, batch_packets=batch_packets)
    assert connection.measures.handshake_rtt_ns is None
    assert connection.measures.reset_packets == [0, 1]
    assert (connection.closed_by, connection.end) == (1, "reset")


# Round trips
@BATCHES
def test_each_direction_has_its_round_trips(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, payload=b"ask")),
        (1070, to_client(2, seq=901, ack=4)),
        (2000, to_client(3, seq=901, ack=4, payload=b"answer")),
        (2005, to_broker(4, seq=4, ack=907)),
    ]
    client, broker = one(*packets, batch_packets=batch_packets).measures.round_trips
    assert (client.samples, client.total_ns) == (1, 70)
    assert (broker.samples, broker.least_ns, broker.most_ns) == (1, 5, 5)


ASKED = (1000, to_broker(3, seq=1, ack=901, payload=b"ask"))
TRIPS = {
    "data with a FIN": (
        (
            *(FIRST, ANSWER, LAST),
            (1000, to_broker(3, seq=1, ack=901, flags=FIN | ACK, payload=b"bye")),
            (1080, to_client(2, seq=901, ack=5)),
        ),
        (1, 80, 0),
    ),
    "data in a SYN": (
        (
            (100, to_broker(1, seq=0, flags=SYN, payload=b"fast")),
            (160, to_client(1, seq=900, ack=5, flags=SYN | ACK)),
        ),
        (1, 60, 0),
    ),
    "a reset acknowledges nothing": (
        (FIRST, ANSWER, LAST, ASKED, (1070, to_client(2, seq=901, ack=4, flags=RST | ACK))),
        (0, 0, 0),
    ),
    "out of the window": (
        (
            *(FIRST, ANSWER, LAST, ASKED),
            (1010, to_client(2, seq=0x70000000, ack=4, payload=b"stray")),
            (1070, to_client(3, seq=901, ack=4)),
        ),
        (1, 70, 0),
    ),
    "the client alone": (
        tuple((i * 1000, to_broker(i + 1, seq=i, ack=77, payload=b"x")) for i in range(9)),
        (0, 0, 0),
    ),
    "the broker alone": (
        tuple((i * 1000, to_client(i + 1, seq=i, ack=77, payload=b"x")) for i in range(9)),
        (0, 0, 0),
    ),
}


@BATCHES
@for_each("name", TRIPS)
def test_round_trips_are_those_of_data_and_its_acknowledgment(name, batch_packets):
    packets, expected = TRIPS[name]
    first, second = one(*packets, batch_packets=batch_packets).measures.round_trips
    assert (first.samples, first.total_ns, second.samples) == expected


# Odd packets
@BATCHES
def test_windows_of_0_are_counted_but_not_in_syns_fins_and_resets(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_client(2, seq=901, ack=1, window=0)),
        (1001, to_client(3, seq=901, ack=1, window=0, payload=b"x")),
        (1002, to_client(3, seq=901, ack=1, window=0, payload=b"x")),
        (2000, to_broker(4, seq=1, ack=902, flags=FIN | ACK, window=0)),
        (3000, to_client(5, seq=902, ack=2, flags=RST | ACK, window=0)),
    ]
    measures = one(*packets, batch_packets=batch_packets).measures
    assert measures.zero_window_packets == [0, 2]
    assert measures.duplicate_packets == [0, 1]
    assert (measures.fin_packets, measures.reset_packets) == ([1, 0], [0, 1])


@BATCHES
@pytest.mark.parametrize("payload", [b"", b"\0"])
def test_keep_alive_probes_are_counted_separately(batch_packets, payload):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, payload=b"hello")),
        (1100, to_client(2, seq=901, ack=6)),
        (75_000_000_000, to_broker(4, seq=5, ack=901, payload=payload)),
        (75_000_000_200, to_client(3, seq=901, ack=6)),
        (76_000_000_000, to_broker(5, seq=6, ack=901)),
    ]
    connection = one(*packets, batch_packets=batch_packets)
    assert connection.measures.keep_alive_packets == [1, 0]
    assert connection.measures.retransmitted_packets == [0, 0]
    assert connection.retransmitted_bytes == (0, 0)
    assert connection.unique_bytes == [5, 0]
    assert connection.measures.round_trips[0].total_ns == 100


@BATCHES
def test_retransmissions_are_counted_once_a_packet(batch_packets):
    packets = [
        *(FIRST, ANSWER, LAST),
        (1000, to_broker(3, seq=1, ack=901, payload=b"hello")),
        (2000, to_broker(4, seq=11, ack=901, payload=b"world")),
        (300_000_000, to_broker(5, seq=1, ack=901, payload=b"hello" + b"....." + b"wor")),
    ]
    connection = one(*packets, batch_packets=batch_packets)
    assert connection.measures.retransmitted_packets == [1, 0]
    assert connection.retransmitted_bytes == (8, 0)
    assert connection.out_of_order_packets == (0, 0)
