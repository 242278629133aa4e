from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.tcp import Endpoint
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.segment_iterator import (
    IDENTIFIED_NS,
    IS_COPY,
    IS_ZERO_WINDOW,
    UNIDENTIFIED_NS,
    WITHIN_PACKETS,
    DuplicateDetector,
    SegmentGroups,
    SegmentIterator,
    key_endpoint,
)
from tests.support.measuring import at, numbered
from tests.support.packets import ACK, FIN, START_NS, SYN, Packet, make_batch, segment, timed

if TYPE_CHECKING:
    from kanalyze.net.segment_columns import SegmentColumns

STEADY = settings(deadline=None)
ADDRESSES = ("10.0.0.1", "10.0.0.2", "255.255.255.255")
ADDRESSES_V6 = ("::1", "2001:db8::1", "2001:db8::2", "ffff::ffff")
PAIRS = st.one_of(
    *(
        st.tuples(
            st.tuples(st.sampled_from(family), st.sampled_from([0, 1, 65535])),
            st.tuples(st.sampled_from(family), st.sampled_from([0, 1, 65535])),
        )
        for family in (ADDRESSES, ADDRESSES_V6)
    )
)


def columns_of(pairs):
    packets = [Packet(segment(client=client, broker=broker)) for client, broker in pairs]
    return read_headers(make_batch(packets), LayerStats())


def grouped(pairs):
    """For each group, both ends, and the indices of the segments of each end."""
    groups = SegmentGroups(columns_of(pairs))
    out = []
    for i in range(groups.count):
        start, middle, end = groups.start[i], groups.middle[i], groups.start[i + 1]
        ends = tuple(tuple(key_endpoint(key)) for key in groups.pair(i))
        sent = (groups.order[start:middle].tolist(), groups.order[middle:end].tolist())
        out.append((ends, sent))
    return out


def expected(pairs):
    out = {}
    for i, pair in enumerate(pairs):
        out.setdefault(frozenset(pair), {}).setdefault(pair[0], []).append(i)
    return out


def check(pairs):
    found = grouped(pairs)
    by_pair = expected(pairs)
    assert len(found) == len(by_pair)
    for ends, sent in found:
        by_end = by_pair[frozenset(ends)]
        if ends[0] == ends[1]:
            assert sent == (by_end[ends[0]], [])
        else:
            assert sent == (by_end.get(ends[0], []), by_end.get(ends[1], []))


@STEADY
@given(st.lists(PAIRS, min_size=1, max_size=40))
def test_groups_are_those_that_a_dictionary_gives(pairs):
    check(pairs)


@STEADY
@given(PAIRS, st.lists(PAIRS, max_size=10), st.lists(PAIRS, max_size=10))
def test_a_pair_has_its_ends_in_the_same_order_in_every_batch(pair, others, more):
    orders = set()
    for pairs in ([*others, pair], [pair, *more], [pair[::-1], *more]):
        ends = {frozenset(found): found for found, _ in grouped(pairs)}
        orders.add(ends[frozenset(pair)])
    assert len(orders) == 1


def test_a_key_holds_address_and_port():
    assert key_endpoint(0x0A000001_2384) == Endpoint("10.0.0.1", 9092)
    assert key_endpoint(1 << 144 | 1 << 16 | 7) == Endpoint("::1", 7)


BATCHES = pytest.mark.parametrize("batch_packets", [0, 1, 2])
CLIENT_V6, BROKER_V6 = ("2001:db8::1", 50000), ("2001:db8::2", 9092)


def one_by_one(finder: DuplicateDetector, segments: SegmentColumns) -> list[bool]:
    lookback, groups = finder.lookback(segments), SegmentGroups(segments)
    orders, found = memoryview(groups.order), [False] * len(segments)
    for group in range(groups.count):
        for begin, end in pairwise(
            (groups.start[group], groups.middle[group], groups.start[group + 1])
        ):
            for index in range(begin, end):
                found[orders[index]] = lookback.is_copy(orders[index], orders, begin, index)
    return found


def copies(packets: list[Packet], batch_packets: int = 0) -> list[bool]:
    """Return for each packet whether it is a copy."""
    finder, found = DuplicateDetector(), []
    size = batch_packets or len(packets)
    for first in range(0, len(packets), size):
        batch = make_batch(packets[first : first + size], first + 1)
        segments = read_headers(batch, LayerStats())
        all_at_once = list(map(bool, finder.find(segments)))
        assert one_by_one(finder, segments) == all_at_once
        found += all_at_once
        finder.remember(segments)
    return found


