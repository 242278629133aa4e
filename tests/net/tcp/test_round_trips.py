from __future__ import annotations

import pytest

from kanalyze.model.tcp import RoundTrips
from kanalyze.net.tcp.round_trips import MAX_TIMED_SEGMENTS, RoundTripTimer, TimedSegments


def timer() -> RoundTripTimer:
    return RoundTripTimer(RoundTrips(), TimedSegments())


NO_SAMPLES = (0, 0, None, None)


def figures(sums: RoundTrips) -> tuple[int | None, ...]:
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
    return figures(one.sums)


@pytest.mark.parametrize("origin", [0, 2**32 - 150, 2**31 - 150])
def test_each_segment_whose_end_is_acknowledged_gives_a_sample(origin):
    sums = samples(
        ("send", origin, 100, 10),
        ("send", origin + 100, 100, 20),
        ("ack", origin + 100, 0, 50),
        ("ack", origin + 200, 0, 90),
    )
    assert sums == (2, 40 + 70, 40, 70)


def test_there_is_no_mean_without_samples():
    assert RoundTrips(2, 111, 40, 71).mean_ns == 55
    assert RoundTrips().mean_ns is None


def test_one_acknowledgment_of_many_segments_is_a_sample_of_the_last():
    events = [("send", i * 10, 10, i) for i in range(5)]
    assert samples(*events, ("ack", 50, 0, 100)) == (1, 96, 96, 96)


def test_an_acknowledgment_within_a_segment_gives_no_sample_and_does_not_end_the_wait():
    begin = [("send", 0, 100, 0), ("ack", 50, 0, 10)]
    assert samples(*begin) == NO_SAMPLES
    assert samples(*begin, ("ack", 100, 0, 30)) == (1, 30, 30, 30)


def test_repeated_acknowledgments_give_no_sample():
    acks = [("ack", 100, 0, 40), ("ack", 100, 0, 900), ("ack", 60, 0, 950)]
    assert samples(("send", 0, 100, 0), *acks) == (1, 40, 40, 40)


@pytest.mark.parametrize("again", [(0, 100), (50, 10), (99, 1), (-10, 20), (0, 300)])
def test_a_segment_retransmitted_in_part_gives_no_sample(again):
    start, length = again
    events = [("send", -50, 50, 0), ("ack", 0, 0, 1), ("send", 0, 100, 5)]
    sums = samples(*events, ("send", start, length, 8), ("ack", 100, 0, 20))
    assert sums == (1, 1, 1, 1)


def test_a_segment_retransmitted_after_its_acknowledgment_keeps_its_sample():
    events = [("send", 0, 100, 0), ("ack", 100, 0, 30), ("send", 0, 100, 40), ("ack", 100, 0, 70)]
    assert samples(*events) == (1, 30, 30, 30)


def test_neighbours_of_a_retransmitted_segment_give_their_samples():
    events = [("send", 0, 10, 0), ("send", 10, 10, 1), ("send", 20, 10, 2), ("send", 10, 10, 3)]
    acks = [("ack", 10, 0, 10), ("ack", 20, 0, 11), ("ack", 30, 0, 12)]
    assert samples(*events, *acks) == (2, 20, 10, 10)


def test_an_acknowledgment_captured_before_its_data_gives_no_sample():
    events = [("ack", 0, 0, 0), ("ack", 100, 0, 10), ("send", 0, 100, 20), ("ack", 100, 0, 5000)]
    assert samples(*events) == NO_SAMPLES


def test_a_time_before_that_of_the_data_gives_no_sample():
    assert samples(("send", 0, 100, 20), ("ack", 100, 0, 10)) == NO_SAMPLES


def test_a_probe_of_an_old_byte_gives_no_sample():
    events = [("send", 0, 10, 0), ("ack", 10, 0, 5), ("send", 9, 1, 100), ("ack", 10, 0, 105)]
    assert samples(*events) == (1, 5, 5, 5)


def test_a_segment_behind_a_hole_gives_its_sample():
    events = [("send", 0, 10, 0), ("send", 50, 10, 1), ("ack", 60, 0, 9)]
    assert samples(*events) == (1, 8, 8, 8)


def test_a_segment_that_fills_a_hole_gives_no_sample():
    events = [("send", 0, 10, 0), ("send", 50, 10, 1), ("send", 10, 40, 2), ("ack", 50, 0, 9)]
    assert samples(*events) == NO_SAMPLES


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
    before = one.sums.samples
    one.send(450, 35, 61)
    assert one.all_timed.count == 60 - first - 4
    for i in range(first, 60):
        one.acknowledge(i * 10 + 10, 100)
    lost = sum(100 - i for i in range(45, 49))
    assert one.sums.samples - before == 60 - first - 4
    without = timer()
    for i in range(60):
        without.send(i * 10, 10, i)
    without.acknowledge(first * 10, 60)
    for i in range(first, 60):
        without.acknowledge(i * 10 + 10, 100)
    assert one.sums.total_ns == without.sums.total_ns - lost
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
    assert figures(one.sums) == (1, 61, 61, 61)
