"""Which packets a condition takes: those that libpcap takes, where that sees what we see."""

from __future__ import annotations

import random
import struct
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanalyze.live.feed.filter_language import parse_condition
from kanalyze.live.feed.filter_packets import PacketFilter
from kanalyze.net.headers import HeaderReader
from kanalyze.net.layer_stats import LayerStats
from tests.support import libpcap
from tests.support.disorder import TRANSFORMATIONS, Stage, packets_of
from tests.support.packets import Packet, ethernet, ipv4, ipv6, make_batch, tcp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from kanalyze.model.packets import PacketBatch
    from tests.support.disorder.packet import Packet as CapturedPacket


def taken(text: str, *packets: bytes) -> list[bool]:
    return (
        PacketFilter(parse_condition(text)).taken(make_batch(list(map(Packet, packets)))).tolist()
    )


def as_batch(packets: Iterable[CapturedPacket], first_number: int = 1) -> PacketBatch:
    made = [Packet(one.data, one.time_ns, one.wire_bytes, one.link_type) for one in packets]
    return make_batch(made, first_number)


# -- captures -------------------------------------------------------------------------------------

CAPTURES = (
    "cluster",  # many ports
    "ipv6",
    "any",  # Linux cooked
    "snaplen",
    "foreign",  # other protocols than Kafka
)
EXPRESSIONS = (
    *("tcp", "udp", "ip", "ip6", "not tcp", "tcp or udp", "tcp and not ip6"),
    *("port 9092", "not port 9092", "src port 9095", "dst port 9103 or 9113", "port not 9103"),
    *("tcp dst portrange 9092-9103", "portrange 9103-9092 and not 9100", "udp port 9092"),
    *("src and dst port 9092", "tcp port (9092 or 9095) and less 100", "ip6 or port 9113"),
    *(
        "host 127.0.0.1",
        "src host ::1",
        "net 127",
        "net 127.1",
        "ip net 127.0.0.0/8 and greater 99",
    ),
    *("not (src net ::/64 or dst port 9092)", "ip6 dst ::1 and src portrange 40000-50000"),
    *("less 66", "greater 66 and less 70", "host 127.0.0.1 or ::1", "!ip&&!ip6", "greater 2000"),
)


@cache
def captured(name: str) -> PacketBatch:
    return as_batch(packets_of(name))


@pytest.mark.parametrize("name", CAPTURES)
def test_packets_of_captures_are_those_that_libpcap_takes(name):
    batch = captured(name)
    shares = set()
    for text in EXPRESSIONS:
        found = PacketFilter(parse_condition(text)).taken(batch).tolist()
        assert found == truth(text, batch), text
        shares.add(sum(found))
    assert len(shares) > 3


def truth(text: str, batch: PacketBatch) -> list[bool]:
    try:
        return libpcap.taken(text, batch)
    except libpcap.Refused as refused:
        # It looks for these; we do not.
        if str(refused) != "expression rejects all packets":
            raise
        return [False] * len(batch)


# -- made-up packets and conditions ---------------------------------------------------------------

PORTS = (53, 9092, 9093, 9094, 50000)
HOSTS = ("10.0.0.1", "10.1.0.1", "10.1.2.3", "192.168.0.1")
HOSTS_V6 = ("::1", "fd00::1", "fd00:0:0:1::1", "2001:db8::1")


def udp(source: int, destination: int) -> bytes:
    return struct.pack(">HHHH", source, destination, 8, 0)


def every_packet() -> PacketBatch:
    """Each transport between each two hosts, with ports at random; and what is no IP."""
    noise = random.Random(4)
    made = [ethernet(b"\0\1\x08\0\6\4\0\1".ljust(28, b"\x07"), 0x0806), ethernet(bytes(46), 0x88CC)]
    for hosts, wrap, ethertype in ((HOSTS, ipv4, 0x0800), (HOSTS_V6, ipv6, 0x86DD)):
        icmp = {"protocol": 1} if wrap is ipv4 else {"next_header": 58}
        as_udp = {"protocol": 17} if wrap is ipv4 else {"next_header": 17}
        for source in hosts:
            for destination in hosts:
                ports = noise.choice(PORTS), noise.choice(PORTS)
                segment = tcp(*ports, payload=bytes(noise.choice((0, 0, 40, 1000))))
                for inner, kind in ((segment, {}), (udp(*ports), as_udp), (bytes(8), icmp)):
                    made.append(ethernet(wrap(inner, source, destination, **kind), ethertype))
        made.append(ethernet(ipv4(tcp(9092, 53), options=bytes(8))))
    noise.shuffle(made)
    return make_batch(list(map(Packet, made)))