def two(first: bytes, second: bytes, apart_ns: int = 1000) -> list[Packet]:
    return at((START_NS, first), (START_NS + apart_ns, second))


@BATCHES
def test_the_same_packet_soon_after_is_a_copy_and_the_first_is_none(batch_packets):
    one, other = numbered(7, payload=b"a"), numbered(8, seq=1, payload=b"b")
    packets = [Packet(data, START_NS + i) for i, data in enumerate([one, other, one, one, other])]
    assert copies(packets, batch_packets) == [False, False, True, True, True]


@BATCHES
@pytest.mark.parametrize(
    "changes",
    [
        {"identification": 8},
        {"window": 64999},
        {"checksum": 1},
        {"seq": 1},
        {"ack": 1},
        {"flags": FIN | ACK},
        {"payload": b"bc"},
        {"client": ("10.0.0.1", 50001)},
        {"broker": ("10.0.0.3", 9092)},
        {"to_broker": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_packet_that_differs_in_its_header_is_no_copy(changes, batch_packets):
    plain = {"identification": 7, "payload": b"a"}
    packets = two(numbered(**plain), numbered(**(plain | changes)))
    assert copies(packets, batch_packets) == [False, False]


@BATCHES
def test_a_copy_with_an_identification_may_come_later_than_one_without(batch_packets):
    named, unnamed = numbered(7), numbered(0)
    six = numbered(client=CLIENT_V6, broker=BROKER_V6)
    for packet, limit_ns in ((named, IDENTIFIED_NS), (unnamed, UNIDENTIFIED_NS)):
        assert copies(two(packet, packet, limit_ns), batch_packets) == [False, True]
        assert copies(two(packet, packet, limit_ns + 1), batch_packets) == [False, False]
    # A copy may have the earlier time.
    assert copies(two(named, named, -1000), batch_packets) == [False, True]
    assert copies(two(six, six, UNIDENTIFIED_NS), batch_packets) == [False, True]
    assert copies(two(six, six, UNIDENTIFIED_NS + 1), batch_packets) == [False, False]


@pytest.mark.few(2)
@pytest.mark.parametrize("batch_packets", [0, 1000])
def test_copies_are_looked_for_among_the_last_packets_only(batch_packets):
    others = [numbered(i % 65535 + 1, seq=i) for i in range(WITHIN_PACKETS)]
    near = [numbered(7, seq=9_000_000), *others[:-1], numbered(7, seq=9_000_000)]
    far = [numbered(7, seq=9_000_000), *others, numbered(7, seq=9_000_000)]
    for packets, is_copy in ((near, True), (far, False)):
        found = copies([Packet(data) for data in packets], batch_packets)
        assert found == [False] * (len(packets) - 1) + [is_copy]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=30), st.integers(1, 7))
def test_copies_are_those_that_a_dictionary_finds_in_any_batches(choices, batch_packets):
    packets, seen, expected, now = [], {}, [], START_NS
    for identification, payload in choices:
        now += 400_000
        packets.append(Packet(numbered(identification, payload=b"x" * payload), now))
        allowed_ns = IDENTIFIED_NS if identification else UNIDENTIFIED_NS
        before = seen.get((identification, payload))
        expected.append(before is not None and now - before <= allowed_ns)
        seen[identification, payload] = now
    if packets:
        assert copies(packets) == expected
        assert copies(packets, batch_packets) == expected


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
    assert [s.marks for s in segments_of(iterator)] == [0, 0, IS_ZERO_WINDOW, IS_ZERO_WINDOW]
    assert [s.marks for s in segments_of(iterator, mark=True)] == [
        0,
        IS_COPY,
        IS_ZERO_WINDOW,
        IS_COPY,
    ]
    iterator = walk_over(*packets)
    iterator.mark_all()
    assert [s.marks for s in segments_of(iterator)] == [0, IS_COPY, IS_ZERO_WINDOW, IS_COPY]


def test_very_many_duplicates_are_all_marked():
    packets = [numbered(i // 2, payload=b"a") for i in range(4000)]
    iterator = walk_over(*packets)
    assert [s.marks for s in segments_of(iterator, mark=True)] == [0, IS_COPY] * 2000
