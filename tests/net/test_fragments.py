from __future__ import annotations

import itertools
import random
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6
from scapy.layers.l2 import GRE

from kanalyze.model.anomalies import AnomalyKind
from kanalyze.net.fragments import Datagram, FragmentLimits
from kanalyze.net.headers import HeaderReader, read_headers
from kanalyze.net.layer_stats import LayerStats
from tests.support.cases import for_each
from tests.support.packets import START_NS, Packet, ethernet, ipv4, ipv6, make_batch, tcp
from tests.support.read_segments import accounted, segments_of
from tests.support.wrapped import OUTER, OUTER_V6, segment, wrapped

BYTES = bytes(range(64))


def datagram(*parts: tuple[int, int]) -> Datagram:
    one = Datagram(1, 2)
    one.header = b"header"
    for start, stop in parts:
        one.add(start, stop, BYTES[start:stop])
    return one


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, 64)).map(sorted).map(tuple)))
def test_overlapping_pieces_cover_the_union_of_their_bytes(parts):
    one = datagram(*parts)
    offsets = {offset for start, stop in parts for offset in range(start, stop)}
    one.total = len(offsets)
    assert one.covered == len(offsets)
    assert one.is_complete
    assert not one.contradicts
    first = next(offset for offset in range(65) if offset not in offsets)
    assert one.data() == BYTES[:first]
    assert one.stop == max(offsets, default=-1) + 1


@given(
    st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=20)), max_size=12),
)
def test_the_first_byte_of_an_offset_stays(parts):
    one = Datagram(1, 2)
    expected: dict[int, int] = {}
    contradicts = False
    for start, data in parts:
        for offset, byte in enumerate(data, start):
            contradicts |= expected.setdefault(offset, byte) != byte
        one.add(start, start + len(data), data)
    first = next(offset for offset in range(100) if offset not in expected)
    assert one.data() == bytes(expected[offset] for offset in range(first))
    assert one.contradicts == contradicts


def test_the_same_fragment_again_is_no_overlap():
    one = datagram((0, 16), (24, 32))
    assert not one.add(0, 16, BYTES[:16])
    assert one.add(8, 24, BYTES[8:24])
    assert one.fragments == 3


def test_fragments_stay_known_after_their_bytes_are_dropped():
    one = datagram((0, 16))
    buffered_bytes_before = one.buffered_bytes
    one.let_go()
    assert one.has(0, 16, BYTES[:16])
    assert not one.has(0, 16, BYTES[1:17])
    assert one.data() == b""
    assert 0 < one.buffered_bytes < buffered_bytes_before


STEADY = settings(deadline=None, max_examples=60)
SECOND = 1_000_000_000


