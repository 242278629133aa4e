from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kanalyze.model.tcp import Endpoint
from kanalyze.net.headers import read_headers
from kanalyze.net.layer_stats import LayerStats
from kanalyze.net.tcp.endpoint_pairs import key_endpoint
from kanalyze.net.tcp.segment_groups import SegmentGroups
from tests.support.packets import Packet, make_batch, segment

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
        assert groups.first(i) == min(sent[0] + sent[1])
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


def test_groups_come_in_the_order_of_their_first_segments():
    pairs = [((f"10.0.0.{host}", port), ("10.1.0.1", 9092)) for host in range(9) for port in (7, 3)]
    groups = SegmentGroups(columns_of([*pairs, *reversed(pairs)]))
    assert [groups.first(i) for i in range(groups.count)] == list(range(len(pairs)))


def test_many_groups_are_distinguished():
    pairs = [((f"10.0.{i >> 8}.{i & 255}", 7), ("10.1.0.1", 9092)) for i in range(3000)]
    groups = SegmentGroups(columns_of(pairs))
    assert groups.count == len({groups.pair(i) for i in range(groups.count)}) == len(pairs)


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
