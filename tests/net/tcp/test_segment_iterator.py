from __future__ import annotations

from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.delivery import DUPLICATE, ZERO_WINDOW
from kanalyze.net.tcp.duplicates import DuplicateDetector
from kanalyze.net.tcp.segment_iterator import SegmentIterator
from tests.support.measuring import numbered
from tests.support.packets import ACK, SYN, Packet, make_batch, segment, timed

OTHER = ("10.0.0.7", 7)


def walk_over(*packets: bytes) -> SegmentIterator:
    return SegmentIterator(
        read_headers(make_batch(timed(packets), 1), LayerStats()), DuplicateDetector()
    )


def segments_of(iterator: SegmentIterator, group: int = 0, *, mark: bool = False):
    iterator.begin(group)
    found = []
    while not iterator.at_end:
        if mark:
            iterator.mark_duplicate()
        found.append(iterator.segment())
        iterator.advance()
    return found


def test_columns_hold_payloads_by_connection_and_sender_and_no_empty_segments():
    iterator = walk_over(
        segment(seq=10, payload=b"abc"),
        segment(to_broker=False, seq=5, payload=b"x"),
        segment(client=OTHER, seq=1),
        segment(seq=13, payload=b"de"),
        segment(seq=15),
        segment(to_broker=False, seq=9, payload=b"yz"),
    )
    assert iterator.groups.count == 2
    assert iterator.shared.length.tolist() == [3, 2, 1, 2]
    assert iterator.shared.packet.tolist() == [1, 4, 2, 6]
    assert iterator.last_time_ns == timed([b""] * 6)[-1].time_ns


def test_segments_come_in_the_order_of_the_capture_with_their_ranks():
    iterator = walk_over(
        segment(seq=10, payload=b"abc"),
        segment(to_broker=False, seq=5, ack=13, payload=b"x"),
        segment(client=OTHER, seq=1, payload=b"z"),
        segment(seq=13),
        segment(seq=13, payload=b"de"),
    )
    segments = segments_of(iterator)
    assert [s.packet for s in segments] == [1, 2, 4, 5]
    assert [s.from_higher for s in segments] == [0, 1, 0, 0]
    assert segments[1].acknowledgment == 13
    with_payload = [s for s in segments if s.length]
    assert [iterator.shared.packet[s.rank] for s in with_payload] == [1, 2, 5]
    (other,) = segments_of(iterator, 1)
    assert (other.packet, iterator.shared.packet[other.rank]) == (3, 3)


def test_segments_of_one_end_alone_are_read():
    for to_broker in (True, False):
        iterator = walk_over(*(segment(to_broker=to_broker, seq=i) for i in range(3)))
        assert [s.sequence for s in segments_of(iterator)] == [0, 1, 2]


def test_captured_bytes_may_be_fewer_than_the_length():
    raw = segment(payload=b"0123456789")
    batch = make_batch([Packet(raw[:-4], wire_bytes=len(raw))])
    iterator = SegmentIterator(read_headers(batch, LayerStats()), DuplicateDetector())
    (one,) = segments_of(iterator)
    assert (one.length, one.captured) == (10, 6)


def test_a_lone_syn_is_reported():
    other, third = ("10.0.0.8", 8), ("10.0.0.9", 9)
    iterator = walk_over(
        segment(flags=SYN),
        segment(client=OTHER, flags=SYN),
        segment(client=OTHER, flags=SYN),
        segment(client=other, flags=SYN, payload=b"x"),
        segment(client=third, flags=SYN | ACK),
    )
    assert [iterator.is_lone_syn(group) for group in range(4)] == [True, False, False, False]


def test_duplicates_are_marked_on_request():
    packets = [numbered(7, payload=b"a"), numbered(7, payload=b"a"), numbered(8, window=0)]
    packets += [numbered(8, window=0)]
    iterator = walk_over(*packets)
    assert [s.marks for s in segments_of(iterator)] == [0, 0, ZERO_WINDOW, ZERO_WINDOW]
    assert [s.marks for s in segments_of(iterator, mark=True)] == [
        0,
        DUPLICATE,
        ZERO_WINDOW,
        DUPLICATE,
    ]
    iterator = walk_over(*packets)
    iterator.mark_all()
    assert [s.marks for s in segments_of(iterator)] == [0, DUPLICATE, ZERO_WINDOW, DUPLICATE]


def test_very_many_duplicates_are_all_marked():
    packets = [numbered(i // 2, payload=b"a") for i in range(4000)]
    iterator = walk_over(*packets)
    assert [s.marks for s in segments_of(iterator, mark=True)] == [0, DUPLICATE] * 2000