def v4_fragments(packet: bytes, cuts: list[int]) -> list[bytes]:
    """Cut the payload of an IPv4 packet at multiples of 8 bytes."""
    payload = packet[20:]
    places = sorted({0, len(payload), *(8 * cut for cut in cuts if 8 * cut < len(payload))})
    parts = []
    for start, stop in itertools.pairwise(places):
        more = 0x2000 if stop < len(payload) else 0
        head = packet[:2] + struct.pack(">H", 20 + stop - start) + packet[4:6]
        parts.append(head + struct.pack(">H", more | start // 8) + packet[8:20])
        parts[-1] += payload[start:stop]
    return parts


def v6_fragments(packet: bytes, cuts: list[int], identification: int = 7) -> list[bytes]:
    payload = packet[40:]
    places = sorted({0, len(payload), *(8 * cut for cut in cuts if 8 * cut < len(payload))})
    parts = []
    for start, stop in itertools.pairwise(places):
        place = start | (stop < len(payload))
        extension = struct.pack(">BBHI", packet[6], 0, place, identification)
        head = packet[:4] + struct.pack(">H", 8 + stop - start) + b"\x2c" + packet[7:40]
        parts.append(head + extension + payload[start:stop])
    return parts


def v4(parts: list[bytes]) -> list[Packet]:
    return [Packet(ethernet(part)) for part in parts]


def v6(parts: list[bytes]) -> list[Packet]:
    return [Packet(ethernet(part, 0x86DD)) for part in parts]


def facts(columns) -> list[tuple[object, ...]]:
    """The fields by row that do not depend on how a segment was fragmented."""
    return [segment[2:] for segment in segments_of(columns)]


def read(packets: list[Packet], batch_packets: int = 0, limits: FragmentLimits | None = None):
    """Segments by packet number, and the stats; the buffer of a batch is gone with it."""
    stats = LayerStats()
    reader = HeaderReader(stats, limits)
    found = {}
    size = batch_packets or max(len(packets), 1)
    for first in range(0, len(packets), size):
        buffer = bytearray(1 << 17)
        columns = reader.read(make_batch(packets[first : first + size], first + 1, buffer))
        numbers = columns.number.tolist()
        assert numbers == sorted(set(numbers))
        found.update(zip(numbers, facts(columns), strict=True))
        buffer[:] = b"\xa5" * len(buffer)
    reader.finish()
    return found, stats


SEGMENT = ipv4(tcp(40000, 9092, 11, 22, payload=bytes(range(200)), options=b"\x01" * 12))
SEGMENT_V6 = ipv6(tcp(40000, 9092, 11, 22, payload=bytes(range(200)), options=b"\x01" * 12))
WHOLE = facts(read_headers(make_batch([Packet(ethernet(SEGMENT))]), LayerStats()))[0]
WHOLE_V6 = facts(read_headers(make_batch([Packet(ethernet(SEGMENT_V6, 0x86DD))]), LayerStats()))[0]


@STEADY
@given(
    st.lists(st.integers(1, 28), max_size=8),
    st.randoms(use_true_random=False),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
)
def test_any_fragments_in_any_order_are_the_same_segment(cuts, order, batch, is_ipv6, doubled):
    parts = v6(v6_fragments(SEGMENT_V6, cuts)) if is_ipv6 else v4(v4_fragments(SEGMENT, cuts))
    if len(parts) == 1:
        parts = v6([SEGMENT_V6]) if is_ipv6 else v4([SEGMENT])
    order.shuffle(parts)
    doubled = doubled and len(parts) > 1
    if doubled:
        parts = [part for part in parts for _ in range(2)]
    found, stats = read(parts, batch)
    # Where packets were captured twice, the first one of the last pair completes the datagram.
    assert found == {len(parts) - doubled: WHOLE_V6 if is_ipv6 else WHOLE}
    assert stats.counters.reassembled_datagrams == (len(parts) > 1)
    assert stats.counters.lost_datagrams == 0
    assert stats.counters.anomalies == {}


def test_a_segment_has_the_time_and_number_of_the_packet_that_completed_it():
    parts = v4(v4_fragments(SEGMENT, [3, 9]))
    parts = [Packet(part.data, START_NS + i * 1000) for i, part in enumerate(parts[::-1])]
    stats = LayerStats()
    columns = read_headers(make_batch([*parts, Packet(ethernet(SEGMENT))], 50), stats)
    assert columns.number.tolist() == [52, 53]
    assert columns.time_ns.tolist() == [START_NS + 2000, START_NS]
    assert facts(columns) == [WHOLE, WHOLE]
    assert stats.counters.ip_fragments == 3


@pytest.mark.parametrize("size", [8, 64, 1480])
def test_fragments_that_scapy_makes_are_reassembled(size):
    packet = segment(payload=bytes(3000))
    whole = read([Packet(ethernet(bytes(packet)))])[0][1]
    parts = v4([bytes(part) for part in fragment(packet, size)])
    assert read(parts)[0] == {len(parts): whole}
    tall = segment(is_ipv6=True, payload=bytes(3000))
    whole = read([Packet(ethernet(bytes(tall), 0x86DD))])[0][1]
    raw = IPv6(src=tall.src, dst=tall.dst) / IPv6ExtHdrFragment() / tall.payload
    parts = v6([bytes(part) for part in fragment6(raw, max(size, 1280))])
    assert len(parts) > 1
    assert read(parts)[0] == {len(parts): whole}


OUTER_FRAGMENTED = [
    name
    for name, one in wrapped().items()
    if one.tunnels and one.data[12:14] in {b"\x08\x00", b"\x86\xdd"}
    if "options" not in name or "Geneve" in name
]


@for_each("name", OUTER_FRAGMENTED)
def test_a_tunnel_whose_packets_are_in_fragments_is_read(name):
    one = wrapped()[name]
    whole, outside = read([Packet(one.data)])
    is_ipv6 = one.data[12:14] == b"\x86\xdd"
    cut = v6_fragments if is_ipv6 else v4_fragments
    parts = (v6 if is_ipv6 else v4)(cut(one.data[14:], [2, 5]))
    found, stats = read(parts, 1)
    assert found == {3: whole[1]}
    assert stats.counters.tunnels == outside.counters.tunnels == dict.fromkeys(one.tunnels, 1)
    assert stats.counters.other_packets == {}


@pytest.mark.parametrize("outer", [OUTER, OUTER_V6])
def test_fragments_inside_of_a_tunnel_are_reassembled(outer):
    wrap = (
        (lambda x: ethernet(ipv6(x, *outer, next_header=47), 0x86DD))
        if ":" in outer[0]
        else (lambda x: ethernet(ipv4(x, *outer, protocol=47)))
    )
    parts = [Packet(wrap(bytes(GRE(proto=0x0800)) + part)) for part in v4_fragments(SEGMENT, [4])]
    found, stats = read(parts)
    assert found == {2: WHOLE}
    assert stats.counters.tunnels == {"GRE": 1}


def test_an_incomplete_datagram_is_not_delivered_but_reported():
    parts = v4(v4_fragments(SEGMENT, [4, 9]))
    for missing in range(3):
        found, stats = read(parts[:missing] + parts[missing + 1 :])
        assert found == {}
        assert stats.counters.lost_datagrams == 1
        assert stats.counters.anomalies == {AnomalyKind.IP_FRAGMENT: 1}
        anomaly = stats.drain_anomalies()[0]
        assert (anomaly.packet, anomaly.detail) == (1, "fragments are missing")


def test_the_first_bytes_stay_and_different_ones_are_reported():
    first, second = v4_fragments(SEGMENT, [8])
    other = bytearray(first)
    other[20 + 40] ^= 0xFF
    found, stats = read(v4([first, bytes(other), second]))
    assert found == {3: WHOLE}
    assert stats.counters.anomalies == {AnomalyKind.IP_FRAGMENT: 1}
    assert stats.drain_anomalies()[0].detail == "fragments overlap with different bytes"


def test_overlapping_fragments_of_ipv4_with_the_same_bytes_are_fine():
    one, two = v4_fragments(SEGMENT, [4]), v4_fragments(SEGMENT, [12])
    for parts in ([one[0], two[0], two[1]], [one[1], two[0]], [two[0], one[1]], one[:1] + one):
        found, stats = read(v4(parts))
        assert list(found.values()) == [WHOLE]
        assert stats.counters.anomalies == {}


def test_overlapping_fragments_of_ipv6_drop_the_datagram():
    one, two = v6_fragments(SEGMENT_V6, [4]), v6_fragments(SEGMENT_V6, [12])
    found, stats = read(v6([one[0], two[0], one[1], two[1]]))
    assert found == {}
    assert stats.counters.lost_datagrams == 1
    assert stats.counters.anomalies == {AnomalyKind.IP_FRAGMENT: 1}


def test_the_payload_ends_where_the_capture_cut_a_fragment():
    parts = v4_fragments(SEGMENT, [8, 16])
    cut = [Packet(ethernet(part)[: 14 + 20 + 30], wire_bytes=14 + len(part)) for part in parts]
    packets = [Packet(ethernet(parts[0])), cut[1], Packet(ethernet(parts[2]))]
    for order in ([0, 1, 2], [2, 1, 0]):
        found, _ = read([packets[i] for i in order])
        # 64 bytes of the first fragment, 32 of which are TCP's header, and 30 of the second.
        assert found[3][:-1] == WHOLE[:-1]
        assert found[3][-1] == bytes(range(62))
    # A longer capture of the same fragment replaces the shorter one.
    found, _ = read([packets[0], cut[1], Packet(ethernet(parts[1])), packets[2]])
    assert found == {4: WHOLE}


def test_a_datagram_is_given_up_when_it_is_too_old():
    first, second = v4(v4_fragments(SEGMENT, [4]))
    other = Packet(ethernet(SEGMENT), START_NS + 31 * SECOND)
    late = Packet(second.data, START_NS + 31 * SECOND)
    for batch in (0, 1):
        found, stats = read([first, other, late], batch)
        assert list(found) == [2]
        # The late fragment waits for a first fragment of its own.
        assert stats.counters.lost_datagrams == 2
    in_time = Packet(second.data, START_NS + 29 * SECOND)
    assert read([first, in_time])[0] == {2: WHOLE}


def test_a_datagram_is_too_old_even_after_one_with_a_time_in_the_future():
    future = Packet(ethernet(ipv4(bytes(8), "10.7.7.7", fragment=0x2000)), START_NS + 99 * SECOND)
    first, second = v4(v4_fragments(SEGMENT, [4]))
    late = Packet(second.data, START_NS + 31 * SECOND)
    found, stats = read([future, first, late], 1)
    assert found == {}
    assert stats.counters.lost_datagrams == 3


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"payload": b"", "fragment": 1}, "an empty fragment"),
        ({"payload": b"1234567", "fragment": 0x2001}, "no multiple of 8"),
        ({"payload": bytes(64), "fragment": 0x1FFF}, "past the longest packet"),
    ],
)
def test_an_impossible_fragment_is_reported(fields, detail):
    found, stats = read([Packet(ethernet(ipv4(**fields)))])
    assert found == {}
    assert stats.counters.ip_fragments == 1
    assert stats.counters.anomalies == {AnomalyKind.IP_FRAGMENT: 1}
    assert detail in stats.drain_anomalies()[0].detail