EVERY_PACKET = every_packet()


def qualified(protocols: tuple[str, ...], kinds: tuple[str, ...], values: tuple[str, ...]):
    sides = ("", "src", "dst", "src or dst", "dst and src")
    one = st.sampled_from(values)
    some = st.lists(one, min_size=2, max_size=3)
    words = st.one_of(
        one, one.map("not {}".format), some.map(" or ".join), some.map(" or not ".join)
    )
    grouped = st.one_of(words, some.map(lambda some: f"({' or '.join(some)})"))
    parts = st.tuples(*map(st.sampled_from, (protocols, sides, kinds)), grouped)
    return parts.map(" ".join)


PRIMITIVES = st.one_of(
    st.sampled_from(["tcp", "udp", "ip", "ip6", "less 62", "greater 62", "less 1000"]),
    qualified(("", "tcp", "udp"), ("port",), tuple(map(str, PORTS))),
    qualified(("", "tcp", "udp"), ("portrange",), ("9092-9093", "9094-9092", "0-65535", "53")),
    qualified(("", "ip"), ("host",), HOSTS),
    qualified(("", "ip6"), ("host",), HOSTS_V6),
    qualified(("",), ("net",), ("10", "10.1", "10.0.0.0/9", "10.1.2", "fd00::/16", "fd00::/64")),
)
CONDITIONS = st.recursive(
    PRIMITIVES,
    lambda inner: st.one_of(
        inner.map("not ({})".format),
        inner.map("! {}".format),
        st.tuples(inner, st.sampled_from(["and", "or", "&&", "||"]), inner).map(" ".join),
        inner.map("({})".format),
    ),
    max_leaves=6,
)


@given(CONDITIONS)
def test_any_condition_takes_what_libpcap_takes(text):
    found = PacketFilter(parse_condition(text)).taken(EVERY_PACKET).tolist()
    assert found == truth(text, EVERY_PACKET)


# -- around IP ------------------------------------------------------------------------------------

MIXED = "dst port 9092 or 9103 and not src port 50976"
AROUND = [
    label
    for label, step in TRANSFORMATIONS.items()
    if step.stage in (Stage.LINKS, Stage.FRAGMENTS, Stage.PADDING)
]


def picked(batch: PacketBatch, which: Sequence[bool] | NDArray[np.bool_]) -> PacketBatch:
    return batch.taken(np.flatnonzero(which))


def segments(batches: Iterable[PacketBatch]) -> set[tuple[int, ...]]:
    """What the analysis finds in packets: fragments are put together."""
    reader = HeaderReader(LayerStats())
    found = set()
    for batch in batches:
        columns = reader.read(batch)
        names = ("source_port", "destination_port", "sequence", "flags", "payload_bytes")
        found.update(zip(*(getattr(columns, name).tolist() for name in names), strict=True))
    return found


@pytest.mark.parametrize("label", AROUND)
def test_what_is_around_segments_hides_none(label):
    plain = packets_of("cluster")[:800]
    before = as_batch(plain)
    expected = segments([picked(before, libpcap.taken(MIXED, before))])
    assert 50 < len(expected) < len(segments([before])) - 50
    altered = TRANSFORMATIONS[label].alter(list(plain), random.Random(label))
    wanted, found = PacketFilter(parse_condition(MIXED)), []
    for first in range(0, len(altered), 300):
        batch = as_batch(altered[first : first + 300], first + 1)
        found.append(picked(batch, wanted.taken(batch)))
    if label.endswith(" in fragments"):
        # There is no telling what is inside.
        assert segments(found) >= expected
    else:
        assert segments(found) == expected


def test_what_is_in_a_tunnel_counts_and_not_the_tunnel():
    inner = ipv4(tcp(50000, 9092), "10.0.0.1", "10.0.0.2")
    packet = ethernet(ipv4(inner, "192.0.2.1", "192.0.2.2", protocol=4))
    assert taken("host 10.0.0.1 and port 9092", packet) == [True]
    assert taken("host 192.0.2.1", packet) == [False]


