from __future__ import annotations

import numpy as np

from kanalyze.net.headers import read_headers
from kanalyze.net.notes import Notes
from kanalyze.net.sorted_batch import SortedBatch
from tests.support.packets import ACK, SYN, Packet, make_batch, segment, timed

OTHER = ("10.0.0.7", 7)


def sort(*packets: bytes) -> SortedBatch:
    return SortedBatch(read_headers(make_batch(timed(packets), 1), Notes()))


def test_sides_are_summed_up_and_empty_segments_reach_no_list():
    batch = sort(
        segment(seq=10, payload=b"abc"),
        segment(to_broker=False, seq=5, payload=b"x"),
        segment(client=OTHER, seq=1),
        segment(seq=13, payload=b"de"),
        segment(seq=15),
        segment(to_broker=False, seq=9, payload=b"yz"),
        segment(to_broker=False, seq=5, payload=b"x"),
    )
    first, second = batch.groups()
    assert (first.lower.packets, first.higher.packets) == (3, 3)
    assert (first.lower.sequence, first.lower.length, first.lower.breaks) == (10, 5, 0)
    assert (first.higher.sequence, first.higher.length, first.higher.breaks) == (5, 4, 2)
    assert (second.lower.packets, second.higher.packets) == (0, 1)
    assert second.higher.first == second.higher.last
    assert batch.shared.length == [3, 2, 1, 2, 1]
    assert batch.shared.packet == [1, 4, 2, 6, 7]


def test_sequence_numbers_that_wrap_are_no_break():
    batch = sort(segment(seq=0xFFFFFFFE, payload=b"abc"), segment(seq=1, payload=b"d"))
    assert next(batch.groups()).lower.breaks == 0


def test_groups_come_by_their_first_packets_and_tell_of_control_flags():
    batch = sort(
        segment(client=OTHER), segment(flags=ACK), segment(flags=SYN), segment(client=OTHER)
    )
    assert [group.has_control for group in batch.groups()] == [False, True]


def test_captured_bytes_are_summed_apart_from_the_length():
    raw = segment(payload=b"0123456789")
    packet = Packet(raw[:-4], wire_bytes=len(raw))
    batch = SortedBatch(read_headers(make_batch([packet]), Notes()))
    side = next(batch.groups()).lower
    assert (side.length, side.captured) == (10, 6)


def test_segments_are_listed_in_the_order_of_the_capture_with_their_ranks():
    batch = sort(
        segment(seq=10, payload=b"abc"),
        segment(to_broker=False, seq=5, ack=13, payload=b"x"),
        segment(seq=13),
        segment(seq=13, payload=b"de"),
    )
    segments = batch.segments_of(next(batch.groups()))
    assert [s.packet for s in segments] == [1, 2, 3, 4]
    assert [s.from_higher for s in segments] == [0, 1, 0, 0]
    assert segments[1].acknowledgment == 13
    with_payload = [s for s in segments if s.length]
    assert [batch.shared.packet[s.rank] for s in with_payload] == [1, 2, 4]


def test_segments_have_the_marks_of_their_packets():
    batch = sort(segment(seq=1), segment(client=OTHER), segment(to_broker=False, seq=2))
    group = next(batch.groups())
    marks = np.array([1, 9, 2], np.uint8)
    assert [(s.sequence, s.marks) for s in batch.segments_of(group, marks)] == [(1, 1), (2, 2)]
    assert [s.marks for s in batch.segments_of(group)] == [0, 0]