def test_a_datagram_with_two_different_lengths_is_dropped():
    a = ipv4(bytes(8), fragment=0x2000)
    ends = [
        ipv4(bytes(8), fragment=4),
        ipv4(bytes(16), fragment=4),
        ipv4(bytes(8), fragment=0x2008),
    ]
    for other in ends[1:]:
        found, stats = read(v4([a, ends[0], other]))
        assert found == {}
        assert stats.counters.lost_datagrams == 1
    found, stats = read(v4([ends[2], ends[0], a]))
    assert stats.counters.lost_datagrams == 1


def test_fragments_of_other_protocols_are_only_counted():
    icmp = ipv4(bytes(64), protocol=1, fragment=0x2000)
    udp = ipv4(struct.pack(">HHHH", 53, 4000, 508, 0) + bytes(500), protocol=17)
    parts = v4_fragments(udp, [20])
    _, stats = read(v4([icmp, parts[0]]))
    assert stats.counters.other_packets == {"ICMP": 1}
    assert stats.counters.anomalies == {}
    assert (stats.counters.ip_fragments, stats.counters.lost_datagrams) == (1, 0)
    _, stats = read(v4(parts))
    assert (stats.counters.other_packets, stats.counters.reassembled_datagrams) == ({"UDP": 1}, 1)
    _, stats = read([Packet(ethernet(ipv6(b"\x3a\0\0\x01" + bytes(60), next_header=44), 0x86DD))])
    assert stats.counters.other_packets == {"IPv6 ICMP": 1}