# -- what cannot be judged ------------------------------------------------------------------------


def fragment(at: int, *, port: int = 9092, number: int = 1, client: str = "10.0.0.1") -> bytes:
    """A fragment that begins at ``at`` times 8 bytes, with more to come."""
    packet = ipv4(tcp(50000, port), client, fragment=0x2000 | at)
    return ethernet(packet[:4] + struct.pack(">H", number) + packet[6:])


def test_a_fragment_goes_with_the_first_one():
    packets = [fragment(0, number=1), fragment(0, number=2, port=22)]
    packets += [fragment(3, number=1), fragment(3, number=2)]
    assert taken("port 9092", *packets) == [True, False, True, False]
    assert taken("not port 9092", *packets) == [False, True, False, True]
    assert taken("port 22 or port 9092", *packets) == [True] * 4


def test_also_in_another_batch():
    wanted = PacketFilter(parse_condition("port 9092"))
    for packet, expected in (
        (fragment(0, number=1, port=22), False),
        (fragment(0, number=2), True),
        (fragment(3, number=1), False),
        (fragment(3, number=2), True),
        # The number comes round again.
        (fragment(0, number=1), True),
        (fragment(3, number=1), True),
    ):
        assert wanted.taken(make_batch([Packet(packet)])).tolist() == [expected]


def test_a_fragment_that_comes_before_the_first_one_is_taken_unless_its_address_says_no():
    packets = [fragment(3), fragment(3, client="10.9.9.9")]
    assert taken("port 9092", *packets) == [True, True]
    assert taken("not port 9092", *packets) == [True, True]
    assert taken("port 9092 and host 10.0.0.1", *packets) == [True, False]
    assert taken("port 9092 or host 10.0.0.1", *packets) == [True, True]
    assert taken("udp port 9092", *packets) == [False, False]
    assert taken("host 10.0.0.1", *packets) == [True, False]


def test_the_latest_datagrams_alone_are_remembered():
    wanted = PacketFilter(parse_condition("port 9092"))
    firsts = [Packet(fragment(0, number=number, port=22)) for number in range(1, 1102)]
    assert not wanted.taken(make_batch(firsts)).any()
    # The first ones are not judged any more; it harms nothing to take them.
    later = [Packet(fragment(3, number=number)) for number in (1, 77, 78, 1101)]
    assert wanted.taken(make_batch(later)).tolist() == [True, True, False, False]


def test_what_cannot_be_read_is_taken():
    whole = ethernet(ipv4(tcp(50000, 22)))
    cut = [Packet(whole[:kept], wire_bytes=len(whole)) for kept in (10, 30, 36, 38)]
    wanted = PacketFilter(parse_condition("port 9092"))
    # The last one has its ports.
    assert wanted.taken(make_batch(cut)).tolist() == [True, True, True, False]
    wanted = PacketFilter(parse_condition("not port 22"))
    assert wanted.taken(make_batch(cut)).tolist() == [True, True, True, False]
    # How long a packet is needs no headers, and addresses no ports.
    assert not PacketFilter(parse_condition("less 20")).taken(make_batch(cut)).any()
    wanted = PacketFilter(parse_condition("port 9092 and host 10.9.9.9"))
    assert wanted.taken(make_batch(cut)).tolist() == [True, True, False, False]


NOISE = st.builds(
    lambda head, tail, link_type: Packet(head + tail, link_type=link_type),
    st.sampled_from([b"", ethernet(b""), ethernet(ipv4(b"")), ethernet(ipv6(b"", next_header=44))]),
    st.binary(max_size=80),
    st.sampled_from([0, 1, 9, 101, 105, 113, 228, 229, 239, 276]),
)


@given(st.lists(NOISE, max_size=20))
def test_whatever_is_in_packets_each_is_taken_or_not(packets):
    batch = make_batch(packets)
    for text in ("tcp port 9092 and net 10", "not (udp or host ::1)"):
        wanted, unwanted = (PacketFilter(parse_condition(one)) for one in (text, f"not ({text})"))
        # What cannot be judged is taken by both.
        assert (wanted.taken(batch) | unwanted.taken(batch)).tolist() == [True] * len(packets)