def test_open_datagrams_are_bounded_by_number_and_by_bytes():
    heads = [v4_fragments(ipv4(tcp(payload=bytes(400)), f"10.9.0.{i}"), [20]) for i in range(20)]
    packets = v4([parts[0] for parts in heads] + [parts[1] for parts in heads[10:]])
    assert list(read(packets)[0]) == list(range(21, 31))
    by_number, stats = read(packets[:20] + packets[25:], limits=FragmentLimits(datagrams=5))
    assert list(by_number) == [21, 22, 23, 24, 25]
    assert stats.counters.lost_datagrams == 15
    by_bytes, stats = read(packets[:20] + packets[25:], limits=FragmentLimits(buffered_bytes=4000))
    assert list(by_bytes) == [21, 22, 23, 24, 25]
    assert 10 < stats.counters.lost_datagrams < 20
    assert "too many were held" in stats.drain_anomalies()[0].detail


def test_a_datagram_of_too_many_fragments_is_given_up():
    parts = v4(v4_fragments(SEGMENT, list(range(28))))
    found, stats = read(parts, limits=FragmentLimits(fragments=5))
    assert found == {}
    assert stats.counters.lost_datagrams == 1
    assert stats.drain_anomalies()[0].detail == "too many fragments"


def flood(count: int) -> list[Packet]:
    """The first fragments of ``count`` datagrams."""
    one = ethernet(ipv4(tcp(payload=bytes(12)), fragment=0x2000))
    return [Packet(one[:26] + struct.pack(">I", i) + one[30:]) for i in range(count)]


@pytest.mark.few(1)
def test_a_flood_of_fragments_takes_bounded_memory():
    stats = LayerStats()
    reader = HeaderReader(stats)
    packets = flood(10_000)
    batches = [make_batch(packets[i : i + 2000], i + 1) for i in range(0, 10_000, 2000)]
    reader.read(batches[0])
    tracemalloc.start()
    for batch in batches[1:]:
        reader.read(batch)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2 << 20
    assert stats.counters.lost_datagrams == 10_000 - FragmentLimits().datagrams
    reader.finish()
    assert stats.counters.lost_datagrams == stats.counters.ip_fragments == 10_000


@pytest.mark.long
def test_a_datagram_is_reassembled_after_a_long_flood_of_fragments():
    found, stats = read([*flood(100_000), *v4(v4_fragments(SEGMENT, [4, 8]))], 1000)
    assert found == {100_003: WHOLE}
    assert stats.counters.lost_datagrams == 100_000


@pytest.mark.parametrize("seed", range(3))
def test_fragments_with_any_offsets_lengths_and_bytes_are_no_error(seed):
    order = random.Random(seed)
    packets = []
    for _ in range(400):
        place = order.choice([0, 1, 2, 3, 8, 0x1FFF]) | order.choice([0, 0x2000])
        data = order.randbytes(order.choice([0, 1, 8, 16, 24, 64]))
        protocol = order.choice([4, 6, 17, 41, 47, 137])
        packets.append(Packet(ethernet(ipv4(data, protocol=protocol, fragment=place))))
        chain = bytes([order.choice([0, 4, 6, 17, 41, 43, 44, 47, 51, 60]), 0])
        chain += struct.pack(">HI", place << 3 & 0xFFFF | place >> 13, 1)
        packets.append(Packet(ethernet(ipv6(chain + data, next_header=44), 0x86DD)))
    for one in packets:
        one.data = one.data[: order.choice([len(one.data), order.randrange(len(one.data))])]
    _, stats = read(packets, 50)
    assert accounted(stats) == len(packets) == 800


def test_a_datagram_may_be_as_long_as_ip_allows():
    payload = bytes(65_535 - 20 - 20)
    packet = ipv4(tcp(payload=payload))
    parts = v4(v4_fragments(packet, list(range(180, 8192, 180))))
    found, stats = read(parts)
    assert found[len(parts)][-1] == payload
    assert stats.counters.anomalies == {}
